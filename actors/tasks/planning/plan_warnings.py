"""Warnings about a plan that is not wrong: too few subtasks, or a line where there is no need of one.

Comes in: the subtasks of a plan, the registry, and the goal. Goes out: sentences. This module must never import
threads, a clock or Pykka.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Final

from actors.tasks.model.executable import Catalogue
from actors.tasks.model.task import Subtask, by_id
from actors.tasks.planning.keyword_planner import clauses, mentioned, places, refers_back, words_of

_LINE: Final = 3
"""Length from which subtasks in a row count as a line."""
_MOST_LOOKED_AT: Final = 200
"""Links of a line: a longer one shows in its first part."""
_MOST_NAMED: Final = 8
_MOST_OF_A_GOAL: Final = 10_000
"""Characters of a goal that are read."""
_LONGEST: Final = 2_000
"""Characters of an instruction or an input that are read."""


def plan_warnings(subtasks: list[Subtask], rows: Catalogue, goal: str) -> list[str]:
    """Warnings about a plan."""
    goal = goal[:_MOST_OF_A_GOAL]
    found = _needless_lines(subtasks)
    if found and any(clause.stage for clause in clauses(goal)):  # only where there is a line to explain
        found = []
    if len(subtasks) == 1 and goal:
        found += _all_in_one(subtasks[0], rows, goal)
    only = {row.id for row in rows if row.is_only}
    for worker, count in waiting_in_line(subtasks, rows) if only else ():
        found.append(
            f"{count} subtasks that do not need each other wait in line for {worker}, which takes one at a time. "
            f"It is async: with pool={count} they overlap"
        )
    return found


def waiting_in_line(subtasks: list[Subtask], rows: Catalogue) -> list[tuple[str, int]]:
    """Return async workers that have several subtasks at the same time and take one, with how many."""
    alone = {row.id for row in rows if row.is_async and row.size == 1}
    if not alone:
        return []
    having = Counter(capability for row in rows for capability in row.capabilities)
    of = {capability: row.id for row in rows for capability in row.capabilities if having[capability] == 1}
    at_once = Counter[str]()
    for one in subtasks:
        worker = one.worker or of.get(one.capability or "", "")
        if worker in alone and not one.depends_on:
            at_once[worker] += 1
    return [(worker, count) for worker, count in at_once.items() if count > 1]


def _all_in_one(only: Subtask, rows: Catalogue, goal: str) -> list[str]:
    """One subtask, although the goal speaks of several workers and this one cannot do what the others can."""
    where = places(word for part in clauses(goal) if part.is_work for word in part.words)
    mine = next((row for row in rows if row.id == only.worker), None)
    names = [only.worker, only.capability, *(mine.capabilities if mine is not None else ())]
    covered = frozenset[int]().union(*(mentioned(name, where) for name in names if name is not None))
    others = [
        row.id
        for row in rows
        if row.id != only.worker and any(mentioned(name, where) - covered for name in (row.id, *row.capabilities))
    ]
    if not others or len(others) + bool(covered) < 2:  # noqa: PLR2004 - several
        return []
    who = ", ".join(islice(others, _MOST_NAMED))
    return [f"one subtask ({only.id}) for everything, although the goal speaks of {who} too"]


def _needless_lines(subtasks: list[Subtask]) -> list[str]:
    """Lines of subtasks that run one after the other although nothing says that they need each other's results."""
    if sum(bool(one.instruction or one.inputs) for one in subtasks) < _LINE - 1:
        return []  # a link has to say what it is about
    known = by_id(subtasks)
    needed = Counter(name for subtask in known.values() for name in set(subtask.depends_on))
    before: dict[str, str] = {}
    for subtask in known.values():
        previous = subtask.depends_on[0] if len(set(subtask.depends_on)) == 1 else None
        if previous in known and previous != subtask.id and needed[previous] == 1:
            before[subtask.id] = previous
    after = {previous: name for name, previous in before.items()}
    links = {
        name: previous
        for name, previous in islice(((n, p) for n, p in before.items() if n in after or p in before), _MOST_LOOKED_AT)
        if _is_silent(known[name], known[previous])
    }
    following = {previous: name for name, previous in links.items()}
    found = []
    for start in [name for name in following if name not in links]:
        line = [start]
        while (name := following.get(line[-1])) is not None:
            line.append(name)
        if len(line) >= _LINE:
            names = " > ".join(line[:_MOST_NAMED]) + (" > ..." if len(line) > _MOST_NAMED else "")
            found.append(f"{names} run one after the other, though none mentions the one before it; do they need to?")
    return found


def _is_silent(subtask: Subtask, previous: Subtask) -> bool:
    """True where it says what it is about and does not speak of the one before: neither by name nor as ``it``."""
    if not subtask.instruction and not subtask.inputs:
        return False
    said = [subtask.instruction, *subtask.inputs, *(one for one in subtask.inputs.values() if isinstance(one, str))]
    text = "\n".join(one[:_LONGEST] for one in said)[: 2 * _LONGEST]
    if not text.strip() or subtask.undo is not None or previous.undo is not None:
        return False
    names = {previous.id, previous.worker, previous.capability} - {None, subtask.worker, subtask.capability}
    where = places(words_of(text))
    return not refers_back(text, shouted=text.isupper()) and not any(
        mentioned(name, where) for name in names if name is not None
    )
