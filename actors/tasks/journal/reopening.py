"""A team's part of a task that is tried again: what was done stays done, and keeps its idempotency keys.

The ladder above may try a team again after a failure or a timeout. That is the same act, so it is the same part: its
journal goes on with a ``TaskReopened``. Subtasks that are done are not done again; those that failed, were cut short
or did not run are tried anew under their old keys, but for those that a person refused, or that may have been done.
What was undone meanwhile is a new act, with a new key; not so where its undo was given up, because what it did, or may
have done, stands.

So it is where a reviewer sends subtasks back; only that each of these is a new act, because its result was wrong. And
where another plan is made: what is done stays done, and what runs again in the same words keeps its key.

Part of the fold (``actors.tasks.journal.task_state``). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.tasks.journal.stage_state import StageState
from actors.tasks.journal.subtask_state import SubtaskState, with_dependants
from actors.tasks.model import task_events
from actors.tasks.model.outcome import FailureKind
from actors.tasks.model.task import NO_USAGE, SubtaskStatus, usage_of

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
    state.refusals = state.iterations = state.replans = 0
    state.review.begins_anew()
    state.stage, state.rework = StageState(state.stage.calls), None
    state.submitted_at, state.finished_at = event.at, 0.0
    state.earlier += state.usage + usage_of(0, 0.0, state.running_s)
    state.usage, state.used_by, state.running_s = NO_USAGE, {}, 0.0
    state.notes, state.compensated, state.undo_errors, state.escalations = [], [], {}, {}
    state.phase = "planning" if state.plan is None else "running"
    planned = [node for node in state.nodes.values() if node.parent is None]
    for node in state.nodes.values():
        node.counted = None
    for node in planned:
        node.reviews = 0
        has_to = node.status is not SubtaskStatus.SUCCEEDED or node.was_undone
        if has_to and not node.dropped and not (event.refused_stay and stays_ended(node)):
            node.begins_anew()
            state.review.waiting.pop(node.id, None)
    _let_undo_again(state)  # should it end badly once more
    _count(state)


def stays_ended(node: SubtaskState) -> bool:
    """Return True for what nobody does again: a person said no to it, or it may have been done and was not undone."""
    is_for_good = node.kind in {FailureKind.DENIED, FailureKind.IN_DOUBT}
    return node.status is SubtaskStatus.FAILED and is_for_good and not node.was_undone


def undone_once_more(state: TaskState) -> None:
    """The undo of a part, which had failed, is called once more: so is what could not be undone."""
    state.undo_errors = {}
    _let_undo_again(state)


def _let_undo_again(state: TaskState) -> None:
    for act in [act for node in state.nodes.values() for act in node.acts or ()]:
        act.stands = False


def replan(state: TaskState, event: task_events.Planned) -> None:
    """Go on with another plan: what is done is kept; what it names anew runs, what it does not name is left out.

    A subtask that the new plan has in the same words is the same act, under its old key, unless it was undone. One of
    the same id in other words is another piece of work: no feedback, answer or result of the former one is about it.
    """
    old, kept = state.nodes, frozenset(event.kept)
    specs = {spec.id: spec for spec in event.plan.subtasks}
    for node in old.values():
        if node.parent is None and node.id not in specs:
            node.dropped, node.dependants = True, ()
    for id_, spec in specs.items():
        known = old.get(id_)
        node = old[id_] = known or SubtaskState(spec)
        if known is not None and id_ not in kept:
            if spec == node.spec:
                node.begins_anew()
                node.dropped = False
            else:
                node.becomes(spec)
    _count(state)


def _count(state: TaskState) -> None:
    """Find anew what waits for what."""
    planned = [node for node in state.nodes.values() if node.parent is None and not node.dropped]
    dependants: dict[str, list[SubtaskState]] = {node.id: [] for node in planned}
    for node in planned:
        for needed in node.spec.depends_on:
            if needed in dependants:
                dependants[needed].append(node)
        node.missing = sum(not state.is_settled(state.nodes[needed]) for needed in node.spec.depends_on)
    for node in planned:
        node.dependants = dependants[node.id]
        node.wanted = sum(not dependant.is_done for dependant in node.dependants)
    state.open = sum(not node.is_done for node in state.nodes.values())
    state.ready = [node for node in planned if not node.is_done and not node.missing]
    state.barred = [node for node in planned if not node.is_done and barring(state, node) is not None]


def revise(state: TaskState, rerun: dict[str, str]) -> None:
    """Run these again with their feedback, and then all that had used their results."""
    again = {node.id: node for node in with_dependants(state.nodes[id_] for id_ in rerun)}
    for id_ in _still_skipped(state, again):
        del again[id_]
    for node in again.values():
        state.review.forget(node.id)
        if node.is_done:
            state.open += 1
            for needed in node.spec.depends_on:
                state.nodes[needed].wanted += 1
            node.runs_again(rerun.get(node.id, ""))
    for node in again.values():
        node.missing = sum(not state.is_settled(state.nodes[needed]) for needed in node.spec.depends_on)
    state.ready += [node for node in again.values() if not node.missing]
    state.barred += [node for node in again.values() if barring(state, node) is not None]


def barring(state: TaskState, node: SubtaskState) -> SubtaskState | None:
    """Return a subtask that this one needs, and that has ended without a result; None: there is none.

    What fails has its dependants skipped at once. One that had its result by then stays done: an undo that was given up
    leaves it so while what it needs is undone, is tried anew and fails. Where it is sent back later, nothing that it
    could wait for comes any more.
    """
    return next((each for id_ in node.spec.depends_on if _is_gone(each := state.nodes[id_])), None)


def _still_skipped(state: TaskState, again: dict[str, SubtaskState]) -> set[str]:
    """Find those that need something else, too, which has failed: they would wait for it for ever."""
    found: set[str] = set()
    before = -1
    while len(found) > before:
        before = len(found)
        for node in again.values():
            needed = [state.nodes[id_] for id_ in node.spec.depends_on if id_ not in again or id_ in found]
            if node.status is SubtaskStatus.SKIPPED and any(_is_gone(each) for each in needed):
                found.add(node.id)
    return found


def _is_gone(node: SubtaskState) -> bool:
    ended = {SubtaskStatus.FAILED, SubtaskStatus.SKIPPED, SubtaskStatus.CANCELLED}
    return node.spec.required and node.status in ended
