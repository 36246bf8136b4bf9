"""Calls from a worker's process to its host, and the refs of the worker's code, which are such calls.

Code of the worker asks and tells as anywhere: a ``Ref`` of this process puts what is sent on the wire
(``PathAddress``). The host sends it on in the name of the message that is being handled here, so ancestry and deadlines
are those of any worker. Who waits for whom is known by the host alone.

An ask with ``block=False`` waits for nobody until its answer is waited for: that is told to the host as it begins and
as it ends (``WaitersTold``). The host refuses it where it closes a circle: with an error in place of the answer.

Code that waits for an answer first sees to it that the wire is read (``Link.listen_aside``).
"""

from __future__ import annotations

import contextvars
import itertools
from typing import Any, cast

from actors.dispatch.remote import Frame, Kind, Parts, dumped, loaded, packed, parts_of, rebuilt
from actors.dispatch.span_wire import packed_span
from actors.dispatch.worker.worker_main import Link
from actors.messaging.envelope import CurrentMessage, Envelope, own_error
from actors.messaging.ports import Tracer
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.model.process_errors import NotPicklableError
from actors.model.spec import Reason
from actors.validation.introspection import type_name


class BackCallClient:
    """Calls from here to the host, and the answers to them. ``_waiting`` is changed in one step of C each."""

    def __init__(self, link: Link, *, reads_itself: bool) -> None:
        self._link = link
        self._reads_itself = reads_itself
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Reply] = {}
        self.tracer: Tracer | None = None
        """Taker of spans, which go along with calls; None: no message had one."""

    def span(self, variables: contextvars.Context | None = None) -> bytes:
        """Return the span that is current in these variables, or here for None, as it goes along with a call."""
        return packed_span(self.tracer, variables)

    def tell(self, name: str, *args: Any, extra: Parts | None = None, span: bytes = b"") -> None:
        """Call without an answer."""
        self._link.send(Kind.CALL, 0, [*dumped((name, span, *args)), *(extra or ())])

    def ask(self, reply: Reply, name: str, *args: Any, span: bytes = b"") -> None:
        """Call; the reply is completed with the answer."""
        self._ask(next(self._numbers), reply, name, span, *args)

    def send(self, reply: Reply, *args: Any, extra: Parts, span: bytes) -> None:
        """Ask a worker; where nobody waits for the reply, the host is told of whoever does later."""
        number, waits = next(self._numbers), bool(reply.waiters)
        if not waits:
            reply.waiters = WaitersTold(self, number)
        self._ask(number, reply, "ask", span, *args, waits, number, extra=extra)

    def _ask(self, number: int, reply: Reply, name: str, span: bytes, *args: Any, extra: Parts | None = None) -> None:
        self._waiting[number] = reply
        self.listens()
        self._link.send(Kind.CALL, number, [*dumped((name, span, *args)), *(extra or ())])

    def get(self, name: str, *args: Any, span: bytes = b"") -> Any:
        """Call, and wait for the answer: it takes as long as the host takes to look something up."""
        reply = Reply()
        reply.arm()
        self.ask(reply, name, *args, span=span)
        return reply.get_armed()

    def listens(self) -> None:
        """See to it that what comes is read while code of the worker runs."""
        if not self._reads_itself:
            self._link.listen_aside()

    def answered(self, frame: Frame) -> None:
        """Take an answer."""
        reply = self._waiting.pop(frame.number, None)
        if reply is None:
            return
        try:
            is_value, value = loaded(parts_of(frame))
        except BaseException as error:  # noqa: BLE001 - unpickling runs the user's code
            reply.fail(NotPicklableError("the answer", type_name(type(error))))
            return
        if is_value:
            reply.complete(value)
        else:
            reply.fail(rebuilt(value))


class WaitersTold(set["CurrentMessage"]):
    """Requests that wait for a reply now; the host is told whether there is any."""

    def __init__(self, calls: BackCallClient, number: int) -> None:
        super().__init__()
        self._calls = calls
        self._number = number

    def add(self, current: CurrentMessage) -> None:
        """A request begins to wait."""
        if not self:
            self._calls.tell("await", self._number)
        super().add(current)

    def discard(self, current: object) -> None:
        """A request waits no longer."""
        if current in self:
            super().discard(cast("CurrentMessage", current))
            if not self:
                self._calls.tell("await_no_more", self._number)


class PathAddress:
    """A path of the host's tree: what is put there goes over the wire."""

    depth = 0

    def __init__(self, path: str, calls: BackCallClient) -> None:
        self.path = path
        self._calls = calls

    @property
    def address(self) -> PathAddress:
        """The node of the wait graph."""
        return self

    @property
    def pack(self) -> None:
        """None: it packs by itself."""

    @property
    def attached(self) -> PathPeer | None:
        """Incarnation that lives there, to be asked to end; None: nobody does."""
        return PathPeer(self._calls, self.path) if self._calls.get("is_alive", self.path) else None

    def put(self, envelope: Envelope) -> None:
        """Send a message.

        Raises:
            NotPicklableError: it cannot cross. Nothing was sent.
        """
        body, reply, origin = envelope
        try:
            message = packed(self.path, body)
        except NotPicklableError as error:
            raise own_error(error) from None
        variables = None if origin is None else origin.variables
        span = b"" if variables is None else self._calls.span(variables)
        if reply is None:
            detached = origin is None or origin.sender is None
            self._calls.tell("tell", self.path, message.type_name, detached, extra=message.parts, span=span)
            return
        left = None if reply.expires is None else max(0.001, reply.expires - monotonic())
        self._calls.send(reply, self.path, message.type_name, left, extra=message.parts, span=span)


class PathPeer:
    """An incarnation of the host's tree, as far as ``Ref.stop`` needs it."""

    is_elsewhere = True

    def __init__(self, calls: BackCallClient, path: str) -> None:
        self._calls = calls
        self._path = path

    def request_stop(self, reason: Reason) -> Reply:  # noqa: ARG002 - its own code asks, whichever way
        """Ask it to end."""
        reply = Reply()
        self._calls.ask(reply, "stop", self._path)
        return reply


class Paths:
    """Paths that are listed in the tree of the host; each is asked for once."""

    def __init__(self, calls: BackCallClient) -> None:
        self._calls = calls
        self._known: dict[str, PathAddress] = {}
        self.near: tuple[str, ...] = ()

    def get(self, path: str) -> PathAddress | None:
        """Return what stands for a path; None: it is not listed."""
        known = self._known.get(path)
        if known is None:
            near = self._calls.get("find", path)
            if near is not None:
                self.near = near
                return None
            known = self.known(path)
        return known

    def known(self, path: str) -> PathAddress:
        """Return what stands for a path that the host knows, or did when it gave a Ref of it away."""
        return self._known.setdefault(path, PathAddress(path, self._calls))
