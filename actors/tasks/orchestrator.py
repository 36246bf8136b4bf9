"""The orchestrator: a worker that turns goals into plans and has its siblings carry them out.

It keeps nothing that it could not fold again from the journal (``actors.tasks.state``). Kill it at any moment, and the
next incarnation goes on: what was recorded is not done again, attempts that still run are waited for (they live in the
tree, see ``actors.tasks.ground``), and one whose fate is unknown is started once more with the same idempotency key.

How it works, for every message::

    hear -> record what follows (journal, state, event) -> pump (start what can start) -> flush -> act

* **Record before act.** An attempt is put into a mailbox, an answer given, a report told only after the records that
  say so are kept (``act``); with a store that writes in groups, that is when the group is written (``effects``).
* **Decide elsewhere.** What follows from a state: ``course`` (a task as a whole), ``trying`` and ``ladder`` (an
  attempt that has ended), ``people``, ``undoing`` (compensation), ``staff`` and ``schedule`` (who is next, and with
  whom). ``launching`` starts and ends attempts.
* It runs on the event loop, so that handing work to async workers costs no thread switch. Nothing in it waits.

The life of an incarnation: ``on_start`` folds the journals; the supervisor then tells who the workers are
(``Staffed``); when the whole tree is up too, work begins or goes on (``Begin``). So a start that fails has had no
effect. Timers and orders that belong to an old incarnation carry its life, and say nothing here.

Should it die, the task that it worked for at that moment is noted (``task``; ``actors.tasks.guard``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from actors import collector
from actors.base import Hardened
from actors.mailbox import Refusal
from actors.tasks import events
from actors.tasks.attempt import Attempt
from actors.tasks.command_handlers import CommandHandlers
from actors.tasks.course import Course
from actors.tasks.deciding import Deciding
from actors.tasks.delegating import Delegating
from actors.tasks.effects import Effect
from actors.tasks.errors import StoreError
from actors.tasks.folding import folded
from actors.tasks.giving import Giving
from actors.tasks.ground import ground_of
from actors.tasks.hears import (
    Afterwards,
    Answered,
    Begin,
    Broke,
    Cancel,
    Closing,
    Delegate,
    Do,
    Due,
    Join,
    Look,
    Orders,
    Pause,
    Responded,
    Staffed,
    Used,
    Withdraw,
    WorkerChanged,
)
from actors.tasks.launching import Launching
from actors.tasks.people import People
from actors.tasks.recording import Recording
from actors.tasks.staff import Staff
from actors.tasks.state import TaskState
from actors.tasks.store_events import JournalDamaged
from actors.tasks.suspects import Suspects
from actors.tasks.task import TaskStatus
from actors.tasks.teamwork import Teamwork
from actors.tasks.turns import STOPPED, Turns
from actors.tasks.undo_dispatch import UndoDispatch

if TYPE_CHECKING:
    from actors.dispatch.timers import Timer
    from actors.life import Life
    from actors.system import System
    from actors.tasks.settings import Tasks


ORDER_TRIES: Final = 4
"""Incarnations that may die of the same order, at the same point, before it is given up."""
MOST_ORDERS: Final = 64
"""Orders that are carried out at a time: a burst of thousands holds up neither what has ended nor what is ready."""
_ORDERS: Final = Orders()


class Orchestrator(Hardened):
    """One incarnation of the orchestrator of a supervisor."""

    watch: Callable[[], None] | None = None
    """Called after every message, with all that follows from it done: tests look there whether it all adds up."""

    def __init__(self, life: Life, settings: Tasks) -> None:
        self._regrow_life = self.life = life
        self.ground = ground_of(cast("System", life.system))
        self.system, self.store = self.ground.system, self.ground.store
        self.path = life.mailbox.path.rpartition("/")[0]
        """Of the supervisor: the team."""
        self.settings = settings
        self.desk = self.ground.desk(self.path, settings)
        self.states: dict[str, TaskState] = {}
        self.staff = Staff()
        self.recording = Recording(self)
        self.emit = self.recording.emit
        self.suspects = Suspects(settings.max_losses)
        self.turns = Turns(self)
        self.launching = Launching(self)
        self.giving = Giving(self)
        self.undoing = UndoDispatch(self)
        self.course: Course = Course(self)
        self.deciding = Deciding(self)
        self.people = People(self)
        self.delegating: Delegating = Delegating(self)
        self.teamwork: Teamwork = Teamwork(self)
        self.handlers = CommandHandlers(self)
        self.staffed = False  # it knows its workers
        self.begun = self.closing = False  # begun: it has taken up its tasks, and hears of them
        self._effects: list[Effect] = []
        self.task: str | None = None  # that the present message is about, as far as that is known
        self._order: object = None  # the one that is being carried out

    # -- beginning -----------------------------------------------------------------------------------------

    @collector.paused()
    def on_start(self) -> None:
        """Fold every journal that is not finished."""
        for id_ in self.store.streams(self.path):
            if id_ in self.ground.submitting or id_ in self.desk.guard.aside:
                continue  # it may yet be withdrawn: a Look says that it is kept; or nobody is to touch it
            try:
                self.states[id_] = folded(id_, self.store.read(id_))
            except StoreError as error:  # one journal that makes no sense must not stop all the others
                self.system.publish(JournalDamaged(self.path, id_, error))
                self.desk.put_aside(id_)
            except Exception as error:  # noqa: BLE001 - nor a bug of ours that only one of them meets
                self.system.internal_error(error)
                self.desk.put_aside(id_)
        self.desk.states = self.states

    def on_stop(self) -> None:
        """Record what has succeeded and was not heard of yet: the order to stop overtakes it."""
        self.closing = self.closing or self.desk.closing is self.life
        for attempt in list(self.ground.attempts.values()) if self.begun else ():
            # Where all is being stopped, what was stopped says so in the journal: its process did not die with it.
            if attempt.desk is self.desk and (attempt.succeeded or (attempt.done and self.closing)):
                self._outcome(attempt)
            elif attempt.desk is self.desk:
                self.course.count(attempt)
        for state in self.states.values() if self.begun and self.closing else ():
            self.turns.put_back(state, STOPPED)
        self._flush()

    def _staffed(self, staffed: Staffed) -> None:
        """Who the workers are."""
        if staffed.life is not self.life:
            return
        for change in staffed.workers:
            self.launching.restored(self.staff.hear(change))
        self.desk.staff = self.staff
        self.staffed = True
        started, begin = self.system.started, Begin(self.life)
        if started.done:
            self._begin(begin)
        else:
            started.when_done(lambda: self.desk.post(begin))

    @collector.paused()
    def _begin(self, begin: Begin) -> None:
        """The whole tree is up: now work can begin, or go on."""
        if begin.life is not self.life:
            return
        self.begun = True
        for state in list(self.states.values()):
            self._resume(state)
        self.task = None
        self.course.drop_stale()
        self.teamwork.take_over()
        self.delegating.look_again()
        self.act(self.desk.resumed.complete)
        self.desk.post(_ORDERS)  # behind what is heard of workers by now: no order overtakes who is there to do it

    def _resume(self, state: TaskState) -> None:
        """A task goes on; but not one over which incarnation after incarnation dies."""
        self.task = state.id
        verdict = self.desk.guard.look(state.id, state.events)
        if verdict == "aside":
            del self.states[state.id]
            self.desk.put_aside(state.id)
            self.teamwork.put_aside(state)
            return
        if verdict == "end":
            self.course.end(state, TaskStatus.FAILED, "internal", "its orchestrator died of it; see InternalError")
        self.course.resume(state)

    def _died(self, error: Exception) -> None:
        """Note over which task, where that is known, and of which order; one that has come further begins anew."""
        task, desk = self.task, self.desk
        state = self.states.get(task) if task is not None else None
        at = task, state.events if state is not None else 0
        if desk.taken is not None:
            (attempt, usage), desk.taken = desk.taken, None
            event = self.recording.last  # the store may give back another one that is equal to it
            if getattr(event, "usage", None) is not usage or self.store.last(attempt.task) != event:
                attempt.take_back(usage)
        if self._order is not None:
            desk.tries, desk.died_at = desk.tries + 1 if at == desk.died_at else 1, at
        if task is not None:
            desk.guard.died(task, at[1])
            self.system.internal_error(error)

    # -- hearing -------------------------------------------------------------------------------------------

    def _regrow_handler(self) -> Callable[[Any], None]:
        return self._hear

    def _hear(self, message: Any) -> None:
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
            elif message.desk is self.desk:
                self.task = message.task
                self._outcome(message)
            else:
                self.task = message.nested
                self.teamwork.take(message)
        else:
            hears = _HEARS.get(kind)
            if hears is None:
                self.system.dead_letter(self.life.mailbox, message, Refusal.UNHANDLED, None)
            else:
                hears(self, message)
        if self.begun and not self.closing:
            self.launching.pump()
        if self._effects:
            self._flush()
        if self.watch is not None:
            self.watch()

    def _outcome(self, attempt: Attempt) -> None:
        if self.ground.attempts.get(attempt.key) is not attempt:
            return  # heard already
        state = self.states.get(attempt.task)
        if attempt.role == "work":
            self.launching.ended(attempt, state)
            return
        self.act(self.ground.forget, attempt)
        if state is not None and attempt.role == "undo":
            self.undoing.ended(attempt, state)
        elif state is not None:
            self.course.step_ended(attempt, state)

    def _orders(self, _: Orders) -> None:
        """Do what lies on the desk. An order is taken from it when it is done; one that we die of is not for ever."""
        desk, left = self.desk, MOST_ORDERS
        while self.begun and desk.orders:
            if not left:
                desk.post(_ORDERS)  # the rest after what has ended meanwhile, and after what can be started now
                return
            left -= 1
            order = desk.orders[0]
            self.task, self._order = getattr(order, "task", None), order
            if desk.tries < ORDER_TRIES:
                _HEARS[type(order)](self, order)
            else:
                self.system.dead_letter(self.life.mailbox, order, Refusal.UNHANDLED, None)
            desk.orders.popleft()
            desk.tries, self._order = 0, None

    def _look(self, look: Look) -> None:
        if look.task in self.states or look.task in self.ground.submitting or look.task in self.desk.guard.aside:
            return
        records = self.store.read(look.task)
        if not records:
            return
        state = self.states[look.task] = folded(look.task, records)
        if state.final is not None:
            del self.states[look.task]
        elif self.begun:
            self.course.begin(state)

    def _cancel(self, cancel: Cancel) -> None:
        self._look(Look(cancel.task))
        state = self.states.get(cancel.task)
        if state is not None:
            self.course.cancel(state, cancel.reason)

    def _join(self, join: Join) -> None:
        state = self.states.get(join.task)
        if state is not None and state.final is None and not state.chain:
            self.emit(state, events.TaskJoined, join.chain, join.lineage)
            self.launching.requeue_all(state)

    def _responded(self, responded: Responded) -> None:
        self.desk.answered.pop(responded.escalation, None)
        state = self.states.get(responded.task)
        if state is not None:
            self.people.responded(state, responded)

    def _worker_changed(self, change: WorkerChanged) -> None:
        if not self.staffed:
            return  # the supervisor tells of all of them, this one included, as soon as it knows that we are up
        known = self.staff.get(change.spec.id)
        entry = self.staff.hear(change)
        if entry is not None:
            if entry is not known:
                self.launching.restored(entry)
                self.launching.queue.reopen_all()
            if entry.is_team and entry.is_gone:
                self.teamwork.gone(entry)
            self.giving.changed(entry)
            self.launching.changed(entry)

    def _closing(self, closing: Closing) -> None:
        if closing.life is self.life:
            self.closing = True
            self.delegating.close()
            for errand in list(self.ground.errands):
                if errand.is_of(self.desk):
                    errand.kill()

    def _due(self, due: Due) -> None:
        if due.life is self.life:
            self.task = due.task
            due.then()

    def _broke(self, message: Broke) -> None:
        self.task = message.task
        raise message.error

    def _afterwards(self, message: Afterwards) -> None:
        self.act(message.act)

    # -- what its parts use --------------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds since 1970, by the tree's clock."""
        return self.ground.epoch + self.system.now()

    def act(self, function: Callable[..., object], *args: Any) -> None:
        """Do something that others see, once everything recorded so far is kept."""
        self._effects.append((function, args, self.task))

    def at(self, due: float, then: Callable[[], None]) -> Timer:
        """Have something done at a time, in seconds since 1970, unless this incarnation is over by then."""
        message = Due(self.life, then, self.task)
        return self.system.timers.call_at(due - self.ground.epoch, lambda: self.desk.post(message))

    def _flush(self) -> None:
        effects, self._effects = self._effects, []
        self.desk.effects.after(self.store.flush(), effects)


_HEARS: Final[dict[type[Any], Callable[[Orchestrator, Any], None]]] = {
    Orders: Orchestrator._orders,  # noqa: SLF001 - its own
    Look: Orchestrator._look,  # noqa: SLF001
    Cancel: Orchestrator._cancel,  # noqa: SLF001
    Join: Orchestrator._join,  # noqa: SLF001
    Responded: Orchestrator._responded,  # noqa: SLF001
    Due: Orchestrator._due,  # noqa: SLF001
    Broke: Orchestrator._broke,  # noqa: SLF001
    Do: lambda _, message: message.act(),
    Afterwards: Orchestrator._afterwards,  # noqa: SLF001
    Delegate: lambda to, message: to.delegating.delegate(message),
    Used: lambda to, message: to.course.count(message.attempt),
    Withdraw: lambda to, message: to.delegating.withdraw(message),
    Answered: lambda to, message: to.delegating.answered(message),
    Pause: lambda to, message: to.teamwork.pause(message),
    WorkerChanged: Orchestrator._worker_changed,  # noqa: SLF001
    Staffed: Orchestrator._staffed,  # noqa: SLF001
    Begin: Orchestrator._begin,  # noqa: SLF001
    Closing: Orchestrator._closing,  # noqa: SLF001
}
