"""Clauses of a goal: where one thing that is asked for ends and the next begins, and what comes after what.

Comes in: text. Goes out: clauses in the order of the text. A clause knows its stage (``then`` begins a new one, ``after
testing`` belongs to an earlier one), whether it speaks of what came before it, and whether it is negated: ``do not
deploy`` is no work. It takes time in proportion to the text. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from actors.tasks.planning.goal_text import Token, stem, tokens, word_set
from actors.tasks.planning.verb_families import is_plural


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a goal that asks for one thing."""

    start: int
    end: int
    tokens: tuple[Token, ...]
    after: bool
    """A sequence word stands before it: what comes before has to be done first."""
    back: bool
    """True where it speaks of what comes before it."""
    negated: bool = False
    """True where it says what is not to be done."""
    is_carried: bool = False
    """True where it is negated only because the clause before it is."""
    joined: str = ""
    """``list`` where a comma or ``and`` ties it to the clause before it; ``and`` where nothing but an ``and`` does."""
    stage: int = 0
    """Place in time: a clause with a higher one is done later."""


_GERUND: Final = r"[^\W\d_]+ing\b"
_CUT: Final = re.compile(
    r"(?:\A|\n)[ \t]*(?:\d{1,3}[.)]|[-*\u2022])[ \t]+"
    r"|[,.](?=\s|$)|(?<![;:!?\n])[;:!?\n]+(?=\s|$)|\n|->|=>|\u2192"
    r"|\b(?:and|then|after that|followed by)\b"
    r"|(?=\b(?:but|without|instead of|rather than|except)\b)"
    rf"|(?=\b(?:before|after)\s+{_GERUND})",
    re.IGNORECASE,
)
_LATER: Final = frozenset({"afterward", "afterwards", "finally", "lastly", "subsequently", "thereafter", "next"})
_SEQUENCE: Final = frozenset({"then", "after that", "followed by", "->", "=>", "\u2192"})
_PRONOUNS: Final = frozenset({"it", "them", "this", "these", "those"})
_OUTCOMES: Final = frozenset(stem(word) for word in ("results", "findings", "report", "output", "answers"))
_BEFORE_OUTCOMES: Final = frozenset({"the", "all", "both", "their", "its", "every", "each"})
_GATHERING: Final = frozenset(stem(word) for word in ("review", "summarise", "combine", "merge", "compare", "join"))


def clauses(goal: str) -> tuple[Clause, ...]:
    """A goal cut at commas, ``and``, ``then``, semicolons and full stops; what has no words is left out."""
    found: list[Clause] = []
    shouted = goal.isupper()
    start, later, marks = 0, False, list[str]()
    for end, following, mark in _cuts(goal):
        words = tokens(goal[start:end])
        later = later or (bool(words) and words[0].text.casefold() in _LATER)
        if len(words) > 1 or any(word.text.casefold() not in _LATER for word in words):
            moved = tuple(Token(one.text, one.stem, one.start + start, one.meaningful) for one in words)
            back, negated = _refers_back(moved, shouted=shouted), _is_negated(words)
            found.append(Clause(start, end, moved, later, back, negated, joined=_joined(marks)))
            later = False
            marks = []
        later = later or mark in _SEQUENCE
        marks.append(mark)
        start = following
    return tuple(_staged(_negation_carried(found)))


def _cuts(goal: str) -> Iterator[tuple[int, int, str]]:
    """Where a clause ends, where the next one begins, and what stands between them."""
    for match in _CUT.finditer(goal):
        yield match.start(), match.end(), match.group().casefold()
    yield len(goal), len(goal), ""


def _joined(marks: list[str]) -> str:
    if marks == ["and"]:
        return "and"
    return "list" if marks and set(marks) <= {",", "and"} else ""


def has_order(goal: str) -> bool:
    """True where a goal says itself what comes after what."""
    return any(clause.stage for clause in clauses(goal))


# -- before and after --------------------------------------------------------------------------------------------


