"""Validation of a plan against the tree: everything that is wrong with it, before anything of it runs.

Comes in: a plan, the rows of the registry, what the task may use up, and who waits for it. Goes out: problems, which
refuse the plan, and warnings, which do not. It takes time in proportion to the plan, because it may run on an event
loop. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from operator import is_not
from types import MappingProxyType
from typing import Any, Final

from actors.model.errors import Problem
from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.task import METADATA_CHARS, Budget, Plan, Subtask, instructed, metadata_size
from actors.tasks.planning.estimates import EstimateError, EstimateTotal, estimate_of, exceedances
from actors.tasks.planning.plan_warnings import plan_warnings
from actors.validation.field_types import MAX_SECONDS
from actors.validation.introspection import binds, signature_of
from actors.validation.validation_messages import nearest, type_phrase, value_phrase

_MOST_LISTED: Final = 20
_MOST_QUICK: Final = 500
"""Subtasks and dependencies: a few milliseconds."""
_MOST_PROBLEMS: Final = 50
_MOST_CHARS: Final = 500
"""Limit of the text on one problem; a planner that is told of it is told enough."""
_MOST_CYCLES: Final = 10
_MOST_COMPARED: Final = 2_000
"""Words that are compared with one misspelt; beyond that nothing is suggested, because it takes too long."""


class Candidates:
    """The rows of the registry by id and by capability; made once for any number of look-ups."""

    def __init__(self, rows: Catalogue) -> None:
        self.by_id: dict[str, ExecutableInfo] = {row.id: row for row in rows}
        self.able: dict[str, list[ExecutableInfo]] = {}
        for row in rows:
            for capability in row.capabilities:
                self.able.setdefault(capability, []).append(row)

    def candidates(self, subtask: Subtask) -> list[ExecutableInfo]:
        """Return the workers that may do it; none where it names what is not there."""
        if subtask.worker is not None:
            row = self.by_id.get(subtask.worker)
            return [] if row is None else [row]
        return self.able.get(subtask.capability, []) if subtask.capability is not None else []

    def estimate_source(self, subtask: Subtask) -> ExecutableInfo | None:
        """Return whose estimate counts: the first that has one and is available, else the first that has one."""
        first = None
        for row in self.candidates(subtask):
            if row.estimate is not None:
                if row.is_available:
                    return row
                first = first or row
        return first

    def all_resolved(self, plan: Plan) -> list[Subtask]:
        """Return the subtasks of a plan, each with its worker or capability filled in."""
        return [
            one if one.worker is not None or one.capability is not None else self.resolved(one) for one in plan.subtasks
        ]

    def resolved(self, subtask: Subtask) -> Subtask:
        """Return the subtask with its worker or capability filled in, where only its id says who does it."""
        if subtask.worker is not None or subtask.capability is not None:
            return subtask
        if subtask.id in self.by_id:
            return subtask.model_copy(update={"worker": subtask.id})
        if subtask.id in self.able:
            return subtask.model_copy(update={"capability": subtask.id})
        return subtask


def resolved_plan(plan: Plan, rows: Catalogue) -> Plan:
    """A plan of resolved subtasks; the very same one where nothing was left unsaid."""
    if all(one.worker is not None or one.capability is not None for one in plan.subtasks):
        return plan
    subtasks = Candidates(rows).all_resolved(plan)
    return Plan(subtasks) if any(map(is_not, subtasks, plan.subtasks)) else plan


def check_plan(
    plan: Plan,
    rows: Catalogue,
    *,
    task_id: str,
    max_subtasks: int,
    budget: Budget | None,
    ancestry: tuple[str, ...] = (),
    goal: str = "",
    is_again: bool = False,
    done: Mapping[str, Subtask] = MappingProxyType({}),
    metadata: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[list[Problem], list[str]]:
    """Everything that is wrong with a plan, and what is merely doubtful.

    Args:
        plan: as its planner made it.
        rows: everybody who is listed, parked ones too.
        task_id: begins the paths of the problems.
        max_subtasks: more of them are a problem.
        budget: what the whole task may use up; None: as much as it likes.
        ancestry: paths of those who wait for this task; nobody of them can be given a part of it.
        goal: what the plan is for: for warnings, and for the estimates of subtasks that say nothing else.
        is_again: another plan of the task. It is not compared with the goal: what is done counts, too.
        done: what an earlier plan has done, and this one may build on, by id.
        metadata: of the task; that of each subtask lies over it, and both together are limited.
    """
    index = Candidates(rows)
    subtasks = index.all_resolved(plan)
    problems = _problems(
        _PlanCheck(f"task {task_id}", index, subtasks, ancestry, done, metadata),
        subtasks,
        max_subtasks,
        budget,
        goal,
    )
    return problems, plan_warnings(subtasks, rows, "" if is_again else goal)


def plan_problems(plan: Plan, rows: Catalogue, *, at: str, max_subtasks: int, budget: Budget | None) -> list[Problem]:
    """Everything that is wrong with a plan before there is a task; ``at`` begins the paths of the problems."""
    index = Candidates(rows)
    subtasks = index.all_resolved(plan)
    return _problems(_PlanCheck(at, index, subtasks, ()), subtasks, max_subtasks, budget)


def _problems(
    check: _PlanCheck, subtasks: list[Subtask], max_subtasks: int, budget: Budget | None, goal: str = ""
) -> list[Problem]:
    check.size(max_subtasks)
    check.names()
    for subtask in subtasks:
        check.subtask(subtask)
    check.cycles()
    check.cost(budget, goal)
    return check.problems


def is_quick(plan: Plan, rows: Catalogue) -> bool:
    """True where checking a plan runs no code of the user's and is soon done, so that an event loop may do it."""
    size = len(plan.subtasks) + sum(len(subtask.depends_on) for subtask in plan.subtasks)
    if size > _MOST_QUICK or any(callable(row.estimate) for row in rows):
        return False
    return not any(subtask.undo is not None and ":" in subtask.undo for subtask in plan.subtasks)


