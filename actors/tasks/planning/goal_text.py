"""Words of a goal: taken apart, stemmed, and matched with what workers say of themselves.

Comes in: text. Goes out: tokens and stems with their places in the text. English is what its stop words and suffixes
know; any other language is matched word by word. The stemmer is our own and no package's, since what is installed with
the library is fixed, and it has to tell apart what a stemmer for search engines takes for one word (``search`` and
``research`` of prefixes, ``custom`` and ``customer``). This module must never import anything of the library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_TOKEN: Final = re.compile(r"[^\W_]+(?:['\u2019][^\W\d_]+)?")
_ACRONYMS: Final = re.compile(r"[A-Z]{2,}s")
_CAMEL_CASE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])")


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


STOP_WORDS: Final = word_set("""
    a about above across after afterward afterwards again against all also although always am among an and any
    anybody anyone anything are around as at be because been before being below besides between both but by can
    cannot could did does doing done down during each either else etc even ever every everybody everyone everything
    few fifth finally first firstly following for fourth fourthly from had has have having he her here hers him his how
    however i if in instead into is it its just last lastly later least less let like many may me might mine more
    most much must my neither next no nobody none nor not nothing now of off often on once one only onto or other
    others otherwise our ours out over own per please prior quite rather really same second shall she should since so
    some somebody someone something soon still subsequently such than that the their theirs them then there thereafter
    therefore these they third thirdly this those though through thus till to together too toward towards under
    until up upon us very via was we well were what whatever when where whether which while who whoever whole whom
    whose why will with within without would yes yet you your yours
""")
"""Words that say nothing of what is wanted; they never match."""


def is_grammar(word: str) -> bool:
    """True for a word that never matches, also with what is left out at its end: ``let's``, ``I'd``."""
    text = word.casefold()
    return text in STOP_WORDS or text.replace("\u2019", "'").partition("'")[0] in STOP_WORDS


GENERIC_WORDS: Final = word_set("""
    able agent assistant available bot do executor get give go goal good handle handler help helper job kind
    make need new part perform provide put run step stuff take task thing tool type use useful various want way
    work worker workflow
""")
"""Words that could stand for anybody: they match only a name that has no other words."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a text."""

    text: str
    stem: str
    start: int
    """Place in the text."""
    meaningful: bool

    @property
    def is_grammar(self) -> bool:
        """True where it never matches."""
        return is_grammar(self.text)


# -- stems -------------------------------------------------------------------------------------------------------

