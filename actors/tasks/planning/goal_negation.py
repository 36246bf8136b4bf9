"""Negations in a goal: which of its clauses say what is not to be done, and how far each reaches.

Comes in: the words of a clause, or clauses. Goes out: whether they say what is not to be done. This module must never
import threads, a clock or Pykka.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from actors.tasks.planning.goal_clause import Clause
from actors.tasks.planning.goal_text import Token, is_grammar, word_set
from actors.tasks.planning.verb_families import is_plural

_NEGATIONS: Final = word_set("""
    not dont never no without neither nor avoid skip except cannot omit nobody nothing none forget
""")
_TWO_WORDS: Final = frozenset({
    ("instead", "of"), ("rather", "than"), ("refrain", "from"), ("leave", "out"), ("hold", "off"), ("hold", "back"),
    ("stay", "away"), ("keep", "away"), ("steer", "clear"),
})  # fmt: skip
_STOPS: Final = frozenset({"stop", "cease", "quit", "forbid"})
"""Words that negate the gerund after them: ``stop deploying``."""
_AVOIDING: Final = frozenset({"skip", "avoid", "omit", "forget", *_STOPS})
"""Verbs of requests by themselves: ``skip the tests and deploy`` are two, and ``do not test and deploy`` is one."""
_LEAVING: Final = frozenset({"refrain", "leave", "hold", "stay", "keep", "steer"})
"""Verbs of two words that are requests by themselves, too: ``hold off on testing``."""
_AS_NOUNS: Final = word_set("""
    analysis audit check design documentation fix maintenance migration qa release report research review search
    setup summary support survey test work
""")
"""Words that may be nouns after ``skip the tests and``, where nothing follows them."""
_OBJECTS: Final = frozenset({"nothing", "nobody", "none"})
"""Objects that negate the verb before them: ``deploy nothing``."""
_FORBIDDEN: Final = word_set("""
    banned disallowed forbidden prohibited unnecessary unneeded unwanted
""")
"""Words that negate what they are said of: ``deploying is forbidden``."""
_BE: Final = frozenset({"is", "are", "be", "remains", "stays", "strictly"})
_BEEN: Final = frozenset({"is", "are", "was", "were", "has", "have", "had"})
"""Words before ``already`` by which a clause says what is done: ``the code is already tested``."""
_NO_NEGATION: Final = word_set("""
    only just merely forget hesitate fail miss matter later but
""")
"""Words after a negation that take it back: ``not only``, ``do not forget to``, ``no matter``, ``nothing but``."""
_LEADING: Final = word_set("""
    ahead at do feel free go hello help hey hi is lets like need ought thanks theres time today tomorrow tonight want
""")
"""Words that may stand before the negation of a request, beside small ones: ``please do not``, ``you must never``."""
_ASSURING: Final = (
    ("make", "sure"), ("make", "certain"), ("be", "sure"), ("be", "careful"), ("take", "care"), ("see", "to", "it"),
    ("ensure",), ("remember",), ("try",),
)  # fmt: skip
"""Words before a negation that leave it one: ``make sure not to deploy``, ``ensure that you do not deploy``."""
_OR: Final = frozenset({"or", "nor"})
_SUBJECTS: Final = word_set("""
    the a an this that these those it they there all any our your my its
""")
_THINGS: Final = frozenset({"it", "them", "everything", "all", "both"})
_MODALS: Final = frozenset({"should", "must", "may", "can", "shall", "will", "need", "ought"})
_NOT_TO_BE: Final = ["not", "to", "be"]
_SUBORDINATE: Final = word_set("""
    that which who whose if because when while where why how what whether unless until so
