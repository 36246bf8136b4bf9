"""Surroundings of the incarnation in a process, in place of a tree: a clock, and for all else the wire to its host.

Code of the worker asks and tells here as anywhere: a ``Ref`` of this room puts what is sent on the wire
(``PathAddress``), and its host sends it on in the name of the message that is being handled there, so ancestry and
deadlines are those of any worker. Who waits for whom is known by the host alone.

Where code waits for an answer the reading of the wire is seen to before it waits (``Link.listen_aside``).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from actors.concurrency.disposal import Disposal, disposal_on
from actors.concurrency.thread_state import in_background
from actors.dispatch.remote import Kind, dumped, loaded, pack_error, packed, parts_of, rebuilt
from actors.execution.loop import Loop
from actors.messaging.dead_letters import stopped_error
from actors.messaging.envelope import own_copy
from actors.messaging.reply import Reply
from actors.model.clock import SystemClock, monotonic
from actors.model.errors import ActorsError
from actors.model.process_errors import NotPicklableError
from actors.model.spec import DispatcherKind, Reason
from actors.validation.introspection import type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.concurrency.thread_state import Job
    from actors.dispatch.remote import Frame, Parts
    from actors.dispatch.worker_process import Link
    from actors.execution.crash_boundary import WorkerIncarnation
    from actors.execution.dispatcher import Dispatcher
    from actors.messaging.envelope import Address, Envelope
    from actors.messaging.inbox import Refusal
    from actors.messaging.mailbox import Mailbox
    from actors.model.spec import WorkerRecipe

_MOST_HOPS: Final = 2**31
"""No tell is refused here: the host counts them."""


class BackCalls:
    """Calls from here to the host, and the answers to them. ``_waiting`` is changed in one step of C each."""

    def __init__(self, link: Link, *, reads_itself: bool) -> None:
        self._link = link
        self._reads_itself = reads_itself
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Reply] = {}

    def tell(self, name: str, *args: Any, extra: Parts | None = None) -> None:
        """Call without an answer."""
        self._link.send(Kind.CALL, 0, [*dumped((name, *args)), *(extra or ())])

    def ask(self, reply: Reply, name: str, *args: Any, extra: Parts | None = None) -> None:
        """Call; the reply is completed with the answer."""
        number = next(self._numbers)
        self._waiting[number] = reply
        self.listens()
        self._link.send(Kind.CALL, number, [*dumped((name, *args)), *(extra or ())])

    def get(self, name: str, *args: Any) -> Any:
        """Call, and wait for the answer: it takes as long as the host takes to look something up."""
        reply = Reply()
        reply.arm()
        self.ask(reply, name, *args)
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


class PathAddress:
    """A path of the host's tree: what is put there goes over the wire."""

    depth = 0

    def __init__(self, path: str, calls: BackCalls) -> None:
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
            raise own_copy(error) from None
        if reply is None:
            self._calls.tell("tell", self.path, message.type_name, origin is None, extra=message.parts)
            return
        left = None if reply.expires is None else max(0.001, reply.expires - monotonic())
        waits = bool(reply.waiters)
        self._calls.ask(reply, "ask", self.path, message.type_name, left, waits, extra=message.parts)


class PathPeer:
    """An incarnation of the host's tree, as far as ``Ref.stop`` needs it."""

    is_elsewhere = True

    def __init__(self, calls: BackCalls, path: str) -> None:
        self._calls = calls
        self._path = path

    def request_stop(self, reason: Reason) -> Reply:  # noqa: ARG002 - its own code asks, whichever way
        """Ask it to end."""
        reply = Reply()
        self._calls.ask(reply, "stop", self._path)
        return reply


class Paths:
    """Paths that are listed in the tree of the host; each is asked for once."""

    def __init__(self, calls: BackCalls) -> None:
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
            known = self._known[path] = PathAddress(path, self._calls)
        return known


class _Runner:
    """Runs a job on a thread of its own: few need one here."""

    def submit(self, job: Job) -> None:
        in_background("aside", job.run)


