"""The orchestrator: a worker that turns goals into plans and has its siblings carry them out.

It keeps nothing that it could not fold again from the journal. Kill it at any moment, and the next incarnation goes on:
what was recorded is not done again, attempts that still run are waited for (``task_runtime``), and one whose fate is
unknown is started once more with the same idempotency key.

How it works, for every message::

    hear -> record what follows (journal, state, event) -> pump (start what can start) -> flush -> act

* **Record before act.** An attempt is put into a mailbox, an answer given, a report told only after the records that
  say so are kept (``act``); with a store that writes in groups, that is when the group is written (``outbox``).
* **Decide elsewhere.** What follows from a state: ``lifecycle`` (a task as a whole), ``recovery`` (an attempt that has
  ended), ``scheduling`` (who is next, and with whom). It is done by its ``parts``; here messages find theirs.
* It runs on the event loop, so that handing work to async workers costs no thread switch. Nothing in it waits.

Steps of an incarnation: ``on_start`` folds the journals; the supervisor then tells who the workers are
(``RegistrySnapshot``); when the whole tree is up too, work begins or goes on (``Begin``). So a start that fails has had
no effect. Timers and orders of an old incarnation carry that incarnation, and say nothing here. The task that one dies
of is noted (``task``; ``crash_guard``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from actors.concurrency import collector
from actors.execution.pykka_bridge import ManagedActor
from actors.messaging.mailbox import Refusal
from actors.tasks.execution.attempt import Attempt
from actors.tasks.journal.dropped import is_same
from actors.tasks.journal.fold import fold
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.store_events import JournalDamaged, OrderDamaged
from actors.tasks.model.task import TaskStatus
from actors.tasks.model.task_errors import DamagedJournalError, StoreError, TaskFailedError
from actors.tasks.orchestration.left_orders import tries_of
from actors.tasks.orchestration.messages import (
    AttemptReported,
    Begin,
    Cancel,
    CommandsWaiting,
    Delegate,
    DelegationAnswered,
    DelegationCancelled,
    EffectFailed,
    EscalationResponse,
    PartDue,
    PartEnded,
    Pause,
    RunOnLoop,
    RunWhenDurable,
    SetPriority,
    ShuttingDown,
    StepMade,
    TaskArrived,
    TimerFired,
    WaiterJoined,
    WaitsChanged,
)
from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
from actors.tasks.orchestration.parts import parts_of
from actors.tasks.orchestration.step_records import record_made
from actors.tasks.orchestration.step_turns import STOPPED
from actors.tasks.orchestration.task_runtime import task_runtime_of
from actors.tasks.scheduling.worker_registry import RegistrySnapshot, WorkerChanged

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation
    from actors.runtime.system import System
    from actors.tasks.planning.settings import Tasks

COMMAND_TRIES: Final = 4
"""Incarnations that may die of the same order, at the same point, before it is given up."""
MAX_COMMANDS: Final = 64
"""Orders that are carried out at a time: a burst of thousands holds up neither what has ended nor what is ready."""
_COMMANDS: Final = CommandsWaiting()


class Orchestrator(ManagedActor):
    """One incarnation of the orchestrator of a supervisor."""

    def __init__(self, incarnation: Incarnation, settings: Tasks) -> None:
        self._regrow_incarnation = incarnation
        self.core = OrchestratorCore(incarnation, task_runtime_of(cast("System", incarnation.system)), settings)
        self.parts = parts_of(self.core)
        self.knows_workers = False
        self._order: object = None  # the one that is being carried out

    # -- beginning -----------------------------------------------------------------------------------------

    @collector.paused()
    def on_start(self) -> None:
        """Fold every journal that is not finished."""
        core = self.core
        for id_ in core.store.streams(core.path):
            if id_ in core.runtime.unkept or id_ in core.port.guard.aside:
                continue  # it may yet be withdrawn (TaskArrived says that it is kept), or was put aside
            try:
                core.states[id_] = fold(id_, core.runtime.outline(id_))
            except StoreError as error:  # one journal that makes no sense must not stop all the others
                core.system.publish(JournalDamaged(core.path, id_, error))
                core.port.put_aside(id_)
            except Exception as error:  # noqa: BLE001 - nor a bug of ours that only one of them meets
                core.system.reports.internal_error(error)
                core.port.put_aside(id_)
        core.port.states = core.states

    def on_stop(self) -> None:
        """Record what has succeeded and was not heard of yet: the order to stop overtakes it."""
        core, parts, port = self.core, self.parts, self.core.port
        port.at_work, core.closing = None, core.closing or port.closing is core.incarnation
        if core.closing:
            core.runtime.end_calls(port)  # the order to stop may have overtaken the news that all is being stopped
        for attempt in list(core.runtime.attempts.values()) if core.begun else ():
            # Where all is being stopped, what was stopped says so in the journal: its process did not die with it.
            if attempt.owner is port and (attempt.succeeded or (attempt.done and core.closing)):
                self._on_outcome(attempt)
            elif attempt.owner is port:
                parts.recording.count(attempt)
        for state in core.states.values() if core.begun and core.closing else ():
            if not parts.teams.is_held(state):  # of such a part an earlier process has begun a step, and this one none
                parts.turns.put_back(state, STOPPED)
        core.flush()

    def _on_registry_snapshot(self, snapshot: RegistrySnapshot) -> None:
        """Take the workers over from the supervisor."""
        if snapshot.incarnation is not self.core.incarnation:
            return
        before = self.core.port.workers
        for change in snapshot.workers:
            entry = self.core.workers.hear(change)
            if entry is not None:
                self.parts.breakers.take_over(entry, before.get(entry.id))
        self.core.port.workers = self.core.workers
        self.knows_workers = True
        started, begin = self.core.system.started, Begin(self.core.incarnation)
        if started.done:
            self._on_begin(begin)
        else:
            started.when_done(lambda: self.core.port.post(begin))

    @collector.paused()
    def _on_begin(self, begin: Begin) -> None:
        """The whole tree is up: now work can begin, or go on."""
        core, parts = self.core, self.parts
        if begin.incarnation is not core.incarnation:
            return
        core.begun, core.port.at_work = True, parts.recording
        core.attempts.recall_asks(core.runtime.asks.copy(), core.port)
        for state in list(core.states.values()):
            self._resume(state)
        core.task = None
        parts.handlers.drop_stale()
        parts.teams.take_over()
        parts.delegation.recheck_deadlocks()
        core.act(None, core.port.resumed.complete)
        core.port.post(_COMMANDS)  # behind what is heard of workers by now: no order overtakes who is there to do it
        core.open()

    def _resume(self, state: TaskState) -> None:
        """A task goes on; but not one over which incarnation after incarnation dies."""
        core, lifecycle = self.core, self.parts.lifecycle
        core.task = state.id
        verdict = core.port.guard.look(state.id, state.events)
        if verdict == "aside":
            del core.states[state.id]
            core.port.put_aside(state.id)
            self.parts.teams.put_aside(state)
            self.parts.delegation.put_aside(state)
            return
        if verdict == "end":
            lifecycle.end(state, TaskStatus.FAILED, "internal", "its orchestrator died of it; see InternalError")
        lifecycle.resume(state)
        self.parts.part_usage.resumed(state)

    def _died(self, error: Exception) -> None:
        """Note at which task and command this incarnation dies. The count of deaths begins anew where it got on."""
        task, port, self.core.port.at_work = self.core.task, self.core.port, None
        state = self.core.states.get(task) if task is not None else None
        at = task, state.events if state is not None else 0
        if port.taken is not None:
            (attempt, usage), port.taken = port.taken, None
            event = self.parts.recording.last
            if getattr(event, "usage", None) is not usage or not is_same(self.core.store.last(attempt.task), event):
                attempt.take_back(usage)
        if self._order is not None:
            port.tries, port.died_at = port.tries + 1 if at == port.died_at else 1, at
        is_bounded = False
        if task is not None:
            is_bounded = port.guard.died(task, at[1]) and state is not None
            if not isinstance(error, DamagedJournalError):
                self.core.system.reports.internal_error(error)
            elif state is None:  # else the next one meets it first, and says so
                self.core.system.publish(JournalDamaged(self.core.path, task, error))
        # An order is given up after COMMAND_TRIES deaths, and damage is met once.
        self.core.incarnation.excused = is_bounded or self._order is not None or isinstance(error, DamagedJournalError)

    # -- hearing -------------------------------------------------------------------------------------------

    def _regrow_handler(self) -> Callable[[Any], None]:
        return self._receive

    def _receive(self, message: Any) -> None:
        core = self.core
        core.task = None
        try:
            if type(message) is Attempt:
                self._on_attempt(message)
            else:
                self._on_message(message)
            if core.is_open and not core.closing:
                self.parts.dispatcher.pump()
            if core.effects:
                core.flush()
        except Exception as error:
            self._died(error)
            raise

    def _on_attempt(self, attempt: Attempt) -> None:
        core = self.core
        if not core.begun:
            return  # found when the journals are taken up again
        if attempt.owner is core.port:
            core.task = attempt.task
            self._on_outcome(attempt)
        else:
            core.task = attempt.spec.part
            self.parts.teams.accept(attempt)

    def _on_message(self, message: Any) -> None:
        core, hears = self.core, self._HANDLERS.get(type(message))
        if hears is None:
            core.system.letters.dead_letter(core.incarnation.mailbox, message, Refusal.UNHANDLED, None)
        else:
            hears(self, message)

    def _on_outcome(self, attempt: Attempt) -> None:
        core, parts = self.core, self.parts
        if core.runtime.attempts.get(attempt.key) is not attempt:
            return  # heard already
        state = core.states.get(attempt.task)
        if state is not None and parts.teams.is_held(state):
            return  # it is taken up when that part goes on
        if (role := attempt.spec.role) == "work":
            parts.dispatcher.ended(attempt, state)
        else:
            core.act(attempt.task, core.runtime.forget, attempt)
            if state is not None:
                (parts.undo if role == "undo" else parts.stages).ended(attempt, state)
        if core.closing:
            parts.delegation.give_up(attempt.task, attempt)

    def _on_commands_waiting(self, _: CommandsWaiting) -> None:
        """Carry out the commands at the port. One goes when it is done, or after ``COMMAND_TRIES`` deaths at it.

        Those of earlier processes count as well, where it came by way of the store (``left_orders``).
        """
        port, left = self.core.port, MAX_COMMANDS
        while self.core.begun and port.orders:
            if not left:
                port.post(_COMMANDS)  # the rest after what has ended meanwhile, and after what can be started now
                return
            left -= 1
            order = port.orders[0]
            self.core.task, self._order = getattr(order, "task", None), order
            if port.tries + tries_of(getattr(order, "given_by", None)) < COMMAND_TRIES:
                self._HANDLERS[type(order)](self, order)
            else:
                self._give_up(order)
            if self.core.effects:
                self.core.flush()  # whoever waits for this order hears of it, also where the next one is deadly
            port.orders.popleft()
            port.tries, self._order = 0, None
            if isinstance(order, EscalationResponse):
                port.answers.forget(order.escalation)

    def _give_up(self, order: Any) -> None:
        """Drop an order that nobody can carry out: whoever waits for it hears so, and its task has failed."""
        core, remote = self.core, getattr(order, "given_by", None)
        task = getattr(order, "task", None) or ("" if remote is None else remote.task)
        if remote is not None and core.runtime.durable is not None:
            core.runtime.durable.order_done(remote)
        what = f"{type(order).__name__} was given up: {COMMAND_TRIES} incarnations have died of it; see InternalError"
        core.system.publish(OrderDamaged(core.path, task, StoreError("orders", what)))
        core.system.letters.dead_letter(core.incarnation.mailbox, order, Refusal.UNHANDLED, None)
        error = TaskFailedError(task, what)
        error.kind = "internal"
        open_ask = core.runtime.asks.get(order.ask) if isinstance(order, Delegate) else None
        if open_ask is not None:
            open_ask.reply.fail(error)
        elif isinstance(order, StepMade):
            order.kept.fail(error)
        state = core.states.get(task)
        if state is not None:
            self.parts.lifecycle.end(state, TaskStatus.FAILED, "internal", what)

    def _on_task_arrived(self, look: TaskArrived) -> None:
        core = self.core
        if look.task in core.states or look.task in core.runtime.unkept or look.task in core.port.guard.aside:
            return
        records = core.runtime.outline(look.task)
        if not records:
            return
        state = core.states[look.task] = fold(look.task, records)
        if state.final is not None:
            del core.states[look.task]
        elif core.begun:
            self.parts.lifecycle.begin(state)

    def _on_change(self, change: Cancel | SetPriority) -> None:
        """Change a task that perhaps has yet to be looked at."""
        self._on_task_arrived(TaskArrived(change.task))
        state = self.core.states.get(change.task)
        if state is None:
            return
        if isinstance(change, SetPriority):
            self.parts.lifecycle.prioritize(state, change.priority)
            return
        self.parts.teams.cancel(state, change.reason, change.attempt)
        if change.recorded is not None:
            self.core.act(state.id, change.recorded.complete)

    def _on_waiter_joined(self, join: WaiterJoined) -> None:
        state = self.core.states.get(join.task)
        if join.chain and state is not None and state.final is None and not state.chain:
            self.parts.recording.emit(state, task_events.TaskJoined, join.chain, join.lineage)
            self.parts.queue.requeue_all(state)
        if join.ask is not None:
            self.parts.delegation.recheck(join.ask)
        if self.core.closing:
            self.parts.delegation.give_up(join.task)

    def _on_escalation_response(self, responded: EscalationResponse) -> None:
        if (state := self.core.states.get(responded.task)) is not None:
            self.parts.questions.responded(state, responded)

    def _on_worker_changed(self, change: WorkerChanged) -> None:
        core, parts = self.core, self.parts
        if core.closing:
            parts.delegation.give_up_all()
        if core.closing or not self.knows_workers:
            return  # a team that stops because all does is not gone; and once we are up we are told of all workers
        known = core.workers.get(change.spec.id)
        was, entry = known and known.executable, core.workers.hear(change)
        if entry is not None:
            if entry is not known or entry.executable is not was:
                parts.queue.ready.reopen_all()
            if entry.is_team and entry.is_gone:
                parts.team_calls.gone(entry)
            parts.handoff.changed(entry)
            parts.queue.reopen(entry)
        if change.state != "running" or (entry is not None and entry.executable is not was):
            parts.delegation.look_at_all()

    def _on_shutting_down(self, closing: ShuttingDown) -> None:
        core = self.core
        if closing.incarnation is core.incarnation:
            core.closing = True
            self.parts.delegation.close()
            core.runtime.end_calls(core.port)

    def _on_timer_fired(self, due: TimerFired) -> None:
        if due.incarnation is self.core.incarnation:
            self.core.task = due.task
            due.then()

    _HANDLERS: ClassVar[dict[type[Any], Callable[[Orchestrator, Any], None]]] = {
        CommandsWaiting: _on_commands_waiting,
        TaskArrived: _on_task_arrived,
        Cancel: _on_change,
        SetPriority: _on_change,
        WaiterJoined: _on_waiter_joined,
        EscalationResponse: _on_escalation_response,
        TimerFired: _on_timer_fired,
        EffectFailed: lambda to, message: message.raise_in(to.core),
        RunOnLoop: lambda _, message: message.act(),
        RunWhenDurable: lambda to, message: to.core.act(message.task, message.act),
        Delegate: lambda to, message: to.parts.delegation.delegate(message),
        StepMade: lambda to, message: record_made(to.parts.recording, message),
        AttemptReported: lambda to, message: to.parts.dispatcher.reported(message.attempt),
        DelegationCancelled: lambda to, message: to.parts.delegation.withdraw(message),
        DelegationAnswered: lambda to, message: to.parts.delegation.answered(message),
        WaitsChanged: lambda to, message: to.parts.delegation.waits_changed(message),
        Pause: lambda to, message: to.parts.teams.pause(message),
        PartDue: lambda to, message: to.parts.part_times.change(message),
        PartEnded: lambda to, message: to.parts.part_usage.ended(message),
        WorkerChanged: _on_worker_changed,
        RegistrySnapshot: _on_registry_snapshot,
        Begin: _on_begin,
        ShuttingDown: _on_shutting_down,
    }
