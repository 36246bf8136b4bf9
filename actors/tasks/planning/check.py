"""Checks of a plan before anything of it runs.

It gets a plan and what that is compared with, and returns the plan with its problems. The functions are pure, except
that a worker's ``estimate=`` is user code, which is called here.
"""

from __future__ import annotations

import math
import pkgutil
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NamedTuple

from actors.model.errors import Problem
from actors.tasks.model import NO_USAGE, Budget, Catalogue, ExecutableInfo, Plan, Subtask, Usage, text_of
from actors.validation.introspection import binds, signature_of
from actors.validation.spec_model import copy_with
from actors.validation.validation_messages import nearest, value_phrase

_MOST_LISTED: Final = 20


class Checked(NamedTuple):
    """A plan that was compared with the tree."""

    plan: Plan
    """All of it: what is done, and what is left, each subtask with its worker or capability."""
    problems: list[Problem]
    warnings: tuple[str, ...]
    """What the planner says of it."""
    kept: tuple[str, ...]
    """Subtasks that are done, and do not run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCheck:
    """What a plan is compared with."""

    rows: Catalogue
    """All workers, parked ones as well."""
    at: str
    """Beginning of the paths of the problems, such as ``task t-1``."""
    max_subtasks: int
    """More subtasks are a problem."""
    budget: Budget | None = None
    """What the whole task may use. None: no limit."""
    ancestry: tuple[str, ...] = ()
    """Paths of the workers that wait for this task. None of them can be given a part of it."""
    goal: str = ""
    """Of the task. Subtasks without an instruction have it."""
    done: dict[str, Subtask] = field(default_factory=dict)
    """Subtasks of an earlier plan that are done, by id. The plan may depend on them, and they do not run again."""
    workers: dict[str, ExecutableInfo] = field(init=False, default_factory=dict)
    """By id."""
    able: dict[str, list[ExecutableInfo]] = field(init=False, default_factory=dict)
    """Capability -> the workers that have it."""

    def __post_init__(self) -> None:
        for row in self.rows:
            self.workers[row.id] = row
            for capability in row.capabilities:
                self.able.setdefault(capability, []).append(row)

    def candidates(self, subtask: Subtask) -> list[ExecutableInfo]:
        """Return the workers that may do a subtask."""
        if subtask.worker is not None:
            return [self.workers[subtask.worker]] if subtask.worker in self.workers else []
        return self.able.get(subtask.capability or "", [])


def check_plan(plan: Plan, facts: PlanCheck) -> Checked:
    """Compare a plan with the workers, and return it with all its problems.

    Where a subtask is only called like a worker or a capability, that is filled in. A plan without subtasks, or with
    too many, is not looked at further.
    """
    new = [_named(subtask, facts) for subtask in plan.subtasks if subtask.id not in facts.done]
    problems: list[Problem] = []
    if not plan.subtasks:
        problems = [Problem(facts.at, "the plan has no subtasks", "Give at least one.")]
    elif len(new) > facts.max_subtasks:
        what = f"the plan has {len(new)} subtasks, at most {facts.max_subtasks} are accepted"
        problems = [Problem(facts.at, what, "Combine some of them, or raise Tasks(max_subtasks=...).")]
    elif new:  # else it says that what is done will do
        problems = _problems(new, facts)
    warnings, whole = tuple(plan.warnings), [*facts.done.values(), *new]
    if warnings or whole != plan.subtasks:  # else all tasks of a planner that always returns it share it
        plan = copy_with(plan, subtasks=whole, warnings=[])
    return Checked(plan, problems, warnings, tuple(facts.done))


def _named(subtask: Subtask, facts: PlanCheck) -> Subtask:
    if subtask.worker is None and subtask.capability is None:
        for field_, known in (("worker", facts.workers), ("capability", facts.able)):
            if subtask.id in known:
                return copy_with(subtask, **{field_: subtask.id})
    return subtask


def _problems(subtasks: list[Subtask], facts: PlanCheck) -> list[Problem]:
    known = {*facts.done, *(subtask.id for subtask in subtasks)}
    problems = [
        Problem(f"{facts.at}/{subtask.id}.{part}".rstrip("."), what, hint)
        for subtask in subtasks
        for part, what, hint in _wrong_with(subtask, facts, known)
    ]
    for name, times in Counter(subtask.id for subtask in subtasks).items():
        if times > 1:
            hint = "Give each an id of its own."
            problems.append(Problem(f"{facts.at}/{name}.id", f"{times} subtasks have the id {name!r}", hint))
    return [*problems, *_cycles(facts.at, [*subtasks, *facts.done.values()]), *_costs(subtasks, facts)]


# -- problems ----------------------------------------------------------------------------------------------------


def _wrong_with(subtask: Subtask, facts: PlanCheck, known: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield a field of a subtask, what is wrong with it, and what to do."""
    yield from _who(subtask, facts)
    paths = [row.path for row in facts.candidates(subtask)]
    if paths and all(path in facts.ancestry for path in paths):
        chain = " > ".join((*facts.ancestry[facts.ancestry.index(paths[0]) :], paths[0]))
        what = f"{chain}: {paths[0]!r} would wait for itself"
        yield "worker", what, "Give it to a worker that does not wait for this task."
    for name in dict.fromkeys(subtask.depends_on):
        if name not in known:
            hint = nearest(name, known).strip() or "Name the id of a subtask of this plan."
            yield "depends_on", f"there is no subtask {value_phrase(name)}", hint
    if subtask.undo is not None and subtask.undo not in facts.workers:
        if ":" not in subtask.undo:
            hint = f"{_known(subtask.undo, facts.workers)} Or write 'module:attr'."
            yield "undo", f"there is no worker {value_phrase(subtask.undo)}", hint
        elif flaw := _flaw_of_undo(subtask.undo):
            yield "undo", f"{value_phrase(subtask.undo)} {flaw}", "Name a function of (task, result, context)."