""")
_MOST_WORDS: Final = 12
"""Words from the first one on among which a negation is looked for."""
_SUBJECT_WORDS: Final = 3
"""Words of a subject without an article: ``Python code must not be deployed``."""


def is_negated(words: tuple[Token, ...]) -> bool:
    """True where it begins with a negation, or says of its subject that it is not to be done."""
    texts = _unassured([word.text.casefold().replace("\u2019", "'") for word in words[:_MOST_WORDS]])
    first = next((n for n, text in enumerate(texts) if text not in {"but", "and", "so", "then", "however"}), 0)
    about = bool(texts) and _is_subject(texts[first])
    if texts[first + 1 : first + 2] and texts[first + 1] in _OBJECTS:
        return not _NO_NEGATION & set(texts[first + 2 : first + 3])
    if _is_left(texts, first) or (about and _is_done(texts, first)):
        return True
    for n, text in enumerate(texts):
        if _negates(texts, n):
            return not _NO_NEGATION & set(texts[n + 1 : n + 2])
        if about and n > first and text in _FORBIDDEN and texts[n - 1] in _BE:
            return True
        if (text in _SUBORDINATE and n) or not (about or _leads(text) or _has_modal(texts, first)):
            return False
    return False


def _is_left(texts: list[str], first: int) -> bool:
    """True for ``leave the tests alone``, and for ``leave the testing to Anna``: somebody else does that."""
    if texts[first : first + 1] != ["leave"]:
        return False
    return texts[-1] in {"alone", "out", "untouched"} or "to" in texts[first + 2 : -1]


def _is_done(texts: list[str], first: int) -> bool:
    """True for ``the code is already tested``: nobody is to do that."""
    return "already" in texts and not _BEEN.isdisjoint(texts[first : texts.index("already")])


def _leads(text: str) -> bool:
    """True for a word that may stand before the negation of a request."""
    return text in _LEADING or text.endswith("ly") or (is_grammar(text) and text not in _SUBORDINATE)


def _unassured(texts: list[str]) -> list[str]:
    """Return the words after ``make sure that`` and its like, where they have no subject but the reader."""
    first = next((n for n, text in enumerate(texts) if text == "be" or not _leads(text)), 0)
    for words in _ASSURING:
        if tuple(texts[first : first + len(words)]) == words:
            rest = texts[first + len(words) :]
            rest = rest[rest[:1] == ["that"] :]
            return rest if rest and (rest[0] in {"you", "we", "to", "nobody"} or _negates(rest, 0)) else texts
    return texts


def _is_subject(text: str) -> bool:
    return text in _SUBJECTS or is_plural(text) or text.endswith(("ing", "ion", "ment"))


def _has_modal(texts: list[str], first: int) -> bool:
    """True where a bare noun has a modal verb and ``not`` behind it: ``code must not be deployed``."""
    for n, word in enumerate(texts[first + 1 : first + _SUBJECT_WORDS], first + 2):
        if (word in _MODALS and texts[n : n + 1] == ["not"]) or (word in _BE and texts[n : n + 3] == _NOT_TO_BE):
            return True
    return False


def _negates(texts: list[str], n: int) -> bool:
    text, following = texts[n], texts[n + 1] if n + 1 < len(texts) else ""
    if text in _STOPS:
        return following.endswith("ing")
    return text in _NEGATIONS or text.endswith("n't") or (text, following) in _TWO_WORDS


def negation_carried(parts: list[Clause]) -> list[Clause]:
    """A negation holds for what is tied to it by a bare ``and``, and for a list that goes on with ``or``.

    It holds as well for nouns that follow it after a comma: ``write, but do not deploy, the service``.
    """
    done = list(parts)
    carried = 0
    for n in range(1, len(parts)):
        if n <= carried:
            continue
        if not done[n - 1].negated or done[n].negated or not done[n].joined:
            continue
        end = n
        while end < len(parts) and parts[end].joined and not parts[end].negated and not _opposes(parts[end]):
            end += 1
        if done[n].joined == "and" and _is_of_itself(done[n - 1], done[n]):
            carried = n
            continue
        ors = [m for m in range(n, end) if _OR & set(parts[m].texts[:2])]
        last = ors[-1] if ors else n if n < end and (done[n].joined == "and" or _is_noun(done[n])) else n - 1
        for m in range(n, last + 1):
            done[m] = replace(done[m], negated=True, is_carried=True)
        carried = end - 1
    return done


def _is_of_itself(before: Clause, part: Clause) -> bool:
    """True where a request not to do something ends before ``and``, and a request follows."""
    texts = [text.replace("\u2019", "'") for text in before.texts[:_MOST_WORDS]]
    no = next((n for n in range(len(texts)) if _negates(texts, n)), -1)
    if no < 0 or texts[no] not in (_LEAVING if tuple(texts[no : no + 2]) in _TWO_WORDS else _AVOIDING):
        return False
    asked, following = part.texts[0], part.texts[1:2]
    if asked.endswith("ing") or asked in _SUBJECTS or is_grammar(asked) or is_plural(asked):
        return False
    if following and (following[0] in _SUBJECTS or following[0] in _THINGS):
        return True
    return not (asked in _AS_NOUNS or asked.endswith(("tion", "ment", "sis", "ity")))


def _is_noun(part: Clause) -> bool:
    """True for an article and a noun, and nothing that is said of it."""
    texts = part.texts
    return texts[0] in _SUBJECTS and not (_MODALS | _BE) & set(texts)


def _opposes(part: Clause) -> bool:
    return part.texts[0] in {"but", "only", "instead", "just", "rather"}
