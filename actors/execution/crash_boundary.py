"""The crash boundary: one incarnation of a worker, and all its user code.

``drive`` is one coroutine that builds the actor, handles messages and runs the last hook. On the event loop it is a
task; on a thread it is stepped once and never suspends, because there nothing is awaited. So there is one boundary,
not one for each place, and every way a worker can end goes through it: an exception of any kind, a return, an order,
a kill.

A thread that comes back from user code after its incarnation was ended finds ``OVER`` and goes away without a trace.
The races, and who wins (tests/actors/execution/test_incarnation_races.py forces both orders of each):

* *kill against a handler that just returns*: if the thread ends first, the exit is what the handler made of it, and the
  kill finds OVER; if the kill is first, the thread finds OVER.
* *stop against going idle*: both look at ``idle`` under the mailbox's lock. Either the stop finds the incarnation idle
  and wakes or ends it, or the incarnation finds the order when it looks for messages.
* *abandoned between two messages*: the thread marks the envelope as current and then looks for an order; the abandoning
  side gives the order and then takes the current envelope. So one of them answers for it (``Mailbox.give_back``).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from itertools import islice
from math import inf
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

from actors.concurrency.arrival import Arrival
from actors.concurrency.failed_frames import clear_own
from actors.concurrency.thread_state import HERE, soon
from actors.execution.handling_times import UNTIMED, begun
from actors.execution.incarnation import OVER, STARTING, Exit, Started
from actors.execution.incarnation_ends import EndingIncarnation
from actors.execution.loop_scheduler import SLICE_S
from actors.messaging.envelope import CURRENT, CurrentMessage, Home, Hook, leaves
from actors.messaging.mailbox import NOTHING
from actors.messaging.reply import Reply
from actors.model.errors import Ignore, Signal
from actors.model.raised import frames_of, is_a, is_caught_by
from actors.model.spec import LOOP, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.execution.handling_times import Untimed
    from actors.execution.residence import Residence
    from actors.messaging.envelope import Envelope

QUOTA = 256
"""Messages handled in one go, before others get their turn."""
ROUNDS = 4
"""How often a thread looks for more, before others get their turn."""
_NOBODY: tuple[Any, Home | None] = (None, None)
"""No request, and no ``Home`` of several."""


class WorkerIncarnation(EndingIncarnation):
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
            home = self.home = Home(self, is_body=self.recipe.is_body, is_shared=self.recipe.where is not LOOP)
        return home

    # -- running -------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Drive it on the calling thread; True when there is more to do."""
        more, before = False, HERE.runs
        if self.recipe.where is not LOOP:
            HERE.runs = self  # a finalizer outside of its user's code waits for nobody: who waits may need this run
        try:
            work = self.begin_run()
            if work is None:
                return False
            more = self._run(work)
        except BaseException as error:
            self.fail_internally(error)
            self._leave()
        finally:
            HERE.runs = before
        if more:
            self.mailbox.release(self)
        return more

    def _run(self, work: Iterator[Envelope]) -> bool:
        left = ROUNDS
        while True:
            starting = self.phase is STARTING
            context = self.context_for_run()
            step = self.drive(work)
            try:
                context.run(step.send, None)
            except StopIteration as done:
                if not done.value:
                    return False
            if starting:
                following = self.next_work()
                if following is None:
                    return False
                if not self.is_over:
                    self._leave()  # later: its supervisor goes first, perhaps on this very thread
                    return True
                work = following
                continue
            left -= 1
            if not left:
                self._leave()
                return True
            following = self.next_work()
            if following is None:
                return False
            work = following

    def begin_run(self) -> Iterator[Envelope] | None:
        """Hold the incarnation, and return what its run is to ``drive``; None where nothing is to be run.

        An incarnation that is up does both in one section of its mailbox: with most runs it handles one message.
        """
        if self.phase is not STARTING:
            return self.mailbox.take(self, begins=True)
        return NOTHING if self.mailbox.hold(self) else None

    def next_work(self) -> Iterator[Envelope] | None:
        """Return what a run that holds the incarnation is to ``drive``; None: nothing, and the run is over.

        Not a part of ``drive``: the next run may begin on another thread before this one has left the worker's
        context, and a context cannot be entered twice.
        """
        context = self._context
        if context is not None and len(context) == 1 and self.residence is None and not self.mailbox.queue:
            self._context = self.home = None  # nothing of the worker's own in it: 240 bytes of an idle child
        work = self.mailbox.take(self)
        if work is None and self.running_on == threading.get_ident():
            # Not idle, but over: it was ended since the last message, and this thread comes back.
            if self._owns:
                return NOTHING  # with its lifespan, which ``drive`` leaves
            self._leave()
        return work

    async def reside(self, work: Iterator[Envelope]) -> bool:
        """Drive it, on the loop, in one task for its whole life."""
        cancelled: BaseException | None = None
        while await self.drive(work, cancelled):
            work, cancelled = await self._rest()
        return False

    async def _rest(self) -> tuple[Iterator[Envelope], BaseException | None]:
        """Wait for work in its own task; with the error that has ended the wait, if one has.

        A cancel that comes here is a kill, or that of a scope which the worker has left open: a run of its own, so that
        no other begins while it ends.
        """
        residence, cancelled = cast("Residence", self.residence), None
        residence.gate = gate = Arrival()
        self._event_loop.rests(self)
        try:
            await gate
        except asyncio.CancelledError as error:
            cancelled = error
            self._event_loop.goes_on(self)
            self.mailbox.hold(self)
        finally:
            residence.gate = None
        work, residence.work = residence.work, NOTHING
        return work, cancelled

    async def drive(self, work: Iterator[Envelope], cancelled: BaseException | None = None) -> bool:
        """The crash boundary: run what is to be run; False when the incarnation is over, else look for more work.

        Whoever looks for more still counts as running, until ``Mailbox.take`` finds nothing. ``cancelled`` has ended
        its rest: without an order that is a crash.
        """
        more = False
        try:
            phase = self.phase
            if phase is STARTING:
                more = await self._begin()
                if more and self.recipe.is_body:
                    more = False
                    await self._live()
            # OVER: it was killed since ``next_work``, and there may never have been an actor.
            elif cancelled is not None and self.order is None and phase is not OVER:
                await self._crash(cancelled)
            elif phase is not OVER and await self._work(work):
                more = self.order is None
                if not more:
                    await self._obey()
        except BaseException as error:
            self.fail_internally(error)
        finally:
            if not more:
                if self._owns and self.is_over:  # it was abandoned
                    await self._leave_lifespan(Exit(Reason.KILLED))
                self._leave()
        return more

    async def _begin(self) -> bool:
        """Bring it up; False when it is over."""
        if self.order is not None:  # before any user code ran
            self._tell_end(Exit(self.order))
            return False
        error: BaseException | None = None
        try:
            with Hook(self, None):
                if not await self._set_up():
                    return False
        except BaseException as caught:
            error = caught
        if error is not None:
            if is_a(error, Ignore):
                await self._finish(Exit(Reason.NORMAL, what="ignored", ignored=True))
            else:
                await self._crash(error)
            return False
        with self.mailbox.lock:
            if self.phase is OVER:
                return False
            ordered = self.order is not None
            if not ordered:
                self._comes_up()
        if ordered:
            await self._obey()
            return False
        with soon():  # what follows on this thread cannot block: it may keep the supervisor's job for itself
            self.owner.post(Started(self))
        return True

    async def _set_up(self) -> bool:
        """Run all that comes before the first message; False where it was abandoned in a slow step of that.

        Its successor may be up already then. No value of the user's leaves this: none is finalized after the report.
        """
        recipe = self.recipe
        if recipe.resource is not None:
            await self._open(recipe.resource)
            if self.is_over:
                return False
        self.actor = recipe.make(self)
        if self.is_over:
            return False
        if recipe.has_lifespan:
            await self._open(self.actor.lifespan)
            if self.is_over:
                return False
        started = self.actor.on_start() if not recipe.starts_plain else None
        if type(started) is CoroutineType:
            await self._settled(started)
        return True

    def _handler(self) -> Any:
        """Return what handles messages.

        None: it was killed by one who saw nobody run it. That one had given its order before this run began, so there
        is nothing to handle (``Mailbox.take``).
        """
        actor = self.actor
        return None if actor is None else actor._regrow_handler()  # noqa: SLF001

    async def _work(self, batch: Iterator[Envelope]) -> bool:  # noqa: C901, PLR0912 - the hot path, in one piece
        """Handle messages; False when it is over. No finalizer of what it had runs here after the report of the end."""
        handle, now, on_loop = self._handler(), self.system.now, self.recipe.where is LOOP  # which is shared by many
        due = (times := begun(self) if self.system.reports.measures.on else UNTIMED).due
        ends = now() + SLICE_S if on_loop else inf
        current, home = _NOBODY  # what CURRENT is: made for each message, but on a thread for one from outside
        for envelope in islice(batch, QUOTA):
            if (since := now()) > due:
                due = times.passed(self.since, since)
            self.since, self.current = since, envelope  # in this order: who reads current finds no older time then
            if self.order is not None:
                return self._gives_back(envelope, times)
            body, reply, origin = envelope
            if origin is not None:
                if ((by := origin.deadline) is not None and by < since) or (reply is not None and reply.is_abandoned):
                    due = self._passes_over(envelope, times)
                    continue
                CURRENT.set(current := CurrentMessage(self, origin, reply))
                if origin.variables is not None:
                    current.borrow()
            elif on_loop or reply is not None:  # an ask through a stock ref of Pykka
                CURRENT.set(current := CurrentMessage(self, None, reply))
            elif home is None or current is not home:
                CURRENT.set(current := (home := self._home()))
            try:
                self.in_users_code = True
                if type(result := handle(body)) is CoroutineType:
                    result = await (result if on_loop else self._settled(result))
                self.in_users_code = False
            except BaseException as error:
                times.end(self)
                handle = envelope = body = result = origin = None  # type: ignore[assignment]  # noqa: PLW2901
                if not await self._survives(error, reply, current):
                    batch = reply = None  # type: ignore[assignment]  # the error's traceback holds this frame
                    return False
                handle, reply = self._handler(), None
            else:
                if current is not home:
                    current.end()
                elif home.touched:
                    home.message_ended()
                if reply is not None:
                    self.current = None  # first: where the answer is known no request is under way
                    reply.complete(result)
            if self.since > ends:
                break
        times.end(self)
        self.current = None
        return True

    def _passes_over(self, envelope: Envelope, times: Untimed) -> float:
        """Drop a message whose asker waits no longer. Returns when the next one is to be looked at."""
        self.system.letters.expired(self.mailbox, envelope)
        return times.skipped()

    def _gives_back(self, envelope: Envelope, times: Untimed) -> bool:
        """Leave a message to whoever comes next: there is an order to end. True: the incarnation is not over yet."""
        times.skipped()
        times.end(self)
        refusal = self.mailbox.give_back(self, envelope)
        if refusal is not None:
            self.system.letters.refused(self.mailbox.path, self.mailbox, envelope, refusal)
        return True

    async def _survives(self, error: BaseException, reply: Reply | None, current: CurrentMessage) -> bool:
        """True if an exception that left a handler is a failed request only; otherwise the incarnation has ended.

        The request ends before that, with what it had borrowed: hooks and lifespans are the worker's own. And before
        its asker is told.
        """
        self.in_users_code = False
        killed = is_a(error, asyncio.CancelledError) and self.is_cut_off
        if reply is not None and not killed:
            reply.note_error(error)
        if killed or not self.is_failure(error):
            current.end()
            await (self._finish(Exit(Reason.KILLED)) if killed else self._crash(error, reply))
            return False
        current.message_ended()
        frames = frames_of(error)
        if reply is not None:
            self.current = None
            reply.fail(error)
        self.system.reports.request_failed(self.mailbox.path, error, asked=reply is not None)
        clear_own(frames)  # whoever keeps the exception keeps its traceback, not the worker's state
        return not self.is_over

    def is_failure(self, error: BaseException) -> bool:
        """True if an exception that leaves the present handler is a failure of the request, and no crash."""
        current, crashes_on_asks = CURRENT.get(), self.recipe.crash_on_ask_error
        kinds: tuple[type[BaseException], ...] = (Signal, *self.recipe.expected)
        if self.recipe.is_stateless and current is not None and current.is_ask:
            from_asks = crashes_on_asks and any(current.is_ask_error(leaf) for leaf in leaves(error))
            kinds = kinds if from_asks else (Exception,)
        asks = None if crashes_on_asks else current
        if is_caught_by(error, kinds):
            return True
        if asks is None or not asks.ask_errors:  # as most often: then only a group has something to be looked at
            return is_a(error, BaseExceptionGroup) and all(is_caught_by(leaf, kinds) for leaf in leaves(error))
        return all(is_caught_by(leaf, kinds) or asks.is_ask_error(leaf) for leaf in leaves(error))

    async def _live(self) -> None:
        """Run a ``run=`` body, from its start to its end."""
        error: BaseException | None = None
        try:
            self.in_users_code = True
            result = self.actor._regrow_body()  # noqa: SLF001 - a friend
            if type(result) is CoroutineType:
                await self._settled(result)
        except asyncio.CancelledError as cancelled:
            error = None if self.order is not None else cancelled
        except BaseException as caught:
            error = caught
        finally:
            self.in_users_code = False
            if self.home is not None:
                self.home.end()
        error = self._lost if error is None else error
        if error is not None:
            await self._crash(error)
            return
        await self._finish(Exit(self.order or Reason.NORMAL))
