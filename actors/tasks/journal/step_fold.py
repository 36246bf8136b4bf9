"""The part of the fold that has to do with steps: planning, reviewing, combining, and undoing.

A task has at most one of these under way. A reviewer's verdict makes results void, and a failed subtask makes what it
may have done void: what is void is undone first (``rework``), and runs again once ``ReworkBegun`` says that it is.

A step was begun where its start is recorded and its end is not; a process that ends then has perhaps died of it, so
such ends are counted, up to the next end of the step that is its own.

Part of the fold (``actors.tasks.journal.task_state``). Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from actors.tasks.journal.questions import Escalation
from actors.tasks.journal.reopening import revise
from actors.tasks.journal.stage_state import Rework, StageState
from actors.tasks.journal.subtask_state import LOST, act_of
from actors.tasks.model import task_events
from actors.tasks.model.step_events import ROLES
from actors.tasks.model.task import NO_USAGE, SUCCEEDED, SubtaskStatus, Usage

if TYPE_CHECKING:
    from actors.tasks.journal.task_state import TaskState


def step_over(state: TaskState) -> None:
    """A step has come to an end of its own, or is wanted no longer."""
    state.step, state.step_losses = "", 0


def spend(state: TaskState, step: str, usage: Usage) -> None:
    """Count what a call of a planner, a reviewer or a synthesizer has used up, or a worker (``work``)."""
    if usage is not NO_USAGE:
        role = step if step in ROLES else "work"
        state.usage += usage
        state.used_by[role] = state.used_by.get(role, NO_USAGE) + usage


def _started(state: TaskState, event: task_events.StepStarted) -> None:
    state.step = event.step


def _put_back(state: TaskState, event: task_events.StepPutBack) -> None:
    state.step = ""
    state.step_losses += event.reason == LOST


def end_steps(state: TaskState) -> None:
    """The task is ending: it wants no step any longer, and no answer about one. An undo that is under way goes on."""
    if state.step != "undo":
        step_over(state)
    state.rework = state.stage.answered = None
    for id_ in [escalation.id for escalation in state.escalations.values() if escalation.step]:
        del state.escalations[id_]


def _retrying(state: TaskState, event: task_events.StepRetrying) -> None:
    step_over(state)
    spend(state, event.step, event.usage)
    state.stage.fails(event.step, event.error, event.number, event.due)


def _failed(state: TaskState, event: task_events.StepFailed) -> None:
    step_over(state)
    spend(state, event.step, event.usage)
    state.stage.fails(event.step, event.error, event.number, None)


def _review_refused(state: TaskState, event: task_events.ReviewRefused) -> None:
    step_over(state)
    spend(state, "review", event.usage)
    state.stage.is_refused("\n".join(map(str, event.problems)))


def _reviewed(state: TaskState, event: task_events.Reviewed) -> None:
    step_over(state)
    _review_over(state.stage, event)
    state.iterations = max(state.iterations, event.iteration)
    state.best_effort |= event.best_effort
    spend(state, "review", event.usage)
    if event.error:
        state.notes.append(f"reviewer: {event.error}")
    if event.checks and event.best_effort:
        state.notes.append(f"review: not passed: {event.checks}")
    if not event.error and (event.passed or event.rerun):
        for id_ in event.subtasks or state.nodes:
            node = state.nodes[id_]
            node.passed = node.passed or (node.status is SUCCEEDED and id_ not in {*event.rerun, *event.rejected})
    open_ = {} if event.best_effort else dict.fromkeys(event.rejected, event.checks)
    if state.review.each:
        _reviewed_each(state, event, open_)
    else:
        state.review.rejected, state.reviewed = open_, not event.rerun and not open_
    if event.rerun and event.undo_first:
        state.rework = Rework("revision", dict(event.rerun))
    elif event.rerun:
        revise(state, event.rerun)
    state.phase = "running"


def _review_over(stage: StageState, event: task_events.Reviewed) -> None:
    """A review has ended, or a person's word on rejected results is carried out.

    With ``review="each"`` a person may answer about some while others are being reviewed: the end of that review takes
    nothing from the answer, and the answer nothing from a review that has failed meanwhile.
    """
    about = stage.has_answer_about
    is_of_others = bool(about and event.subtasks) and set(about).isdisjoint(event.subtasks)
    if not about or is_of_others:
        stage.ends()
    if not is_of_others:
        stage.settle()


def _reviewed_each(state: TaskState, event: task_events.Reviewed, rejected: dict[str, str]) -> None:
    for id_ in event.subtasks:
        node = state.nodes[id_]
        node.reviews += 1
        state.review.forget(id_)
        if id_ in rejected:
            state.review.rejected[id_] = rejected[id_]
        elif id_ not in event.rerun:
            state.passes(node)


def _rework_begun(state: TaskState, _: task_events.ReworkBegun) -> None:
    rework, state.rework = state.rework, None
    if rework is not None and rework.kind == "revision":
        revise(state, rework.rerun)


def _replanning(state: TaskState, event: task_events.Replanning) -> None:
    state.replans, state.phase = event.number, "replanning"
    state.refusals, state.refusal = 0, None
    state.stage = StageState(state.stage.calls)
    state.rework = Rework("replan", {})


def _synthesized(state: TaskState, event: task_events.Synthesized) -> None:
    step_over(state)
    state.stage.ends()
    state.stage.settle()
    state.output, state.combined, state.uncombined = event.output, True, bool(event.error)
    spend(state, "combine", event.usage)
    if event.error:
        state.notes.append(f"synthesizer: {event.error}")
        state.best_effort = True


def _escalated(state: TaskState, event: task_events.StepEscalated) -> None:
    state.raised += 1
    state.escalations[event.escalation] = Escalation(event)


def _answered(state: TaskState, event: task_events.StepAnswered) -> None:
    stage, question = state.stage, state.escalations.pop(event.escalation)
    stage.asked = question.subtasks
    if not question.subtasks and event.answer in {"approve", "respond"}:
        stage.failed, stage.vouched, stage.refused = "", event.answer == "approve", 0
        stage.feedback = "" if stage.vouched else str(event.value)
    else:
        stage.answered = event


def _unanswered(state: TaskState, event: task_events.StepUnanswered) -> None:
    state.stage.asked = state.escalations.pop(event.escalation).subtasks
    state.stage.answered = event


def _compensating(state: TaskState, event: task_events.Compensating) -> None:
    node = state.nodes[event.subtask]
    state.step = "undo"
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
        state.compensated = [id_ for id_ in state.compensated if id_ != node.id]
        return
    if not event.nothing and node.id not in state.compensated and node.id not in state.undo_errors:
        state.compensated.append(node.id)
    # Several workers may have had a hand in it. One that declares no undo, or had done nothing, leaves nothing to undo.
    if any(act.needs_compensation and (act.undoable or node.spec.undo) for act in node.acts or ()):
        return
    if node.status is SUCCEEDED and (not event.nothing or node.id in state.compensated):
        node.status = SubtaskStatus.COMPENSATED  # else it stays what it is: the report says how it failed


APPLY_STEPS: Final[dict[type[task_events.TaskEvent], Callable[[TaskState, Any], None]]] = {
    task_events.StepStarted: _started,
    task_events.StepPutBack: _put_back,
    task_events.StepRetrying: _retrying,
    task_events.StepFailed: _failed,
    task_events.StepEscalated: _escalated,
    task_events.StepAnswered: _answered,
    task_events.StepUnanswered: _unanswered,
    task_events.ReviewRefused: _review_refused,
    task_events.Reviewed: _reviewed,
    task_events.ReworkBegun: _rework_begun,
    task_events.Replanning: _replanning,
    task_events.Synthesized: _synthesized,
    task_events.Compensating: _compensating,
    task_events.CompensationRetrying: _undo_retrying,
    task_events.Compensated: _compensated,
}