class _PlanCheck:
    """One check: what it looks at, and what it found."""

    def __init__(
        self,
        task: str,
        index: Candidates,
        subtasks: list[Subtask],
        ancestry: tuple[str, ...],
        done: Mapping[str, Subtask] = MappingProxyType({}),
        metadata: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.problems: list[Problem] = []
        self._done = done
        self._metadata = metadata
        self._task = task
        self._index = index
        self._subtasks = subtasks
        self._ids = {subtask.id: None for subtask in subtasks}
        self._ancestry = ancestry
        self._waiting = frozenset(ancestry)
        self._compared = 0
        self._found = 0
        self._undos: dict[str, tuple[str, str] | None] = {}

    def _problem(self, subtask: Subtask | None, part: str, what: str, hint: str) -> None:
        at = self._task + (f"/{subtask.id}" if subtask is not None else "") + (f".{part}" if part else "")
        self._add(at, what, hint)

    def _add(self, at: str, what: str, hint: str) -> None:
        """One more; of very many only the first are kept, and how many there were."""
        self._found += 1
        if self._found <= _MOST_PROBLEMS:
            self.problems.append(Problem(_cut(at), _cut(what), _cut(hint)))
        elif self._found == _MOST_PROBLEMS + 1:
            self.problems.append(Problem(self._task, "there are more problems", "Mend these first."))

    def _nearest(self, word: str, known: Collection[str]) -> str:
        self._compared += len(known)
        return nearest(word, known) if self._compared <= _MOST_COMPARED else ""

    def size(self, most: int) -> None:
        """At least one subtask, and not too many."""
        count = len(self._subtasks)
        if not count:
            self._problem(None, "", "the plan has no subtasks", "Give at least one.")
        if count > most:
            hint = "Combine some of them, or raise Tasks(max_subtasks=...)."
            self._problem(None, "", f"the plan has {count} subtasks, at most {most} are accepted", hint)

    def names(self) -> None:
        """Ids are unique."""
        if len(self._ids) == len(self._subtasks):
            return
        for name, count in Counter(subtask.id for subtask in self._subtasks).items():
            if count > 1:
                what = f"{count} subtasks have the id {name!r}"
                self._add(f"{self._task}/{name}.id", what, "Give each an id of its own.")

    def subtask(self, subtask: Subtask) -> None:
        """Check one subtask; most say little, and what they do not say is right."""
        self.who(subtask)
        if self._waiting:
            self.recursion(subtask)
        if subtask.depends_on:
            self.dependencies(subtask)
        if subtask.timeout_s is not None or subtask.idle_timeout_s is not None:
            self.times(subtask)
        if subtask.undo is not None:
            self.undo(subtask, subtask.undo)
        if subtask.metadata and self._metadata:
            self.labels(subtask)

    def who(self, subtask: Subtask) -> None:
        """Check that there is a worker that can do it."""
        worker, capability = subtask.worker, subtask.capability
        row = self._index.by_id.get(worker) if worker is not None else None
        if worker is None and capability is None:
            hint = f"Its id is neither the one of a worker nor a capability. {self._workers(subtask.id)}"
            self._problem(subtask, "", "names neither a worker nor a capability", hint)
        if worker is not None and row is None:
            self._problem(subtask, "worker", f"there is no worker {value_phrase(worker)}", self._workers(worker))
        if capability is not None and capability not in self._index.able:
            known = _some(self._index.able)
            hint = f"{self._nearest(capability, self._index.able)}Known: {known}."
            self._problem(subtask, "capability", f"no worker has capability {value_phrase(capability)}", hint)
        elif row is not None and capability is not None and capability not in row.capabilities:
            hint = f"It has: {_some(row.capabilities)}. Name another worker, or leave one of the two out."
            self._problem(subtask, "worker", f"{row.id!r} does not have capability {value_phrase(capability)}", hint)
        if row is not None and row.tools is not None:
            self._tool(subtask, row.id, [each.name for each in row.tools])

    def _tool(self, subtask: Subtask, worker: str, tools: list[str]) -> None:
        """Check that a worker with tools of its own is told which one to call."""
        if subtask.tool is not None and subtask.tool not in tools:
            hint = f"{self._nearest(subtask.tool, tools)}It has: {_some(tools)}."
            self._problem(subtask, "tool", f"{worker!r} has no tool {value_phrase(subtask.tool)}", hint)
        elif subtask.tool is None and len(tools) > 1 and subtask.capability not in tools:
            hint = f"Name one of: {_some(tools)}."
            self._problem(subtask, "tool", f"{worker!r} has several tools, and the subtask names none", hint)

    def _workers(self, word: str) -> str:
        near = self._nearest(word, self._index.by_id).strip()
        return near or f"Known: {_some(self._index.by_id)}."

    def recursion(self, subtask: Subtask) -> None:
        """Check that no worker that waits for this task is to do a part of it."""
        candidates = self._index.candidates(subtask)
        if not candidates or not all(row.path in self._waiting for row in candidates):
            return
        path = candidates[0].path
        chain = (*self._ancestry[self._ancestry.index(path) :], path)
        part = "worker" if subtask.worker is not None else "capability"
        hint = "Give it to somebody who does not wait for this task."
        self._problem(subtask, part, f"{' > '.join(chain)}: {path!r} would wait for itself", hint)

    def dependencies(self, subtask: Subtask) -> None:
        """Check that what it needs is in the plan, and is not itself."""
        for name in dict.fromkeys(subtask.depends_on):
            if name == subtask.id:
                self._problem(subtask, "depends_on", "depends on itself", "Leave its own id out.")
            elif name not in self._ids and name not in self._done:
                hint = self._nearest(name, self._ids).strip() or "Name the id of a subtask of this plan."
                self._problem(subtask, "depends_on", f"there is no subtask {value_phrase(name)}", hint)

    def times(self, subtask: Subtask) -> None:
        """Timeouts are seconds; they may come from where nobody looked at them."""
        for part in ("timeout_s", "idle_timeout_s"):
            value = getattr(subtask, part)
            fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= MAX_SECONDS
            if value is not None and not fits:
                hint = f"Use more than 0 and at most {MAX_SECONDS:,.0f}, or leave it out."
                self._problem(subtask, part, f"expected a number of seconds, got {value_phrase(value)}", hint)

    def undo(self, subtask: Subtask, name: str) -> None:
        """Check that what undoes it is there."""
        if name in self._index.by_id:
            return
        if name not in self._undos:
            near = f"{self._workers(name)} Or write 'module:attr'."
            self._undos[name] = (
                _import_problem(name) if ":" in name else (f"there is no worker {value_phrase(name)}", near)
            )
        if wrong := self._undos[name]:
            self._problem(subtask, "undo", *wrong)

    def labels(self, subtask: Subtask) -> None:
        """Check that the metadata of the task and of the subtask are small together: each event carries both."""
        size = metadata_size({**self._metadata, **subtask.metadata})
        if size > METADATA_CHARS:
            what = f"is {size:,} characters of JSON with that of the task, more than {METADATA_CHARS:,}"
            self._problem(subtask, "metadata", what, "Give it less; inputs= takes what is large.")

    def cycles(self) -> None:
        """Nothing waits for itself through others. Of each knot one round is named.

        What is done counts: it may have been done without a subtask that had failed, and that this plan has once more.
        """
        if self._in_order():
            return
        needs: dict[str, dict[str, None]] = {name: {} for name in [*self._ids, *self._done]}
        order = list(needs)
        for subtask in [*self._subtasks, *self._done.values()]:
            needs[subtask.id] |= {name: None for name in subtask.depends_on if name in needs and name != subtask.id}
        for _ in range(_MOST_CYCLES):
            try:
                TopologicalSorter(needs).prepare()
            except CycleError as error:
                knot: list[str] = error.args[1][:0:-1]  # backwards: each depends on the next
            else:
                return
            first = knot.index(min(knot, key=order.index)) if len(knot) < _MOST_LISTED else 0
            around = [*knot[first:], *knot[:first]]
            shown_names = [*around, around[0]] if len(around) < _MOST_LISTED else [*around[:_MOST_LISTED], "..."]
            what = f"a cycle: {' > '.join(shown_names)}, each depends on the next"
            hint = "Leave out the dependency whose result is not needed."
            self._add(f"{self._task}/{around[0]}.depends_on", what, hint)
            for name in knot:
                del needs[name]
            needs = {name: {one: None for one in of if one in needs} for name, of in needs.items()}

    def _in_order(self) -> bool:
        """True where everything depends on what stands before it: most plans do, and then there is no cycle."""
        if any(name in self._ids for spec in self._done.values() for name in spec.depends_on):
            return False
        before = set(self._done)
        for subtask in self._subtasks:
            if not before.issuperset(subtask.depends_on):
                return False
            before.add(subtask.id)
        return True

    def cost(self, budget: Budget | None, goal: str) -> None:
        """Check that the estimates are not more than there is, for each subtask and for all together.

        A function of the user's is given the subtask as its worker will be: with the goal where it says nothing else.
        """
        total, is_estimated = EstimateTotal(), any(row.estimate is not None for row in self._index.by_id.values())
        if not is_estimated and all(subtask.estimate is None for subtask in self._subtasks):
            return
        for subtask in self._subtasks:
            if not is_estimated and subtask.estimate is None:
                continue
            try:
                estimate = estimate_of(instructed(subtask, goal), self._index.estimate_source(subtask))
            except EstimateError as error:
                hint = "Give a number of tokens, a Budget, or a function of the subtask that returns one of them."
                self._problem(subtask, "estimate", str(error), hint)
                continue
            total.add(estimate)
            for what in exceedances(estimate, subtask.budget) if estimate is not None else ():
                self._problem(subtask, "budget", what, "Give it more, or less to do.")
        for what in exceedances(total.budget(), budget):
            hint = "Plan fewer or cheaper subtasks, or give the task a larger budget."
            self._problem(None, "budget", f"all subtasks together: {what}", hint)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 4]} ..."


def _some(names: Collection[str]) -> str:
    """Names in order, not too many of them."""
    first = sorted(names)[:_MOST_LISTED]
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(first) + more if first else "nothing"


def _import_problem(target: str) -> tuple[str, str] | None:
    """Return what is wrong with ``module:attr``, and a hint; None: it can be called."""
    try:
        found = pkgutil.resolve_name(target)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything when it is imported
        return (
            f"{value_phrase(target)} cannot be imported ({type(error).__name__})",
            "Correct it: 'module:attr', or a worker.",
        )
    hint = "Name a function of (task, result, context)."
    if not callable(found):
        return f"{value_phrase(target)} is {type_phrase(found)}, which cannot be called", hint
    signature = signature_of(found)
    if signature is not None and not binds(signature, None, None, None):
        return f"{value_phrase(target)} cannot be called with (task, result, context)", hint
    return None
