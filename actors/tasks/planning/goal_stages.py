"""Stages of a goal: which of its clauses come after which others.

Comes in: clauses in the order of the text. Goes out: the same with a stage each. ``then``, ``finally`` and the numbers
of a list begin a new stage; ``after testing``, ``after you have tested it`` and ``once it is tested`` belong to an
earlier one than what they stand with, ``before deploying`` and ``before you deploy`` to a later one; ``but first`` and
``before that`` come before what was just said. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from actors.tasks.planning.goal_clause import Clause
from actors.tasks.planning.goal_text import Token, word_set

_LATER: Final = word_set("afterward afterwards finally lastly later subsequently thereafter next")
_LAST: Final = frozenset({("at", "the", "end"), ("in", "the", "end")})
_CLOSE: Final = frozenset({"finish", "end", "conclude"})
"""Words that begin what is done last: ``finish by deploying``."""
_ORDINALS: Final = word_set("second secondly third thirdly fourth fourthly fifth")
_FIRST: Final = frozenset({"first", "firstly", "beforehand"})
_LEAD_INS: Final = frozenset({"but", "and", "then", "so", "however"})
_NO_VERB: Final = word_set("for in of on with by as at to the a an")
"""Words after ``first`` that go on with what is being done: ``first for style, then for bugs``."""
_ONCE: Final = frozenset({"once", "when", "after"})
_WHO: Final = frozenset({"you", "we"})
IRREGULAR: Final = "built|drawn|found|made|paid|sent|sold|written"
"""Participles that do not end with ``ed``."""
PARTICIPLE: Final = re.compile(rf"..ed$|^(?:{IRREGULAR})$")
_IS: Final = frozenset({"is", "are", "been"})
_FEW: Final = 2
_MOST_LEAD_IN: Final = 6
"""Words with which a clause may begin up to its ``first``: ``I want you to first``."""
_MOST_MOVED: Final = 50
"""Clauses of a sentence that one clause with ``first`` may move."""


def says_when(texts: Sequence[str]) -> bool:
    """True for ``in the end``."""
    return tuple(texts) in _LAST


def has_more_than_order(words: Sequence[Token]) -> bool:
    """False for no words, and for a word that says when something is done, as ``finally``."""
    return len(words) > 1 or any(word.text.casefold() not in _LATER for word in words)


def begins_later(words: Sequence[Token], before: Sequence[Clause]) -> bool:
    """True where a clause says by its first words that it comes after what is before it."""
    texts = [word.text.casefold() for word in words[:3]]
    if not texts:
        return False
    counted = texts[0] in _ORDINALS and any(not _FIRST.isdisjoint(part.texts[:_MOST_LEAD_IN]) for part in before[-3:])
    closes = texts[0] in _CLOSE and texts[1:2] in (["by"], ["with"])
    return texts[0] in _LATER or tuple(texts) in _LAST or counted or closes


def staged(parts: Sequence[Clause]) -> Iterator[Clause]:
    """Number the stages. A clause with ``after testing`` or ``before testing`` moves its neighbour or itself."""
    stages = _Stages()
    for n, part in enumerate(parts):
        if n and _comes_first(part):
            stages.begin_before(n - 1 if part.back else _sentence(parts, n))
        else:
            stages.add(part, _order(part), leads=not n or _leads(parts[n - 1], part))
    for part, number in zip(parts, stages.numbers, strict=True):
        yield replace(part, stage=number) if number else part


class _Stages:
    """Stages so far, clause by clause."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._stage = 0
        self._highest = 0
        """Stage of what was moved behind a later clause: what is not tied to that clause comes no earlier."""
        self._pending = ""
        self._pending_from = 0
        """Number of the clause with which that began."""
        self._tail: int | None = None
        """Stage of a clause with ``after`` behind its neighbour: what goes on with it has the same."""

    def add(self, part: Clause, order: str, *, leads: bool) -> None:
        """Take up the next clause; ``order`` is ``before`` or ``after`` where it says when its neighbour is done."""
        if _goes_on(part) and not order and (self._pending or self._tail is not None):
            self.numbers.append(self._stage if self._tail is None else self._tail)
            return
        self._tail = None
        if part.after or not part.joined:
            self._stage = max(self._stage, self._highest)
        self._stage += part.after and bool(self.numbers)
        if self._pending:
            self._stage += self._pending == "after"
            self.numbers.append(self._stage)
            self._stage += self._pending == "before"
            if self._pending == "before":
                self.numbers[self._pending_from : -1] = [self._stage] * (len(self.numbers) - 1 - self._pending_from)
            self._pending = ""
            return
        if order and leads:
            self._pending, self._pending_from = order, len(self.numbers)
        elif order == "before":
            self._stage += 1
        elif order:
            self.numbers[-1] += 1
            self.numbers.append(self._stage)
            self._tail = self._stage
            self._stage += 1
            return
        self.numbers.append(self._stage)

    def begin_before(self, first: int) -> None:
        """Take up a clause that comes before all clauses from ``first`` on."""
        self._pending, self._tail = "", None
        self._stage = min(self.numbers[first:])
        self.numbers[first:] = [number + 1 for number in self.numbers[first:]]
        self._highest = max(self._highest, *self.numbers[first:])
        self.numbers.append(self._stage)


