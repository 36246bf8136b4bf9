"""Words that stand for a worker: those of its id and capabilities, and those of its description.

Comes in: a row of the catalogue. Goes out: its ``Profile``. Of a description the verbs count for more than the other
words: ``Reviews implementations`` says that it reviews, and not that it implements. A verb stands at the head of a
clause of the description; its form tells it from a noun (``Reviews tests and code`` has one verb, ``Reads and converts
tables`` has two). A team has its own words and those of all its members. This module must never import threads, a clock
or Pykka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from actors.tasks.model.executable import ExecutableInfo, MemberInfo
from actors.tasks.planning.goal_text import GENERIC_WORDS, STOP_WORDS, Token, stem, stems, tokens, word_set
from actors.tasks.planning.verb_families import Verb, Verbs, into_production, is_plural

_SEGMENT: Final = re.compile(r"(?<![,.:;!?\n()])[,.:;!?\n()]+(?:\s|$)|\b(?:and|or)\b|&|/")
_JOINED: Final = re.compile(r"-(?:to|in|of|on|by|for)-")
"""Parts of ``end-to-end``, which is no preposition."""
_LEAD_INS: Final = word_set("""
    able capable charge colleague colleagues dedicated developer developers expert experts function group know knows
    module person responsible service specialised specialises specialising specialist specialists specialized
    specializes specializing team teams used
""")
"""Words before the first one that says what is done, in these forms only: who ``charges cards`` is not in charge."""
_GENERIC_STEMS: Final = frozenset(stem(word) for word in GENERIC_WORDS)
PREPOSITIONS: Final = word_set("""
    about across after against among around at before behind between by during for from in inside into near of off
    on onto over per that through to toward towards under until using via when where which who with within without
""")
_NOUN_LIKE: Final = frozenset(
    stem(word) for word in ("code", "test", "research", "design", "document", "report", "program", "release", "plan")
)
"""Verbs of families that stand before another one as its noun: ``code review``, ``test generation``."""
_TAKING: Final = word_set("""
    take takes taking make makes making get gets getting give gives giving handle handles handling
""")
THINGS: Final = word_set("order orders book books post posts watch watches bill bills")
"""Nouns in the form of a verb that is no work on them: who takes orders buys nothing."""
_NOMINALS: Final = frozenset(
    stem(word) for word in ("review", "search", "test", "audit", "check", "summary", "fix", "research", "design")
)
_MAKES: Final = "make"
"""Family of those who make what they name: see ``_made``."""
_MEMBER: Final = 0.8
"""Weight of a name of a member, against one of its team's own."""


@dataclass(frozen=True, slots=True)
class Name:
    """An id or a capability, as it is compared with a goal."""

    stems: tuple[str, ...]
    capability: str | None
    """None: it is an id, or a name of a member."""
    weight: float
    families: frozenset[str]
    """Kinds of work that one of its words asks for."""


@dataclass(slots=True)
class Profile:
    """Words of one worker."""

    names: list[Name] = field(default_factory=list)
    verbs: set[tuple[str, ...]] = field(default_factory=set)
    """Verbs of its description."""
    families: set[str] = field(default_factory=set)
    """Kinds of work that these ask for."""
    objects: set[str] = field(default_factory=set)
    """Other words of its description."""
    asides: set[str] = field(default_factory=set)
    """Words that stand there after ``of``, ``for``, ``with`` and their like only."""

    of_names: frozenset[str] = frozenset()
    """Words of its names."""
    all_stems: frozenset[str] = frozenset()
    """Every word by which it may be found."""
    all_families: frozenset[str] = frozenset()
    """Every family by which it may be found."""


def profile_of(row: ExecutableInfo, verbs: Verbs) -> Profile:
    """Return the words of a worker, or of a team and its members. Nobody may change it: it is made once."""
    return _profile(row.id, row.capabilities, row.description, row.members, verbs)


@lru_cache(maxsize=4096)
def _profile(
    id_: str, capabilities: frozenset[str], description: str, members: tuple[MemberInfo, ...], verbs: Verbs
) -> Profile:
    found = Profile()
    _named(found, id_, None, 1.0, verbs)
    for capability in sorted(capabilities):
        _named(found, capability, capability, 1.0, verbs)
    _described(found, description, verbs)
    for member in members:
        for name in (member.id, *sorted(member.capabilities - capabilities)):
            _named(found, name, None, _MEMBER, verbs)
        _described(found, member.description, verbs)
    found.asides -= found.objects
    found.of_names = frozenset(one for name in found.names for one in name.stems)
    heads = {verb[0] for verb in found.verbs}
    found.all_stems = found.of_names.union(heads, found.objects, found.asides)
    found.all_families = frozenset(found.families).union(*(name.families for name in found.names))
    return found


def _named(found: Profile, name: str, capability: str | None, weight: float, verbs: Verbs) -> None:
    words = stems(name)
    if words:
        families = frozenset[str]().union(*(verbs.families_of((one,)) for one in words))
        found.names.append(Name(words, capability, weight, families))


# -- descriptions ------------------------------------------------------------------------------------------------


