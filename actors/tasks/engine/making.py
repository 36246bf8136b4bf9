"""Makes the specification of an attempt from the state of its unit."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from actors.tasks.execution.attempt import AttemptSpec
from actors.tasks.execution.context import NO_REVISION, ContextValues, Revision
from actors.tasks.execution.packing import NO_NOTES, Note, Notes
from actors.tasks.journal.unit import Unit
from actors.tasks.model import SUCCEEDED, Subtask, answer_of
from actors.tasks.scheduling.selection import chain_of, lineage_of

if TYPE_CHECKING:
    from actors.messaging.envelope import Address
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.engine.scope import Scope
    from actors.tasks.journal.fold import TaskState
    from actors.tasks.scheduling.worker_registry import RegistryEntry


def key_of(run: Run, unit: Unit) -> str:
    """Return the key of the present attempt of a unit: in every engine, and in every process, the same."""
    return f"{run.id}@{unit.path}#{unit.epoch}.{unit.attempt}"


def idempotency_key(state: TaskState, unit: Unit) -> str:
    """Return the key of the effect of a unit: the same however often it has to be tried."""
    return f"{state.id}@{unit.path}:{unit.epoch}"


def attempt_of_work(engine: Engine, run: Run, unit: Unit, scope: Scope, entry: RegistryEntry) -> AttemptSpec:
    """Specify the attempt of a subtask whose start was recorded last."""
    state, spec, executable, epoch = run.state, unit.spec, entry.executable, engine.service.epoch
    ask = engine.asks.of(run, unit) if unit.asker is not None else None
    due = None if state.deadline is None else state.deadline - epoch
    for each in unit.over:
        if each.due is not None and (due is None or each.due - epoch < due):
            due = each.due - epoch
    if ask is not None and ask.due is not None and (due is None or ask.due < due):
        due = ask.due
    variables = ask.variables if ask is not None else None  # else those of its task
    return AttemptSpec(
        key_of(run, unit),
        scope,
        state.id,
        spec,
        entry.id,
        f"{unit.scope}/{entry.id}",
        context_values(state, unit),
        _who_waits(scope, state, unit),
        lineage_of(state, unit),
        due,
        spec.timeout_s if spec.timeout_s is not None else executable.timeout_s,
        idle_timeout_s=spec.idle_timeout_s if spec.idle_timeout_s is not None else executable.idle_timeout_s,
        start_number=unit.seq,
        hops=state.hops,
        priority=state.task.priority,
        preemptible=entry.is_async and _is_preemptible(spec, entry),
        unit=unit.path,
        adapter=entry.adapter,
        variables=variables if variables is not None else engine.service.variables_of(state, unit),
        steps=dict(unit.steps),
        was_put_off=unit.was_put_off,
    )


def attempt_beside(
    engine: Engine,
    run: Run,
    unit: Unit,
    scope: Scope,
    worker: str,
    subtask: Subtask,
    values: ContextValues,
    **more: Any,
) -> AttemptSpec:
    """Specify a call of a planner, reviewer or synthesizer, or of an undo, whose start was recorded last.

    Args:
        engine: which calls it.
        run: of its task.
        unit: the call, or the undo.
        scope: whose settings hold for it.
        worker: who does it.
        subtask: what it is told to do.
        values: what its code is to see.
        more: fields of the specification.
    """
    state, above = run.state, unit.above or unit
    of = above if unit.role == "undo" else unit
    return AttemptSpec(
        key_of(run, unit),
        scope,
        state.id,
        subtask,
        worker,
        f"{scope.path}/{worker}",
        values,
        _who_waits(scope, state, of),
        lineage_of(state, of),
        timeout_s=scope.settings.step_timeout_s,
        start_number=unit.seq,
        role=unit.role,  # type: ignore[arg-type]  # a task has no attempts
        unit=above.path,
        variables=engine.service.variables_of(state, above),
        **more,
    )


def _who_waits(scope: Scope, state: TaskState, unit: Unit) -> tuple[Address, ...]:
    """Return the addresses of those who wait for a unit, the first asker first, those in other trees too."""
    own = scope.addresses(chain_of(state, unit))
    waits = scope.service.waiting_for.get(state.id)
    return own if not waits else tuple(dict.fromkeys([*itertools.chain(*waits), *own]))


def seen_by(state: TaskState, unit: Unit) -> tuple[dict[str, Any], dict[str, Any], Notes]:
    """Return inputs, results and notes on these that a unit sees: its own, and beside them those of its teams."""
    inputs, results, done = state.task.inputs, dict[str, Any](), list[Unit]()
    for each in reversed(unit.line):
        spec, above = each.spec, each.above
        if each.role != "work" or above is None or above.course is None:
            continue
        if spec.inputs:
            inputs = inputs | spec.inputs
        for id_ in spec.depends_on:
            needed = above.course.units[id_]
            if needed.status is SUCCEEDED:
                results[id_] = needed.value
                done.append(needed)
    return inputs, results, notes_of(done) if done else NO_NOTES


def context_values(state: TaskState, unit: Unit) -> ContextValues:
    """Return what the code of an attempt is to see."""
    above, (inputs, results, notes) = unit.above, seen_by(state, unit)
    return ContextValues(
        state.task.goal,
        unit.attempt,
        idempotency_key(state, unit),
        inputs,
        results,
        unit.metadata,
        revision_of(unit),
        above.spec.instruction if above is not None and above.role == "work" else "",
        notes,
    )


def notes_of(units: Iterable[Unit]) -> Notes:
    """Return what is known of the results of these subtasks beside their values."""
    return {
        unit.id: Note(unit.summary, unit.importance, unit.passed)
        for unit in units
        if unit.summary or unit.importance is not None or unit.passed
    }


def own_revision(unit: Unit) -> Revision:
    """Return what was done and said before about a unit."""
    if unit.is_new:
        return NO_REVISION
    said = unit.remarks
    answers = tuple(answer_of(each.answer, each.value) for each in said.answers)
    work = unit.value, unit.state_for(unit.worker)
    return Revision(said.number, said.feedback, said.earlier, *work, answers, unit.answer_to_state)


def revision_of(unit: Unit) -> Revision:
    """Join what was done and said before about a unit with what was about the teams that it is in."""
    own = own_revision(unit)
    above = unit.above
    if above is None or above.role != "work" or above.is_new:
        return own
    outer = revision_of(above)
    before = (outer.feedback,) if own.feedback and outer.feedback else ()
    previous = own.previous if own.previous is not None else outer.previous
    return Revision(
        outer.number + own.number,
        own.feedback or outer.feedback,
        (*outer.history, *before, *own.history),
        previous,
        own.state,
        outer.answers + own.answers,
        own.answer,
    )


def _is_preemptible(spec: Subtask, entry: RegistryEntry) -> bool:
    """Return True if an attempt may be interrupted. What has an undo may not, unless its plan says so."""
    has_undo = spec.undo is not None or entry.executable.undo is not None
    return spec.preemptible and (not has_undo or "preemptible" in spec.model_fields_set)
