"""Teams: to its parent's orchestrator a nested supervisor with ``tasks=`` is one more worker.

An attempt that is given to a team becomes a task of the team's own orchestrator. The task's id is made of the
attempt's, so the same attempt given once more (after a crash, or after it gave way to something more urgent) is the
same task, and what it has finished stays finished.

A team's part that is found in the journal waits until the attempt that it stands for is there again. Before that,
nobody knows whether it is still wanted, nothing of it could ask anybody above, and nobody would take its end. Where
the orchestrator above goes on without it, it ends: what was done of it is undone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.messaging.mailbox import Refusal
from actors.tasks.execution.attempt import Attempt, AttemptEnded
from actors.tasks.execution.attempt_spec import AttemptOutcome
from actors.tasks.execution.run_attempt import to_outcome
from actors.tasks.journal.fold import fold
from actors.tasks.journal.reporting import report_of
from actors.tasks.journal.subtask_state import SubtaskState, part_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.outcome import Done
from actors.tasks.model.report import Report
from actors.tasks.model.task import SubtaskStatus, Task, TaskStatus, Usage, same_instruction, usage_of
from actors.tasks.model.task_errors import TaskFailedError, TeamFailedError
from actors.tasks.model.task_ids import NEW_IDS
from actors.tasks.orchestration.messages import Cancel, Pause, SetPriority, TimerFired
from actors.tasks.orchestration.task_runtime import ORCHESTRATOR, OrchestratorPort
from actors.tasks.scheduling.worker_registry import RegistryEntry

if TYPE_CHECKING:
    from actors.tasks.orchestration.orchestrator import Orchestrator

_KEEPS: Final = frozenset({SubtaskStatus.RUNNING, SubtaskStatus.QUEUED, SubtaskStatus.RETRYING})
"""Where a subtask goes on with the same team."""
_FROM_ABOVE: Final = frozenset({"timeout", "idle", "cancel", "withdrawn"})
"""Why the orchestrator above ends a part, in the words of ``Attempt.ended_by``."""


class Teams:
    """Both sides of it: what this orchestrator gives to teams, and what it has as a team."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator
        self._held: set[str] = set()
        """Parts from the journal that wait for the orchestrator above."""

    # -- giving --------------------------------------------------------------------------------------------

    def give(self, attempt: Attempt, entry: RegistryEntry) -> bool:
        """Have a team do an attempt; False where it is down."""
        box: Any = self._to.system.boxes.get(f"{entry.path}/{ORCHESTRATOR}")
        return box is not None and box.put((attempt, None, None)) is None

    def end(self, attempt: Attempt, why: str) -> None:
        """Have a team end, or pause, what it has."""
        if attempt.ended_by is not None and why == "preempt":
            return
        attempt.end_for(why, overrules=True)
        port, part = self._to.runtime.ports.get(attempt.spec.path), attempt.spec.part
        if port is not None:
            port.tell(Pause(part) if why == "preempt" else Cancel(part, why))

    def prioritize(self, attempt: Attempt, priority: int) -> None:
        """The priority of a task has changed: that of a team's part of it follows."""
        port = self._to.runtime.ports.get(attempt.spec.path) if attempt.spec.part else None
        if port is not None:
            port.tell(SetPriority(attempt.spec.part, priority))

    def detach_team(self, state: TaskState, node: SubtaskState, taker: RegistryEntry | None = None) -> None:
        """A subtask goes on, or ends, without the team that it had been given to: what that has of it ends."""
        act = node.acts[-1] if node.acts else None
        if act is None or not act.open or (taker is not None and taker.id == act.worker):
            return
        port = self._to.runtime.ports.get(f"{self._to.path}/{act.worker}")
        if port is not None:
            port.tell(Cancel(part_of(state.id, node, act, state.ids), "withdrawn"))

    def parted(self, state: TaskState, node: SubtaskState) -> None:
        """A subtask has ended, or waits for a person, however it came to that: no team has a part of it any longer."""
        is_undoing = node.escalation is not None and node.escalation.undoing
        if node.has_begun and node.status not in _KEEPS and not is_undoing:
            self.detach_team(state, node)

    def gone(self, entry: RegistryEntry) -> None:
        """A team is down for good: nobody there will answer for what it had."""
        to = self._to
        undos = [
            each for each in list(to.runtime.attempts.values()) if each.spec.role == "undo" and each.owner is to.port
        ]
        given = [each for each in undos if each.errand is None and each.spec.path == entry.path]
        rows = [row for key in entry.attempts if (row := to.attempts.get(key)) is not None]
        for attempt in [*(row.attempt for row in rows), *given]:
            attempt.fail(to.system.stopped_error(entry.path, Refusal.STOPPED))

    # -- having --------------------------------------------------------------------------------------------

    def accept(self, attempt: Attempt) -> None:
        """The orchestrator above has work for this team."""
        if attempt.spec.role == "undo":
            self._undo(attempt)
            return
        to, id_ = self._to, attempt.spec.part
        to.runtime.carry(id_, to.path, attempt.spec.variables)
        if id_ in to.port.guard.aside:
            _break_off(attempt)
            return
        state = to.states.get(id_)
        if state is not None:
            attempt.begin(to.incarnation, to.system.now())
            _ended_for(attempt, state)
            self._resume(state, attempt)
            return
        if not attempt.begin(to.incarnation, to.system.now()):
            attempt.fail(AttemptEnded(attempt.ended_by or "cancel"))
            return
        try:
            state = fold(id_, kept) if (kept := to.runtime.outline(id_)) else None
            event = self._first_record(id_, attempt) if state is None else None
        except Exception as error:  # noqa: BLE001 - a journal that makes no sense, an id that is too long: its failure
            attempt.fail_with(error)
            return
        again = attempt.take_up()
        if state is not None and self._is_new(state, attempt, again=again):
            self._reopen(state, attempt)
        elif event is None:
            self._finished_before(state)
        elif to.store.create(id_, to.path, event):
            state = to.states[id_] = fold(id_, [event])
            to.system.publish(event)
            if to.begun:
                to.lifecycle.begin(state)

    def put_aside(self, state: TaskState) -> None:
        """Leave a part alone: the orchestrator above goes on without it."""
        self._held.discard(state.id)
        attempt = self._to.runtime.attempt_of(state)
        if attempt is not None and not attempt.done:
            _break_off(attempt)

    def take_over(self) -> None:
        """Accept, in a new incarnation, attempts that were given to this team and did not become a task of it."""
        for attempt in list(self._to.runtime.attempts.values()):
            if attempt.spec.path == self._to.path and attempt.was_given and not attempt.done:
                self.accept(attempt)

    @staticmethod
    def _is_new(state: TaskState, attempt: Attempt, *, again: bool) -> bool:
        """True if a part that has ended is tried again, and not only asked for the end that it had."""
        ending = state.ending
        was_ended = ending is not None and ending.kind == "cancel" and ending.error in _FROM_ABOVE
        return state.parent != attempt.key or (was_ended and not again)

    def _reopen(self, state: TaskState, attempt: Attempt) -> None:
        """The ladder above tries it again: what was done stays done."""
        to = self._to
        to.port.reports.forget(state.id)
        to.states[state.id] = state
        to.emit(state, task_events.TaskReopened, *self._part(state.id, attempt))
        to.lifecycle.resume(state)

    def _first_record(self, id_: str, attempt: Attempt) -> task_events.TaskSubmitted:
        part = self._part(id_, attempt)
        event = task_events.TaskSubmitted(self._to.path, id_, self._to.time(), *part, metadata=part[0].metadata)
        self._to.runtime.numbers.give(event, event.parent)
        return event

    def _part(
        self, id_: str, attempt: Attempt
    ) -> tuple[Task, float | None, tuple[str, ...], tuple[str, ...], str, int, int]:
        """Fields of the first record of an attempt as a task of this team."""
        task = Task(
            goal=str(attempt.subtask) or "?",
            inputs=attempt.spec.values.inputs,
            priority=attempt.spec.priority,
            budget=attempt.spec.budget,
            id=id_,
            metadata=dict(attempt.spec.values.metadata),
        )
        chain = tuple(address.path for address in attempt.spec.chain)
        return (
            task,
            self._until(attempt),
            chain,
            (*attempt.spec.lineage, same_instruction(str(attempt.subtask), attempt.subtask.inputs)),
            attempt.key,
            attempt.spec.hops,
            NEW_IDS,
        )

    def _until(self, attempt: Attempt) -> float | None:
        """When its time is up, in seconds since 1970."""
        timeout_s, started = attempt.spec.timeout_s, attempt.started
        runs = None if timeout_s is None or started is None else started + timeout_s
        ends = [end for end in (attempt.spec.deadline, runs) if end is not None]
        return self._to.runtime.epoch + min(ends) if ends else None

    def _resume(self, state: TaskState, attempt: Attempt) -> None:
        """Resume a part that is wanted. Its time passes again; while it was paused, or its process down, it did not."""
        to = self._to
        restarts = state.paused or (attempt.is_redelivery and attempt.spec.timeout_s is not None)
        if restarts and attempt.ended_by is None and state.ending is None and state.final is None:
            to.emit(state, task_events.TaskResumed, self._until(attempt))
            if state.id not in self._held:
                to.lifecycle.watch(state)
                to.dispatcher.requeue_all(state)
                to.lifecycle.advance(state)
        attempt.take_up()
        self._to.lifecycle.prioritize(state, attempt.spec.priority)  # perhaps nobody was here when it changed
        self.resume(state)

    def _finished_before(self, state: TaskState | None) -> None:
        if state is not None and state.final is not None:
            self._to.handlers.with_report(state, partial(self.answer, state))

    # -- waiting for the one above -------------------------------------------------------------------------

    def hold_until_wanted(self, state: TaskState) -> bool:
        """True if a part from the journal is to wait. One that is ending is wanted in any case, and does not."""
        attempt = self._to.runtime.attempt_of(state)
        is_taken = attempt is not None and not attempt.is_redelivery and not attempt.done
        if state.parent is None or state.ending is not None or is_taken:
            return False
        if state.id not in self._held:
            self._held.add(state.id)
            above = self._above()
            if above is None:
                self._look_above(state)
            else:
                look = TimerFired(self._to.incarnation, lambda: self._look_above(state))
                above.resumed.when_done(lambda: self._to.port.post(look))
        return True

    def is_held(self, state: TaskState) -> bool:
        """True if a part waits for the orchestrator above."""
        return state.id in self._held

    def resume(self, state: TaskState) -> None:
        """Resume a part that need not wait any longer: it is wanted, or it is to end."""
        if state.id in self._held:
            self._held.discard(state.id)
            self._to.lifecycle.resume(state)

    def _above(self) -> OrchestratorPort | None:
        return self._to.runtime.ports.get(self._to.path.rpartition("/")[0])

    def _look_above(self, state: TaskState) -> None:
        """The orchestrator above knows by now what it still wants."""
        attempt = self._to.runtime.attempt_of(state)
        will_come = attempt is not None and not attempt.done
        if state.id not in self._held or will_come or self._is_wanted(state):
            return
        why = "what it was a part of went on, or ended, without it"
        self._to.lifecycle.end(state, TaskStatus.CANCELLED, "cancel", why)

    def _is_wanted(self, state: TaskState) -> bool:
        """True if the attempt that a part stands for will be given once more."""
        task, _, rest = (state.parent or "").rpartition("/")
        above, store = self._above(), self._to.store
        whole = above.states.get(task) if above is not None else None
        if whole is None and task in store.owners():
            return True  # nobody here goes on with it, but a process with another declaration, or a newer one, may
        node = whole.nodes.get(rest.rpartition("#")[0]) if whole is not None and whole.final is None else None
        if whole is None or node is None or not node.has_begun or not node.acts:
            return False
        is_last = part_of(whole.id, node, node.acts[-1], whole.ids) == state.id
        return is_last and node.status in _KEEPS

    def answer(self, state: TaskState, report: Report) -> None:
        """A task that this team had for another orchestrator has ended."""
        attempt = self._to.runtime.attempt_of(state)
        if attempt is None or attempt.done:
            return
        _ended_for(attempt, state)
        attempt.use(report.usage if attempt.spec.role == "work" else _used_by_undoing(state))
        attempt.note(AttemptOutcome(undone=tuple(report.compensated)))
        if attempt.spec.role == "work" and report.status is not TaskStatus.SUCCEEDED and attempt.ended_by is not None:
            attempt.fail(AttemptEnded(attempt.ended_by))
            return
        try:
            done = _outcome_of(attempt, report)
        except Exception as error:  # noqa: BLE001 - the output may not fit what was declared
            attempt.fail_with(error)
        else:
            attempt.complete(done)

    # -- giving way ----------------------------------------------------------------------------------------

    def pause(self, message: Pause) -> None:
        """Something more urgent needs the place of this team's part: what is done stays, what runs is put back."""
        to = self._to
        state = to.states.get(message.task)
        if state is None or state.paused or state.ending is not None or state.final is not None:
            return
        self.resume(state)
        to.emit(state, task_events.TaskPaused)
        to.lifecycle.watch(state)
        for node in state.nodes.values():
            if node.status is SubtaskStatus.QUEUED:
                to.dispatcher.leave_queue(node)
            elif (attempt := to.attempts.of(node)) is not None and attempt.spec.preemptible:
                to.dispatcher.end(attempt, "preempt")
        self.paused(state)

    def paused(self, state: TaskState) -> None:
        """Tell the orchestrator above, once nothing of it runs any more."""
        runs = any(node.status is SubtaskStatus.RUNNING for node in state.nodes.values())
        if runs or not state.paused or state.ending is not None:
            return
        attempt = self._to.runtime.attempt_of(state)
        if attempt is not None:
            self._to.act(state.id, attempt.fail, AttemptEnded("preempt"))

    # -- undoing -------------------------------------------------------------------------------------------

    def _undo(self, attempt: Attempt) -> None:
        """Undo what its members had done for a task that had succeeded, or given way, here and not above."""
        to, id_ = self._to, attempt.spec.part
        state = to.states.get(id_)
        if not attempt.begin(to.incarnation, to.system.now()) or (state is not None and state.parent == attempt.key):
            return
        kept = to.runtime.outline(id_)
        if not kept:
            attempt.note(AttemptOutcome(undone=()))
            attempt.complete(Done(None))
            return
        if state is None:
            state = fold(id_, kept)
            if state.final is not None and state.ending is not None and state.ending.parent == attempt.key:
                self.answer(state, report_of(state, tuple))  # done by an incarnation that could not say so
                return
            to.states[id_] = state
        why = "what it was a part of has failed"
        cancelled = state.final is TaskStatus.CANCELLED  # it stays that
        status = TaskStatus.CANCELLED if cancelled else TaskStatus.FAILED
        to.emit(state, task_events.TaskEnding, status, "team", why, attempt.key)


