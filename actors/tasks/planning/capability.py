"""The planner for capabilities: workers that together have what a task needs, ordered by what they hand on.

Comes in: a task, and the catalogue of those who are there. Goes out: a plan. A worker that consumes what another one
produces depends on it. Nothing is kept between two plans. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.task import Plan, Subtask, Task
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.keyword import clauses, free_id, stems
from actors.validation.field_types import is_id
from actors.validation.validation_messages import type_phrase


class CapabilityPlanner:
    """Finds who has the capabilities that a task needs: one who has them all, or as few as possible together.

    Of those, whoever consumes what another one produces depends on it (``consumes=`` and ``produces=`` of workers).

    Args:
        needs: ``needs(task) -> capabilities``, sync or async. None: those whose words stand in the goal.
    """

    def __init__(
        self, needs: Callable[[Task], Iterable[str] | str | Awaitable[Iterable[str] | str]] | None = None
    ) -> None:
        self.needs = needs

    def __repr__(self) -> str:
        name = "" if self.needs is None else getattr(self.needs, "__qualname__", type_phrase(self.needs))
        return f"CapabilityPlanner({name})"

    def plan(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Plan | Awaitable[Plan]:  # noqa: ARG002
        """Return one subtask for each worker that it takes; an awaitable of that where ``needs`` gives one.

        Raises:
            NoCapableWorkerError: names what nobody can do.
        """
        if self.needs is None:
            return _planned(task, _mentioned(task.goal, _known(catalogue)), catalogue)
        said = self.needs(task)
        if inspect.isawaitable(said):
            return _later(said, task, catalogue)
        return _planned(task, _listed(said), catalogue)


async def _later(needs: Awaitable[Any], task: Task, catalogue: Catalogue) -> Plan:
    return _planned(task, _listed(await needs), catalogue)


def _listed(said: Any) -> list[str]:
    if isinstance(said, str):
        return [said]
    if isinstance(said, Iterable):
        words = list(dict.fromkeys(said))
        if all(isinstance(word, str) for word in words):
            return words
    raise TypeError(f"expected a list of capabilities from needs=, got {type_phrase(said)}")


def _known(catalogue: Catalogue) -> list[str]:
    return sorted({capability for row in catalogue for capability in row.capabilities})


def _planned(task: Task, needed: list[str], catalogue: Catalogue) -> Plan:
    known = _known(catalogue)
    missing = tuple(one for one in needed if one not in known)
    if missing or not needed:
        hint = ""
        if not needed:
            hint = (
                f"It names none of: {', '.join(known[:20]) or 'nothing'}. Give workers capabilities={{...}} that your "
                "goals name, or say what a task needs: CapabilityPlanner(needs=lambda task: ['...'])"
            )
        raise NoCapableWorkerError(missing, tuple(known), task=task.id or "?", hint=hint)
    return _ordered(_parts(task.goal, _cover(needed, catalogue), catalogue), task)


def _mentioned(goal: str, known: list[str]) -> list[str]:
    """Return the capabilities that stand in the goal. ``review`` does not, if it is only a part of ``review-sql``."""
    where: dict[str, int] = {}
    for word in [word for one in clauses(goal) if not one.negation for word in one.words]:
        where.setdefault(word, len(where))
    found = {words: name for name in reversed(known) if (words := frozenset(stems(name))) and words <= where.keys()}
    whole = [words for words in found if not any(words < other for other in found)]
    return [found[words] for words in sorted(whole, key=lambda words: min(where[word] for word in words))]


def _cover(needed: list[str], catalogue: Catalogue) -> list[tuple[ExecutableInfo, list[str]]]:
    """Workers, each with those needs that nobody before it covers: most first, then the least busy, then in order."""
    left = dict.fromkeys(needed)
    chosen = []
    while left:
        row = min(catalogue, key=lambda row: (-len(left.keys() & row.capabilities), row.load))
        mine = [one for one in left if one in row.capabilities]
        chosen.append((row, mine))
        for one in mine:
            del left[one]
    return chosen


class _Part(NamedTuple):
    """A subtask, with the words for what its workers take and give."""

    subtask: Subtask
    consumes: frozenset[str]
    produces: frozenset[str]


def _parts(goal: str, chosen: list[tuple[ExecutableInfo, list[str]]], catalogue: Catalogue) -> list[_Part]:
    """Make a subtask for each worker. Of a worker that has several tools a subtask calls one."""
    split: list[tuple[ExecutableInfo, list[str], str | None]] = []
    for row, mine in chosen:
        tools = {tool.name for tool in row.tools or ()} if len(row.tools or ()) > 1 else set()
        split += [(row, [one], one) for one in mine if one in tools]
        if rest := [one for one in mine if one not in tools]:
            split.append((row, rest, None))
    made: dict[str, _Part] = {}
    for row, mine, tool in split:
        able = [other for other in catalogue if mine[0] in other.capabilities]
        shared = len(mine) == 1 and len(able) > 1
        instruction = goal if len(split) == 1 else f"{goal}\nYour part of it: {', '.join(mine)}."
        name = free_id(mine[0] if (shared or tool is not None) and is_id(mine[0]) else row.id, made)
        if shared:
            subtask = Subtask(name, instruction, capability=mine[0])
        else:
            subtask = Subtask(name, instruction, worker=row.id, tool=tool)
        workers = able if shared else [row]
        made[name] = _Part(
            subtask,
            frozenset[str]().union(*(each.consumes for each in workers)),
            frozenset[str]().union(*(each.produces for each in workers)),
        )
    return list(made.values())


def _ordered(parts: list[_Part], task: Task) -> Plan:
    """Let each part that consumes a word depend on those that produce it, unless that would be a circle."""
    warnings: list[str] = []
    needs: dict[str, list[str]] = {part.subtask.id: [] for part in parts}
    given = {word for part in parts for word in part.produces} | set(task.inputs)
    for part in parts:
        name = part.subtask.id
        for other in parts:
            if other is part or not other.produces & part.consumes:
                continue
            needs[name].append(other.subtask.id)
            try:
                TopologicalSorter(needs).prepare()
            except CycleError:
                needs[name].pop()
                both = f"{name} and {other.subtask.id} wait for each other's results by consumes= and produces="
                warnings.append(f"{both}: {name} goes first, because it comes first.")
        if missing := sorted(part.consumes - given):
            warnings.append(f"{name} consumes {', '.join(missing)}, which nobody in this plan produces.")
    return Plan([part.subtask.model_copy(update={"depends_on": needs[part.subtask.id]}) for part in parts], warnings)
