"""Envelope, its origin, and the contextvar with the request that is being handled.

An envelope is a plain tuple, because one is built for every message: ``(body, reply, origin)``. ``origin`` is None
for a tell from outside any tree, and is built only when a message leaves a handler or carries a deadline.

**A request is over when its handler has ended; its asker is told after that.** A ``CurrentMessage`` is then ended: a
task, or a carried thread, that outlives its request inherits nothing of it any more: no deadline, no errors, and nobody
waits for what it asks. ``hops``, the tells that led here, stay: a tell never waited for anything. Messages do not carry
who waits for whom; that stands in ``actors.messaging.wait_graph``.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeAlias, TypeVar, cast

from actors.messaging.caller_variables import Borrowed, borrow, give_back
from actors.model.raised import cause_of
from actors.validation.introspection import type_name

if TYPE_CHECKING:
    from actors.messaging.mailbox import Mailbox
    from actors.messaging.pool_address import PoolAddress
    from actors.messaging.ports import Host, Runnable
    from actors.messaging.reply import Reply

P = ParamSpec("P")
R = TypeVar("R")
ErrorT = TypeVar("ErrorT", bound=BaseException)

MAX_ASK_ERRORS = 1000
"""How many errors of its own asks a request remembers, the last ones. Each holds a traceback and its frames."""


STOP: Final = "stop"
"""Why a request is cancelled whose worker is being stopped."""


class SystemMessage:
    """Message of the library to itself. No user's message is lost with it, so it never becomes a dead letter.

    A worker that gets one runs its ``handle``: so work of any kind can be given to a worker, and the runtime need not
    know which kinds there are.
    """

    __slots__ = ()

    def handle(self, worker: Any) -> Any:
        """Act on the worker; what is returned, or the coroutine of that, is the answer."""
        raise NotImplementedError(f"a {type(self).__name__} is not a message for a worker")

    def form_that_crosses(self, value: Any) -> Any:
        """Return a form of its answer that crosses to another process, where that does not as it is: most have none."""
        return value

    def note_crash(self, error: BaseException) -> None:
        """Take note that its worker was ended for ``error`` while it handled this. What it is answered with follows."""

    def request_cancel(self, why: str) -> bool:  # noqa: ARG002 - most cannot be cancelled
        """Take note that it is to be cancelled while it is handled on the event loop; True where it may be now."""
        return False


class PackedMessage:
    """Message of a user in the form in which it crosses to another process. It is shown as what it stands for."""

    __slots__ = ("type_name",)

    type_name: str


def message_type(body: object) -> str:
    """Name of the type of a message, as all that shows messages calls it: never a form in which it crosses."""
    return cast("PackedMessage", body).type_name if issubclass(type(body), PackedMessage) else type_name(type(body))


class MessageContext:
    """Where a message came from; never changed once built."""

    __slots__ = ("chain", "deadline", "hops", "lineage", "sender", "trail", "variables")

    def __init__(
        self,
        sender: str | None,
        chain: tuple[Address, ...],
        deadline: float | None,
        hops: int,
        lineage: tuple[str, ...] = (),
        variables: contextvars.Context | None = None,
        trail: tuple[str, ...] = (),
    ) -> None:
        self.sender = sender
        """The path of the worker that sent it, or None for code outside the tree."""
        self.chain = chain
        """Chain of an attempt: who waits for its task, the first asker first. Empty for a message: see
        ``CurrentMessage``."""
        self.deadline = deadline
        """When nobody waits any longer, on the clock of the tree that it was sent to."""
        self.hops = hops
        """Tells since the chain began."""
        self.lineage = lineage
        """Instructions of the tasks of those who wait: the same once more is refused."""
        self.variables = variables
        """Contextvars of the asker, for the handler; None: it has set none, or nobody asks."""
        self.trail = trail
        """Senders of the last tells that led here, once there are nearly ``max_hops`` of them."""


Address: TypeAlias = "Mailbox | PoolAddress"
"""A place where messages are answered: the mailbox, or the pool for each of its members. Compared by identity."""

Envelope: TypeAlias = "tuple[Any, Reply | None, MessageContext | None]"


class AbandonedThreadExit(BaseException):
    """Ends code whose incarnation was abandoned, where it comes back to this library."""


class CurrentMessage:
    """One request while it is handled: by which incarnation, where it came from, and what its own asks failed with."""

    __slots__ = ("_borrowed", "_hops", "ask_errors", "ended", "incarnation", "origin", "reply", "waits")

    def __init__(self, incarnation: Runnable, origin: MessageContext | None, reply: Reply | None = None) -> None:
        self.incarnation = incarnation
        self.origin = origin
        self.reply = reply
        """Reply that answers it; None for a tell."""
        self.ask_errors: list[BaseException] | None = None
        """Errors that asks of this handler raised in it. One of them leaving the handler is a failed request, not
        a crash: it was not born here."""
        self.waits: set[Reply] | None = None
        """Replies that code of this request waits for now. Written by ``actors.messaging.wait_graph`` only."""
        self._hops = 0
        """How many tells led to it, once it has ended and is told by ``origin`` no more."""
        self.ended = False
        """True once the handler has ended; code that it left behind may still have this as its Current."""
        self._borrowed: Borrowed | None = None
        if reply is not None:
            reply.handled_by = self

    def borrow(self) -> None:
        """Set the contextvars of the asker, until the handler has ended."""
        if self.origin is not None and self.origin.variables is not None:
            self._borrowed = borrow(self.origin.variables, CURRENT)

    def end(self) -> None:
        """The handler has ended: nothing is inherited from this request any more, and nothing of it is held."""
        if self._borrowed is not None:
            give_back(self._borrowed)
        reply, origin = self.reply, self.origin
        self.ended = True
        if origin is not None:
            self._hops = origin.hops
            self.origin = None
        if reply is not None:
            reply.handled_by = self.reply = None
        self.ask_errors = self.waits = None
        pulse = self.incarnation.pulse
        if pulse is not None and pulse.waits:
            pulse.end(self)

    def message_ended(self) -> None:
        """The message was handled that this was made for."""
        self.end()

    @property
    def in_request(self) -> bool:
        """True while the request is being handled, so that what is done here is done for it."""
        return not (self.ended or self.incarnation.is_over)

    @property
    def is_ask(self) -> bool:
        """True if an asker gets what the handler returns or raises."""
        return self.reply is not None and not self.reply.is_tell

    @property
    def hops(self) -> int:
        """How many tells led here."""
        origin = self.origin
        return origin.hops if origin is not None else self._hops

    @property
    def lineage(self) -> tuple[str, ...]:
        """Return what those who wait for this request were asked to do."""
        origin = self.inherited()
        return () if origin is None else origin.lineage

    def inherited(self) -> MessageContext | None:
        """Return where it came from, while it is handled: what its asks inherit. None: nothing, they begin anew."""
        origin = self.origin  # a ``Home`` has none: with one it is ``in_request`` as this class says it
        return None if origin is None or self.ended or self.incarnation.is_over else origin

    def earlier(self, deadline: float | None, origin: MessageContext | None, system: Host, now: float) -> float | None:
        """The earlier of a deadline on the clock of a tree, and that of this request, which has ``inherited`` it.

        The clock of another tree may say anything: what is left there is what counts here.
        """
        if origin is None or (inherited := origin.deadline) is None:
            return deadline
        if self.incarnation.system is not system:
            inherited += now - self.incarnation.system.now()
        return inherited if deadline is None or inherited < deadline else deadline

    # -- who waits -----------------------------------------------------------------------------------------

    def waiting(self) -> tuple[Address, ...]:
        """Return where those are asked who wait while this code waits, in the order of ``held_up``."""
        return tuple(box.address for box in self.held_up())

    def held_up(self) -> tuple[Address, ...]:
        """Return who waits while this code waits, first asker first, its own worker last; empty outside a request."""
        found: list[Address] = []
        todo, seen = [self], {self}
        while todo:
            current = todo.pop()
            if not current.in_request:
                continue
            found.append(current.incarnation.mailbox)
            origin, reply = current.origin, current.reply
            if origin is not None and origin.chain:
                found.extend(reversed(origin.chain))
            if reply is not None:
                above = set(reply.waiters) - seen
                seen |= above
                todo.extend(above)
        return tuple(reversed(dict.fromkeys(found)))  # whoever waits for an attempt may be in its chain, too

    # -- errors of its own asks ----------------------------------------------------------------------------

    def record_ask_error(self, error: BaseException) -> None:
        """Remember that ``error`` came from an ask of this handler; without effect once that has ended."""
        if not self.in_request:
            return
        failures = self.ask_errors
        if failures is None:
            self.ask_errors = [error]
        else:
            failures.append(error)
            if len(failures) > MAX_ASK_ERRORS:
                del failures[0]
        if self.ended:  # just now, on another thread
            self.ask_errors = None

    def is_ask_error(self, error: BaseException) -> bool:
        """True for an error that came from an ask of this handler, and for a group of nothing but such errors."""
        noted = {id(leaf) for failure in self.ask_errors or () for leaf in leaves(failure)}
        return all(id(leaf) in noted or id(_before_pep_479(leaf)) in noted for leaf in leaves(error))


class Hook(CurrentMessage):
    """A hook while it runs: what it asks is its own, and tasks that it leaves behind inherit nothing of it."""

    __slots__ = ()

    def __enter__(self) -> None:
        CURRENT.set(self)
        self.incarnation.in_users_code = True

    def __exit__(self, *_: object) -> None:
        self.incarnation.in_users_code = False
        self.end()
        CURRENT.set(self.incarnation.home)


class Home(CurrentMessage):
    """The Current of a ``run=`` body, and on a thread of all messages from outside: one of their own is too dear there.

    Code that such a message leaves behind may have this same object, so it says by the state of its incarnation whether
    a request is under way. (Hooks, and handlers on the loop, where tasks are started, always have one of their own.)
    """

    __slots__ = ("_branch", "_is_body", "_is_shared", "touched")

    def __init__(self, incarnation: Runnable, *, is_body: bool, is_shared: bool) -> None:
        self.incarnation = incarnation
        self.origin = self.reply = self.ask_errors = self.waits = None
        self._borrowed = None
        self._hops, self.ended = 0, False
        self._is_body = is_body
        self._is_shared = is_shared
        self._branch: CurrentMessage | None = None
        self.touched = False
        """True once there is something to be taken back when the present message has been handled."""

    def end(self) -> None:
        """The body, or the last message, has ended: code that it has left begins anew."""
        self.message_ended()
        super().end()

    @property
    def in_request(self) -> bool:
        """True in a body, and while a message from outside is handled on a thread."""
        incarnation = self.incarnation
        is_ours = incarnation.home is self and not (self.ended or incarnation.is_over)
        return is_ours and (self._is_body or self._handles_message())

    def _handles_message(self) -> bool:
        envelope = self.incarnation.current
        return self._is_shared and envelope is not None and envelope[2] is None

    def record_ask_error(self, error: BaseException) -> None:
        """Remember an error until the present message has been handled. A body has no use for them: any is a crash."""
        if self._handles_message():
            self.touched = True
            super().record_ask_error(error)

    def branch(self) -> CurrentMessage:
        """Return what code that may outlive the present message is to have in place of this."""
        if not self._handles_message():
            return self
        if self._branch is None:
            self._branch = CurrentMessage(self.incarnation, None)
            self.touched = True
        return self._branch

    def message_ended(self) -> None:
        """The present message was handled."""
        branch, self._branch = self._branch, None
        if branch is not None:
            branch.end()
        self.ask_errors, self.touched = None, False


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group, and in the groups in it; an error that is no group is its own only leaf."""
    todo = [error]
    while todo:
        each = todo.pop()
        if issubclass(type(each), BaseExceptionGroup):
            todo.extend(BaseExceptionGroup.exceptions.__get__(each))
        else:
            yield each


