"""A team's part of a task that is tried again: what was done stays done, and keeps its idempotency keys.

The ladder above may try a team again after a failure or a timeout. That is the same act, so it is the same part: its
journal goes on with a ``TaskReopened``. Subtasks that are done are not done again; those that failed, were cut short or
did not run are tried anew under their old keys. What was undone meanwhile is a new act, with a new key; not so where
its undo was given up, because what it did, or may have done, stands.

So it is where a reviewer sends subtasks back; only that each of these is a new act, because its result was wrong.

Part of the fold (``actors.tasks.journal.task_state``). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.tasks.journal.subtask_state import with_dependants
from actors.tasks.model import task_events
from actors.tasks.model.task import NO_USAGE, SubtaskStatus

if TYPE_CHECKING:
    from actors.tasks.journal.task_state import TaskState


def reopen(state: TaskState, event: task_events.TaskReopened) -> None:
    """Reopen a part that is wanted once more, by another attempt than before."""
    state.task, state.deadline, state.parent = event.spec, event.deadline, event.parent
    state.chain, state.lineage, state.hops = event.chain, event.lineage, event.hops
    if state.final is None:
        return
    state.final = state.ending = state.refusal = state.output = None
    state.step, state.step_losses = "", 0
    state.paused = state.reviewed = state.combined = state.uncombined = state.best_effort = False
    state.refusals = state.iterations = 0
    state.submitted_at, state.finished_at = event.at, 0.0
    state.usage, state.running_s = NO_USAGE, 0.0  # the ladder above has counted what was used up before
    state.notes, state.compensated, state.undo_errors, state.escalations = [], [], {}, {}
    state.phase = "planning" if state.plan is None else "running"
    planned = [node for node in state.nodes.values() if node.parent is None]
    for node in state.nodes.values():
        node.counted = None
    for node in planned:
        if node.status is not SubtaskStatus.SUCCEEDED or node.was_undone:
            node.begins_anew()
    for act in [act for node in state.nodes.values() for act in node.acts or ()]:
        act.stands = False  # should it end badly once more, its undo is called once more
    for node in planned:
        node.missing = sum(not state.nodes[needed].is_done for needed in node.spec.depends_on)
        node.wanted = sum(not dependant.is_done for dependant in node.dependants)
    state.open = sum(not node.is_done for node in state.nodes.values())
    state.ready = [node for node in planned if not node.is_done and not node.missing]


def revise(state: TaskState, rerun: dict[str, str]) -> None:
    """Run these again with their feedback, and then all that had used their results."""
    again = {node.id: node for node in with_dependants(state.nodes[id_] for id_ in rerun)}
    for node in again.values():
        if node.is_done:
            state.open += 1
            for needed in node.spec.depends_on:
                state.nodes[needed].wanted += 1
        node.runs_again(rerun.get(node.id, ""), sum(needed in again for needed in node.spec.depends_on))
    state.ready += [node for node in again.values() if not node.missing]
