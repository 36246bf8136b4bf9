"""The planner for capabilities: workers that together have what a task needs, ordered by what they hand on.

It gets a task and the catalogue of workers, and returns a plan. A worker that consumes what another one produces
depends on it. This module is pure.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, TypeAlias

from actors.tasks.model import Catalogue, ExecutableInfo, NoCapableWorkerError, Plan, Subtask, Task
from actors.tasks.planning.keyword import Who, clauses, free_id, stems
from actors.validation.spec_model import copy_with

_REMEDY: Final = (
    "Give workers capabilities={...} that your goals name, or say what a task needs: "
    "CapabilityPlanner(needs=lambda task: ['...'])"
)


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

    def plan(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Plan | Awaitable[Plan]:  # noqa: ARG002
        """Return one subtask for each worker that it takes; an awaitable of that if ``needs`` gives one.

        Raises:
            NoCapableWorkerError: names what no worker can do.
        """
        said = _mentioned(task.goal, catalogue) if self.needs is None else self.needs(task)
        return _later(said, task, catalogue) if inspect.isawaitable(said) else _planned(task, said, catalogue)


async def _later(needs: Awaitable[Any], task: Task, catalogue: Catalogue) -> Plan:
    return _planned(task, await needs, catalogue)


def _known(catalogue: Catalogue) -> list[str]:
    return sorted({capability for row in catalogue for capability in row.capabilities})


def _planned(task: Task, said: Iterable[str] | str, catalogue: Catalogue) -> Plan:
    known, needed = _known(catalogue), [said] if isinstance(said, str) else list(dict.fromkeys(said))
    missing = [one for one in needed if one not in known]
    if missing or not needed:
        raise NoCapableWorkerError(missing, known, task=task.id or "?", hint="" if missing else _REMEDY)
    return _ordered(_subtasks(task.goal, needed, catalogue), task)


def _mentioned(goal: str, catalogue: Catalogue) -> list[str]:
    """Return the capabilities that stand in the goal. ``review`` does not, if it is only a part of ``review-sql``."""
    said = [word for one in clauses(goal) if not one.negation for word in one.words]
    found = {frozenset(stems(name)): name for name in reversed(_known(catalogue))}
    found = {words: name for words, name in found.items() if words and words.issubset(said)}
    whole = [words for words in found if not any(words < other for other in found)]
    return [found[words] for words in sorted(whole, key=lambda words: min(map(said.index, words)))]


_Parts: TypeAlias = dict[str, tuple[Subtask, list[ExecutableInfo]]]
"""By id: a subtask, and the workers that may do it."""


def _subtasks(goal: str, needed: list[str], catalogue: Catalogue) -> _Parts:
    """Return a subtask for each worker that it takes, with those needs that no worker before it covers.

    A worker without an open breaker comes first, then one that covers more needs, then one that is less busy. One need
    that several workers have is left to the least busy one of them. Of a worker that has several tools a subtask calls
    one.
    """
    made: _Parts = {}
    left = needed
    while left:
        able = [row for row in catalogue if row.capabilities.intersection(left)]
        able = [row for row in able if row.is_available] or able
        row = min(able, key=lambda row: (-len(row.capabilities.intersection(left)), row.load))
        mine = [one for one in left if one in row.capabilities]
        tools = [tool.name for tool in row.tools or ()]
        tool = mine[0] if len(tools) > 1 and mine[0] in tools else None
        mine = mine if tool is None else [tool]
        left = [one for one in left if one not in mine]
        able = [other for other in catalogue if mine[0] in other.capabilities] if len(mine) == 1 else [row]
        who = Who(None, mine[0]) if len(able) > 1 else Who(row.id, tool=tool)
        name = free_id((Who(tool=tool) if tool else who).name, made)
        instruction = f"{goal}\nYour part of it: {', '.join(mine)}." if made or left else goal
        made[name] = Subtask(name, instruction, who.worker, who.capability, tool=who.tool), able
    return made


def _words(workers: list[ExecutableInfo], of: str) -> frozenset[str]:
    return frozenset[str]().union(*(getattr(each, of) for each in workers))


def _ordered(parts: _Parts, task: Task) -> Plan:
    """Let each part that consumes a word depend on those that produce it, unless that would be a circle."""
    warnings: list[str] = []
    needs: dict[str, list[str]] = {name: [] for name in parts}
    given = {name: _words(able, "produces") for name, (_, able) in parts.items()}
    for name, (_, able) in parts.items():
        wanted = _words(able, "consumes")
        for other, produced in given.items():
            if other == name or not produced & wanted:
                continue
            needs[name].append(other)
            try:
                TopologicalSorter(needs).prepare()
            except CycleError:
                needs[name].pop()
                both = f"{name} and {other} wait for each other's results by consumes= and produces="
                warnings.append(f"{both}: {name} goes first, because it comes first.")
        if missing := sorted(wanted.difference(task.inputs, *given.values())):
            warnings.append(f"{name} consumes {', '.join(missing)}, which nobody in this plan produces.")
    return Plan([copy_with(subtask, depends_on=needs[name]) for name, (subtask, _) in parts.items()], warnings)
