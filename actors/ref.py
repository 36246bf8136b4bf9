"""Ref: the stable address of a worker. Tell, ask, and the ancestry check.

A Ref names a path. It holds the mailbox of that path, which survives restarts; when that one was given up (the child
was deleted) it looks the path up again at the next message, so it works again once a child of that path exists.

What leaves a handler carries where it came from:

* an ask grows the ancestry by the asking worker; if the target stands in it already, the request could only wait for
  itself, and is refused here, before it is sent;
* a tell waits for nobody, so it carries no ancestry and no deadline, only the number of tells that led to it;
* an ask's deadline is the earlier of its own timeout and the asker's own deadline.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

import pykka

from actors.clock import monotonic
from actors.errors import BlockingAskError, RecursionDetectedError, UnknownPathError
from actors.inbox import Refusal, Room
from actors.mailbox import Mailbox
from actors.messages import CURRENT, Current, Origin
from actors.poolbox import PoolBox
from actors.proxy import Proxy
from actors.reply import Reply
from actors.spec import Reason, Where

if TYPE_CHECKING:
    from actors.inbox import Verdict
    from actors.messages import Envelope
    from actors.system import System

ErrorT = TypeVar("ErrorT", bound=BaseException)

FULL_WAIT_S = 5.0
"""How long a sender without a deadline waits for room in a full mailbox."""


class Ref(pykka.ActorRef[Any]):
    """The address of the worker (or pool, or supervisor) at ``path``; valid over every restart.

    Equal to every other Ref of the same path in the same tree; may be kept, passed around and used from any thread.
    The Ref of a supervisor has only ``path`` and ``stop``: a tell to it is a dead letter, an ask fails at once.
    """

    def __init__(self, system: System, box: Mailbox | PoolBox) -> None:
        # Not pykka.ActorRef.__init__: it would bind this Ref to one actor object.
        self._system = system
        self._box = box
        self.path = box.path
        """The path it names, e.g. ``shop/billing/ledger``."""

    def __repr__(self) -> str:
        return f"<Ref {self.path}>"

    def __str__(self) -> str:
        return self.path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and other.path == self.path and other._system is self._system

    def __hash__(self) -> int:
        return hash((id(self._system), self.path))

    # -- sending -------------------------------------------------------------------------------------------

    def tell(self, message: Any, *, detached: bool = False) -> None:
        """Send a message and go on. Never raises because of the target: what cannot be taken is a dead letter.

        Args:
            message: anything.
            detached: start a new chain, so that the hop limit does not count what led to this tell.
        """
        current = CURRENT.get()
        origin = None if current is None or detached else self._origin_of_tell(current)
        envelope = (message, None, origin)
        verdict = self._put(envelope)
        if verdict is not None:
            self._put_again(envelope, verdict)

    async def tell_async(self, message: Any, *, detached: bool = False) -> None:
        """As ``tell``; where the mailbox is full and its overflow is "block", waits without holding up the loop."""
        current = CURRENT.get()
        origin = None if current is None or detached else self._origin_of_tell(current)
        envelope = (message, None, origin)
        verdict = self._put(envelope)
        if verdict is not None:
            await self._put_again_async(envelope, verdict)

    def ask(self, message: Any, *, timeout: float | None = 5.0, block: bool = True) -> Any:
        """Send a message and wait for the reply.

        Args:
            message: anything.
            timeout: seconds; None for no limit but the deadline of the request that is being handled, if there is one.
            block: False returns the ``Reply`` (a ``pykka.Future``, awaitable) instead of waiting.

        Raises:
            RecursionDetectedError: the target waits, directly or not, for this worker. Nothing was sent.
            ReplyTimeoutError: no reply in time; the worker may still finish.
            ActorStoppedError: the target is down and stays down (``ParkedError``: parked; ``TreeDownError``: all is).
            MailboxFullError: a bounded mailbox had no room.
            BlockingAskError: on the event loop that the target needs to answer. Nothing was sent.
            Exception: whatever the target's handler raised, as it raised it.
        """
        if block and self._system.on_loop and self._runs_on_loop:
            raise _noted(BlockingAskError(self.path))
        reply, envelope = self._request(message, timeout)
        if envelope is None:
            return reply.get() if block else reply.hosted(self._system)
        if block:
            reply.arm()
        else:
            reply.hosted(self._system)
        verdict = self._put(envelope)
        if verdict is None:
            return reply.get_armed() if block else reply
        self._put_again(envelope, verdict)
        return reply.get() if block else reply

    async def ask_async(self, message: Any, *, timeout: float | None = 5.0) -> Any:  # noqa: ASYNC109 - as ask
        """As ``ask``, from any event loop and without holding it up."""
        reply, envelope = self._request(message, timeout)
        verdict = None if envelope is None else self._put(envelope)
        if envelope is not None and verdict is not None:
            await self._put_again_async(envelope, verdict)
        return await reply

    # -- the rest ------------------------------------------------------------------------------------------

    def proxy(self) -> Any:
        """Call methods as messages: ``ref.proxy().total().get()``. It survives restarts, as this Ref does."""
        return Proxy(self)

    def is_alive(self) -> bool:
        """True while an incarnation is attached. Never wait for this: messages to a restarting worker are kept."""
        box = self._current_box()
        return box is not None and box.life is not None

    @property
    def depth(self) -> int:
        """Messages that wait there now."""
        return self._box.depth

    def stop(self, *, block: bool = True, timeout: float | None = None) -> Any:
        """Ask the worker to end after the message it handles: an exit ``shutdown``.

        Its supervisor treats that by its restart type: a permanent worker is started again. To stop a worker for
        good use ``tree.terminate_child``.

        Returns:
            True if it was running and has ended, False if it was not; with ``block=False`` a Reply of that.

        Raises:
            RecursionDetectedError: called, blocking, by the worker itself or on behalf of its request.
            ReplyTimeoutError: it has not ended within ``timeout`` seconds.
        """
        current = CURRENT.get()
        if block and current is not None:
            self._system.refuse_own_end(self.path)
            self._extended_chain(current)
        boxes = self._box.members if isinstance(self._box, PoolBox) else (self._current_box(),)
        lives = [box.life for box in boxes if box is not None and box.life is not None]
        own = current is not None and current.life in lives
        ends = [life.request_stop(Reason.NORMAL if own else Reason.SHUTDOWN) for life in lives]
        done = Reply(self._box, timeout_s=timeout).hosted(self._system)
        _complete_with(done, ends, value=bool(lives))
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

    @property
    def _actor_weakref(self) -> Any:  # type: ignore[override]
        box = self._any_box()
        life = box.life if box is not None else None
        actor = life.actor if life is not None else None
        return weakref.ref(actor) if actor is not None else lambda: None

    # -- building envelopes --------------------------------------------------------------------------------

    def _origin_of_tell(self, current: Current) -> Origin | None:
        if current.life.mailbox is self._box:
            return None  # a tell to oneself starts a new chain
        hops = 1 if current.origin is None else current.origin.hops + 1
        return Origin(current.life.mailbox.path, (), None, hops)

    def _request(self, message: Any, timeout: float | None) -> tuple[Reply, Envelope | None]:
        """The reply to wait for and what to send for it; nothing where the time is up already."""
        current, now = CURRENT.get(), self._system.now()
        chain: tuple[Any, ...] = ()
        deadline = None if timeout is None else now + timeout
        sender, hops = None, 0
        lineage: tuple[str, ...] = ()
        if current is not None:
            chain = self._extended_chain(current)
            sender = current.life.mailbox.path
            if current.origin is not None:
                hops, lineage = current.origin.hops, current.origin.lineage
                inherited = current.origin.deadline
                if inherited is not None and (deadline is None or inherited < deadline):
                    deadline = inherited
        timeout_s = None if deadline is None else deadline - now
        reply = Reply(self._box, sender, timeout_s)
        if timeout_s is not None and timeout_s <= 0:
            reply.fail(reply.late())
            return reply, None
        return reply, (message, reply, Origin(sender, chain, deadline, hops, lineage))

    def _extended_chain(self, current: Current) -> tuple[Any, ...]:
        """Who waits for what this worker asks; refused where the target is one of them."""
        waiting = current.origin.chain if current.origin is not None else ()
        chain = (*waiting, current.life.mailbox.address)
        target = self._box if isinstance(self._box, PoolBox) else self._box.address
        if target in chain:
            self._system.recursion_refused(self.path, chain)
            raise _noted(RecursionDetectedError((*(address.path for address in chain), self.path)))
        return chain

    def deliver(self, envelope: Envelope) -> None:
        """Put an envelope that was built elsewhere."""
        verdict = self._put(envelope)
        if verdict is not None:
            self._put_again(envelope, verdict)

    # -- putting envelopes ---------------------------------------------------------------------------------

    def _put(self, envelope: Envelope) -> Verdict:
        origin = envelope[2]
        if origin is not None and origin.hops > self._system.max_hops:
            self._system.recursion_refused(self.path, origin.chain, hops=origin.hops)
            return Refusal.HOPS
        return self._box.put(envelope)

    def _put_again(self, envelope: Envelope, verdict: Verdict) -> None:
        """The mailbox did not simply take it: wait for room, look the path up again, or give it up."""
        deadline = self._wait_until(envelope)
        while isinstance(verdict, Room):
            room, offered = verdict, False
            try:
                wait = not _running_loop() and not self._only_here_is_room()
                offered = wait and room.wait(deadline - monotonic())
                verdict = self._put(envelope) if offered else Refusal.FULL
            finally:
                room.leave(used=offered)
        self._give_up(envelope, self._look_again(envelope, verdict))

    async def _put_again_async(self, envelope: Envelope, verdict: Verdict) -> None:
        deadline = self._wait_until(envelope)
        while isinstance(verdict, Room):
            room, offered = verdict, False
            try:
                if not self._only_here_is_room():
                    await asyncio.wait_for(room, max(0.0, deadline - monotonic()))
                    offered = True
                verdict = self._put(envelope) if offered else Refusal.FULL
            except TimeoutError:
                verdict = Refusal.FULL
            finally:
                room.leave(used=offered)
        self._give_up(envelope, self._look_again(envelope, verdict))

    def _only_here_is_room(self) -> bool:
        """True in a handler that sends to its own full mailbox: nobody makes room while it waits."""
        current = CURRENT.get()
        if current is None:
            return False
        life, own = current.life, current.life.mailbox
        box = self._box
        here = box is own or (isinstance(box, PoolBox) and box is own.pool and box.is_only(own))
        return here and life.is_handling_here

    def _wait_until(self, envelope: Envelope) -> float:
        """How long to wait for room: the current deadline, else ``FULL_WAIT_S``; on the machine's clock."""
        current = CURRENT.get()
        own = envelope[2].deadline if envelope[2] is not None else None
        inherited = current.origin.deadline if current is not None and current.origin is not None else None
        limits = [limit - self._system.now() for limit in (own, inherited) if limit is not None]
        return monotonic() + min(limits, default=FULL_WAIT_S)

    def _look_again(self, envelope: Envelope, verdict: Verdict) -> Verdict:
        """A mailbox that was given up may have a successor of the same path."""
        if verdict is Refusal.FORGOTTEN:
            box = self._system.boxes.get(self.path)
            if box is not None and box is not self._box:
                self._box = box
                return self._put(envelope)
        return verdict

    def _give_up(self, envelope: Envelope, verdict: Verdict) -> None:
        if isinstance(verdict, tuple):
            self._system.overflowed(self._any_box(), verdict)
        elif isinstance(verdict, Refusal):
            self._system.refused(self.path, self._any_box(), envelope, verdict)
        elif isinstance(verdict, Room):
            self._put_again(envelope, verdict)

    # -- looking -------------------------------------------------------------------------------------------

    def _current_box(self) -> Mailbox | None:
        if self._box is not self._system.boxes.get(self.path):
            self._box = self._system.boxes.get(self.path, self._box)
        return self._any_box()

    def _any_box(self) -> Mailbox | None:
        box = self._box
        if isinstance(box, PoolBox):
            return box.members[0] if box.members else None
        return box

    @property
    def _runs_on_loop(self) -> bool:
        box = self._any_box()
        life = box.life if box is not None else None
        return life is not None and getattr(life.spec.recipe, "where", None) is Where.LOOP


def ref_of(system: System, path: str) -> Ref:
    """The Ref of a path that is listed now.

    Raises:
        UnknownPathError: it is not.
    """
    box = system.boxes.get(path)
    if box is None:
        raise UnknownPathError(path, system.near(path))
    return Ref(system, box)


def _noted(error: ErrorT) -> ErrorT:
    """An error that a handler gets from its own ask: leaving the handler it is a failed request, not a crash."""
    current = CURRENT.get()
    if current is not None:
        current.note(error)
    return error


def _complete_with(done: Reply, ends: list[Reply], *, value: bool) -> None:
    """Complete ``done`` with ``value`` when all of ``ends`` are."""
    left = iter(ends)

    def go_on() -> None:
        for end in left:
            if not end.done:
                end.when_done(go_on)
                return
        done.complete(value)

    go_on()


def _running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
