"""The part of the fold that has to do with steps: planning, reviewing, combining, and undoing.

A task has at most one of these under way. It was begun where its start is recorded and its end is not; a process that
ends then has perhaps died of it, so such ends are counted, up to the next end of the step that is its own.

Part of the fold (``actors.tasks.journal.task_state``). Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from actors.tasks.journal.reopening import revise
from actors.tasks.journal.subtask_state import LOST, act_of
from actors.tasks.model import task_events
from actors.tasks.model.task import SubtaskStatus

if TYPE_CHECKING:
    from actors.tasks.journal.task_state import TaskState


def step_over(state: TaskState) -> None:
    """A step has come to an end of its own, or is wanted no longer."""
    state.step, state.step_losses = "", 0


def _started(state: TaskState, event: task_events.StepStarted) -> None:
    state.step = event.step


def _put_back(state: TaskState, event: task_events.StepPutBack) -> None:
    state.step = ""
    state.step_losses += event.reason == LOST


def _reviewed(state: TaskState, event: task_events.Reviewed) -> None:
    step_over(state)
    state.iterations = event.iteration
    state.best_effort |= event.best_effort
    state.usage += event.usage
    if event.error:
        state.notes.append(f"reviewer: {event.error}")
    state.reviewed = not event.rerun
    if event.rerun:
        revise(state, event.rerun)
    state.phase = "running"


def _synthesized(state: TaskState, event: task_events.Synthesized) -> None:
    step_over(state)
    state.output, state.combined, state.uncombined = event.output, True, bool(event.error)
    state.usage += event.usage
    if event.error:
        state.notes.append(f"synthesizer: {event.error}")
        state.best_effort = True


def _compensating(state: TaskState, event: task_events.Compensating) -> None:
    node = state.nodes[event.subtask]
    state.phase, state.step = "undoing", "undo"
    node.undo_attempt, node.due, node.answered = event.attempt, None, None
    node.compensating = act_of(node, event.worker, event.act)
    state.undoing = node.id


def _undo_retrying(state: TaskState, event: task_events.CompensationRetrying) -> None:
    step_over(state)
    node = state.nodes[event.subtask]
    node.undo_attempt, node.due = event.attempt, event.due


def _compensated(state: TaskState, event: task_events.Compensated) -> None:
    step_over(state)
    node = state.nodes[event.subtask]
    act = act_of(node, event.worker, event.act)
    if act is not None:
        act.undone, act.stands = not event.error, bool(event.error)
    state.undoing = None
    node.compensating, node.undo_attempt, node.due, node.answered = None, 0, None, None
    if event.error:
        state.undo_errors[node.id] = event.error
        return
    if not event.nothing and not any(act.needs_compensation for act in node.acts or ()):
        if node.status is SubtaskStatus.SUCCEEDED:  # else it stays what it is: the report says how it failed
            node.status = SubtaskStatus.COMPENSATED
        if node.id not in state.compensated and node.id not in state.undo_errors:
            state.compensated.append(node.id)


APPLY_STEPS: Final[dict[type[task_events.TaskEvent], Callable[[TaskState, Any], None]]] = {
    task_events.StepStarted: _started,
    task_events.StepPutBack: _put_back,
    task_events.Reviewed: _reviewed,
    task_events.Synthesized: _synthesized,
    task_events.Compensating: _compensating,
    task_events.CompensationRetrying: _undo_retrying,
    task_events.Compensated: _compensated,
}