def _used_by_undoing(state: TaskState) -> Usage:
    """Usage of the undoing of a part. Its usage before that was counted when it ended."""
    before = state.reported
    return usage_of(state.usage.tokens - before.tokens, state.usage.cost - before.cost, 0.0)


def _ended_for(attempt: Attempt, state: TaskState) -> None:
    """Where the one above had ended it, the journal says why: an attempt that is given once more has it from there."""
    ending = state.ending
    if attempt.ended_by is None and ending is not None and ending.kind == "cancel" and ending.error in _FROM_ABOVE:
        attempt.end_for(ending.error)


def _break_off(attempt: Attempt) -> None:
    """Fail the attempt of a part that was put aside."""
    error = TeamFailedError("its orchestrator died of it; see InternalError", retryable=False)
    attempt.fail_with(error)


def _outcome_of(attempt: Attempt, report: Report) -> Done:
    """Outcome of the attempt whose part of a task has ended."""
    if attempt.spec.role == "undo" and report.undo_errors:
        said = "; ".join(f"{id_}: {text}" for id_, text in report.undo_errors.items())
        raise TeamFailedError(said, retryable=False)
    if attempt.spec.role == "undo":
        return Done(None)
    if report.status is not TaskStatus.SUCCEEDED:
        error = report.error
        raise TeamFailedError(str(error), kind=error.kind if isinstance(error, TaskFailedError) else "")
    return to_outcome(attempt, report.output)
