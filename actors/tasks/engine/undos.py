"""Undos: effects that are void are undone one after the other, by code or by a worker, as it was declared."""

from __future__ import annotations

import pkgutil
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.model.errors import Failed
from actors.tasks.decide import attempt as of_attempt
from actors.tasks.decide.undo import next_effect
from actors.tasks.engine.making import attempt_beside, context_values, idempotency_key, own_revision
from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.detached_call import DetachedCall
from actors.tasks.execution.off_loop import called
from actors.tasks.journal.course import Course
from actors.tasks.journal.unit import Effect, Unit
from actors.tasks.model import (
    AttemptLostError,
    Done,
    Failure,
    FailureKind,
    NoCapableWorkerError,
    SubtaskStatus,
    task_events,
)

if TYPE_CHECKING:
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.engine.scope import Scope
    from actors.tasks.scheduling.worker_registry import RegistryEntry


class Undos:
    """Undos of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def go_on(self, run: Run, course: Course) -> None:
        """Undo the next effect."""
        undo, engine = course.undoing, self._engine
        if undo is None:
            found = next_effect(run.state, course)
            if found is not None:
                self._begin(run, course, found.unit, found, 1)
            return
        if undo.question is not None or engine.roles.is_live(run, undo) or undo in run.paused:
            return
        if undo.status is SubtaskStatus.RETRYING and undo.due is not None and undo.due > engine.now:
            run.at(undo.due, run.state.touch, undo)
            return
        is_again = undo.status in {SubtaskStatus.RETRYING, SubtaskStatus.WAITING}
        assert undo.above is not None and undo.undoes is not None  # noqa: S101, PT018 - an undo has both
        self._begin(run, course, undo.above, undo.undoes, undo.attempt + is_again)

    def _begin(self, run: Run, course: Course, unit: Unit, effect: Effect, number: int) -> None:
        engine, own, before = self._engine, self._engine.scope_of(unit), unit.undo
        scope = own if own is not None else engine.scope
        if not engine.begun or engine.closing or run.has_left:
            return
        if not engine.roles.has_slot(run, course.unit, scope):
            return
        if before is not None and before.undoes is effect and before.losses >= scope.settings.max_losses:
            lost = AttemptLostError(unit.id, before.losses, "undo of subtask")
            self._fails(run, before, Failure(FailureKind.LOST, lost, retryable=False))
            return
        run.emit(unit, task_events.Compensating, effect.worker, effect.epoch, number)
        undo = unit.undo
        assert undo is not None  # noqa: S101 - the record has just made it
        by = _undoer(scope, unit, effect) if own is not None else f"{unit.scope}, whose worker did it, is gone"
        if isinstance(by, str):
            hint = f"{by}; when it is back, Approve() has it undone"
            nobody = NoCapableWorkerError((f"the undo of {unit.id}",), task=run.id, hint=hint)
            self._fails(run, undo, Failure(FailureKind.NOBODY, nobody), began=False)
            return
        worker = effect.worker if isinstance(by, partial) else by.id
        values = context_values(run.state, unit)._replace(
            number=undo.attempt,
            idempotency_key=idempotency_key(run.state, undo),
            results={unit.id: effect.result},
            revision=own_revision(undo),
        )
        attempt = Attempt(attempt_beside(engine, run, undo, scope, worker, unit.spec, values))
        entry = None
        if isinstance(by, partial):
            DetachedCall(attempt, by)
        else:
            entry = by
            attempt.target = by.any_box()
        engine.attempts.begin(run, attempt, entry, rank=run.state.task.priority)

    def _fails(self, run: Run, undo: Unit, failure: Failure, *, began: bool = True, **more: Any) -> None:
        end = of_attempt.AttemptEnd(undo.worker or "", began=began, **more)
        run.record(of_attempt.failed(undo, failure, end, self._engine.facts(run, undo)))

    def ended(self, run: Run, undo: Unit, attempt: Attempt, outcome: Done | Failure) -> None:
        """An undo has ended."""
        if isinstance(outcome, Done):
            run.record(of_attempt.undone(undo))
        else:
            self._fails(run, undo, outcome, usage=attempt.take_used())


def _undoer(scope: Scope, unit: Unit, effect: Effect) -> partial[Any] | RegistryEntry | str:
    """Find the code that undoes an effect, or the worker; a text that says who is gone, where that is nobody."""
    entry = scope.workers.get_including_removed(effect.worker, is_team=effect.is_team)
    declared: Any = unit.spec.undo
    if declared is None and entry is not None:
        declared = entry.executable.undo
    if declared is None:
        return f"{effect.worker!r}, which knew how to undo it, is gone"
    if not isinstance(declared, str) or ":" in declared:
        return partial(_undo, declared, unit.id)
    by = scope.workers.get(declared)
    return by if by is not None and not by.is_gone else f"{declared!r}, which is to undo it, is gone"


async def _undo(declared: Any, subtask: str, task: Any, context: Any) -> Any:
    """Call code that undoes: with the result, which it may change. What is sync is called off the loop."""
    how = partial(_imported, declared) if isinstance(declared, str) else declared
    return await called(how, task, context.results[subtask], context)


def _imported(name: str, task: Any, result: Any, context: Any) -> Any:
    """Call ``module:attr``; importing it runs code of the user's, so it is done where that runs."""
    try:
        found: Any = pkgutil.resolve_name(name)
    except Exception as error:
        said = f"{name!r}, which is to undo it, could not be imported: {type(error).__name__}"
        raise Failed(said, retryable=False) from error
    return found(task, result, context)
