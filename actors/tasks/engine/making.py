"""Makes attempts: everything that one is to know before it begins, from where its unit stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from actors.tasks.execution.attempt_spec import AttemptSpec
from actors.tasks.execution.attempt_steps import NO_STEPS, KnownSteps
from actors.tasks.execution.context import NO_REVISION, ContextValues, Revision, work_of
from actors.tasks.execution.packing import NO_NOTES, Note, Notes
from actors.tasks.journal.unit import Unit
from actors.tasks.model.policy import answer_of
from actors.tasks.model.task import Subtask, instructed
from actors.tasks.scheduling.selection import chain_of, lineage_of

if TYPE_CHECKING:
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.engine.scope import Scope
    from actors.tasks.journal.course import Course
    from actors.tasks.journal.fold import TaskState
    from actors.tasks.scheduling.worker_registry import RegistryEntry


def key_of(run: Run, unit: Unit) -> str:
    """Return the key of the present attempt of a unit: in every engine, and in every process, the same."""
    return f"{run.id}@{unit.path}#{unit.epoch}.{unit.attempt}"


def idempotency_key(state: TaskState, unit: Unit) -> str:
    """Return the key of the effect of a unit: the same however often it has to be tried."""
    return f"{state.id}@{unit.path}:{unit.epoch}"


def attempt_spec(engine: Engine, run: Run, unit: Unit, scope: Scope, entry: RegistryEntry | None) -> AttemptSpec:
    """Specify the attempt of a subtask that was recorded last."""
    state, spec = run.state, unit.spec
    ask = engine.asks.of(run, unit)
    executable = entry.executable if entry is not None else None
    timeout_s = spec.timeout_s if spec.timeout_s is not None or executable is None else executable.timeout_s
    ends = [state.deadline, *(each.due for each in unit.over)]
    dues = [each - engine.service.epoch for each in ends if each is not None]
    due = min([*dues, ask.due] if ask is not None and ask.due is not None else dues, default=None)
    variables = ask.variables if ask is not None else None  # else those of its task
    return AttemptSpec(
        key_of(run, unit),
        scope,
        state.id,
        instructed(spec, _goal_of(state, unit)),
        unit.worker or "",
        f"{unit.scope}/{unit.worker}",
        context_values(state, unit),
        scope.addresses(chain_of(state, unit)),
        lineage_of(state, unit),
        due,
        timeout_s,
        start_number=unit.seq,
        hops=state.hops,
        priority=state.task.priority,
        preemptible=entry is not None and _is_preemptible(spec, entry),
        unit=unit.path,
        adapter=entry.adapter if entry is not None else None,
        variables=variables if variables is not None else engine.service.variables_of(state, unit),
        steps=_known_steps(unit),
        losses=unit.losses,
        used_before=unit.in_epoch,
    )


def _goal_of(state: TaskState, unit: Unit) -> str:
    """Return what a subtask without an instruction is to do: what its team, or the task, is about."""
    above = unit.above
    return (above.spec.instruction if above is not None else "") or state.task.goal


def inputs_of(state: TaskState, unit: Unit) -> dict[str, Any]:
    """Return the inputs of a unit: those of the task, and over them those of the teams and its own."""
    found, above = dict(state.task.inputs), [each.spec.inputs for each in unit.upwards() if each.role == "work"]
    for each in reversed(above):
        found |= each
    return found


def results_for(state: TaskState, unit: Unit) -> dict[str, Any]:
    """Return the results that a unit sees: of what it depends on, and beside them those that its team was given."""
    found: dict[str, Any] = {}
    for each in reversed([each for each in unit.upwards() if each.role == "work"]):
        units = state.course_of(each).units
        for id_ in each.spec.depends_on:
            if units[id_].status == "succeeded":
                found[id_] = units[id_].value
    return found


def context_values(state: TaskState, unit: Unit) -> ContextValues:
    """Return what the code of an attempt is to see."""
    above, results = unit.above, results_for(state, unit)
    part = above.spec.instruction if above is not None and above.role == "work" else ""
    return ContextValues(
        state.task.goal,
        unit.attempt,
        idempotency_key(state, unit),
        inputs_of(state, unit),
        results,
        state.metadata_of(unit.path) if state.has_metadata else state.task.metadata,
        revision_of(unit),
        part,
        notes_for(state, unit),
    )


def notes_of(course: Course, ids: Iterable[str]) -> Notes:
    """Return what is known of the results of these subtasks beside their values."""
    units = [course.units[id_] for id_ in ids]
    return {
        unit.id: Note(unit.summary, unit.importance, unit.passed)
        for unit in units
        if unit.summary or unit.importance is not None or unit.passed
    }


def notes_for(state: TaskState, unit: Unit) -> Notes:
    """Return notes on the results that a unit sees."""
    found: dict[str, Note] = {}
    for each in reversed([each for each in unit.upwards() if each.role == "work" and each.spec.depends_on]):
        found |= notes_of(state.course_of(each), each.spec.depends_on)
    return found or NO_NOTES


def revision_of(unit: Unit) -> Revision:
    """Join what was done and said before about a unit with what was about the teams that it is in."""
    own = NO_REVISION
    if not unit.is_new:
        said = unit.remarks
        answers = tuple(answer_of(each.answer, each.value) for each in said.answers)
        work = work_of(unit.value, unit.state_for(unit.worker))
        own = Revision(said.number, said.feedback, said.earlier, work, answers, unit.answer_to_state)
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
        work_of(previous, own.state),
        outer.answers + own.answers,
        own.answer,
    )


def _known_steps(unit: Unit) -> KnownSteps:
    """Return the steps that the present attempt of a unit has done."""
    kept = unit.steps
    if kept is None or not kept.by_key:
        return NO_STEPS
    own = [key for key, step in kept.by_key.items() if not step.is_of_subtask] if kept.was_put_off else ()
    prints = {key: step.fingerprint for key, step in kept.by_key.items()}
    return KnownSteps(prints, {key: step.value for key, step in kept.by_key.items()}, frozenset(own))


def _is_preemptible(spec: Subtask, entry: RegistryEntry) -> bool:
    """True where it may be interrupted: no payment is cut in half, and a thread cannot be."""
    if not entry.is_async or not spec.preemptible:
        return False
    has_undo = spec.undo is not None or entry.executable.undo is not None
    return not has_undo or "preemptible" in spec.model_fields_set
