"""Checks of a plan before anything of it runs: what refuses it, and what is only doubtful.

It gets a plan and the rows of all workers, and returns problems and warnings. The functions are pure, except that a
worker's ``estimate=`` and a module named by ``undo=`` are user code, which is called or imported here.
"""

from __future__ import annotations

import math
import pkgutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from operator import is_
from types import MappingProxyType
from typing import Any, Final

from actors.model.errors import Problem
from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.outcome import text_of
from actors.tasks.model.task import METADATA_CHARS, Budget, Plan, Subtask, Usage, instructed, metadata_size
from actors.validation.introspection import binds, signature_of
from actors.validation.spec_model import copy_with
from actors.validation.validation_messages import nearest, value_phrase

_MOST_LISTED: Final = 20


def check_plan(
    plan: Plan,
    rows: Catalogue,
    *,
    at: str,
    max_subtasks: int,
    budget: Budget | None = None,
    ancestry: tuple[str, ...] = (),
    goal: str = "",
    done: Mapping[str, Subtask] = MappingProxyType({}),
    metadata: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[list[Problem], list[str]]:
    """Compare a plan with the workers, and return all its problems and its warnings.

    A plan without subtasks, or with too many, is not looked at further.

    Args:
        plan: as ``resolved_plan`` has made it.
        rows: all workers, parked ones as well.
        at: beginning of the paths of the problems, such as ``task t-1``.
        max_subtasks: more subtasks are a problem.
        budget: what the whole task may use. None: no limit.
        ancestry: paths of the workers that wait for this task. None of them can be given a part of it.
        goal: of the task. Subtasks without an instruction have it.
        done: subtasks of an earlier plan that are done, by id. The plan may depend on them.
        metadata: of the task.
    """
    subtasks = plan.subtasks
    if not subtasks:
        return [Problem(at, "the plan has no subtasks", "Give at least one.")], []
    if len(subtasks) > max_subtasks:
        what = f"the plan has {len(subtasks)} subtasks, at most {max_subtasks} are accepted"
        return [Problem(at, what, "Combine some of them, or raise Tasks(max_subtasks=...).")], []
    able: dict[str, list[ExecutableInfo]] = {}
    for row in rows:
        for capability in row.capabilities:
            able.setdefault(capability, []).append(row)
    known = {*done, *(subtask.id for subtask in subtasks)}
    crew = _Crew({row.id: row for row in rows}, able, ancestry, goal, known, metadata)
    problems = [
        Problem(f"{at}/{subtask.id}.{field}".rstrip("."), what, hint)
        for subtask in subtasks
        for field, what, hint in _wrong_with(subtask, crew)
    ]
    for name, times in Counter(subtask.id for subtask in subtasks).items():
        if times > 1:
            hint = "Give each an id of its own."
            problems.append(Problem(f"{at}/{name}.id", f"{times} subtasks have the id {name!r}", hint))
    problems += [*_cycles(at, [*subtasks, *done.values()]), *_costs(at, subtasks, crew, budget)]
    return problems, _warnings(subtasks, rows)


def resolved_plan(plan: Plan, rows: Catalogue) -> Plan:
    """Return the plan with the worker or capability of each subtask filled in that is only called like one."""
    kinds = {capability: "capability" for row in rows for capability in row.capabilities}
    kinds |= {row.id: "worker" for row in rows}
    named = [
        copy_with(one, **{kinds[one.id]: one.id})
        if one.id in kinds and one.worker is None and one.capability is None
        else one
        for one in plan.subtasks
    ]
    return plan if all(map(is_, named, plan.subtasks)) else copy_with(plan, subtasks=named)


# -- problems ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Crew:
    """What each subtask of a plan is compared with."""

    workers: dict[str, ExecutableInfo]
    able: dict[str, list[ExecutableInfo]]
    """Capability -> the workers that have it."""
    ancestry: tuple[str, ...]
    goal: str
    known: set[str]
    """Ids that a subtask may depend on."""
    metadata: Mapping[str, Any]

    def candidates(self, subtask: Subtask) -> list[ExecutableInfo]:
        """Return the workers that may do a subtask."""
        if subtask.worker is not None:
            return [self.workers[subtask.worker]] if subtask.worker in self.workers else []
        return self.able.get(subtask.capability or "", [])


def _wrong_with(subtask: Subtask, crew: _Crew) -> Iterator[tuple[str, str, str]]:
    """Yield a field of a subtask, what is wrong with it, and what to do."""
    yield from _who(subtask, crew)
    paths = [row.path for row in crew.candidates(subtask)]
    if paths and all(path in crew.ancestry for path in paths):
        chain = " > ".join((*crew.ancestry[crew.ancestry.index(paths[0]) :], paths[0]))
        what = f"{chain}: {paths[0]!r} would wait for itself"
        yield "worker", what, "Give it to a worker that does not wait for this task."
    for name in dict.fromkeys(subtask.depends_on):
        if name not in crew.known:
            hint = nearest(name, crew.known).strip() or "Name the id of a subtask of this plan."
            yield "depends_on", f"there is no subtask {value_phrase(name)}", hint
    if subtask.undo is not None and subtask.undo not in crew.workers:
        if ":" not in subtask.undo:
            hint = f"{_known(subtask.undo, crew.workers)} Or write 'module:attr'."
            yield "undo", f"there is no worker {value_phrase(subtask.undo)}", hint
        elif flaw := _flaw_of_undo(subtask.undo):
            yield "undo", f"{value_phrase(subtask.undo)} {flaw}", "Name a function of (task, result, context)."
    size = metadata_size({**crew.metadata, **subtask.metadata}) if subtask.metadata else 0
    if size > METADATA_CHARS:
        what = f"is {size:,} characters of JSON with that of the task, more than {METADATA_CHARS:,}"
        yield "metadata", what, "Give it less; inputs= takes what is large."


def _who(subtask: Subtask, crew: _Crew) -> Iterator[tuple[str, str, str]]:
    worker, capability = subtask.worker, subtask.capability
    row = crew.workers.get(worker or "")
    if worker is None and capability is None:
        hint = f"Its id is neither that of a worker nor a capability. {_known(subtask.id, crew.workers)}"
        yield "", "names neither a worker nor a capability", hint
    if worker is not None and row is None:
        yield "worker", f"there is no worker {value_phrase(worker)}", _known(worker, crew.workers)
    if capability is not None and capability not in crew.able:
        yield "capability", f"no worker has capability {value_phrase(capability)}", _known(capability, crew.able)
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


def _costs(at: str, subtasks: list[Subtask], crew: _Crew, budget: Budget | None) -> Iterator[Problem]:
    """Yield estimates that are over the budget of a subtask, or together over that of the task."""
    estimates = []
    for subtask in subtasks:
        try:
            estimate = _estimate_of(subtask, crew)
        except BaseException as error:  # noqa: BLE001 - it is code of the user's
            what = f"the estimate of its worker could not be made: {text_of(error)}"
            hint = "Give a number of tokens, a Budget, or a function of the subtask that returns one of them."
            yield Problem(f"{at}/{subtask.id}.estimate", what, hint)
            continue
        if estimate is None:
            continue
        estimates.append(estimate)
        for what in _over([estimate], subtask.budget):
            yield Problem(f"{at}/{subtask.id}.budget", what, "Give it more, or less to do.")
    for what in _over(estimates, budget):
        hint = "Plan fewer or cheaper subtasks, or give the task a larger budget."
        yield Problem(f"{at}.budget", f"all subtasks together: {what}", hint)


def _estimate_of(subtask: Subtask, crew: _Crew) -> Budget | None:
    """Return what one attempt will probably use: as the subtask says, else its worker, for which user code may run."""
    rows = [row for row in crew.candidates(subtask) if row.estimate is not None]
    said: Any = subtask.estimate
    if said is None and rows:
        said = next((row for row in rows if row.is_available), rows[0]).estimate
    if callable(said):
        said = said(instructed(subtask, crew.goal))
    if isinstance(said, Usage):
        said = said.model_dump()
    if said is None:
        return None
    if isinstance(said, Mapping):
        said = Budget(**said)
    return said if isinstance(said, Budget) else Budget(tokens=math.ceil(said))


def _over(estimates: list[Budget], budget: Budget | None) -> list[str]:
    """Return everything of which more is estimated than there is: ``estimated tokens 1200, budget 1000``."""
    found: list[str] = []
    for unit in Budget.model_fields if budget is not None else ():
        wanted, limit = sum(getattr(each, unit) or 0 for each in estimates), getattr(budget, unit)
        if limit is not None and wanted > limit:
            found.append(f"estimated {unit} {wanted:.15g}, budget {limit:.15g}")
    return found


# -- warnings ----------------------------------------------------------------------------------------------------


def _warnings(subtasks: list[Subtask], rows: Catalogue) -> list[str]:
    only = {row.id for row in rows if row.is_only}
    return [
        f"{count} subtasks that do not need each other wait in line for {worker}, which takes one at a time. "
        f"It is async: with pool={count} they overlap"
        for worker, count in waiting_in_line(subtasks, rows)
        if worker in only
    ]


def waiting_in_line(subtasks: list[Subtask], rows: Catalogue) -> list[tuple[str, int]]:
    """Return the async workers that have several subtasks at the same time and take one, with how many."""
    having = Counter(capability for row in rows for capability in row.capabilities)
    only = {capability: row.id for row in rows for capability in row.capabilities if having[capability] == 1}
    alone = {row.id for row in rows if row.is_async and row.size == 1}
    at_once = Counter(one.worker or only.get(one.capability or "", "") for one in subtasks if not one.depends_on)
    return [(worker, count) for worker, count in at_once.items() if worker in alone and count > 1]
