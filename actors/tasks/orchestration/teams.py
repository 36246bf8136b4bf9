"""Teams: what the orchestrator of a nested supervisor with ``tasks=`` does for the one above.

To its parent's orchestrator such a team is one more worker (``actors.tasks.orchestration.team_calls``).

An attempt that is given to a team becomes a task of the team's own orchestrator. The task's id is made of the
attempt's, so the same attempt given once more (after a crash, or after it gave way to something more urgent) is the
same task, and what it has finished stays finished.

A team's part that is found in the journal waits until the attempt that it stands for is there again. Before that,
nobody knows whether it is still wanted, nothing of it could ask anybody above, and nobody would take its end. Where
the orchestrator above goes on without it, it ends: what was done of it is undone.

A team that was stopped answers for nothing, so the orchestrator above may try a part again that has not ended here. One
that goes on is the next attempt's from then on. One that is ending, or being undone, ends first, and is then reopened.
So does one of a former task of the same id, that was removed while the team was stopped; then the part begins anew.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.attempt_spec import AttemptOutcome
from actors.tasks.journal.fold import fold
from actors.tasks.journal.reporting import report_of
from actors.tasks.journal.subtask_state import part_id_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.outcome import Done
from actors.tasks.model.report import Report
from actors.tasks.model.task import SubtaskStatus, Task, TaskStatus, same_instruction
from actors.tasks.model.task_errors import TeamFailedError
from actors.tasks.model.task_ids import NEW_IDS
from actors.tasks.orchestration.attempt_table import number_in, subtask_in
from actors.tasks.orchestration.messages import Pause, TimerFired
from actors.tasks.orchestration.part_times import is_other, part_until
from actors.tasks.orchestration.part_usage import give_way, tell_end, tell_usage
from actors.tasks.orchestration.team_calls import KEEPS
from actors.tasks.recovery.team_ends import outcome_of

if TYPE_CHECKING:
    from actors.tasks.orchestration.attempt_control import AttemptControl
    from actors.tasks.orchestration.follow_up_handlers import FollowUpHandlers
    from actors.tasks.orchestration.lifecycle import TaskLifecycle
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
    from actors.tasks.orchestration.recording import Recording
    from actors.tasks.orchestration.subtask_queue import SubtaskQueue

_FROM_ABOVE: Final = frozenset({"timeout", "idle", "cancel", "withdrawn"})
"""Why the orchestrator above ends a part, in the words of ``Attempt.ended_by``."""
_WITHOUT: Final = "what it was a part of went on, or ended, without it"
"""Why a part ends that the orchestrator above has not ended."""


class Teams:
    """Attempts that one orchestrator has as a team, and what has become of them."""

    def __init__(
        self,
        core: OrchestratorCore,
        recording: Recording,
        lifecycle: TaskLifecycle,
        queue: SubtaskQueue,
        control: AttemptControl,
        later: FollowUpHandlers,
    ) -> None:
        self._core, self._recording, self._lifecycle = core, recording, lifecycle
        self._queue, self._control, self._later = queue, control, later
        self._held: set[str] = set()
        """Parts from the journal that wait for the orchestrator above."""
        self._next: dict[str, Attempt] = {}
        """Attempts that get a part when that has ended for the attempt before; the next incarnation is given them."""

    # -- having --------------------------------------------------------------------------------------------

    def accept(self, attempt: Attempt) -> None:
        """The orchestrator above has work for this team."""
        core, id_ = self._core, attempt.spec.part
        if attempt.spec.role == "undo":
            self._undo(attempt)
            return
        core.runtime.carry(id_, core.path, attempt.spec.variables)
        if id_ in core.port.guard.aside:
            _break_off(attempt)
            return
        state = core.states.get(id_)
        is_former = state is not None and core.runtime.is_former(state, attempt)
        if state is not None and state.parent == attempt.key and not is_former:
            attempt.begin(core.incarnation, core.system.now())
            _ended_for(attempt, state)
            self._resume(state, attempt)
        elif state is not None and (is_former or state.ending is not None or state.final is not None):
            self._next[id_] = attempt
            if is_former:
                self._lifecycle.end(state, TaskStatus.CANCELLED, "cancel", _WITHOUT)
        elif not attempt.begin(core.incarnation, core.system.now()):
            attempt.fail_as_ended()
        elif state is not None:
            self._hand_over(state, attempt)
        else:
            self._begin(id_, attempt)

    def _begin(self, id_: str, attempt: Attempt) -> None:
        """Begin a part that is new, or has ended for an attempt before: then it is reopened, or its end told again."""
        core = self._core
        try:
            state = fold(id_, kept) if (kept := core.runtime.outline(id_)) else None
            if state is not None and core.runtime.is_former(state, attempt):
                core.store.remove(id_)
                state = None
            event = self._first_record(id_, attempt) if state is None else None
        except Exception as error:  # noqa: BLE001 - a journal that makes no sense, an id that is too long: its failure
            attempt.fail_with(error)
            return
        again = attempt.take_up()
        if state is not None and self._is_new(state, attempt, again=again):
            self._reopen(state, attempt)
        elif event is None:
            self._finished_before(state)
        elif core.store.create(id_, core.path, event):
            core.runtime.forget_former(id_)  # one that was removed with its whole
            state = core.states[id_] = fold(id_, [event])
            core.system.publish(event)
            if core.begun:
                self._lifecycle.begin(state)

    def put_aside(self, state: TaskState) -> None:
        """Leave a part alone: the orchestrator above goes on without it."""
        self._held.discard(state.id)
        attempt = self._core.runtime.attempt_of(state)
        if attempt is not None and not attempt.done:
            _break_off(attempt)

    def take_over(self) -> None:
        """Accept, in a new incarnation, attempts that were given to this team and did not become a task of it."""
        core = self._core
        for attempt in list(core.runtime.attempts.values()):
            is_ours = attempt.spec.path == core.path and attempt.spec.part  # an undo that the team declares is none
            if is_ours and attempt.was_given and not attempt.done:
                core.task = part = attempt.spec.part
                if part not in core.states and core.port.guard.look(part, 0) != "go on":
                    core.port.put_aside(part)  # incarnation after incarnation dies of it, before it has a state
                    _break_off(attempt)
                else:
                    self.accept(attempt)
        core.task = None

    @staticmethod
    def _is_new(state: TaskState, attempt: Attempt, *, again: bool) -> bool:
        """True if a part that has ended is tried again, and not only asked for the end that it had."""
        return state.parent != attempt.key or (_ended_above(state) is not None and not again)

    def _reopen(self, state: TaskState, attempt: Attempt) -> None:
        """The ladder above tries it again: what was done stays done."""
        core = self._core
        core.port.reports.forget(state.id)
        core.states[state.id] = state
        self._recording.emit(state, task_events.TaskReopened, *self._part(state.id, attempt), refused_stay=True)
        self._lifecycle.resume(state)

    def _hand_over(self, state: TaskState, attempt: Attempt) -> None:
        """A part goes on for another attempt than before, which ended when this team was stopped."""
        self._recording.emit(state, task_events.TaskReopened, *self._part(state.id, attempt), refused_stay=True)
        if state.id not in self._held:
            self._lifecycle.watch(state)
            self._queue.requeue_all(state)
        self._resume(state, attempt)

    def cancel(self, state: TaskState, reason: str, number: int) -> None:
        """Cancel a part for an attempt; not where a later one has it by now, which this has overtaken."""
        if not number or number_in(state.parent) <= number:
            self._lifecycle.cancel(state, reason)

    def give_next(self, state: TaskState) -> None:
        """A part has ended: the attempt that waits for that gets it, by a message, once the end is shown."""
        attempt = self._next.pop(state.id, None)
        if attempt is not None:
            self._core.port.post(attempt)

    def _first_record(self, id_: str, attempt: Attempt) -> task_events.TaskSubmitted:
        part = self._part(id_, attempt)
        event = task_events.TaskSubmitted(self._core.path, id_, self._core.time(), *part, metadata=part[0].metadata)
        self._core.runtime.numbers.give(event, event.parent)
        return event

    def _part(
        self, id_: str, attempt: Attempt
    ) -> tuple[Task, float | None, tuple[str, ...], tuple[str, ...], str, int, int]:
        """Fields of the first record of an attempt as a task of this team."""
        task = Task(
            goal=str(attempt.subtask) or "?",
            inputs=attempt.spec.values.inputs,
            priority=attempt.priority,
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
        return part_until(attempt, self._core.runtime.epoch)

    def _resume(self, state: TaskState, attempt: Attempt) -> None:
        """Resume a part that is wanted. Its time passes again; while it was paused, or its process down, it did not."""
        restarts = state.paused or is_other(self._until(attempt), state.deadline)
        if restarts and attempt.ended_by is None and state.ending is None and state.final is None:
            self._recording.emit(state, task_events.TaskResumed, self._until(attempt))
            if state.id not in self._held:
                self._lifecycle.watch(state)
                self._queue.requeue_all(state)
                self._lifecycle.advance(state)
        attempt.take_up()
        self._lifecycle.prioritize(state, attempt.priority)  # perhaps nobody was here when it changed
        self.resume(state)

    def _finished_before(self, state: TaskState | None) -> None:
        if state is not None and state.final is not None:
            self._later.with_report(state, partial(self.answer, state))

    # -- waiting for the one above -------------------------------------------------------------------------

    def hold_until_wanted(self, state: TaskState) -> bool:
        """True if a part from the journal is to wait. One that is ending is wanted in any case, and does not."""
        attempt = self._core.runtime.attempt_of(state)
        is_taken = attempt is not None and attempt.is_taken_up and not attempt.done
        if state.parent is None or state.ending is not None or is_taken:
            return False
        if state.id not in self._held:
            self._held.add(state.id)
            above = self._above()
            if above is None:
                self._look_above(state)
            else:
                look = TimerFired(self._core.incarnation, lambda: self._look_above(state))
                above.resumed.when_done(lambda: self._core.port.post(look))
        return True

    def is_held(self, state: TaskState) -> bool:
        """True if a part waits for the orchestrator above."""
        return state.id in self._held

    def resume(self, state: TaskState) -> None:
        """Resume a part that need not wait any longer: it is wanted, or it is to end."""
        if state.id in self._held:
            self._held.discard(state.id)
            self._lifecycle.resume(state)
            self._later.drop_stale(state.id)

    def _above(self) -> OrchestratorPort | None:
        return self._core.runtime.ports.get(self._core.path.rpartition("/")[0])

    def _look_above(self, state: TaskState) -> None:
        """The orchestrator above knows by now what it still wants."""
        attempt = self._core.runtime.attempt_of(state)
        will_come = attempt is not None and not attempt.done
        if state.id not in self._held or will_come or self._is_wanted(state):
            return
        self._lifecycle.end(state, TaskStatus.CANCELLED, "cancel", _WITHOUT)

    def _is_wanted(self, state: TaskState) -> bool:
        """True if the attempt that a part stands for will be given once more."""
        task, subtask = subtask_in(state.parent)
        above, store = self._above(), self._core.store
        whole = above.states.get(task) if above is not None else None
        if whole is None and task in store.owners():
            return True  # nobody here goes on with it, but a process with another declaration, or a newer one, may
        node = whole.nodes.get(subtask) if whole is not None and whole.final is None else None
        if whole is None or node is None or not node.has_begun or not node.acts:
            return False
        is_last = part_id_of(whole.id, node, node.acts[-1], whole.ids) == state.id
        return is_last and node.status in KEEPS

    def answer(self, state: TaskState, report: Report) -> None:
        """A task that this team had for another orchestrator has ended."""
        attempt = self._core.runtime.attempt_of(state)
        if attempt is None or attempt.done:
            tell_end(state, self._above())
            return
        _ended_for(attempt, state)
        tell_usage(attempt, state)
        attempt.note(AttemptOutcome(undone=tuple(report.compensated), best_effort=report.best_effort))
        is_work = attempt.spec.role == "work"
        if is_work and report.status is not TaskStatus.SUCCEEDED and attempt.ended_by is not None:
            attempt.fail_as_ended()
            return
        try:
            done = outcome_of(attempt, state, report, self._core.settings)
        except Exception as error:  # noqa: BLE001 - the output may not fit what was declared
            attempt.fail_with(error)
        else:
            attempt.complete(done)

    # -- giving way ----------------------------------------------------------------------------------------

    def pause(self, message: Pause) -> None:
        """Something more urgent needs the place of this team's part: what is done stays, what runs is put back."""
        core = self._core
        state = core.states.get(message.task)
        if state is None or state.paused or state.ending is not None or state.final is not None:
            return
        self.resume(state)
        self._recording.emit(state, task_events.TaskPaused)
        self._lifecycle.watch(state)
        for node in state.nodes.values():
            if node.ask is not None and node.ask in core.runtime.asks:
                continue  # it gives way with whoever has asked; or that one cannot be interrupted, and needs it
            if node.status is SubtaskStatus.QUEUED:
                self._queue.leave(node)
            else:
                self._control.interrupt(node)
        self.paused(state)

    def paused(self, state: TaskState) -> None:
        """Tell the orchestrator above, once nothing of it runs any more."""
        runs = any(node.status is SubtaskStatus.RUNNING for node in state.nodes.values())
        if runs or not state.paused or state.ending is not None:
            return
        attempt = self._core.runtime.attempt_of(state)
        if attempt is not None:
            self._core.act(state.id, give_way, attempt, state)

    # -- undoing -------------------------------------------------------------------------------------------

    def _undo(self, attempt: Attempt) -> None:
        """Undo what its members had done for a task that had succeeded, or given way, here and not above."""
        core, id_ = self._core, attempt.spec.part
        state = core.states.get(id_)
        is_begun = attempt.begin(core.incarnation, core.system.now())
        if state is not None and state.parent == attempt.key:
            return  # it is being undone
        if not is_begun:
            attempt.fail_as_ended()
            return
        kept = core.runtime.outline(id_)
        if not kept:
            attempt.note(AttemptOutcome(undone=()))
            attempt.complete(Done(None))
            return
        if state is None:
            state = fold(id_, kept)
            if state.final is not None and state.ending is not None and state.ending.parent == attempt.key:
                self.answer(state, report_of(state, tuple))  # done by an incarnation that could not say so
                return
            core.states[id_] = state
        core.runtime.carry(id_, core.path, attempt.spec.variables)  # they were let go of when it had ended
        status = state.final if state.final is TaskStatus.CANCELLED else TaskStatus.FAILED
        self._recording.emit(state, task_events.TaskEnding, status, "team", "its whole has failed", attempt.key)


def _ended_for(attempt: Attempt, state: TaskState) -> None:
    """Where the one above had ended it, the journal says why: an attempt that is given once more has it from there.

    The time of an attempt is watched there and here. Whoever is first, it has run longer than it may.
    """
    ending = state.ending
    if ending is None or attempt.ended_by is not None:
        return
    if (why := _ended_above(state)) is not None:
        attempt.end_for(why)
    elif ending.kind == "deadline" and attempt.spec.timeout_s is not None and attempt.started is not None:
        is_first = attempt.due is None or attempt.started + attempt.spec.timeout_s < attempt.due
        if is_first:
            attempt.end_for("timeout")


def _ended_above(state: TaskState) -> str | None:
    """Why a part was ended by the one above, or because nobody there wanted it any more; None: it ended by itself."""
    why = ending.error if (ending := state.ending) is not None and ending.kind == "cancel" else ""
    return "withdrawn" if why == _WITHOUT else why if why in _FROM_ABOVE else None


def _break_off(attempt: Attempt) -> None:
    """Fail the attempt of a part that was put aside."""
    attempt.fail_with(TeamFailedError("its orchestrator died of it, or its journal is damaged", retryable=False))
