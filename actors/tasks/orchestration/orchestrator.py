"""The orchestrator: a worker that turns goals into plans and has its siblings carry them out.

It keeps nothing that it could not fold again from the journal. Kill it at any moment, and the next incarnation goes on:
what was recorded is not done again, attempts that still run are waited for (``task_runtime``), and one whose fate is
unknown is started once more with the same idempotency key.

How it works, for every message::

    hear -> record what follows (journal, state, event) -> pump (start what can start) -> flush -> act

* **Record before act.** An attempt is put into a mailbox, an answer given, a report told only after the records that
  say so are kept (``act``); with a store that writes in groups, that is when the group is written (``effects``).
* **Decide elsewhere.** What follows from a state: ``lifecycle`` (a task as a whole), ``recovery`` (an attempt that has
  ended), ``scheduling`` (who is next, and with whom). ``dispatcher`` starts and ends attempts.
* It runs on the event loop, so that handing work to async workers costs no thread switch. Nothing in it waits.

The life of an incarnation: ``on_start`` folds the journals; the supervisor then tells who the workers are
(``RegistrySnapshot``); when the whole tree is up too, work begins or goes on (``Begin``). So a start that fails has had
no effect. Timers and orders of an old incarnation carry its life, and say nothing here. The task that one dies of is
noted (``task``; ``crash_guard``).
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
from actors.tasks.model.store_events import JournalDamaged
from actors.tasks.model.task import TaskStatus
from actors.tasks.model.task_errors import StoreError
from actors.tasks.orchestration.attempt_dispatcher import AttemptDispatcher
from actors.tasks.orchestration.attempt_table import AttemptTable
from actors.tasks.orchestration.breaker_records import BreakerRecords
from actors.tasks.orchestration.command_handlers import CommandHandlers
from actors.tasks.orchestration.deciding import Deciding
from actors.tasks.orchestration.delegation import Delegation
from actors.tasks.orchestration.fetching import Effect
from actors.tasks.orchestration.handoff import AttemptHandoff
from actors.tasks.orchestration.lifecycle import TaskLifecycle
from actors.tasks.orchestration.messages import (
    Begin,
    Cancel,
    CommandsWaiting,
    Delegate,
    DelegationAnswered,
    DelegationCancelled,
    EffectFailed,
    EscalationResponse,
    Pause,
    RunOnLoop,
    RunWhenDurable,
    SetPriority,
    ShuttingDown,
    StepMade,
    TaskArrived,
    TimerFired,
    UsageReported,
    WaiterJoined,
)
from actors.tasks.orchestration.recording import Recording
from actors.tasks.orchestration.stages import TaskStages
from actors.tasks.orchestration.step_records import record_made
from actors.tasks.orchestration.step_turns import STOPPED, Turns
from actors.tasks.orchestration.task_results import TaskResults
from actors.tasks.orchestration.task_runtime import task_runtime_of
from actors.tasks.orchestration.teams import Teams
from actors.tasks.orchestration.undo_dispatch import UndoDispatch
from actors.tasks.recovery.escalations import Escalations
from actors.tasks.scheduling.registry_messages import RegistrySnapshot, WorkerChanged
from actors.tasks.scheduling.suspects import Suspects
from actors.tasks.scheduling.worker_registry import WorkerRegistry

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation
    from actors.execution.timers import Timer
    from actors.runtime.system import System
    from actors.tasks.planning.task_settings import Tasks

COMMAND_TRIES: Final = 4
"""Incarnations that may die of the same order, at the same point, before it is given up."""
MAX_COMMANDS: Final = 64
"""Orders that are carried out at a time: a burst of thousands holds up neither what has ended nor what is ready."""
_COMMANDS: Final = CommandsWaiting()


class Orchestrator(ManagedActor):
    """One incarnation of the orchestrator of a supervisor."""

    watch: Callable[[], None] | None = None
    """Called after every message, with all that follows from it done: tests look there whether it all adds up."""

    def __init__(self, incarnation: Incarnation, settings: Tasks) -> None:
        self._regrow_incarnation = self.incarnation = incarnation
        self.runtime = task_runtime_of(cast("System", incarnation.system))
        self.system, self.store, self.settings = self.runtime.system, self.runtime.store, settings
        self.path = incarnation.mailbox.path.rpartition("/")[0]  # of the supervisor: the team
        self.port = self.runtime.port(self.path, settings)
        self.states: dict[str, TaskState] = {}
        self.workers, self.attempts = WorkerRegistry(), AttemptTable()
        self.recording = Recording(self)
        self.emit = self.recording.emit
        self.suspects: Suspects[Attempt] = Suspects(settings.max_losses, self.attempts.is_busy)
        self.turns, self.dispatcher = Turns(self), AttemptDispatcher(self)
        emit = self.recording.emit_breaker
        self.breakers = BreakerRecords(emit, self.store.read, self.time, self.at, self.dispatcher.changed)
        self.handoff, self.compensation = AttemptHandoff(self), UndoDispatch(self)
        self.results = TaskResults(self.port, self.dispatcher.settle)
        self.handlers = CommandHandlers(self)
        self.stages = TaskStages(self.port, self.recording, self.turns, self.results, self.handlers)
        self.lifecycle: TaskLifecycle = TaskLifecycle(self.handlers, self.recording, self.results, self.stages)
        self.deciding, self.escalations = Deciding(self), Escalations(self)
        self.delegation: Delegation = Delegation(self)
        self.teams: Teams = Teams(self)
        self.handlers.connect()
        self.staffed = self.begun = self.closing = False  # it knows its workers; it has taken up its tasks
        self._effects: dict[str | None, list[Effect]] = {}  # by task, what is to be done when it is kept
        self.task: str | None = None  # that the present message is about, as far as that is known
        self._order: object = None  # the one that is being carried out

    # -- beginning -----------------------------------------------------------------------------------------

    @collector.paused()
    def on_start(self) -> None:
        """Fold every journal that is not finished."""
        for id_ in self.store.streams(self.path):
            if id_ in self.runtime.submitting or id_ in self.port.guard.aside:
                continue  # it may yet be withdrawn: a Look says that it is kept; or nobody is to touch it
            try:
                self.states[id_] = fold(id_, self.runtime.outline(id_))
            except StoreError as error:  # one journal that makes no sense must not stop all the others
                self.system.publish(JournalDamaged(self.path, id_, error))
                self.port.put_aside(id_)
            except Exception as error:  # noqa: BLE001 - nor a bug of ours that only one of them meets
                self.system.reports.internal_error(error)
                self.port.put_aside(id_)
        self.port.states = self.states

    def on_stop(self) -> None:
        """Record what has succeeded and was not heard of yet: the order to stop overtakes it."""
        self.port.at_work, self.closing = None, self.closing or self.port.closing is self.incarnation
        for attempt in list(self.runtime.attempts.values()) if self.begun else ():
            # Where all is being stopped, what was stopped says so in the journal: its process did not die with it.
            if attempt.owner is self.port and (attempt.succeeded or (attempt.done and self.closing)):
                self._on_outcome(attempt)
            elif attempt.owner is self.port:
                self.recording.count(attempt)
        for state in self.states.values() if self.begun and self.closing else ():
            if not self.teams.is_held(state):  # of such a part an earlier process has begun a step, and this one none
                self.turns.put_back(state, STOPPED)
        self.flush()

    def _on_registry_snapshot(self, staffed: RegistrySnapshot) -> None:
        """Take the workers over from the supervisor."""
        if staffed.incarnation is not self.incarnation:
            return
        for change in staffed.workers:
            self.breakers.restore(self.workers.hear(change))
        self.port.workers = self.workers
        self.staffed = True
        started, begin = self.system.started, Begin(self.incarnation)
        if started.done:
            self._on_begin(begin)
        else:
            started.when_done(lambda: self.port.post(begin))

    @collector.paused()
    def _on_begin(self, begin: Begin) -> None:
        """The whole tree is up: now work can begin, or go on."""
        if begin.incarnation is not self.incarnation:
            return
        self.begun, self.port.at_work = True, self
        self.attempts.recall_asks(self.runtime.asks.copy(), self.port)
        for state in list(self.states.values()):
            self._resume(state)
        self.task = None
        self.handlers.drop_stale()
        self.teams.take_over()
        self.delegation.recheck_deadlocks()
        self.act(None, self.port.resumed.complete)
        self.port.post(_COMMANDS)  # behind what is heard of workers by now: no order overtakes who is there to do it

    def _resume(self, state: TaskState) -> None:
        """A task goes on; but not one over which incarnation after incarnation dies."""
        self.task = state.id
        verdict = self.port.guard.look(state.id, state.events)
        if verdict == "aside":
            del self.states[state.id]
            self.port.put_aside(state.id)
            self.teams.put_aside(state)
            return
        if verdict == "end":
            self.lifecycle.end(state, TaskStatus.FAILED, "internal", "its orchestrator died of it; see InternalError")
        self.lifecycle.resume(state)

    def _died(self, error: Exception) -> None:
        """Note over which task, where that is known, and of which order; one that has come further begins anew."""
        task, port, self.port.at_work = self.task, self.port, None
        state = self.states.get(task) if task is not None else None
        at = task, state.events if state is not None else 0
        if port.taken is not None:
            (attempt, usage), port.taken = port.taken, None
            event = self.recording.last
            if getattr(event, "usage", None) is not usage or not is_same(self.store.last(attempt.task), event):
                attempt.take_back(usage)
        if self._order is not None:
            port.tries, port.died_at = port.tries + 1 if at == port.died_at else 1, at
        if task is not None:
            port.guard.died(task, at[1])
            self.system.reports.internal_error(error)

    # -- hearing -------------------------------------------------------------------------------------------

    def _regrow_handler(self) -> Callable[[Any], None]:
        return self._receive

    def _receive(self, message: Any) -> None:
        self.task = None
        try:
            self._handle(message)
        except Exception as error:
            self._died(error)
            raise

    def _handle(self, message: Any) -> None:
        kind = type(message)
        if kind is Attempt:
            if not self.begun:
                pass  # found when the journals are taken up again
            elif message.owner is self.port:
                self.task = message.task
                self._on_outcome(message)
            else:
                self.task = message.spec.part
                self.teams.accept(message)
        else:
            hears = self._HANDLERS.get(kind)
            if hears is None:
                self.system.letters.dead_letter(self.incarnation.mailbox, message, Refusal.UNHANDLED, None)
            else:
                hears(self, message)
        if self.begun and not self.closing:
            self.dispatcher.pump()
        if self._effects:
            self.flush()
        if self.watch is not None:
            self.watch()

    def _on_outcome(self, attempt: Attempt) -> None:
        if self.runtime.attempts.get(attempt.key) is not attempt:
            return  # heard already
        state = self.states.get(attempt.task)
        if attempt.spec.role == "work":
            self.dispatcher.ended(attempt, state)
            return
        self.act(attempt.task, self.runtime.forget, attempt)
        if state is not None and attempt.spec.role == "undo":
            self.compensation.ended(attempt, state)
        elif state is not None:
            self.stages.ended(attempt, state)

    def _on_commands_waiting(self, _: CommandsWaiting) -> None:
        """Do what lies at the port. An order is taken from it when it is done; one that we die of is not for ever."""
        port, left = self.port, MAX_COMMANDS
        while self.begun and port.orders:
            if not left:
                port.post(_COMMANDS)  # the rest after what has ended meanwhile, and after what can be started now
                return
            left -= 1
            order = port.orders[0]
            self.task, self._order = getattr(order, "task", None), order
            if port.tries < COMMAND_TRIES:
                self._HANDLERS[type(order)](self, order)
            else:
                self.system.letters.dead_letter(self.incarnation.mailbox, order, Refusal.UNHANDLED, None)
            port.orders.popleft()
            port.tries, self._order = 0, None

    def _on_task_arrived(self, look: TaskArrived) -> None:
        if look.task in self.states or look.task in self.runtime.submitting or look.task in self.port.guard.aside:
            return
        records = self.runtime.outline(look.task)
        if not records:
            return
        state = self.states[look.task] = fold(look.task, records)
        if state.final is not None:
            del self.states[look.task]
        elif self.begun:
            self.lifecycle.begin(state)

    def _on_change(self, change: Cancel | SetPriority) -> None:
        """Change a task that perhaps has yet to be looked at."""
        self._on_task_arrived(TaskArrived(change.task))
        state = self.states.get(change.task)
        if state is None:
            return
        if isinstance(change, SetPriority):
            self.lifecycle.prioritize(state, change.priority)
        else:
            self.lifecycle.cancel(state, change.reason)

    def _on_waiter_joined(self, join: WaiterJoined) -> None:
        state = self.states.get(join.task)
        if state is not None and state.final is None and not state.chain:
            self.emit(state, task_events.TaskJoined, join.chain, join.lineage)
            self.dispatcher.requeue_all(state)

    def _on_escalation_response(self, responded: EscalationResponse) -> None:
        self.port.answered.pop(responded.escalation, None)
        state = self.states.get(responded.task)
        if state is not None:
            self.escalations.responded(state, responded)

    def _on_worker_changed(self, change: WorkerChanged) -> None:
        if self.closing or not self.staffed:
            return  # a team that stops because all does is not gone; and once we are up we are told of all workers
        known = self.workers.get(change.spec.id)
        was, entry = known and known.executable, self.workers.hear(change)
        if entry is not None:
            if entry is not known:
                self.breakers.restore(entry)
            if entry is not known or entry.executable is not was:
                self.dispatcher.queue.reopen_all()
            if entry.is_team and entry.is_gone:
                self.teams.gone(entry)
            self.handoff.changed(entry)
            self.dispatcher.changed(entry)

    def _on_shutting_down(self, closing: ShuttingDown) -> None:
        if closing.incarnation is self.incarnation:
            self.closing = True
            self.delegation.close()
            for errand in [each for each in list(self.runtime.errands) if each.is_of(self.port)]:
                errand.kill()

    def _on_timer_fired(self, due: TimerFired) -> None:
        if due.incarnation is self.incarnation:
            self.task = due.task
            due.then()

    # -- what its parts use --------------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds since 1970, by the tree's clock."""
        return self.runtime.epoch + self.system.now()

    def act(self, task: str | None, function: Callable[..., object], *args: Any) -> None:
        """Do something that others see, once everything is kept that is recorded by the end of this message.

        Args:
            task: whose records it follows from: it waits for those only. None: for those of all tasks, and behind all
                that is yet to be done.
            function: what is called.
            args: with what.
        """
        self._effects.setdefault(task, []).append((function, args))

    def at(self, due: float, then: Callable[[], None]) -> Timer:
        """Have something done at a time, in seconds since 1970, unless this incarnation is over by then."""
        message = TimerFired(self.incarnation, then, self.task)
        return self.system.timers.call_at(due - self.runtime.epoch, lambda: self.port.post(message))

    def flush(self) -> None:
        """Have done what follows from the records that were made, once they are kept."""
        effects, self._effects = self._effects, {}
        for task, its in effects.items():
            self.port.effects.after(self.runtime.flush(task), its, task)

    _HANDLERS: ClassVar[dict[type[Any], Callable[[Orchestrator, Any], None]]] = {
        CommandsWaiting: _on_commands_waiting,
        TaskArrived: _on_task_arrived,
        Cancel: _on_change,
        SetPriority: _on_change,
        WaiterJoined: _on_waiter_joined,
        EscalationResponse: _on_escalation_response,
        TimerFired: _on_timer_fired,
        EffectFailed: lambda to, message: message.raise_in(to),
        RunOnLoop: lambda _, message: message.act(),
        RunWhenDurable: lambda to, message: to.act(message.task, message.act),
        Delegate: lambda to, message: to.delegation.delegate(message),
        StepMade: record_made,
        UsageReported: lambda to, message: to.recording.count(message.attempt),
        DelegationCancelled: lambda to, message: to.delegation.withdraw(message),
        DelegationAnswered: lambda to, message: to.delegation.answered(message),
        Pause: lambda to, message: to.teams.pause(message),
        WorkerChanged: _on_worker_changed,
        RegistrySnapshot: _on_registry_snapshot,
        Begin: _on_begin,
        ShuttingDown: _on_shutting_down,
    }
