"""Checks of a plan before anything of it runs: what refuses it, and what is only doubtful.

It gets a plan and the rows of all workers, and returns problems and warnings. The functions are pure, except that a
worker's ``estimate=`` and a module named by ``undo=`` are user code, which is called or imported here.
"""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from actors.model.errors import Problem
from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.task import METADATA_CHARS, Budget, Plan, Subtask, by_id, instructed, metadata_size
from actors.tasks.planning.estimates import EstimateError, estimate_of, exceedances, total_of
from actors.tasks.planning.keyword import clauses, name_stems, refers_back, stems
from actors.validation.introspection import binds, signature_of
from actors.validation.validation_messages import nearest, type_phrase, value_phrase

_MOST_LISTED: Final = 20
_MOST_PROBLEMS: Final = 50
_LINE: Final = 3
"""Subtasks in a row from which a line is looked at."""
_MOST_READ: Final = 10_000
"""Characters of a goal or an instruction that are read for warnings."""


def check_plan(
    plan: Plan,
    rows: Catalogue,
    *,
    at: str,
    max_subtasks: int,
    budget: Budget | None = None,
    ancestry: tuple[str, ...] = (),
    goal: str = "",
    is_again: bool = False,
    done: Mapping[str, Subtask] = MappingProxyType({}),
    metadata: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[list[Problem], list[str]]:
    """Compare a plan with the workers, and return all its problems (at most 51) and its warnings.

    Args:
        plan: as the planner has made it.
        rows: all workers, parked ones as well.
        at: beginning of the paths of the problems, such as ``task t-1``.
        max_subtasks: more subtasks are a problem.
        budget: what the whole task may use. None: no limit.
        ancestry: paths of the workers that wait for this task. None of them can be given a part of it.
        goal: of the task. Subtasks without an instruction have it.
        is_again: whether the task had a plan before. Then the plan is not compared with the whole goal.
        done: subtasks of an earlier plan that are done, by id. The plan may depend on them.
        metadata: of the task.
    """
    subtasks = resolved_plan(plan, rows).subtasks
    able: dict[str, list[ExecutableInfo]] = {}
    for row in rows:
        for capability in row.capabilities:
            able.setdefault(capability, []).append(row)
    facts = _Facts(at, subtasks, {row.id: row for row in rows}, able, ancestry, goal, done, metadata)
    problems = list(islice(_problems(facts, max_subtasks, budget), _MOST_PROBLEMS + 1))
    if len(problems) > _MOST_PROBLEMS:
        problems[-1] = Problem(at, "there are more problems", "Correct these first.")
    return problems, _warnings(subtasks, rows, "" if is_again else goal[:_MOST_READ])


def resolved_plan(plan: Plan, rows: Catalogue) -> Plan:
    """Return the plan with the worker or capability of each subtask filled in that is only called like one."""
    workers = {row.id for row in rows}
    able = {capability for row in rows for capability in row.capabilities}
    named = {
        one.id: {"worker" if one.id in workers else "capability": one.id}
        for one in plan.subtasks
        if one.worker is None and one.capability is None and one.id in workers | able
    }
    return Plan([one.model_copy(update=named.get(one.id)) for one in plan.subtasks]) if named else plan


# -- problems ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a plan is compared with."""

    at: str
    subtasks: list[Subtask]
    workers: dict[str, ExecutableInfo]
    able: dict[str, list[ExecutableInfo]]
    ancestry: tuple[str, ...]
    goal: str
    done: Mapping[str, Subtask]
    metadata: Mapping[str, Any]

    def candidates(self, subtask: Subtask) -> list[ExecutableInfo]:
        """Return the workers that may do a subtask."""
        if subtask.worker is not None:
            return [self.workers[subtask.worker]] if subtask.worker in self.workers else []
        return self.able.get(subtask.capability or "", [])


def _problems(facts: _Facts, max_subtasks: int, budget: Budget | None) -> Iterator[Problem]:
    at, count = facts.at, len(facts.subtasks)
    if not count:
        yield Problem(at, "the plan has no subtasks", "Give at least one.")
    if count > max_subtasks:
        what = f"the plan has {count} subtasks, at most {max_subtasks} are accepted"
        yield Problem(at, what, "Combine some of them, or raise Tasks(max_subtasks=...).")
    for name, times in Counter(subtask.id for subtask in facts.subtasks).items():
        if times > 1:
            yield Problem(f"{at}/{name}.id", f"{times} subtasks have the id {name!r}", "Give each an id of its own.")
    known = {*facts.done, *(subtask.id for subtask in facts.subtasks)}
    for subtask in facts.subtasks:
        for part, what, hint in _wrong_with(subtask, facts, known):
            yield Problem(f"{at}/{subtask.id}{part and f'.{part}'}", what, hint)
    yield from _cycles(facts)
    yield from _costs(facts, budget)


def _wrong_with(subtask: Subtask, facts: _Facts, known: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield a field of a subtask, what is wrong with it, and what to do."""
    yield from _who(subtask, facts)
    paths = [row.path for row in facts.candidates(subtask)]
    if paths and all(path in facts.ancestry for path in paths):
        chain = (*facts.ancestry[facts.ancestry.index(paths[0]) :], paths[0])
        part = "worker" if subtask.worker is not None else "capability"
        what = f"{' > '.join(chain)}: {paths[0]!r} would wait for itself"
        yield part, what, "Give it to a worker that does not wait for this task."
    for name in dict.fromkeys(subtask.depends_on):
        if name == subtask.id:
            yield "depends_on", "depends on itself", "Leave its own id out."
        elif name not in known:
            hint = nearest(name, known).strip() or "Name the id of a subtask of this plan."
            yield "depends_on", f"there is no subtask {value_phrase(name)}", hint
    if subtask.undo is not None and subtask.undo not in facts.workers:
        yield from _undo(subtask.undo, facts.workers)
    size = metadata_size({**facts.metadata, **subtask.metadata}) if subtask.metadata else 0
    if size > METADATA_CHARS:
        what = f"is {size:,} characters of JSON with that of the task, more than {METADATA_CHARS:,}"
        yield "metadata", what, "Give it less; inputs= takes what is large."


def _who(subtask: Subtask, facts: _Facts) -> Iterator[tuple[str, str, str]]:
    worker, capability = subtask.worker, subtask.capability
    if worker is None and capability is None:
        hint = f"Its id is neither that of a worker nor a capability. {_known(subtask.id, facts.workers)}"
        yield "", "names neither a worker nor a capability", hint
    row = facts.workers.get(worker or "")
    if worker is not None and row is None:
        yield "worker", f"there is no worker {value_phrase(worker)}", _known(worker, facts.workers)
    if capability is not None and capability not in facts.able:
        yield "capability", f"no worker has capability {value_phrase(capability)}", _known(capability, facts.able)
    elif row is not None and capability is not None and capability not in row.capabilities:
        hint = f"It has: {_some(row.capabilities)}. Name another worker, or leave one of the two out."
        yield "worker", f"{row.id!r} does not have capability {value_phrase(capability)}", hint
    if row is None or row.tools is None:
        return
    tools = [each.name for each in row.tools]
    if subtask.tool is not None and subtask.tool not in tools:
        yield "tool", f"{row.id!r} has no tool {value_phrase(subtask.tool)}", _known(subtask.tool, tools)
    elif subtask.tool is None and len(tools) > 1 and capability not in tools:
        yield "tool", f"{row.id!r} has several tools, and the subtask names none", f"Name one of: {_some(tools)}."


def _known(word: str, names: Collection[str]) -> str:
    return f"{nearest(word, names)}Known: {_some(names)}."


def _some(names: Collection[str]) -> str:
    first = ", ".join(sorted(names)[:_MOST_LISTED])
    return (f"{first} and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else first) or "nothing"


def _undo(name: str, workers: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield why a subtask cannot be undone by what it names: no worker, and no function that can be imported."""
    if ":" not in name:
        yield "undo", f"there is no worker {value_phrase(name)}", f"{_known(name, workers)} Or write 'module:attr'."
        return
    try:
        found = pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything when it is imported
        what = f"{value_phrase(name)} cannot be imported ({type(error).__name__})"
        yield "undo", what, "Correct it: 'module:attr', or a worker."
        return
    hint = "Name a function of (task, result, context)."
    signature = signature_of(found) if callable(found) else None
    if not callable(found):
        yield "undo", f"{value_phrase(name)} is {type_phrase(found)}, which cannot be called", hint
    elif signature is not None and not binds(signature, None, None, None):
        yield "undo", f"{value_phrase(name)} cannot be called with (task, result, context)", hint


def _cycles(facts: _Facts) -> Iterator[Problem]:
    """Yield one problem for each knot of subtasks that wait for each other.

    Subtasks that are done count as well: one may have been done without a subtask that failed and is planned again.
    """
    specs = [*facts.subtasks, *facts.done.values()]
    needs: dict[str, set[str]] = {subtask.id: set() for subtask in specs}
    for subtask in specs:
        needs[subtask.id] |= needs.keys() & set(subtask.depends_on) - {subtask.id}
    place = {name: n for n, name in enumerate(needs)}
    while True:
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            knot: list[str] = error.args[1][:0:-1]  # backwards: each depends on the next
        else:
            return
        first = knot.index(min(knot, key=place.__getitem__))
        around = [*knot[first:], *knot[: first + 1]]
        names = " > ".join(around if len(around) <= _MOST_LISTED else [*around[:_MOST_LISTED], "..."])
        hint = "Leave out the dependency whose result is not needed."
        yield Problem(f"{facts.at}/{around[0]}.depends_on", f"a cycle: {names}, each depends on the next", hint)
        for name in knot:
            needs[name] = set()


def _costs(facts: _Facts, budget: Budget | None) -> Iterator[Problem]:
    """Yield estimates that are over the budget of a subtask, or together over that of the task."""
    estimates = []
    for subtask in facts.subtasks:
        rows = [row for row in facts.candidates(subtask) if row.estimate is not None]
        row = next((row for row in rows if row.is_available), rows[0] if rows else None)
        try:
            estimate = estimate_of(instructed(subtask, facts.goal), row)
        except EstimateError as error:
            hint = "Give a number of tokens, a Budget, or a function of the subtask that returns one of them."
            yield Problem(f"{facts.at}/{subtask.id}.estimate", str(error), hint)
            continue
        if estimate is not None:
            estimates.append(estimate)
            for what in exceedances(estimate, subtask.budget):
                yield Problem(f"{facts.at}/{subtask.id}.budget", what, "Give it more, or less to do.")
    for what in exceedances(total_of(estimates), budget):
        hint = "Plan fewer or cheaper subtasks, or give the task a larger budget."
        yield Problem(f"{facts.at}.budget", f"all subtasks together: {what}", hint)


# -- warnings ----------------------------------------------------------------------------------------------------


def _warnings(subtasks: list[Subtask], rows: Catalogue, goal: str) -> list[str]:
    found = [] if any(one.after for one in clauses(goal)) else _needless_lines(subtasks)
    if len(subtasks) == 1 and goal:
        found += _all_in_one(subtasks[0], rows, goal)
    for worker, count in waiting_in_line(subtasks, rows):
        if any(row.id == worker and row.is_only for row in rows):
            found.append(
                f"{count} subtasks that do not need each other wait in line for {worker}, which takes one at a time. "
                f"It is async: with pool={count} they overlap"
            )
    return found


def waiting_in_line(subtasks: list[Subtask], rows: Catalogue) -> list[tuple[str, int]]:
    """Return the async workers that have several subtasks at the same time and take one, with how many."""
    having = Counter(capability for row in rows for capability in row.capabilities)
    only = {capability: row.id for row in rows for capability in row.capabilities if having[capability] == 1}
    alone = {row.id for row in rows if row.is_async and row.size == 1}
    at_once = Counter(one.worker or only.get(one.capability or "", "") for one in subtasks if not one.depends_on)
    return [(worker, count) for worker, count in at_once.items() if worker in alone and count > 1]


def _all_in_one(only: Subtask, rows: Catalogue, goal: str) -> list[str]:
    """Warn if one subtask has the whole goal, though the goal names other workers as well."""
    said = {word for clause in clauses(goal) if clause.is_work for word in clause.words}
    named = {
        row.id: {word for name in (row.id, *row.capabilities) if name_stems(name) <= said for word in name_stems(name)}
        for row in rows
    }
    own = named.get(only.worker or "", name_stems(only.capability or "") & said)
    others = [worker for worker, words in named.items() if worker != only.worker and words - own]
    if not others or (len(others) == 1 and not own):
        return []
    return [f"one subtask ({only.id}) for everything, although the goal speaks of {_some(others)} too"]


def _needless_lines(subtasks: list[Subtask]) -> list[str]:
    """Warn of subtasks that run one after the other, though no instruction speaks of the one before it."""
    known = by_id(subtasks)
    needed = Counter(name for one in known.values() for name in set(one.depends_on))
    following: dict[str, str] = {}
    for one in known.values():
        before = known.get(one.depends_on[0]) if len(one.depends_on) == 1 else None
        if before is not None and before is not one and needed[before.id] == 1 and _is_silent(one, before):
            following[before.id] = one.id
    found = []
    for line in [[name] for name in following if name not in following.values()]:
        while line[-1] in following:
            line.append(following[line[-1]])
        if len(line) >= _LINE:
            names = " > ".join(line[:_MOST_LISTED])
            found.append(f"{names} run one after the other, though none mentions the one before it; do they need to?")
    return found


def _is_silent(one: Subtask, before: Subtask) -> bool:
    """Whether a subtask says what it is about, and speaks of the one before neither by name nor as ``it``."""
    said = [one.instruction, *one.inputs, *(each for each in one.inputs.values() if isinstance(each, str))]
    text = "\n".join(each[:_MOST_READ] for each in said)
    names = {before.id, before.worker, before.capability} - {None, one.worker, one.capability}
    words = set(stems(text, light=True))
    speaks = refers_back(text) or any(name_stems(str(name)) <= words for name in names)
    return bool(text.strip()) and not (speaks or one.undo or before.undo)