def _staged(parts: list[Clause]) -> Iterator[Clause]:
    """Number the stages. A clause with ``after testing`` or ``before testing`` moves its neighbour or itself."""
    stage = 0
    stages: list[int] = []
    pending = ""
    for part in parts:
        first = part.tokens[0].text.casefold() if len(part.tokens) > 1 else ""
        order = first if first in {"before", "after"} and part.tokens[1].text.casefold().endswith("ing") else ""
        leads = not stages or (not part.joined and not _touches(parts[len(stages) - 1], part))
        stage += part.after and bool(stages)
        if pending:
            stage += pending == "after"
            stages.append(stage)
            stage += pending == "before"
            if pending == "before":
                stages[-2] = stage
            pending = ""
        elif order and leads:
            stages.append(stage)
            pending = order
        elif order == "before":
            stage += 1
            stages.append(stage)
        elif order:
            stages.append(stages[-1])
            stages[-2] += 1
            stage += 1
        else:
            stages.append(stage)
    for part, number in zip(parts, stages, strict=True):
        yield replace(part, stage=number) if number else part


def _touches(before: Clause, part: Clause) -> bool:
    """True where nothing but a space stands between two clauses."""
    return before.end == part.start


# -- what is not to be done --------------------------------------------------------------------------------------

_NEGATIONS: Final = word_set("""
    not dont never no without neither nor avoid skip except cannot omit nobody nothing none
""")
_TWO_WORDS: Final = frozenset({("instead", "of"), ("rather", "than"), ("refrain", "from"), ("leave", "out")})
_NO_NEGATION: Final = word_set("""
    only just merely forget hesitate fail miss matter later
""")
"""Words after a negation that take it back: ``not only``, ``do not forget to``, ``no matter``."""
_LEADING: Final = word_set("""
    a also and any at be but can could do does did in is are i just let lets may might must need or ought please
    shall should so still then they to under want we would you
""")
"""Words that may stand before the negation of a request: ``please do not``, ``you must never``."""
_OR: Final = frozenset({"or", "nor"})
_SUBJECTS: Final = word_set("""
    the a an this that these those it they there all any our your my its
""")
_SUBORDINATE: Final = word_set("""
    that which who whose if because when while where why how unless until so
""")


def _is_negated(words: tuple[Token, ...]) -> bool:
    """True where it begins with a negation, or says of its subject that it is not to be done."""
    texts = [word.text.casefold().replace("\u2019", "'") for word in words[:12]]
    about = bool(texts) and (texts[0] in _SUBJECTS or is_plural(texts[0]) or texts[0].endswith(("ing", "ion", "ment")))
    for n, text in enumerate(texts):
        if _negates(texts, n):
            return not _NO_NEGATION & set(texts[n + 1 : n + 2])
        if (text in _SUBORDINATE and n) or not (about or text in _LEADING):
            return False
    return False


def _negates(texts: list[str], n: int) -> bool:
    return texts[n] in _NEGATIONS or texts[n].endswith("n't") or tuple(texts[n : n + 2]) in _TWO_WORDS


def _negation_carried(parts: list[Clause]) -> list[Clause]:
    """A negation holds for what is tied to it by a bare ``and``, and for a list that goes on with ``or``."""
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
        ors = [m for m in range(n, end) if _OR & {token.text.casefold() for token in parts[m].tokens[:2]}]
        last = ors[-1] if ors else n if done[n].joined == "and" and n < end else n - 1
        for m in range(n, last + 1):
            done[m] = replace(done[m], negated=True, is_carried=True)
        carried = end - 1
    return done


def _opposes(part: Clause) -> bool:
    return part.tokens[0].text.casefold() in {"but", "only", "instead", "just", "rather"}


# -- what speaks of something before it --------------------------------------------------------------------------


def refers_back(text: str) -> bool:
    """True for a text that speaks of something before it."""
    return _refers_back(tokens(text), shouted=text.isupper())


def _refers_back(words: tuple[Token, ...], *, shouted: bool) -> bool:
    """True where it points back: ``review it``, ``combine the findings``, ``summarise all answers``."""
    before, gathering = "", False
    for word in words:
        text = word.text.casefold()
        if text in _PRONOUNS and (shouted or word.text != "IT"):
            return True
        if word.stem in _OUTCOMES and (before in _BEFORE_OUTCOMES or gathering):
            return True
        gathering = gathering or word.stem in _GATHERING
        before = text
    return False