def _described(found: Profile, description: str, verbs: Verbs) -> None:
    parts = list(_segments(description))
    for moved in filter(None, (into_production(words, verbs) for words in parts)):
        found.verbs.add(moved.key)
        found.families |= moved.families
    contents = [(words, whole) for whole in parts if (words := _content(whole))]
    segments = [words for words, _ in contents]
    heads = ["" if _is_taken(words, whole) else _form(words, verbs) for words, whole in contents]
    if len(segments) == 1 and len(segments[0]) == 1 and is_plural(segments[0][0].text):
        heads = ["s"]  # ``Bakes`` is all that it says
    _verbs_before_a_phrase(segments, heads)
    form = next((head for head in heads if head), "")
    last_phrase = max((n for n, words in enumerate(segments) if len(words) > 1), default=len(segments))
    for n, (words, head) in enumerate(zip(segments, heads, strict=True)):
        verb = None
        if head and head == form and n <= last_phrase:  # single words after the last phrase belong to it
            verb = verbs.word(words, 0)
        elif not head and not form:
            verb = _last_nominal(words, verbs)
        if verb is not None:
            found.verbs.add(verb.key)
            found.families |= verb.families
            if _MAKES in verb.families:
                _made(found, words[verb.last + 1 :], verbs)
        _spread(found, words, verb)


def _is_taken(words: tuple[Token, ...], whole: tuple[Token, ...]) -> bool:
    """True for ``takes orders``: what the words begin with is no verb, but what is taken."""
    before = whole[: len(whole) - len(words)]
    return words[0].text.casefold() in THINGS and bool(before) and before[-1].text.casefold() in _TAKING


def _verbs_before_a_phrase(segments: list[tuple[Token, ...]], heads: list[str]) -> None:
    """Set the form of the single words at the beginning: ``Lints and formats files`` has two verbs."""
    first = next((n for n, words in enumerate(segments) if len(words) > 1), 0)
    for n, (word, *_) in enumerate(segments[:first]):
        text = word.text.casefold()
        if heads[first] and (is_plural(text) if heads[first] == "s" else text.endswith(heads[first])):
            heads[n] = heads[first]


def _made(found: Profile, words: tuple[Token, ...], verbs: Verbs) -> None:
    """Add verbs that stand as nouns: who ``writes documentation`` documents. Who ``writes tests`` only writes."""
    for word in words:
        if word.text.casefold() in PREPOSITIONS:
            return
        families = verbs.families_of((word.stem,))
        if families and word.stem not in {word.text.casefold(), word.text.casefold().removesuffix("s")}:
            found.verbs.add((word.stem,))
            found.families |= families


def _spread(found: Profile, words: tuple[Token, ...], verb: Verb | None) -> None:
    """Sort the words that are no verb into objects and asides."""
    aside = False
    for n, word in enumerate(words):
        if verb is not None and verb.first <= n <= verb.last:
            continue
        aside = aside or (n > 0 and word.text.casefold() in PREPOSITIONS)
        if word.meaningful:
            (found.asides if aside else found.objects).add(word.stem)


def _segments(text: str) -> Iterator[tuple[Token, ...]]:
    for part in _SEGMENT.split(_JOINED.sub(" ", text)):
        if words := tokens(part):
            yield words


def _content(words: tuple[Token, ...]) -> tuple[Token, ...]:
    """Words from the first on that says what is done: ``an agent that reviews`` begins with ``reviews``."""
    for n, word in enumerate(words):
        text = word.text.casefold()
        if text not in STOP_WORDS and text not in _LEAD_INS and word.stem not in _GENERIC_STEMS:
            return words[n:]
    return words if any(word.meaningful for word in words) else ()


def _form(words: tuple[Token, ...], verbs: Verbs) -> str:
    """Return the form of the verb at the head: ``s``, ``ing`` or ``base``; empty: there is no verb."""
    text = words[0].text.casefold()
    known = verbs.at(words, 0)
    following = words[1].text.casefold() if len(words) > 1 else ""
    if is_plural(text):
        is_verb = following != "of" if known else bool(following) and following not in PREPOSITIONS
        return "s" if is_verb else ""
    if text.endswith("ing"):
        return "ing" if known or following else ""
    if known is None or _is_compound(words):
        return ""
    return "base"


def _is_compound(words: tuple[Token, ...]) -> bool:
    """True for ``code review`` and ``test generation``: the second word says what is done."""
    if len(words) < 2 or words[0].stem not in _NOUN_LIKE:  # noqa: PLR2004 - two words
        return False
    text = words[1].text.casefold()
    return words[1].stem in _NOMINALS or text.endswith(("tion", "ment", "ing", "sis", "er"))


def _last_nominal(words: tuple[Token, ...], verbs: Verbs) -> Verb | None:
    """Return the verb that the last word of a noun phrase is a form of: ``code review``, ``bug fixing``."""
    end = next((n for n, word in enumerate(words) if n and word.text.casefold() in PREPOSITIONS), len(words))
    verb = verbs.at(words, end - 1)
    return verb if verb is not None and (end > 1 or not is_plural(words[0].text)) else None