def _sentence(parts: Sequence[Clause], n: int) -> int:
    """Return the clause with which the sentence of the clause before this one begins."""
    first = n - 1
    while first > n - _MOST_MOVED and first > 0 and (parts[first].joined or _touches(parts[first - 1], parts[first])):
        first -= 1
    return first


def _order(part: Clause) -> str:
    """Return ``before`` or ``after`` where a clause says when its neighbour is done."""
    texts = part.texts
    while len(texts) > 1 and texts[0] in _LEAD_INS:
        del texts[0]
    if len(texts) < _FEW:
        return ""
    if texts[:2] == ["prior", "to"]:
        texts = ["before", *texts[2:]]
    if texts[0] == "following":
        if part.mark_after == "," and part.marks != (",",):
            return "after"
        texts = ["after", *texts[1:]]
    if len(texts) >= _FEW and texts[0] in {"before", "after"} and (texts[1].endswith("ing") or texts[1] in _WHO):
        return texts[0]
    once = texts[0] in _ONCE or texts[:3] == ["as", "soon", "as"]
    if part.mark_after != "," and part.marks != (",",):
        return "after" if once and not _IS.isdisjoint(texts) else ""
    return "after" if once else "before" if texts[0] == "before" else ""


def _goes_on(part: Clause) -> bool:
    """True where a clause goes on with ``after writing it``: ``and testing it``, or ``written and tested``."""
    first = part.texts[0]
    return bool(part.joined) and (first.endswith("ing") or PARTICIPLE.search(first) is not None)


def _leads(before: Clause, part: Clause) -> bool:
    """True where a clause that says when its neighbour is done stands before that."""
    if part.mark_after == "," and "and" in part.marks:
        return True
    return not part.joined and not _touches(before, part)


def _touches(before: Clause, part: Clause) -> bool:
    """True where nothing but a space stands between two clauses."""
    return before.end == part.start


def _comes_first(part: Clause) -> bool:
    """True for ``but first ...``, ``before that``, and for ``... first`` at its end."""
    texts = part.texts
    is_tied = bool(part.joined) or not part.marks or texts[0] == "but"
    while len(texts) > 1 and texts[0] in _LEAD_INS:
        del texts[0]
    if texts[0] == "before" and texts[1:2] in (["that"], ["this"]):
        return True
    if len(texts) >= _FEW and texts[-1] in {"first", "beforehand"}:
        return True
    return is_tied and len(texts) >= _FEW and texts[0] in _FIRST and texts[1] not in _NO_VERB
