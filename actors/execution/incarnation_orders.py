"""Orders to one incarnation of a worker: start, stop, kill, abandon. Its supervisor calls them.

Its supervisor's thread runs these; ``wake`` also that of any sender, ``_order`` that of whoever stops a ``Ref``,
``cancel_current`` the loop. So no user code runs in them: what may run some is left to the place where the incarnation
runs, and objects are let go of there as well (``_let_go``).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

from actors.execution.incarnation import Exit, Incarnation, IncarnationPhase
from actors.execution.incarnation_ports import IncarnationHost, IncarnationOwner
from actors.execution.residence import Residence
from actors.messaging.envelope import STOP, SystemMessage
from actors.messaging.pulse import Pulse
from actors.model.spec import ChildSpec, DispatcherKind, Reason, WorkerRecipe

if TYPE_CHECKING:
    from actors.execution.loop_scheduler import LoopScheduler
    from actors.messaging.mailbox import Mailbox
    from actors.model.errors import StalledError

PLACE_LOST = "its event loop was given up"
"""Description of the end of those who ran on a loop that another one has blocked."""


class ControlledIncarnation(Incarnation):
    """One incarnation of a worker, as its supervisor sees it."""

    __slots__ = ("place", "recipe", "residence")

    def __init__(self, system: IncarnationHost, spec: ChildSpec, mailbox: Mailbox, owner: IncarnationOwner) -> None:
        super().__init__(system, spec, mailbox, owner)
        assert isinstance(spec.recipe, WorkerRecipe)  # noqa: S101 - ours to get right, not a user's mistake
        self.recipe = spec.recipe
        """How it is built."""
        self.place = system.place_of(spec.recipe)
        """Where it runs."""
        if self.recipe.stall_s is not None:
            self.pulse = Pulse(system.now)
        self.residence = Residence() if self.recipe.resides else None
        """Holder of what stays between its messages; None: nothing does."""

    @property
    def resource(self) -> Any:
        """Resource that its lifespan has yielded, while that is open."""
        return None if self.residence is None else self.residence.value

    @property
    def _event_loop(self) -> LoopScheduler:
        """Place where it runs, if that is a loop."""
        return cast("LoopScheduler", self.place)

    @property
    def _goes_by_itself(self) -> bool:
        """True where its own task or thread has to end it, because something is open there."""
        residence = self.residence
        return residence is not None and (residence.is_open or self.task is not None)

    @property
    def is_cut_off(self) -> bool:
        """True where a cancel is no crash: it is to be killed, or its loop was given up, and cancels all there."""
        return self.order is Reason.KILLED or self._lost_place

    @property
    def _lost_place(self) -> bool:
        return self.recipe.where is DispatcherKind.LOOP and self._event_loop.is_given_up

    # -- its supervisor ------------------------------------------------------------------------------------

    def start(self) -> bool:
        """Begin; True when it is up already. Otherwise ``Started`` or ``Exited`` will be told."""
        recipe = self.recipe
        plain = recipe.starts_at_once
        if plain:
            self.actor = recipe.make(self)
            self._comes_up()
        if self.mailbox.attach(self, idle=plain):
            self.place.schedule(self)  # type: ignore[arg-type]
        return plain

    def stop(self) -> Exit | None:
        """Order it, as its supervisor, to end after the message it is handling; its Exit if it ended on the spot."""
        plain = self.recipe.stops_plain and self.recipe.where is not DispatcherKind.THREAD
        if self._order(Reason.SHUTDOWN):
            if plain and not self._goes_by_itself:
                return self._end(Exit(Reason.SHUTDOWN))
            self.wake()
        return None

    def _order(self, reason: Reason) -> bool:
        """Give the order to end; True when the incarnation was idle, and is now the caller's to wake or to end."""
        with self.mailbox.lock:
            if self.phase is IncarnationPhase.OVER or self.phase is IncarnationPhase.ENDING or self.order is not None:
                return False
            self.order = reason
            idle = self._take_idleness()
            stopped = self._stopped
        if stopped is not None:
            stopped.complete()
        if self.recipe.is_body:
            self.place.cancel(self)  # type: ignore[arg-type]  # each of these is a WorkerIncarnation
        elif self.recipe.where is DispatcherKind.LOOP and self.current is not None:
            self._event_loop.call(lambda: self.cancel_current(STOP))
        return idle

    def cancel_current(self, why: str) -> None:
        """Cancel the async work that is being handled, where it may be cancelled. On the loop's thread."""
        current, task = self.current, self.task
        if current is None or task is None or self.phase is not IncarnationPhase.UP:
            return
        body = current[0]
        if issubclass(type(body), SystemMessage) and body.request_cancel(why):
            task.cancel()

    def kill(self, what: str = "") -> Exit | None:
        """End it without any hook: a coroutine is cancelled, a thread abandoned. Its Exit if it is over now."""
        with self.mailbox.lock:
            if self.phase is IncarnationPhase.OVER:
                return None
            self.order = Reason.KILLED
            idle = self._take_idleness()
            running = self.running_on is not None
            stopped = self._stopped
        if stopped is not None:
            stopped.complete()
        on_loop = self.recipe.where is DispatcherKind.LOOP
        if on_loop and (running or self._goes_by_itself):
            self.place.cancel(self)  # type: ignore[arg-type]
            return None
        if not running and self._goes_by_itself:
            self.wake()
            return None
        ended = self._end(Exit(Reason.KILLED, what=what), abandon=running)
        if idle:
            self.wake()  # a pinned thread waits at its gate, and may go now
        return ended

    @property
    def silent_since(self) -> float | None:
        """Time of its last sign of life, on the tree's clock; None: nothing runs that could hang.

        Read without a lock, on any thread: a time that was right at some moment during the call.
        """
        pulse = self.pulse
        if pulse is None or self.phase is not IncarnationPhase.UP or self.order is not None or pulse.waits:
            return None
        if self.recipe.is_body:
            return pulse.last
        return None if self.current is None else max(self.since, pulse.last)

    def condemn(self, error: StalledError, since: float) -> bool:
        """Have it end as crashed of ``error``, next; False where it has given a sign of life since, or ends anyway."""
        with self.mailbox.lock:
            if self.silent_since != since:
                return False
            self.order = Reason.KILLED
            self.crash = Exit(Reason.CRASHED, error)
        return True

    def lose_place(self, error: StalledError | None) -> Exit | None:
        """End it at once, because the loop that it runs on was given up; its Exit, or None where it is over already.

        Its code may stand in an await for ever. ``error``: it is the one whose code blocks the loop.
        """
        with self.mailbox.lock:
            if self.phase is IncarnationPhase.OVER:
                return None
            self.order = Reason.KILLED
        exit_ = Exit(Reason.KILLED, what=PLACE_LOST) if error is None else Exit(Reason.CRASHED, error)
        return self._end(exit_, abandon=error is not None)

    def abandon(self, what: str = "") -> Exit | None:
        """Leave it to itself after a cancellation that did not end it."""
        return self._end(Exit(Reason.KILLED, what=what), abandon=True)

    def wake(self) -> None:
        """Have it run. May be done once too often: see ``Mailbox.hold``."""
        self.place.schedule(self)  # type: ignore[arg-type]

    # -- what it leaves ------------------------------------------------------------------------------------

    def _let_go(self, remains: list[Any]) -> None:
        """Where it ran: see ``disposal``. Never here and now: this may be its supervisor's thread."""
        if self.recipe.where is DispatcherKind.LOOP:
            self._event_loop.let_go(remains)
        elif self.recipe.where is DispatcherKind.THREAD and self.running_on == threading.get_ident():
            self.remains = [*(self.remains or ()), *remains]
            remains.clear()
        else:
            self.system.disposal.put(remains)
