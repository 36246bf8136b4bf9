"""The worker's side of the wire: takes frames, feeds the incarnation of this process, and tells what becomes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextvars import Context as Variables
from functools import partial
from types import CoroutineType
from typing import Any, Final

from actors.concurrency.thread_state import in_background
from actors.dispatch.log_relay import log_to_host
from actors.dispatch.remote import Frame, Kind, Parts, dumped, loaded, pack_error, parts_of, reason
from actors.dispatch.span_wire import taken_span
from actors.dispatch.worker.back_calls import BackCallClient
from actors.dispatch.worker.threads_at_work import threads_at_work
from actors.dispatch.worker.worker_main import Link
from actors.dispatch.worker.worker_system import MainThread, OwnThreads, WorkerSystem, run_on
from actors.execution.crash_boundary import WorkerIncarnation
from actors.execution.incarnation import Exit, Exited, Started, Stopping
from actors.messaging.crossing_refs import adopt
from actors.messaging.envelope import MessageContext, SystemMessage
from actors.messaging.mailbox import Mailbox
from actors.messaging.pulse import Pulse
from actors.messaging.reply import Reply
from actors.model.process_errors import NotPicklableError
from actors.model.raised import is_a
from actors.model.spec import ChildSpec, DispatcherKind, WorkerRecipe
from actors.validation.introspection import type_name

BEAT_S: Final = 0.005
"""Seconds between two signs of life that are sent."""
LOOK_S: Final = 0.01
"""Seconds between two looks at threads that outlive their work: nobody is told when they end."""


class ReplyToHost(Reply):
    """Outcome of one message: it goes over the wire, whoever asked for it."""

    __slots__ = ("_number", "_packed", "_side")

    def __init__(self, side: WorkerRunner, number: int, *, is_asked: bool) -> None:
        super().__init__()
        self._side = side
        self._number = number
        self._packed: Any = None
        """Error that has left its handler, as it crosses."""
        self.is_tell = not is_asked

    def note_error(self, error: BaseException) -> None:
        """Make of an error what crosses."""
        self._packed = pack_error(error)

    def complete(self, value: Any = None, *, error: BaseException | None = None) -> bool:
        """Answer with what was made of a value, or with an error; False when it was answered already."""
        finished = super().complete(value, error=error)
        if finished:
            self._side.finished(self._number, value if error is None else self._packed or pack_error(error), error)
        return finished


class InnerIncarnation(WorkerIncarnation):
    """The incarnation of this process. It hears of an order as soon as it looks for one."""

    __slots__ = ("calls", "crashed_of")

    calls: BackCallClient
    crashed_of: BaseException | None
    """Error that left its code, as it was: what becomes of it for an asker is decided in the host."""

    @property
    def must_stop(self) -> bool:
        """True once it was asked to end."""
        self.calls.listens()
        return self.order is not None

    def stop_signal(self) -> Reply:
        """Completed once it was asked to end."""
        self.calls.listens()
        return super().stop_signal()

    async def _crash(self, error: BaseException, reply: Reply | None = None) -> None:
        self.crashed_of = error
        await super()._crash(error, reply)

    def _handler(self) -> Any:
        """Return what handles messages, and makes of a result what crosses: users' code runs there, for the request."""
        handle = super()._handler()
        return None if handle is None else partial(self._handle_and_pack, handle)

    def _handle_and_pack(self, handle: Callable[[Any], Any], body: Any) -> Any:
        result = handle(body)
        if type(result) is not CoroutineType:
            return self._pack(result, body)
        if self.recipe.where is DispatcherKind.LOOP:
            return self._await_and_pack(result, body)
        return result  # which is refused

    async def _await_and_pack(self, coroutine: Any, body: Any) -> Parts:
        return self._pack(await coroutine, body)

    def _pack(self, value: Any, body: Any) -> Parts:
        """Pack a result. The message that it answers may know a form of it that crosses, where it does not itself."""
        packed = self._dumped(value)
        if is_a(packed, NotPicklableError) and is_a(body, SystemMessage):
            try:
                form = body.form_that_crosses(value)
            except BaseException as error:  # noqa: BLE001 - the user's code runs there
                packed = error
            else:
                packed = packed if form is value else self._dumped(form)
        return packed if isinstance(packed, list) else dumped((False, pack_error(packed), True))

    def _dumped(self, value: Any) -> Parts | BaseException:
        try:
            return dumped((True, value, True))
        except BaseException as failed:  # noqa: BLE001 - pickling runs the user's code
            return NotPicklableError(self.mailbox.path, type_name(type(value)), reason(failed))


class _SentPulse(Pulse):
    """Signs of life, sent to the host, which looks for them there; of many at once a few."""

    __slots__ = ("_calls",)

    def __init__(self, now: Callable[[], float], calls: BackCallClient) -> None:
        super().__init__(now)
        self._calls = calls

    def beat(self) -> None:
        """Give a sign of life."""
        if self._now() - self.last >= BEAT_S:
            super().beat()
            self._calls.tell("beat")

    def enter(self, request: object = None) -> None:
        """Begin a wait in the library."""
        super().enter(request)
        self._calls.tell("wait", True)  # noqa: FBT003 - begins

    def leave(self, request: object = None) -> bool:
        """End a wait."""
        is_its = super().leave(request)
        if is_its:
            self._calls.tell("wait", False)  # noqa: FBT003 - ends
        return is_its


