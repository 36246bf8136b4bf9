"""The crash boundary: one incarnation of a worker, and all its user code.

``drive`` is one coroutine that builds the actor, handles messages and runs the last hook. On the event loop it is a
task; on a thread it is stepped once and never suspends, because there nothing is awaited. So there is one boundary,
not one for each place, and every way a worker can end goes through it: an exception of any kind, a return, an order,
a kill.

A thread that comes back from user code after its incarnation was ended finds ``OVER`` and goes away without a trace.
The races, and who wins (tests/actors/execution/test_incarnation_races.py forces both orders of each):

* *kill against a handler that just returns*: if the thread ends first, the exit is what the handler made of it, and the
  kill finds OVER; if the kill is first, the thread finds OVER.
* *stop against going idle*: both look at ``idle`` under the mailbox's lock. Either the stop finds the life idle and
  wakes or ends it, or the life finds the order when it looks for messages.
* *abandoned between two messages*: the thread marks the envelope as current and then looks for an order; the abandoning
  side gives the order and then takes the current envelope. So one of them answers for it (``Mailbox.give_back``).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from itertools import islice
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from actors.concurrency.failed_frames import clear_own
from actors.concurrency.thread_state import soon
from actors.execution.incarnation import Exit, IncarnationPhase, Started, Stopping
from actors.execution.incarnation_orders import ControlledIncarnation
from actors.messaging.envelope import CURRENT, CurrentMessage, Home, Hook, leaves
from actors.messaging.mailbox import NOTHING
from actors.messaging.reply import Reply
from actors.model.errors import Ignore, Signal, for_asker
from actors.model.spec import DispatcherKind, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.messaging.envelope import Envelope

QUOTA = 256
"""Messages handled in one go, before others get their turn."""
ROUNDS = 4
"""How often a thread looks for more, before others get their turn."""


class WorkerIncarnation(ControlledIncarnation):
    """One incarnation of a worker."""

    __slots__ = ()

    def context_for_run(self) -> contextvars.Context:
        """The worker's own contextvars: they live as long as it does, and leak nowhere."""
        context = self._context
        if context is None:
            context = self._context = contextvars.Context()
            if self.recipe.is_body:
                context.run(CURRENT.set, self._home())
        return context

    def _home(self) -> Home:
        """The Current of a body, or of messages from outside: made when there is one."""
        home = self.home
        if home is None:
            home = self.home = Home(
                self, is_body=self.recipe.is_body, is_shared=self.recipe.where is not DispatcherKind.LOOP
            )
        return home

    # -- running -------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Drive it on the calling thread; True when there is more to do."""
        if not self.mailbox.hold(self):
            return False
        more = False
        try:
            more = self._run()
        except BaseException as error:
            self.fail_internally(error)
            self._leave()
        if more:
            self.mailbox.release(self)
        return more

    def _run(self) -> bool:
        for _ in range(ROUNDS):
            work = self.next_work()
            if work is None:
                return False
            starting = self.phase is IncarnationPhase.STARTING
            context = self.context_for_run()
            step = self.drive(work)
            try:
                context.run(step.send, None)
            except StopIteration as done:
                if not done.value:
                    return False
            if starting:
                more = self.mailbox.take(self) is not None
                if more:
                    self._leave()  # later: its supervisor goes first, perhaps on this very thread
                return more
        self._leave()
        return True

    def next_work(self) -> Iterator[Envelope] | None:
        """Return what a run that holds the life is to ``drive``; None where that is nothing, and the run is over.

        Not a part of ``drive``: the next run may begin on another thread before this one has left the worker's
        context, and a context cannot be entered twice.
        """
        if self.phase is not IncarnationPhase.STARTING:
            context = self._context
            if context is not None and len(context) == 1 and not self.mailbox.queue:
                self._context = self.home = None  # nothing of the worker's own in it: 240 bytes of an idle child
            work = self.mailbox.take(self)
            if work is None and self.running_on == threading.get_ident():
                self._leave()  # not idle, but over: it was ended since the last message, and this thread comes back
            return work
        with self.mailbox.lock:
            if self.is_over:
                return None
            self.running_on = threading.get_ident()
        return NOTHING

    async def drive(self, work: Iterator[Envelope]) -> bool:
        """The crash boundary: run what is to be run; False when the incarnation is over, else look for more work.

        Whoever looks for more still counts as running, until ``Mailbox.take`` finds nothing.
        """
        more = False
        try:
            phase = self.phase
            if phase is IncarnationPhase.STARTING:
                return await self._enter()
            # OVER: it was killed since ``next_work``, and there may never have been an actor.
            if phase is not IncarnationPhase.OVER and await self._work(work):
                more = self.order is None
                if not more:
                    await self._obey()
        except BaseException as error:
            self.fail_internally(error)
        finally:
            if not more:
                self._leave()
        return more

    def fail_internally(self, error: BaseException) -> None:
        """Something left the boundary that should not have: the worker has crashed, and never stays as a zombie."""
        self.system.reports.internal_error(error)
        self._tell_end(Exit(Reason.CRASHED, error, frames=error.__traceback__))

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

    async def _enter(self) -> bool:
        if not await self._begin():
            return False
        if self.recipe.is_body:
            await self._live()
        return not self.recipe.is_body

    async def _begin(self) -> bool:
        if self.order is not None:  # before any user code ran
            self._tell_end(Exit(self.order))
            return False
        error: BaseException | None = None
        try:
            with Hook(self):
                self.actor = self.recipe.make(self)
                if self.is_over:
                    return False  # it was abandoned in a slow __init__: its successor may be up already
                started = self.actor.on_start() if not self.recipe.starts_plain else None
                if type(started) is CoroutineType:
                    await self._settled(started)
        except BaseException as caught:
            error = caught
        if error is not None:
            if isinstance(error, Ignore):
                self._tell_end(Exit(Reason.NORMAL, what="ignored", ignored=True))
            else:
                await self._crash(error)
            return False
        with self.mailbox.lock:
            if self.phase is IncarnationPhase.OVER:
                return False
            ordered = self.order is not None
            if not ordered:
                self._comes_up()
        if ordered:
            await self._obey()
            return False
        started = None  # a value of the user's: no finalizer is to run here after the report
        with soon():  # what follows on this thread cannot block: it may keep the supervisor's job for itself
            self.owner.post(Started(self))
        return True

    async def _work(self, batch: Iterator[Envelope]) -> bool:  # noqa: C901, PLR0912 - the hot path, in one piece
        """Handle messages; False when the incarnation is over."""
        handle, now = self.actor._regrow_handler(), self.system.now  # noqa: SLF001
        on_loop = self.recipe.where is DispatcherKind.LOOP  # where it may leave tasks behind
        current: Any = None  # what CURRENT is: made for each message, but on a thread for one from outside
        home: Home | None = None
        for envelope in islice(batch, QUOTA):
            self.since = now()  # first: whoever reads current and then this never gets the time of an older message
            self.current = envelope
            if self.order is not None:
                refusal = self.mailbox.give_back(self, envelope)
                if refusal is not None:
                    self.system.letters.refused(self.mailbox.path, self.mailbox, envelope, refusal)
                return True
            body, reply, origin = envelope
            if origin is not None:
                late = origin.deadline is not None and origin.deadline < self.since
                if late or (reply is not None and reply.is_abandoned):
                    self.system.letters.expired(self.mailbox, envelope)
                    continue
                CURRENT.set(current := CurrentMessage(self, origin, reply))
                if origin.variables is not None:
                    current.borrow()
            elif on_loop:
                CURRENT.set(current := CurrentMessage(self, None))
            elif home is None or current is not home:
                CURRENT.set(current := (home := self._home()))
            try:
                result = handle(body)
                if type(result) is CoroutineType:
                    result = await (result if on_loop else self._settled(result))
            except BaseException as error:
                # No finalizer of these is to run here after the report of the end.
                handle = envelope = body = result = None  # type: ignore[assignment]  # noqa: PLW2901
                if not await self._survives(error, reply):
                    current.end()
                    return False
                handle = self.actor._regrow_handler()  # noqa: SLF001
            else:
                if reply is not None:
                    reply.complete(result)
            if current is not home:
                current.end()
            elif home.touched:
                home.message_ended()
        self.current = None
        return True

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

    async def _survives(self, error: BaseException, reply: Reply | None) -> bool:
        """True if an exception that left a handler is a failed request only; otherwise the incarnation has crashed."""
        if isinstance(error, asyncio.CancelledError) and self.order is Reason.KILLED:
            self._tell_end(Exit(Reason.KILLED))
            return False
        if not self.is_failure(error):
            await self._crash(error, reply)
            return False
        frames = error.__traceback__
        if reply is not None:
            reply.fail(error)
        self.system.reports.request_failed(self.mailbox.path, error, asked=reply is not None)
        clear_own(frames)  # whoever keeps the exception keeps its traceback, not the worker's state
        return not self.is_over

    def is_failure(self, error: BaseException) -> bool:
        """True if an exception that leaves the present handler is a failure of the request, and no crash."""
        kinds: tuple[type[BaseException], ...] = (Signal, *self.recipe.expected)
        asks = None if self.recipe.crash_on_ask_error else CURRENT.get()
        return isinstance(error, kinds) or all(
            isinstance(leaf, kinds) or (asks is not None and asks.is_ask_error(leaf)) for leaf in leaves(error)
        )

    async def _live(self) -> None:
        """Run a ``run=`` body, from its start to its end."""
        error: BaseException | None = None
        try:
            result = self.actor._regrow_body()  # noqa: SLF001 - a friend
            if type(result) is CoroutineType:
                await self._settled(result)
        except asyncio.CancelledError as cancelled:
            error = None if self.order is not None else cancelled
        except BaseException as caught:
            error = caught
        if error is not None:
            await self._crash(error)
            return
        self._tell_end(Exit(self.order or Reason.NORMAL))

    # -- ending --------------------------------------------------------------------------------------------

    async def _obey(self) -> None:
        """End as ordered: on_stop first, unless killed."""
        reason = self.order or Reason.SHUTDOWN
        if reason is Reason.KILLED or not self._enter_last_hook(plain=self.recipe.stops_plain):
            self._tell_end(Exit(reason))
            return
        error = await self._hook("on_stop")
        self._tell_end(Exit(reason) if error is None else Exit(Reason.CRASHED, error, what="on_stop raised"))

    async def _crash(self, error: BaseException, reply: Reply | None = None) -> None:
        """An exception was born in user code: answer the asker, run on_failure, end."""
        frames = error.__traceback__
        if reply is not None:
            reply.fail(for_asker(self.mailbox.path, error))
        crash = Exit(Reason.CRASHED, error, frames=frames, excused=reply is not None and reply.is_of_batch)
        if self._enter_last_hook(plain=self.recipe.fails_plain or self.actor is None, crash=crash):
            second = await self._hook("on_failure", type(error), error, error.__traceback__)
            if second is not None:
                self.system.reports.hook_raised(self.mailbox.path, "on_failure", second)
        self._tell_end(crash)

    def _enter_last_hook(self, *, plain: bool, crash: Exit | None = None) -> bool:
        """True when a last hook is to be run; the owner then gives it the limit of a stop."""
        if plain:
            return False
        with self.mailbox.lock:
            if self.phase is IncarnationPhase.OVER or self.order is Reason.KILLED:
                return False
            self.phase, self.crash = IncarnationPhase.ENDING, crash
        self.owner.post(Stopping(self))
        return True

    async def _hook(self, name: str, *args: Any) -> BaseException | None:
        """Run a last hook; what it raised."""
        if self.task is not None and self.task.cancelling():
            self.task.uncancel()  # it was cancelled to get here; its last hook starts with a clean slate
        try:
            with Hook(self):
                result = getattr(self.actor, name)(*args)
                if type(result) is CoroutineType:
                    await self._settled(result)
        except BaseException as error:
            return None if self.order is Reason.KILLED else error
        return None

    def thread_refused(self, error: BaseException) -> None:
        """End as crashed: the thread of this incarnation could not be started."""
        self._tell_end(Exit(Reason.CRASHED, error))

    def _tell_end(self, exit_: Exit) -> None:
        """End, and tell the owner if nobody else has ended it before."""
        if self.order is Reason.KILLED and exit_.reason is not Reason.KILLED:
            exit_ = Exit(Reason.KILLED, what=exit_.what)
        self._end(exit_, tell=True)