class _Reports:
    """Tells the host what goes wrong beside a message. A failed request is the host's own to tell."""

    def __init__(self, calls: BackCalls) -> None:
        self._calls = calls

    def request_failed(self, path: str, error: BaseException, *, asked: bool) -> None: ...

    def callback_raised(self, path: str, error: BaseException) -> None:  # noqa: ARG002 - the host knows it
        self._calls.tell("callback_raised", pack_error(error))

    def hook_raised(self, path: str, hook: str, error: BaseException) -> None:  # noqa: ARG002 - the same
        self._calls.tell("hook_raised", hook, pack_error(error))

    def internal_error(self, error: BaseException) -> None:
        self._calls.tell("internal_error", pack_error(error))


class _Letters:
    """Tells the host of messages that nobody takes."""

    def __init__(self, calls: BackCalls) -> None:
        self._calls = calls

    def dead_letter(self, box: object, body: Any, reason: Refusal, sender: str | None, path: str = "") -> None:  # noqa: ARG002
        self._calls.tell("dead_letter", type_name(type(body)), str(reason), sender)

    def refused(self, path: str, box: object, envelope: Envelope, refusal: Refusal) -> None:  # noqa: ARG002
        if envelope[1] is not None:
            envelope[1].fail(stopped_error(path, refusal))

    def overflowed(self, box: object, envelope: Envelope) -> None: ...

    def expired(self, box: object, envelope: Envelope) -> None:  # noqa: ARG002 - the host tells of it
        if envelope[1] is not None:
            envelope[1].expire()


class _Strays:
    """Nothing is abandoned in a process: it is killed."""

    def add(self, incarnation: Any) -> None: ...

    def returned(self, incarnation: Any) -> None: ...


class WorkerHost:
    """Surroundings of the one incarnation of this process."""

    max_hops = _MOST_HOPS

    def __init__(self, path: str, calls: BackCalls, place: Dispatcher) -> None:
        self.root_path = path.partition("/")[0]
        self.tracer = None
        self.clock = SystemClock()
        self.now = self.clock.now
        self.pool = _Runner()
        self.disposal: Disposal = disposal_on(self.pool)
        self.letters, self.reports, self.strays = _Letters(calls), _Reports(calls), _Strays()
        self.boxes: Any = Paths(calls)
        self.loop = Loop(f"{path}-loop", blocked=lambda *_: None, failed=self.reports.internal_error)
        self._place = place

    @property
    def timers(self) -> Any:
        """Timers are asked for by a manual clock only."""
        raise NotImplementedError

    def place_of(self, recipe: WorkerRecipe) -> Dispatcher:
        """Return where its code runs."""
        return self.loop if recipe.where is DispatcherKind.LOOP else self._place

    def near(self, path: str) -> tuple[str, ...]:  # noqa: ARG002 - of the path that was looked up last
        """Paths that may have been meant."""
        near: tuple[str, ...] = self.boxes.near
        return near

    def actor_class(self, box: Mailbox | None) -> type[Any]:  # noqa: ARG002 - the host knows it
        """Class of the actor at a path: it is not known here, so a proxy sends any name."""
        return object

    def refuse_own_end(self, path: str) -> None:
        """Refuse nothing: the host does."""

    def publish(self, event: object) -> None:
        """Publish nothing: events are the host's."""

    def recursion_refused(self, path: str, chain: tuple[Address, ...], hops: int = 0) -> None:
        """Tell nobody: the host does."""

    def stopped_error(self, path: str, refusal: Refusal) -> ActorsError:
        """Why an ask fails at once."""
        return stopped_error(path, refusal)

    def run_apart(self, job: Job) -> None:
        """Run a callback of a user."""
        self.pool.submit(job)


class MainThread:
    """Place of sync code: the main thread of the process, which looks here whenever it has nothing to do."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.ready: list[WorkerIncarnation] = []
        self._wake = wake

    def schedule(self, incarnation: WorkerIncarnation) -> None:
        """Have it run soon."""
        self.ready.append(incarnation)
        self._wake()

    def cancel(self, incarnation: WorkerIncarnation) -> None:
        """A thread cannot be cancelled; what does not end in time is killed."""


class OwnThreads:
    """Place of the sync code of an async worker (what is taken off its loop): a thread for each, as few are needed."""

    def schedule(self, incarnation: WorkerIncarnation) -> None:
        """Run it."""
        in_background("aside", lambda: run_on(incarnation))

    def cancel(self, incarnation: WorkerIncarnation) -> None:
        """A thread cannot be cancelled; what does not end in time is killed."""


def run_on(life: WorkerIncarnation) -> None:
    """Run an incarnation on this thread, as long as it has something to do."""
    while life.run():
        pass