_IRREGULAR: Final = {
    "analyst": "analys", "analytic": "analys", "analytical": "analys", "bought": "buy", "built": "build",
    "chosen": "choos", "comparison": "compar", "data": "data", "drawn": "draw", "found": "find", "made": "make",
    "news": "news", "paid": "pay", "ran": "run", "sent": "send", "sold": "sell", "summary": "summar", "taken": "take",
    "wrote": "writ", "written": "writ",
}  # fmt: skip
_NO_SUFFIX: Final = word_set("""
    author card center chapter computer corner customer embed engineer error filter folder hundred letter master
    matter member meter number order paper power proper quarter register remember server speed summer transfer
    water weather winter
""")
"""Words whose end looks like a suffix and is none."""
_VOWEL: Final = re.compile(r"[aeiouy]")
_SUFFIXES: Final = (
    # suffix, what stands instead, letters that must be left
    ("ification", "ify", 3),
    ("ifier", "ify", 3),
    ("ical", "ic", 3),
    ("ation", "", 4),
    ("ator", "", 4),
    ("ate", "", 4),
    ("ery", "", 5),
    ("ity", "", 4),
    ("sion", "s", 3),
    ("tion", "t", 3),
    ("tor", "t", 3),
    ("sor", "s", 3),
    ("val", "v", 4),
    ("ier", "y", 3),
    ("er", "", 3),
)


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return what the forms of a word have in common: ``search`` for searches, searching, searched and searcher."""
    word = word.casefold()
    for apostrophe in ("'", "\u2019"):
        word = word.partition(apostrophe)[0]
    if not word.isascii() or not word.isalpha():
        return word
    for step in (_singular, _without_tense, _without_suffix):
        if word in _IRREGULAR:
            return _IRREGULAR[word]
        if word in _NO_SUFFIX:
            return word
        word = step(word)
    return _IRREGULAR.get(word) or (word if word in _NO_SUFFIX else _trimmed(word))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:  # noqa: PLR2004 - ties, dies
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    if word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is")):  # noqa: PLR2004 - gas, bus
        return word[:-1]
    return word


def _without_tense(word: str) -> str:
    """Without -ing and -ed."""
    if word.endswith("ied") and len(word) > 4:  # noqa: PLR2004 - died
        return word[:-3] + "y"
    rest = word[:-3] if word.endswith("ing") else word[:-2] if word.endswith("ed") and word[-3:] != "eed" else ""
    if len(rest) < 2 or not _VOWEL.search(rest):  # noqa: PLR2004 - ring, bed
        return word
    if rest.endswith("at") and len(rest) > 5:  # noqa: PLR2004 - validating, not eating
        return rest + "e"
    return _undoubled(rest)


def _without_suffix(word: str) -> str:
    for suffix, instead, least in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= least:
            word = word[: -len(suffix)] + instead
            break
    if word.endswith("ment") and len(word) > 6:  # noqa: PLR2004 - payment, not cement
        word = word[:-4]
    return word


def _trimmed(word: str) -> str:
    """The last letters, made the same for all forms: -e goes, -y is -i, -ize is -ise and goes where enough is left."""
    word = _undoubled(word)
    if len(word) > 2 and word.endswith("e"):  # noqa: PLR2004 - be
        word = word[:-1]
    if word.endswith(("yz", "iz")):
        word = word[:-1] + "s"
    if word.endswith("is") and len(word) > 5:  # noqa: PLR2004 - summarise, not raise
        word = word[:-2]
    if len(word) > 2 and word.endswith("y") and word[-2] not in "aeiou":  # noqa: PLR2004 - by
        word = word[:-1] + "i"
    return word


def _undoubled(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiou" else word  # noqa: PLR2004


_GENERIC_STEMS: Final = frozenset(stem(word) for word in GENERIC_WORDS)

# -- tokens ------------------------------------------------------------------------------------------------------


def tokens(text: str) -> tuple[Token, ...]:
    """Return its words with their places; ``fetch_pages``, ``fetch-pages`` and ``fetchPages`` are two words each."""
    found = []
    for match in _TOKEN.finditer(text):
        start = match.start()
        for part in _CAMEL_CASE.split(match.group()):
            root = stem(part[:-1] if _ACRONYMS.fullmatch(part) else part)
            grammar = is_grammar(part) or not root
            found.append(Token(part, root, start, not grammar and root not in _GENERIC_STEMS))
            start += len(part)
    return tuple(found)


@lru_cache(maxsize=8192)
def stems(text: str) -> tuple[str, ...]:
    """The stems of its words that mean something, in order; of a name without such words, of those that are vague."""
    all_of_it = tokens(text)
    meaningful = tuple(token.stem for token in all_of_it if token.meaningful)
    return meaningful or tuple(token.stem for token in all_of_it if token.stem in _GENERIC_STEMS)


def positions(name: tuple[str, ...], clause: Iterable[Token]) -> frozenset[int]:
    """Where the stems of a name stand in a clause, each once, in any order; nothing unless all of them do."""
    first: dict[str, int] = {}
    for token in clause:
        if not token.is_grammar:
            first.setdefault(token.stem, token.start)
    return frozenset(first[one] for one in name) if name and all(one in first for one in name) else frozenset()


def phrase_positions(phrase: tuple[str, ...], text: Iterable[Token]) -> list[frozenset[int]]:
    """Everywhere that these stems stand one after the other; words between them that mean nothing do not count."""
    words = [token for token in text if not token.is_grammar]
    width = len(phrase)
    return [
        frozenset(word.start for word in words[n : n + width])
        for n in range(len(words) - width + 1 if width else 0)
        if all(word.stem == one for word, one in zip(words[n : n + width], phrase, strict=True))
    ]