class WorkerRunner:
    """One incarnation, and its wire."""

    def __init__(self, link: Link, path: str, tree: str, recipe: WorkerRecipe, levels: Mapping[str, int]) -> None:
        self._link = link
        self._path = path
        self._is_over = False
        self._begun = self._handled = self._cut_short = 0
        self._at_work: frozenset[int] = frozenset()
        """Threads that were at work when the message was begun: they are not its own."""
        on_loop = recipe.where is DispatcherKind.LOOP  # the main thread does nothing but read then
        calls = self._calls = BackCallClient(link, reads_itself=on_loop)
        self._place = MainThread(link.wake)
        self._host = WorkerSystem(path, calls, OwnThreads() if on_loop else self._place)
        adopt(self._host, tree, self._host.boxes.known)
        box = self._box = Mailbox(path)
        spec = ChildSpec(id=path.rpartition("/")[2], recipe=recipe)
        incarnation = self._incarnation = InnerIncarnation(self._host, spec, box, self)  # type: ignore[arg-type]
        incarnation.calls, incarnation.crashed_of = calls, None
        if incarnation.pulse is not None:
            incarnation.pulse = _SentPulse(self._host.now, calls)
        link.take = self._take
        log_to_host(lambda *said: calls.tell("log", *said), levels)

    def run(self) -> None:
        """Run the incarnation, until it is over."""
        if self._incarnation.start():
            self._link.send(Kind.STARTED, 0, [b""])
        ready = self._place.ready
        while not self._is_over:
            if not ready:
                self._link.read()
                continue
            run_on(ready.pop(0))

    # -- as the owner of the incarnation -------------------------------------------------------------------

    def post(self, message: Any, reply: Reply | None = None) -> bool:  # noqa: ARG002 - as a supervisor's mailbox
        """Take what the incarnation reports."""
        if isinstance(message, Started):
            self._link.send(Kind.STARTED, 0, [b""])
        elif isinstance(message, Exited):
            self._exited(message.exit)
        elif isinstance(message, Stopping) and self._incarnation.crash is None:  # of a crash the RESULT tells
            self._calls.tell("stopping")
        return True

    def _exited(self, exit_: Exit) -> None:
        error = None if exit_.error is None else pack_error(exit_.error)
        self._link.send(Kind.EXIT, 0, dumped((str(exit_.reason), error, exit_.ignored, self._handled)))
        self._is_over = True
        self._link.wake()

    def finished(self, number: int, packed: Any, error: BaseException | None) -> None:
        """Tell the outcome of a message: it, or its error, as it crosses."""
        self._handled = number
        inner = self._incarnation
        is_failure = inner.crashed_of is None and not inner.is_over
        parts = packed if error is None else dumped((False, packed, is_failure))
        if number == self._cut_short and self._leaves_threads():
            in_background("cut short", partial(self._tell_at_end, number, parts))
        else:
            self._link.send(Kind.RESULT, number, parts)

    def _tell_at_end(self, number: int, parts: Parts) -> None:
        """Tell the outcome of a message that was cut short once its threads have ended; the host kills where not."""
        pause = threading.Event()
        while self._leaves_threads():
            pause.wait(LOOK_S)
        self._link.send(Kind.RESULT, number, parts)

    def _leaves_threads(self) -> bool:
        return self._host.loop.has_hanging_calls or bool(threads_at_work() - self._at_work)

    # -- the wire ------------------------------------------------------------------------------------------

    def _take(self, frame: Frame) -> None:
        if frame.kind == Kind.MESSAGE:
            self._message(frame)
        elif frame.kind == Kind.ANSWER:
            self._calls.answered(frame)
        elif frame.kind == Kind.CANCEL:
            incarnation, loop = self._incarnation, self._host.loop
            if incarnation.recipe.where is DispatcherKind.LOOP and frame.number == self._begun:
                self._cut_short = frame.number if frame.body else 0
                loop.call(lambda: incarnation.cancel_current("cancel"))
        elif frame.kind == Kind.STOP:
            ended = self._incarnation.stop()
            if ended is not None:
                self._exited(ended)

    def _message(self, frame: Frame) -> None:
        self._begun = frame.number
        if self._incarnation.recipe.where is DispatcherKind.LOOP:
            self._at_work = threads_at_work()
        try:
            meta, *parts = parts_of(frame)
            body = loaded(parts)
        except BaseException as error:  # noqa: BLE001 - unpickling runs the user's code
            failure = NotPicklableError(self._path, "a message", f"{type_name(type(error))} while it was unpickled")
            self._link.send(Kind.RESULT, frame.number, dumped((False, pack_error(failure), True)))
            return
        left, sender, hops, is_asked, span = loaded([meta])
        reply = ReplyToHost(self, frame.number, is_asked=is_asked)
        deadline = None if left is None else self._host.now() + left
        self._box.put((body, reply, MessageContext(sender, (), deadline, hops, (), self._variables(span))))

    def _variables(self, span: bytes) -> Variables | None:
        """Return variables in which the span of a message is current; what its code asks for takes it along, too."""
        crossing = taken_span(span, self._host.reports.span_lost)
        if crossing is None:
            return None
        if self._host.tracer is None:
            self._host.tracer = self._calls.tracer = crossing.tracer()
        return crossing.variables()
