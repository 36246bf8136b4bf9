"""Teams: to its parent's orchestrator a nested supervisor with ``tasks=`` is one more worker.

An attempt that is given to a team becomes a task of the team's own orchestrator. The task's id is made of the
attempt's, so the same attempt given once more (after a crash, or after it gave way to something more urgent) is the
same task, and what it has finished stays finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.mailbox import Refusal
from actors.tasks import events
from actors.tasks.attempt import Attempt, AttemptEnded
from actors.tasks.errors import TaskFailedError, TeamFailedError
from actors.tasks.ground import ORCHESTRATOR
from actors.tasks.hears import Cancel, Pause
from actors.tasks.outcome import Done
from actors.tasks.perform import harvest
from actors.tasks.report import Report
from actors.tasks.staff import Entry
from actors.tasks.state import TaskState, folded
from actors.tasks.task import SubtaskStatus, Task, TaskStatus, same_instruction

if TYPE_CHECKING:
    from actors.tasks.orchestrator import Orchestrator


class Teamwork:
    """Both sides of it: what this orchestrator gives to teams, and what it has as a team."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator

    # -- giving --------------------------------------------------------------------------------------------

    def give(self, attempt: Attempt, entry: Entry) -> bool:
        """Have a team do an attempt; False where it is down."""
        box: Any = self._to.system.boxes.get(f"{entry.path}/{ORCHESTRATOR}")
        return box is not None and box.put((attempt, None, None)) is None

    def end(self, attempt: Attempt, why: str) -> None:
        """Have a team end, or pause, what it has."""
        if attempt.ended_by is not None and why == "preempt":
            return
        attempt.ended_by = why
        desk = self._to.ground.desks.get(attempt.path)
        if desk is not None:
            desk.tell(Pause(task_of(attempt)) if why == "preempt" else Cancel(task_of(attempt), why))

    def gone(self, entry: Entry) -> None:
        """A team is down for good: nobody there will answer for what it had."""
        for attempt in list(entry.attempts.values()):
            attempt.fail(self._to.system.stopped_error(entry.path, Refusal.STOPPED))

    # -- having --------------------------------------------------------------------------------------------

    def take(self, attempt: Attempt) -> None:
        """The orchestrator above has work for this team."""
        if attempt.role == "undo":
            self._undo(attempt)
            return
        to, id_ = self._to, task_of(attempt)
        state = to.states.get(id_)
        if state is not None:
            attempt.begin(to.life, to.system.now())
            self._resume(state, attempt)
            return
        if not attempt.begin(to.life, to.system.now()):
            attempt.fail(AttemptEnded(attempt.ended_by or "cancel"))
            return
        kept = to.store.read(id_)
        if kept:
            self._finished_before(folded(id_, kept), attempt)
            return
        event = self._submitted(id_, attempt)
        if to.store.create(id_, to.path, event):
            state = to.states[id_] = folded(id_, [event])
            to.publish(event)
            if to.staffed:
                to.course.begin(state)

    def take_over(self) -> None:
        """Of a new incarnation: what was given to this team and did not become a task of it."""
        for attempt in list(self._to.ground.attempts.values()):
            if attempt.path == self._to.path and attempt.given and not attempt.done:
                self.take(attempt)

    def _submitted(self, id_: str, attempt: Attempt) -> events.TaskSubmitted:
        to, context = self._to, attempt.context
        inputs: dict[str, Any] = dict(context.inputs) if context is not None else {}
        if context is not None and context.results:
            inputs["results"] = context.results
        if context is not None and context.feedback:
            inputs["feedback"] = context.feedback
        task = Task(
            goal=str(attempt.subtask) or "?",
            inputs=inputs,
            priority=attempt.priority,
            budget=attempt.budget,
            id=id_,
        )
        chain = tuple(address.path for address in attempt.chain)
        return events.TaskSubmitted(
            to.path,
            id_,
            to.time(),
            task,
            self._until(attempt),
            chain,
            (*attempt.lineage, same_instruction(str(attempt.subtask), attempt.subtask.inputs)),
            attempt.key,
            attempt.hops,
        )

    def _until(self, attempt: Attempt) -> float | None:
        """When its time is up, in seconds since 1970."""
        runs = None if attempt.timeout_s is None or attempt.started is None else attempt.started + attempt.timeout_s
        ends = [end for end in (attempt.deadline, runs) if end is not None]
        return self._to.ground.epoch + min(ends) if ends else None

    def _resume(self, state: TaskState, attempt: Attempt) -> None:
        to = self._to
        if state.paused and attempt.ended_by is None:
            to.record(state, events.TaskResumed(to.path, state.id, to.time(), self._until(attempt)))
            to.course.watch(state)
            to.launching.requeue_all(state)
            to.course.advance(state)

    def _finished_before(self, state: TaskState, attempt: Attempt) -> None:
        if state.final is not None:
            report = self._to.desk.reports.get(state.id)
            self.answer(attempt.key, report if report is not None else self._to.course.report_of(state))

    def answer(self, key: str, report: Report) -> None:
        """A task that this team had for another orchestrator has ended."""
        attempt = self._to.ground.attempts.get(key)
        if attempt is None or attempt.done:
            return
        attempt.used = report.usage
        attempt.undone = report.compensated
        if attempt.role == "work" and report.status is not TaskStatus.SUCCEEDED and attempt.ended_by is not None:
            attempt.fail(AttemptEnded(attempt.ended_by))
            return
        try:
            done = _outcome_of(attempt, report)
        except Exception as error:  # noqa: BLE001 - the output may not fit what was declared
            attempt.caught = error
            attempt.fail(error)
        else:
            attempt.complete(done)

    # -- giving way ----------------------------------------------------------------------------------------

    def pause(self, message: Pause) -> None:
        """Something more urgent needs the place of this team's part: what is done stays, what runs is put back."""
        to = self._to
        state = to.states.get(message.task)
        if state is None or state.paused or state.ending is not None:
            return
        to.record(state, events.TaskPaused(to.path, state.id, to.time()))
        to.course.watch(state)
        for node in state.nodes.values():
            if node.status is SubtaskStatus.QUEUED:
                to.launching.queue.withdraw(node.ticket)
            elif node.live is not None and node.live.preemptible:
                to.launching.end(node.live, "preempt")
        self.paused(state)

    def paused(self, state: TaskState) -> None:
        """Tell the orchestrator above, once nothing of it runs any more."""
        runs = any(node.status is SubtaskStatus.RUNNING for node in state.nodes.values())
        if runs or not state.paused or state.ending is not None:
            return
        attempt = self._to.ground.attempts.get(state.parent or "")
        if attempt is not None:
            self._to.act(attempt.fail, AttemptEnded("preempt"))

    # -- undoing -------------------------------------------------------------------------------------------

    def _undo(self, attempt: Attempt) -> None:
        """Undo what its members had done for a task that had succeeded, or given way, here and not above."""
        to, id_ = self._to, attempt.nested
        state = to.states.get(id_)
        if not attempt.begin(to.life, to.system.now()) or (state is not None and state.parent == attempt.key):
            return
        kept = to.store.read(id_)
        if not kept:
            attempt.undone = []
            attempt.complete(Done(None))
            return
        if state is None:
            state = folded(id_, kept)
            if state.final is not None and state.ending is not None and state.ending.parent == attempt.key:
                self.answer(attempt.key, to.course.report_of(state))  # done by an incarnation that could not say so
                return
            to.states[id_] = state
        why = "what it was a part of has failed"
        cancelled = state.final is TaskStatus.CANCELLED  # it stays that
        status = TaskStatus.CANCELLED if cancelled else TaskStatus.FAILED
        event = events.TaskEnding(to.path, id_, to.time(), status, "team", why, attempt.key)
        to.record(state, event)
        to.course.ended(state)


def _outcome_of(attempt: Attempt, report: Report) -> Done:
    """What the end of a team's task means for the attempt that it was."""
    if attempt.role == "undo" and report.undo_errors:
        said = "; ".join(f"{id_}: {text}" for id_, text in report.undo_errors.items())
        raise TeamFailedError(said, retryable=False)
    if attempt.role == "undo":
        return Done(None)
    if report.status is not TaskStatus.SUCCEEDED:
        error = report.error
        raise TeamFailedError(str(error), kind=error.kind if isinstance(error, TaskFailedError) else "")
    return harvest(attempt, report.output)


def task_of(attempt: Attempt) -> str:
    """The id of the task that an attempt is for the team that it was given to."""
    task, _, rest = attempt.key.rpartition("/")
    subtask, _, number = rest.rpartition("#")
    return f"{task}:{subtask}:{number}"
