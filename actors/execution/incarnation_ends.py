"""How one incarnation of a worker ends: its last hook, its lifespan, the report; a part of the crash boundary.

Every end goes the same way, whatever it is: the last hook, where there is one and it is not a kill; then the lifespan
is left; then the end is reported, by one test-and-set (``Incarnation._end``). What it leaves is let go of after that.
"""

from __future__ import annotations

import asyncio
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

from actors.execution.incarnation import Exit, IncarnationPhase, Stopping
from actors.execution.incarnation_orders import PLACE_LOST, ControlledIncarnation
from actors.execution.residence import PlaceLostError
from actors.messaging.envelope import Hook
from actors.messaging.message_errors import ActorStoppedError
from actors.model.process_errors import for_asker
from actors.model.raised import frames_of, is_a
from actors.model.spec import DispatcherKind, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.execution.residence import Residence
    from actors.messaging.reply import Reply


class EndingIncarnation(ControlledIncarnation):
    """One incarnation of a worker, on its way to its end."""

    __slots__ = ()

    async def _settled(self, coroutine: Any) -> Any:
        """Await a handler's coroutine; on a thread there is no loop to await it on."""
        if self.recipe.where is DispatcherKind.LOOP:
            return await coroutine
        coroutine.close()
        message = (
            f"{self.mailbox.path}: its code returned a coroutine but runs on the {self.recipe.where}. "
            "Declare it with dispatch='loop', or make it 'async def'"
        )
        raise TypeError(message)

    # -- ending --------------------------------------------------------------------------------------------

    async def _obey(self) -> None:
        """End as ordered: on_stop first, unless killed."""
        reason, error = self.order or Reason.SHUTDOWN, None
        if reason is not Reason.KILLED and (lost := self._lost) is not None:
            await self._crash(lost)
            return
        if reason is not Reason.KILLED and self._enter_last_hook(plain=self.recipe.stops_plain):
            error = await self._hook("on_stop")
        await self._finish(Exit(reason) if error is None else Exit(Reason.CRASHED, error, what="on_stop raised"))

    async def _crash(self, error: BaseException, reply: Reply | None = None) -> None:
        """An exception was born in user code: answer the asker, run on_failure, end.

        *The loop wakes while it is given up, and cancels before the supervisor has ended this*: no code has raised.
        """
        if is_a(error, asyncio.CancelledError) and self.is_cut_off:
            await self._finish(Exit(Reason.KILLED))
            return
        frames = frames_of(error)
        if reply is not None:
            reply.fail(for_asker(self.mailbox.path, error))
        excused = self.excused or (reply is not None and reply.is_of_batch) or is_a(error, PlaceLostError)
        crash = Exit(Reason.CRASHED, error, frames=frames, excused=excused)
        if self._enter_last_hook(plain=self.recipe.fails_plain or self.actor is None, crash=crash):
            second = await self._hook("on_failure", type(error), error, frames_of(error))
            if second is not None:
                self.system.reports.hook_raised(self.mailbox.path, "on_failure", second)
        await self._finish(crash)

    def _enter_last_hook(self, *, plain: bool, crash: Exit | None = None) -> bool:
        """True when a last hook is to be run. The owner gives it, and leaving a lifespan, the limit of a stop."""
        if plain and not self._owns:
            return False
        with self.mailbox.lock:
            if self.phase is IncarnationPhase.OVER or self.order is Reason.KILLED:
                return False
            self.phase, self.crash = IncarnationPhase.ENDING, crash
        self.owner.post(Stopping(self))
        return not plain

    async def _hook(self, name: str, *args: Any) -> BaseException | None:
        """Run a last hook; what it raised."""
        self._with_clean_slate()
        try:
            with Hook(self, None):
                result = getattr(self.actor, name)(*args)
                if type(result) is CoroutineType:
                    await self._settled(result)
        except BaseException as error:
            was_killed = self.order is Reason.KILLED or (is_a(error, asyncio.CancelledError) and self.is_cut_off)
            return None if was_killed else error
        return None

    def _with_clean_slate(self) -> None:
        """Forget, in its own task, that it was cancelled to get here."""
        while self.task is not None and self.task.cancelling():
            self.task.uncancel()

    # -- its lifespan --------------------------------------------------------------------------------------

    @property
    def _owns(self) -> bool:
        return self.residence is not None and self.residence.is_open

    @property
    def _lost(self) -> BaseException | None:
        """Error of a lifespan that has ended by itself; None: none has."""
        return None if self.residence is None else self.residence.lost

    async def _open(self, factory: Callable[[], object]) -> None:
        """Enter a lifespan, where it stays: in the task, or on the thread, in which all of this runs."""
        held = None if self.recipe.where is DispatcherKind.LOOP else self._held
        await cast("Residence", self.residence).enter(factory(), held)

    def _held(self, manager: Any) -> Any:
        """Make a sync context manager of an async one, for a worker on a thread."""
        from actors.execution.held_lifespan import HeldLifespan  # noqa: PLC0415 - that is an incarnation itself

        return HeldLifespan(self, manager)

    def lose_resource(self, error: BaseException) -> None:
        """End it soon, as crashed: its lifespan, which is held elsewhere, has ended by itself. On any thread."""
        cast("Residence", self.residence).lost = error
        self.request_stop(Reason.NORMAL)

    async def _finish(self, exit_: Exit) -> None:
        """Leave the lifespan, if there is one, and then report the end."""
        self._tell_end(await self._leave_lifespan(exit_) if self._owns else exit_)

    async def _leave_lifespan(self, exit_: Exit) -> Exit:
        """Leave it as this end does (see ``actors.execution.residence``); what the end is then."""
        error, on_loop = exit_.error, self.recipe.where is DispatcherKind.LOOP
        if self.order is Reason.KILLED or exit_.reason is Reason.KILLED:
            error = asyncio.CancelledError() if on_loop else ActorStoppedError(self.mailbox.path, "was killed")
        else:
            self._with_clean_slate()
        try:
            with Hook(self, None):
                await cast("Residence", self.residence).leave(error)
        except BaseException as raised:
            if self.is_cut_off:
                return exit_
            if error is None or is_a(error, asyncio.CancelledError):
                frames = frames_of(raised)
                return Exit(Reason.CRASHED, raised, "lifespan raised", frames=frames, excused=exit_.excused)
            self.system.reports.hook_raised(self.mailbox.path, "lifespan", raised)
        return exit_

    def thread_refused(self, error: BaseException) -> None:
        """End as crashed: the thread of this incarnation could not be started."""
        self._tell_end(Exit(Reason.CRASHED, error))

    def _tell_end(self, exit_: Exit) -> None:
        """End, and tell the owner if nobody else has ended it before."""
        if self.order is Reason.KILLED and exit_.reason is not Reason.KILLED:
            exit_ = Exit(Reason.KILLED, what=exit_.what)
        elif self.order is not Reason.KILLED and exit_.reason is Reason.KILLED and self._lost_place:
            exit_ = Exit(Reason.KILLED, what=PLACE_LOST, renews=True)  # as ``lose_place`` would have ended it
        self._end(exit_, tell=True)

    def fail_internally(self, error: BaseException) -> None:
        """Something left the boundary that should not have: the worker has crashed, and never stays as a zombie."""
        self.system.reports.internal_error(error)
        self._tell_end(Exit(Reason.CRASHED, error, frames=frames_of(error)))

    def _leave(self) -> None:
        """No user code runs any more, so a kill has nothing to abandon. An abandoned thread has come back."""
        if self.abandoned:
            self._let_go(self._objects())
        with self.mailbox.lock:
            self.running_on = None
            abandoned, self.abandoned = self.abandoned, False
            self.mailbox.abandoned -= abandoned
        if abandoned:
            self.system.strays.returned(self)
            self._let_go(self._objects())  # abandoned just now
