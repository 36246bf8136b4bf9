"""Ref: the stable address of a worker: tell, ask, and what a message carries along.

A Ref names a path. It holds the mailbox of that path, which survives restarts; when that one was given up (the child
was deleted) it looks the path up again at the next message, so it works again once a child of that path exists.

What leaves a handler carries where it came from:

* a tell waits for nobody, so it carries no deadline, only how many tells led to it, and a span where there is one;
* an ask that is waited for is refused before it is sent where the target waits, directly or not, for the asker
  (``actors.messaging.wait_graph``);
* an ask with ``block=False`` waits for nobody: it is sent, and refused at the moment at which somebody of a circle
  begins to wait. One to oneself is work for later, so it begins anew, as a tell to oneself does;
* an ask takes the asker's contextvars along (``actors.messaging.caller_variables``);
* an ask's deadline is the earlier of its own timeout and the asker's own deadline. Where the asker belongs to another
  tree, the seconds that are left count, because each tree has a clock of its own.

``_target`` is the one place that says which mailbox stands behind the path, so nothing is decided by an old one.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

import pykka

from actors.concurrency.thread_state import HERE, blocks_a_loop, on_event_loop
from actors.messaging.blocking import on_a_loop, require_thread
from actors.messaging.caller_variables import caller_variables
from actors.messaging.crossing_refs import crossed, mark_of
from actors.messaging.envelope import CURRENT, CurrentMessage, MessageContext, sender
from actors.messaging.inbox import Refusal
from actors.messaging.mailbox import Mailbox
from actors.messaging.places import Room
from actors.messaging.pool_address import PoolAddress
from actors.messaging.proxy import Attribute, Proxy
from actors.messaging.reply import R, Reply
from actors.messaging.reply_after import EndReply, complete_after
from actors.messaging.room_waits import waits_in_vain
from actors.messaging.wait_graph import enter, enter_new, leave, redirect
from actors.model.clock import monotonic
from actors.model.errors import HopLimitError, UnknownPathError
from actors.model.spec import Reason, RefTo
from actors.validation.validation_messages import require_path, require_seconds

if TYPE_CHECKING:
    from actors.messaging.envelope import Envelope
    from actors.messaging.inbox import PutResult
    from actors.messaging.ports import Host, Runnable

TRAIL = 8
"""Senders of tells that a ``RecursionSuspected`` shows."""
FULL_WAIT_S = 5.0
"""How long a sender without a deadline waits for room in a full mailbox."""


class Ref(pykka.ActorRef[Any], Generic[R]):
    """The address of the worker (or pool, or supervisor) at ``path``; valid over every restart.

    Equal to every other Ref of the same path in the same tree; may be kept, passed around and used from any thread.
    For type checkers the replies of a ``Ref[int]`` are of that type.
    The Ref of a supervisor has only ``path`` and ``stop``: a tell to it is a dead letter, an ask fails at once.
    """

    def __init__(self, system: Host, box: Mailbox | PoolAddress) -> None:
        # Not pykka.ActorRef.__init__: it would bind this Ref to one actor object.
        self._system = system
        self._box = box
        self.path = box.path
        """The path it names, e.g. ``shop/billing/ledger``."""

    @staticmethod
    def to(path: str) -> RefTo:
        """The Ref of a path, in a declaration: ``WorkerSpec(..., kwargs={"counter": Ref.to("app/counter")})``.

        As a value of ``args`` or ``kwargs`` itself, not within one. The code gets the Ref when an incarnation is made.
        A path that nobody declares is a ``ConfigError`` at the start.
        """
        require_path(path)
        return RefTo(path)

    def __repr__(self) -> str:
        return f"<Ref {self.path}>"

    def __str__(self) -> str:
        return self.path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and other.path == self.path and other._system is self._system

    def __hash__(self) -> int:
        return hash((id(self._system), self.path))

    def __reduce__(self) -> tuple[Any, ...]:
        return crossed, (mark_of(self._system), self.path)

    # -- sending -------------------------------------------------------------------------------------------

    def tell(self, message: Any, *, detached: bool = False) -> None:
        """Send a message and go on. Never raises because of the target: what cannot be taken is a dead letter.

        Args:
            message: anything.
            detached: start a new chain, so that the hop limit does not count what led to this tell.
        """
        message = message if (pack := self._box.pack) is None else pack(message)
        current = sender()
        if current is None or detached:  # nothing led to it: straight into the mailbox
            envelope: Envelope = (message, None, None if self._system.tracer is None else self._origin_of_tell(None))
            verdict = self._box.put(envelope)
        else:
            envelope = (message, None, self._origin_of_tell(current))
            verdict = self._put(envelope)
        if verdict is not None:
            self._put_again(envelope, verdict)

    async def tell_async(self, message: Any, *, detached: bool = False) -> None:
        """As ``tell``; where the mailbox is full and its overflow is "block", waits without holding up the loop."""
        message = message if (pack := self._box.pack) is None else pack(message)
        current = sender()
        envelope = (message, None, self._origin_of_tell(None if detached else current))
        verdict = self._put(envelope)
        if verdict is not None:
            await self._put_again_async(envelope, verdict)

    @overload
    def ask(self, message: Any, timeout: float | None = ..., *, block: Literal[False]) -> Reply[R]: ...

    @overload
    def ask(self, message: Any, timeout: float | None = ..., block: Literal[True] = ...) -> R: ...

    @overload
    def ask(self, message: Any, timeout: float | None = ..., block: bool = ...) -> R | Reply[R]: ...

    def ask(self, message: Any, timeout: float | None = 5.0, block: bool = True) -> Any:
        """Send a message and wait for the reply.

        Args:
            message: anything.
            timeout: seconds; None for no limit but the deadline of the request that is being handled, if there is one.
                Where none are left (0 or fewer) the time is up at once, and nothing is sent.
            block: False returns the ``Reply`` (a ``pykka.Future``, awaitable) instead of waiting.

        Raises:
            RecursionDetectedError: the target waits, directly or not, for this worker. Nothing was sent.
            ReplyTimeoutError: no reply in time; the worker may still finish.
            ActorStoppedError: the target is down and stays down (``ParkedError``: parked; ``TreeDownError``: all is).
            MailboxFullError: a bounded mailbox had no room.
            BlockingAskError: on the thread of a tree's event loop. Nothing was sent.
            ValueError: this is no timeout. Nothing was sent.
            Exception: whatever the target's handler raised, as it raised it.
        """
        current = sender()
        if not block:
            reply, envelope = self.request(message, timeout, current, is_waited_for=False)
            reply.hosted(self._system)
            if envelope is not None:
                self.deliver(envelope)
            return reply
        if HERE.never_blocks or on_a_loop():
            require_thread(self.path, "await ref.ask_async(...)")
        reply, envelope = self.request(message, timeout, current)
        entered = None if current is None else enter_new(reply, current)
        try:
            if envelope is None:
                return reply.get()
            reply.arm()
            verdict = self._box.put(envelope) if current is None else self._put(envelope)
            if verdict is None:
                return reply.get_armed(entered)
            self._put_again(envelope, verdict)
            return reply.get()  # part of its time may be gone
        except BaseException:
            reply.abandon()
            raise
        finally:
            if entered is not None:
                leave(reply, entered)
            del reply, envelope  # an error that is raised here holds this frame

    async def ask_async(self, message: Any, timeout: float | None = 5.0) -> R:  # noqa: ASYNC109 - as ask
        """As ``ask``, from any event loop and without holding it up. Cancelled, it takes its message back."""
        current = sender()
        reply, envelope = self.request(message, timeout, current)
        entered = None if current is None else enter_new(reply, current)
        try:
            if envelope is not None:
                arrival = reply.listen()
                verdict = self._box.put(envelope) if current is None else self._put(envelope)
                if verdict is not None:
                    await self._put_again_async(envelope, verdict)
                await reply.heard(arrival, entered)
            return reply.outcome()
        except BaseException:
            reply.abandon()
            raise
        finally:
            if entered is not None:
                leave(reply, entered)
            del reply, envelope

    # -- the rest ------------------------------------------------------------------------------------------

    def proxy(self) -> Any:
        """Call methods as messages: ``ref.proxy().total().get()``. It survives restarts, as this Ref does."""
        return Proxy(actor_ref=self)

    def is_alive(self) -> bool:
        """True while an incarnation is attached. Never wait for this: messages to a restarting worker are kept."""
        return bool(self._attached())

    @property
    def depth(self) -> int:
        """Messages that wait there now."""
        return self._target().depth

    def stop(self, block: bool = True, timeout: float | None = None) -> Any:
        """Ask the worker to end after the message it handles: an exit ``shutdown``.

        Its supervisor treats that by its restart type: a permanent worker is started again. To stop a worker for
        good use ``tree.terminate_child``.

        Returns:
            True if it was running and has ended, False if it was not; with ``block=False`` a Reply of that.

        Raises:
            RecursionDetectedError: called, blocking, by the worker itself or on behalf of its request.
            BlockingAskError: called, blocking, on the thread of a tree's event loop.
            ReplyTimeoutError: it has not ended within ``timeout`` seconds.
        """
        done = EndReply(self._target(), timeout_s=timeout).hosted(self._system)
        if block:
            require_thread(self.path, "await ref.stop(block=False)")
            self._system.refuse_own_end(self.path)
            leave(done, enter(done))  # refused before the order where it would wait for this request
        current, attached = CURRENT.get(), self._attached()
        reason = Reason.NORMAL if current and current.incarnation in attached else Reason.SHUTDOWN
        complete_after(done, [each.request_stop(reason) for each in attached], value=bool(attached))
        return done.get() if block else done

    # -- what Pykka's own code looks at --------------------------------------------------------------------

    @property
    def actor_class(self) -> type[Any]:  # type: ignore[override]
        """The class of the actor, also while it is down."""
        return self._system.actor_class(self._any_box())

    @property
    def actor_urn(self) -> str:  # type: ignore[override]
        """Made of the path."""
        return f"urn:regrow:{self.path}"

    def attribute(self, names: tuple[str, ...]) -> Attribute:
        """Look up what stands behind a name of the actor, after those that lead to it, as a proxy sees it."""
        return self._system.attribute(self, names)

    @property
    def crosses(self) -> bool:
        """True where its worker runs in another process: what it is told is pickled."""
        return self._target().pack is not None

    def living_actors(self) -> list[Any]:
        """The actor objects that live now: one, or in a pool those of its members."""
        return [each.actor for each in self._attached() if not each.is_elsewhere and each.actor is not None]

    @property
    def _actor_weakref(self) -> Any:  # type: ignore[override]
        actor = next(iter(self.living_actors()), None)
        return weakref.ref(actor) if actor is not None else lambda: None

    # -- building envelopes --------------------------------------------------------------------------------

    def _origin_of_tell(self, current: CurrentMessage | None) -> MessageContext | None:
        variables = None if (tracer := self._system.tracer) is None else tracer.carried()
        if current is None:
            return None if variables is None else MessageContext(None, (), None, 0, (), variables)
        if current.incarnation.mailbox is self._target():
            return None  # a tell to oneself starts a new chain
        own, hops = current.incarnation.mailbox.path, current.hops + 1
        trail: tuple[str, ...] = ()
        if hops > self._system.max_hops - TRAIL:
            origin = current.origin
            trail = (*(origin.trail if origin is not None else ()), own)[-TRAIL:]
            self._system.note_hops((*trail, self.path), hops)
        return MessageContext(own, (), None, hops, (), variables, trail)

    def request(
        self, message: Any, timeout: float | None, current: CurrentMessage | None, *, is_waited_for: bool = True
    ) -> tuple[Reply[R], Envelope | None]:
        """The reply to wait for and what to send for it; nothing where the time is up already."""
        message = message if (pack := self._box.pack) is None else pack(message)
        now = self._system.now()
        try:
            deadline = None if timeout is None else now + timeout
        except (TypeError, OverflowError):
            require_seconds(f"{self.path}: ask", timeout)
            deadline = timeout = None  # longer than a clock can count
        if (timeout is not None and not abs(timeout) >= 0) or isinstance(timeout, bool):  # nan; block= of old Pykka
            require_seconds(f"{self.path}: ask", timeout)
        if current is None:  # nothing is decided by which mailbox it is: whoever puts finds out, and looks again
            reply = Reply(self._box, None, timeout)
            origin = MessageContext(None, (), deadline, 0, (), caller_variables(CURRENT))
        else:
            box = self._target()
            own = current.incarnation.mailbox
            if own is box and not is_waited_for:  # work for later: no time runs out on it, and it is no tell of others
                origin = MessageContext(own.path, (), None, 0, (), caller_variables(CURRENT))
                return (reply := Reply(box, own.path, timeout)), (message, reply, origin)
            deadline = current.earlier(deadline, above := current.inherited(), self._system, now)
            hops, lineage = (current.hops, ()) if above is None else (above.hops, above.lineage)
            timeout = None if deadline is None else deadline - now
            reply = Reply(box, own.path, timeout)
            if hops > self._system.max_hops:
                self._system.recursion_refused(self.path, (own, box), hops)
                reply.fail(HopLimitError(self.path, hops, self._system.max_hops))
                return reply, None
            origin = MessageContext(own.path, (), deadline, hops, lineage, caller_variables(CURRENT))
        if timeout is not None and not timeout > 0:  # also where it is nan
            reply.fail(reply.late())
            return reply, None
        return reply, (message, reply, origin)

    def deliver(self, envelope: Envelope) -> None:
        """Put an envelope that was built elsewhere."""
        if (verdict := self._put(envelope)) is not None:
            self._put_again(envelope, verdict)

    async def deliver_async(self, envelope: Envelope) -> None:
        """Put it without holding up the loop: room is awaited."""
        if (verdict := self._put(envelope)) is not None:
            await self._put_again_async(envelope, verdict)

    # -- putting envelopes ---------------------------------------------------------------------------------

    def _put(self, envelope: Envelope) -> PutResult:
        origin = envelope[2]
        if origin is not None and self._system.refuse_tells and origin.hops > self._system.max_hops:
            self._system.recursion_refused(self.path, origin.chain, hops=origin.hops)
            return Refusal.HOPS
        return self._box.put(envelope)

    def _put_again(self, envelope: Envelope, verdict: PutResult) -> None:
        """The mailbox did not simply take it: wait for room, look the path up again, or give it up."""
        deadline = self._wait_until(envelope)
        while isinstance(verdict, Room):
            room, used, verdict = verdict, False, Refusal.FULL
            try:
                may_wait = not (on_event_loop() or blocks_a_loop() or waits_in_vain(self._box, envelope))
                if may_wait and room.wait(deadline - monotonic()):
                    sender()  # once more: it may have been given up meanwhile
                    verdict = self._put(envelope)
                    used = True  # not before: a signal handler may raise in the middle of the put
            finally:
                room.leave(used=used)
        self._give_up(envelope, self._look_again(envelope, verdict))

    async def _put_again_async(self, envelope: Envelope, verdict: PutResult) -> None:
        deadline = self._wait_until(envelope)
        while isinstance(verdict, Room):
            room, used, verdict = verdict, False, Refusal.FULL
            try:
                if not waits_in_vain(self._box, envelope):
                    async with asyncio.timeout(max(0.0, deadline - monotonic())):  # wait_for may swallow a cancel
                        await room
                    sender()
                    verdict = self._put(envelope)
                    used = True
            except TimeoutError:
                verdict = Refusal.FULL
            finally:
                room.leave(used=used)
        self._give_up(envelope, self._look_again(envelope, verdict))

    def _wait_until(self, envelope: Envelope) -> float:
        """How long to wait for room: the current deadline, else ``FULL_WAIT_S``; on the machine's clock."""
        current, now = CURRENT.get(), self._system.now()
        deadline = envelope[2].deadline if envelope[2] is not None else None
        if current is not None:
            deadline = current.earlier(deadline, current.inherited(), self._system, now)
        return monotonic() + (FULL_WAIT_S if deadline is None else deadline - now)

    def _look_again(self, envelope: Envelope, verdict: PutResult) -> PutResult:
        """A mailbox that was given up may have a successor of the same path."""
        old, reply = self._box, envelope[1]
        if verdict is not Refusal.FORGOTTEN or self._target() is old:
            return verdict
        if type(reply) is Reply:
            redirect(reply, self._box)
        return self._put(envelope)

    def _give_up(self, envelope: Envelope, verdict: PutResult) -> None:
        if isinstance(verdict, tuple):
            self._system.letters.overflowed(self.path, self._any_box(), verdict)
        elif isinstance(verdict, Refusal):
            self._system.letters.refused(self.path, self._any_box(), envelope, verdict)
        elif isinstance(verdict, Room):
            self._put_again(envelope, verdict)

    # -- looking -------------------------------------------------------------------------------------------

    def _target(self) -> Mailbox | PoolAddress:
        """The mailbox, or pool, that stands behind the path now; the last one where nothing of this path is listed."""
        box = self._system.boxes.get(self.path)
        if box is not None:
            self._box = box
        return self._box

    def _boxes(self) -> list[Mailbox]:
        """The mailbox, or those of all members of the pool."""
        return list(box.members) if isinstance(box := self._target(), PoolAddress) else [box]

    def _attached(self) -> list[Runnable]:
        """The incarnations that handle its messages now."""
        return [incarnation for box in self._boxes() if (incarnation := box.attached) is not None]

    def _any_box(self) -> Mailbox | None:
        return next(iter(self._boxes()), None)


def ref_of(system: Host, path: str) -> Ref:
    """The Ref of a path that is listed now.

    Raises:
        UnknownPathError: it is not.
    """
    require_path(path)
    box = system.boxes.get(path)
    if box is None:
        raise UnknownPathError(path, system.near(path))
    return Ref(system, box)
