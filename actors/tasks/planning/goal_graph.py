"""The graph of subtasks that the clauses of a goal make, once it is known who is meant by each of them.

Comes in: a goal, its clauses and readings, and the workers of each. Goes out: subtasks. Nothing of the goal is lost: a
clause by which nobody is meant, or that says what is not to be done, stays in the instruction of the one before it. A
clause of a later stage depends on all of the stage before it; one that speaks of what came before it, on all before it;
one that shares its object with the clause before it (``write and test the parser``), on that one. Whoever is meant
twice in a stage has one subtask with both clauses, unless the second one depends on others.

It takes time in proportion to the goal. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from actors.tasks.model.task import Subtask
from actors.tasks.planning.goal_clause import Clause
from actors.tasks.planning.goal_matching import Found, Match
from actors.tasks.planning.goal_reading import Reading
from actors.tasks.planning.goal_stages import says_when
from actors.validation.field_types import is_id

_MOST_NEEDED: Final = 200
"""Subtasks before one that speaks of all of them. Of more it depends on those since the last one that did so."""
_LIST_MARK: Final = re.compile(r"\s*(?:step\s+)?(?:\(?\d{1,3}[.):]?|\(?[a-z]\)|[-*\u2022])\s+", re.IGNORECASE)
_AROUND: Final = " \t\r\n,;:"


class _Hit(NamedTuple):
    """A clause by which somebody is meant, and what it says, up to the next one."""

    clause: int
    part: Clause
    said: str


@dataclass(slots=True)
class _Draft:
    """A subtask in the making."""

    match: Match
    depends_on: list[str]
    said: list[str] = field(default_factory=list)


def graph(goal: str, readings: Sequence[Reading], found: Found) -> list[Subtask]:
    """Make subtasks of what was found, clause by clause."""
    drafting = _Drafting()
    after = {n + 1: n for n, one in enumerate(readings) if one.object_from is not None}
    for hit in sorted(_hits(goal, readings, found), key=lambda one: (one.part.stage, one.clause)):
        drafting.add(hit, found[hit.clause], after.get(hit.clause))
    return [
        Subtask(
            name,
            ", ".join(draft.said),
            worker=None if draft.match.capability else draft.match.worker,
            capability=draft.match.capability,
            depends_on=draft.depends_on,
        )
        for name, draft in drafting.drafts.items()
    ]


class _Drafting:
    """Subtasks so far, and what is needed to name the next one and to say what it depends on."""

    def __init__(self) -> None:
        self.drafts: dict[str, _Draft] = {}
        self._order: list[str] = []
        self._stage = 0
        self._of_stage: list[str] = []
        self._of_stage_before: list[str] = []
        self._back_from = 0
        """Place of the last one that depends on all before it."""
        self._numbers: dict[str, int] = {}
        self._open: dict[tuple[str, str], str] = {}
        """Subtasks of this stage: by what they are called and by their worker."""
        self._of_clause: dict[int, list[str]] = {}

    def add(self, hit: _Hit, matches: list[Match], shares_with: int | None) -> None:
        """Take up a clause."""
        if hit.part.stage != self._stage:
            self._stage, self._open = hit.part.stage, {}
            if self._of_stage:
                self._of_stage_before, self._of_stage = self._of_stage, []
        workers = {match.worker for match in matches}
        before = () if shares_with is None else self._of_clause.get(shares_with, ())
        shared = [name for name in before if self.drafts[name].match.worker not in workers]
        needs = self._needs(hit.part, shared)
        alone = hit.part.back or bool(shared)
        made = []
        for match in matches:
            plain = match.capability if match.capability is not None and is_id(match.capability) else match.worker
            name = None if alone else self._open.get((plain, match.worker))
            if name is None:
                name = self._new(plain, match, needs)
                if hit.part.back:
                    self._back_from = len(self._order) - 1
            self.drafts[name].said.append(hit.said)
            made.append(name)
        self._of_clause[hit.clause] = [*before, *made]

    def _needs(self, part: Clause, shared: list[str]) -> list[str]:
        if part.back:
            return self._order[self._back_from :] if len(self._order) > _MOST_NEEDED else list(self._order)
        return [*self._of_stage_before, *(name for name in shared if name not in self._of_stage_before)]

    def _new(self, plain: str, match: Match, needs: list[str]) -> str:
        """Name one: by its worker or its capability, with a number where that is taken."""
        number = self._numbers.get(plain, 1)
        name = plain if number == 1 else f"{plain}-{number}"
        while name in self.drafts:
            number += 1
            name = f"{plain}-{number}"
        self._numbers[plain] = number
        self.drafts[name] = _Draft(match, needs)
        self._order.append(name)
        self._of_stage.append(name)
        self._open[plain, match.worker] = name
        return name


def _hits(goal: str, readings: Sequence[Reading], found: Found) -> Iterator[_Hit]:
    """Each clause by which somebody is meant, with what follows it up to the next such one."""
    places = [n for n, matches in enumerate(found) if matches]
    hits = [n for at, n in enumerate(places) if not at or not _goes_on(readings, found, places[at - 1], n)]
    firsts = [_first_of(readings, found, n) for n in hits]
    for number, n in enumerate(hits):
        start = readings[firsts[number]].clause.start if number else _begin(goal, readings)
        last = firsts[number + 1] - 1 if number + 1 < len(hits) else len(readings) - 1
        end = readings[last].clause.end
        said = goal if len(hits) == 1 and last == n == 0 else _trimmed(goal[start:end])
        yield _Hit(n, readings[n].clause, _completed(goal, readings, n, said, (start, end)))


def _begin(goal: str, readings: Sequence[Reading]) -> int:
    """Return where a goal begins, without the mark of a list."""
    start = readings[0].clause.start
    return start if _LIST_MARK.fullmatch(goal[:start]) else 0


def _first_of(readings: Sequence[Reading], found: Found, n: int) -> int:
    """Return the first clause that is read with this one: a condition before it, or ``before that`` and its like."""
    first = n
    while first and not found[first - 1]:
        before = readings[first - 1].clause
        if before.decides_on != n and not _is_lead_in(before):
            break
        first -= 1
    return first


def _is_lead_in(part: Clause) -> bool:
    """True for ``before that,``, ``in the end,`` and ``when finished,``."""
    if part.mark_after != "," or part.marks == (",",):
        return False
    texts = part.texts
    return texts[0] in {"once", "when"} or says_when(texts) or not any(token.meaningful for token in part.tokens)


def _trimmed(said: str) -> str:
    """Return a text without separators around it and without a half of a pair of brackets."""
    said = said.strip(_AROUND)
    if said.count("(") < said.count(")") and said.endswith(")"):
        return said[:-1].rstrip(_AROUND)
    return said[:-1].rstrip(_AROUND) if said.endswith("(") else said


def _goes_on(readings: Sequence[Reading], found: Found, before: int, n: int) -> bool:
    """True where a clause only goes on with what the one before it has said to the same workers."""
    part, previous = readings[n].clause, readings[before].clause
    same = [match.worker for match in found[n]] == [match.worker for match in found[before]]
    return same and before == n - 1 and bool(part.joined) and not part.back and part.stage == previous.stage


def _completed(goal: str, readings: Sequence[Reading], n: int, said: str, span: tuple[int, int]) -> str:
    """Add the verb or the object that a clause has from another one: it is read by somebody who sees no other."""
    one = readings[n]
    if one.verb_from is not None and one.verb is not None:
        words = readings[one.verb_from].clause.tokens[one.verb.first : one.verb.last + 1]
        end = words[-1].start + len(words[-1].text)
        if words[0].start >= span[0]:
            return said
        return f"{goal[words[0].start : end]} {said}"
    if one.object_from is not None:
        other = readings[one.object_from]
        if other.verb is not None and other.clause.end > span[1]:
            last = other.clause.tokens[other.verb.last]
            return f"{said} {_trimmed(goal[last.start + len(last.text) : other.clause.end])}".rstrip()
    return said