def sender() -> CurrentMessage | None:
    """Return the request in whose name this code sends.

    Raises:
        AbandonedThreadExit: its incarnation was given up, and its successor may be at work.
    """
    current = CURRENT.get()
    if current is not None and current.incarnation.is_over and current.incarnation.abandoned:
        raise AbandonedThreadExit
    return current


def _before_pep_479(error: BaseException) -> BaseException | None:
    """The StopIteration that the interpreter turned into this RuntimeError, where a generator or coroutine raised it.

    An await is a generator, so whoever awaits an ask that fails with a StopIteration gets this in its place.
    """
    cause = cause_of(error)
    if type(error) is not RuntimeError or not issubclass(type(cause), (StopIteration, StopAsyncIteration)):
        return None
    said = str(error.args[0]) if error.args else ""
    return cause if said.endswith(("raised StopIteration", "raised StopAsyncIteration")) else None


CURRENT: contextvars.ContextVar[CurrentMessage | None] = contextvars.ContextVar("regrow_current", default=None)
"""None outside of a tree. A task, ``asyncio.to_thread`` and agent frameworks copy it along; a plain thread does not."""


def own_error(error: ErrorT) -> ErrorT:
    """An error that a handler gets from its own ask: leaving the handler it is a failed request, not a crash."""
    current = CURRENT.get()
    if current is not None:
        current.record_ask_error(error)
    return error


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Bind the request that is handled here (and every contextvar) to ``function``, for a plain thread or an executor.

    Each call runs in its own copy of the context, so the result may be called often and at the same time::

        executor.submit(actors.carry(work), item)

    Once the handler has ended there is no request to inherit from: a call that comes later begins anew.
    """
    context = contextvars.copy_context()
    current = CURRENT.get()
    if isinstance(current, Home):
        context.run(CURRENT.set, current.branch())

    def carried(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)

    return carried
