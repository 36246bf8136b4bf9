"""Families of verbs of work: which words ask for one kind of work, as ``implement`` and ``write`` do.

Comes in: a table of families, ours or a user's. Goes out: for words of a text, the families that they belong to. A
planner that reads descriptions needs it: ``implement a prototype`` is for somebody who ``writes code``, and not for
somebody who ``reviews implementations``. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from actors.tasks.planning.goal_text import Token, stem, tokens

VerbFamilies: TypeAlias = Mapping[str, Sequence[str]]
"""Name of a family -> its verbs, in any form; two words where it takes two (``look up``)."""

VERB_FAMILIES: Final[VerbFamilies] = {
    "make": (
        *("implement", "write", "build", "generate", "code", "create", "develop", "program", "compose", "draft"),
        *("produce", "construct"),
    ),
    "design": ("design", "sketch", "lay out"),
    "review": ("review", "check", "verify", "audit", "validate", "proofread", "critique", "look over", "go over"),
    "research": ("research", "investigate", "compare", "explore", "study", "survey", "look into", "find out"),
    "search": ("search", "find", "look up", "look for", "locate", "look"),
    "fetch": ("fetch", "retrieve", "download", "collect", "gather", "import", "load", "scrape", "crawl"),
    "analyse": ("analyse", "measure", "inspect", "evaluate", "assess", "examine", "look at"),
    "test": ("test", "try out", "benchmark"),
    "fix": ("fix", "repair", "debug", "correct", "patch", "mend"),
    "change": ("change", "update", "modify", "edit", "revise", "refactor", "rewrite", "extend", "migrate", "upgrade"),
    "summarise": ("summarise", "condense", "digest", "sum up", "recap"),
    "document": ("document", "describe", "explain", "annotate"),
    "translate": ("translate", "localise"),
    "convert": ("convert", "transform", "export", "reformat"),
    "draw": ("draw", "plot", "chart", "visualise", "render", "illustrate"),
    "clean": ("clean", "tidy", "normalise", "deduplicate"),
    "remove": ("remove", "delete", "erase"),
    "deploy": ("deploy", "release", "publish", "ship", "launch", "roll out"),
    "install": ("install", "configure", "provision", "set up"),
    "monitor": ("monitor", "watch", "observe", "track"),
    "send": ("send", "mail", "email", "notify", "post"),
    "plan": ("plan", "schedule", "organise"),
    "buy": ("buy", "purchase", "order"),
    "book": ("book", "reserve"),
    "pay": ("pay", "charge", "bill"),
}
"""The table that ``KeywordPlanner`` uses where it is given none."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb where it stands in a text."""

    key: tuple[str, ...]
    """Stem of the verb; two of them where it takes two words."""
    families: frozenset[str]
    first: int
    """Place of its first token among those of its clause."""
    last: int

    def is_like(self, families: AbstractSet[str]) -> bool:
        """True where it asks for one of these kinds of work."""
        return not self.families.isdisjoint(families)


class Verbs:
    """A table of families, by stems."""

    def __init__(self, families: VerbFamilies = VERB_FAMILIES) -> None:
        found: dict[tuple[str, ...], set[str]] = {}
        for name, words in families.items():
            for word in words:
                found.setdefault(tuple(token.stem for token in tokens(word)), set()).add(name)
        self._families = {key: frozenset(names) for key, names in found.items() if key}
        self._longest = max(map(len, self._families), default=1)

    def families_of(self, key: tuple[str, ...]) -> frozenset[str]:
        """Return the families of a verb, by its stems."""
        return self._families.get(key, frozenset())

    def at(self, words: Sequence[Token], place: int) -> Verb | None:
        """Return the verb of the table that begins at a token, the longest there is; None: there is none."""
        for length in range(min(self._longest, len(words) - place), 0, -1):
            key = tuple(word.stem for word in words[place : place + length])
            if key in self._families:
                return Verb(key, self._families[key], place, place + length - 1)
        return None

    def word(self, words: Sequence[Token], place: int) -> Verb:
        """Return the verb at a token, whether the table has it or not."""
        return self.at(words, place) or Verb((words[place].stem,), frozenset(), place, place)


_MOVING: Final = frozenset({"put", "bring", "push", "move", "get", "take", "promote", "go", "make"})
_DEPLOY: Final = ("deploy",)
_MOST_MOVED: Final = 8
"""Words between ``put`` and ``into production``."""


def into_production(words: Sequence[Token], verbs: Verbs) -> Verb | None:
    """Return ``put it into production``, ``take it live`` and their like as what they ask for: to deploy it."""
    texts = [word.text.casefold() for word in words]
    families = verbs.families_of(_DEPLOY)
    for n in range(1, len(texts) if families else 0):
        ends = texts[n] in {"production", "prod"} and texts[n - 1] in {"into", "to"}
        if not ends and not (texts[n] == "live" and n == len(texts) - 1):
            continue
        for start in range(max(n - _MOST_MOVED, 0), n):
            if texts[start].removesuffix("s") in _MOVING:
                return Verb(_DEPLOY, families, start, start)
    return None


@lru_cache(maxsize=1)
def default_verbs() -> Verbs:
    """Return ours, made once."""
    return Verbs()


def is_plural(text: str) -> bool:
    """True for a form on -s: a plural, or the third person of a verb."""
    word = text.casefold()
    return len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) and stem(word) != word  # noqa: PLR2004