def _who(subtask: Subtask, facts: PlanCheck) -> Iterator[tuple[str, str, str]]:
    worker, capability = subtask.worker, subtask.capability
    row = facts.workers.get(worker or "")
    if worker is None and capability is None:
        hint = f"Its id is neither that of a worker nor a capability. {_known(subtask.id, facts.workers)}"
        yield "", "names neither a worker nor a capability", hint
    if worker is not None and row is None:
        yield "worker", f"there is no worker {value_phrase(worker)}", _known(worker, facts.workers)
    if capability is not None and capability not in facts.able:
        yield "capability", f"no worker has capability {value_phrase(capability)}", _known(capability, facts.able)
    elif row is not None and capability is not None and capability not in row.capabilities:
        hint = f"{_known(capability, row.capabilities)} Or name another worker, or leave one of the two out."
        yield "worker", f"{row.id!r} does not have capability {value_phrase(capability)}", hint
    tools = [] if row is None else [each.name for each in row.tools or ()]
    if tools and subtask.tool is not None and subtask.tool not in tools:
        yield "tool", f"{worker!r} has no tool {value_phrase(subtask.tool)}", _known(subtask.tool, tools)
    elif len(tools) > 1 and subtask.tool is None and capability not in tools:
        yield "tool", f"{worker!r} has several tools, and the subtask names none", _known("", tools)


def _known(word: str, names: Collection[str]) -> str:
    return f"{nearest(word, names)}Known: {', '.join(sorted(names)[:_MOST_LISTED]) or 'nothing'}."


def _flaw_of_undo(name: str) -> str:
    """Say why a subtask cannot be undone by this code, or nothing."""
    try:
        found = pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything when it is imported
        return f"cannot be imported ({type(error).__name__})"
    signature = signature_of(found) if callable(found) else None
    fits = callable(found) and (signature is None or binds(signature, None, None, None))
    return "" if fits else "cannot be called with (task, result, context)"


def _cycles(at: str, subtasks: list[Subtask]) -> Iterator[Problem]:
    """Yield one problem for each knot of subtasks that wait for each other.

    Subtasks that are done count as well: one may have been done without a subtask that failed and is planned again.
    """
    before = set[str]()
    for subtask in subtasks:
        if subtask.id in before or not before.issuperset(subtask.depends_on):
            break
        before.add(subtask.id)
    else:
        return  # as most plans are: each subtask stands behind what it needs
    needs: dict[str, Sequence[str]] = {subtask.id: subtask.depends_on for subtask in subtasks}
    while True:
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            around: list[str] = error.args[1][::-1]  # each depends on the next
        else:
            return
        what = f"a cycle: {' > '.join(around[: _MOST_LISTED + 1])}, each depends on the next"
        yield Problem(f"{at}/{around[0]}.depends_on", what, "Leave out the dependency whose result is not needed.")
        needs |= dict.fromkeys(around, ())


# -- estimates ---------------------------------------------------------------------------------------------------


def _costs(subtasks: list[Subtask], facts: PlanCheck) -> Iterator[Problem]:
    """Yield estimates that are over the budget of a subtask, or together over that of the task."""
    whole = NO_USAGE
    for subtask in subtasks:
        try:
            estimate = _estimate_of(subtask, facts)
        except BaseException as error:  # noqa: BLE001 - it is code of the user's
            what = f"the estimate of its worker could not be made: {text_of(error)}"
            hint = "Give a number of tokens, a Budget, or a function of the subtask that returns one of them."
            yield Problem(f"{facts.at}/{subtask.id}.estimate", what, hint)
            continue
        whole += estimate
        if subtask.budget is not None and (over := subtask.budget.exceeded_by(estimate)):
            yield Problem(f"{facts.at}/{subtask.id}.budget", f"estimated {over}", "Give it more, or less to do.")
    if facts.budget is not None and (over := facts.budget.exceeded_by(whole)):
        hint = "Plan fewer or cheaper subtasks, or give the task a larger budget."
        yield Problem(f"{facts.at}.budget", f"all subtasks together: estimated {over}", hint)


def _estimate_of(subtask: Subtask, facts: PlanCheck) -> Usage:
    """Return what one attempt will probably use: as the subtask says, else its worker, for which user code may run."""
    said: Any = subtask.estimate
    if said is None:
        said = next((row.estimate for row in facts.candidates(subtask) if row.estimate is not None), None)
    if callable(said):
        said = said(subtask if subtask.instruction else copy_with(subtask, {"instruction": facts.goal}))
    if isinstance(said, Budget):
        return Usage(**said.model_dump(exclude_none=True))
    return NO_USAGE if said is None else Usage(tokens=math.ceil(said))
