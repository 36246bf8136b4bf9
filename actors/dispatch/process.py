"""A worker whose incarnation is a process: its host's half.

**Life.** One incarnation is one process. Its host's half is an incarnation as any other (the crash boundary, its
mailbox, its supervisor know no difference) whose code is async and runs on a loop that only such workers share; so
one thread reads for all of them, and an idle one costs none. The object it builds (``ProcessWorker``) forwards: what
it is asked it hands over, one message at a time, and what comes back is what its handler returns or raises. The
process is the lifespan of that object: it is started before ``on_start``, and after the last hook whatever is left of
its group is killed. The worker's half is a real incarnation as well (``actors.dispatch.worker.worker_main``)::

    host's half        lifespan            on_start          a message           on_stop       the lifespan is left
    on the wire        HELLO               BOOT > STARTED    MESSAGE > RESULT    STOP > EXIT
    worker's half      it is guarded now   on_start          on_receive          on_stop       the group is killed

**Who decides what an exception is.** The worker's half: it knows its own asks. It says so with the ``RESULT``; the
host's half raises the exception as what it was, and everything follows from that: answer, crash, restart.

**Points of death.** The end of the process is seen within milliseconds (``actors.dispatch.host.forked_handle``):

===========================  =========================================================================================
the process ends             then
===========================  =========================================================================================
before it is up              its start has failed: ``ProcessDiedError``
between two messages         it has crashed (``lose_resource``); what waits, waits for the next incarnation
before it has read one       that one is the first for the next incarnation; it has crashed
while it handles one         that one fails with ``WorkerCrashedError``, caused by ``ProcessDiedError``; it has crashed
while it answers             if the whole ``RESULT`` is there, that counts, and then it has crashed between two messages
in its last hook             what the hook would have said is not known: it has crashed; a crash stays what it was
after ``EXIT``               that was its end
===========================  =========================================================================================

A worker's half that ends itself says so before its last hook, which has as long as a stop: else it is killed.
A message is acknowledged by its ``RESULT``, and lost with the process that has read it; it is never handled twice.

**Order against death.** All frames, orders and ends of one worker meet on one thread, in the order in which they come.
A kill cancels what the host's half awaits; leaving the lifespan kills the group, whatever the process is doing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing import spawn
from typing import TYPE_CHECKING, Any, Final, cast

from actors.dispatch.groups.process_group import named_signal
from actors.dispatch.host.answer import Answer
from actors.dispatch.host.back_call_server import BackCallServer
from actors.dispatch.host.fork_server import refuse_while_importing
from actors.dispatch.host.process_incarnation import CarriedError, InnerExit, NotBegunError
from actors.dispatch.log_relay import levels_of_logging
from actors.dispatch.remote import Frame, Kind, Packed, PackedError, Parts, dumped, loaded, packed, parts_of, rebuilt
from actors.dispatch.span_wire import packed_span
from actors.dispatch.worker.worker_main import MEGABYTE, Setup
from actors.execution.pykka_bridge import ManagedActor
from actors.messaging.crossing_refs import mark_of
from actors.messaging.envelope import CURRENT, SystemMessage, own_error
from actors.model.errors import Ignore
from actors.model.process_errors import NotPicklableError, ProcessDiedError, WorkerLostError
from actors.model.raised import is_a
from actors.model.spec import Reason
from actors.validation.introspection import type_name

if TYPE_CHECKING:
    from actors.dispatch.host.process_incarnation import ProcessIncarnation
    from actors.dispatch.host.worker_handle import WorkerHandle, WorkerPlace

LARGE: Final = 1024 * 1024
"""Bytes from which on an answer is unpickled off the loop."""
GRACE_S: Final = 1.0
"""Seconds that work has to end by itself when it is cancelled."""


@dataclass(frozen=True, slots=True)
class ProcessCode:
    """Code of a worker, and how its process is set up."""

    code: bytes
    """Pickle of a function that returns the recipe of the worker's half."""
    place: WorkerPlace
    """Place where its incarnations run."""
    is_async: bool = False
    memory_mb: int | None = None
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    recycle_after: int | None = None
    """Messages after which the process is replaced by a fresh one."""

    def __repr__(self) -> str:
        return "<ProcessCode>"  # its environment may hold secrets


class ProcessWorker(ManagedActor):
    """Object of the host's half: it forwards to its process. Used on the loop's thread only."""

    def __init__(self, incarnation: ProcessIncarnation, code: ProcessCode) -> None:
        self._regrow_incarnation = incarnation
        self._code = code
        self._path = incarnation.mailbox.path
        self._handle: WorkerHandle | None = None
        self._calls = BackCallServer(incarnation, self._send)
        self._started: asyncio.Future[None] | None = None
        self._exit: asyncio.Future[InnerExit] | None = None
        self._answer: Answer | None = None
        """Answer to the message that is being handled there; without a frame: the process has died."""
        self._number = self._answered = 0
        """Numbers of the last message that was handed over, and of the last one whose answer has come."""
        self._starting: asyncio.Future[None] | None = None
        """Start of its process, of which nothing of the user's is there yet."""
        self._is_booted = self._is_called_off = False
        """True once it was told to run the worker's code; once an order to end has come before that."""
        self.is_excused = False
        """True where it was killed while it was to end anyway, because work took too long there."""
        self._goes = False
        """True once the worker's half is about to end by itself: it has crashed, or was told to."""

    @property
    def has_ended_itself(self) -> bool:
        """True where the worker's half has ended by its own code, and was not told to."""
        exit_ = self._futures()[1]
        return exit_.done() and exit_.result().reason is Reason.NORMAL

    @property
    def pid(self) -> int | None:
        """Number of the process."""
        return None if self._handle is None else self._handle.pid

    @property
    def node(self) -> str | None:
        """Node of a cluster that it runs on."""
        return None if self._handle is None else self._handle.node

    @property
    def waits_for(self) -> str:
        """Say what its start waits for."""
        if self._is_booted:
            return "its code is being imported there, or on_start still running"
        return "" if self._handle is None else self._handle.waits_for

    # -- its life ------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Start the process, unless it is called off meanwhile; at the end kill what is left of it."""
        refuse_while_importing(self._path)
        loop = asyncio.get_running_loop()
        self._started, self._exit = loop.create_future(), loop.create_future()
        handle = self._handle = self._code.place.handle(self)
        try:
            await self._start(handle)
            yield
        finally:
            await handle.end()

    async def _start(self, handle: WorkerHandle) -> None:
        """Start the process. An order that came before there was this object is seen here; a later one cancels it."""
        incarnation = cast("ProcessIncarnation", self._regrow_incarnation)
        if incarnation.order is not None:
            self._is_called_off = True
            return
        self._starting = asyncio.ensure_future(handle.start())
        try:
            await self._starting
        except asyncio.CancelledError:
            if not self._is_called_off or incarnation.was_killed:
                raise

    async def on_start(self) -> None:
        """Set it up, and wait until it is up."""
        if self._is_called_off:
            return
        code = self._code
        python = spawn.get_preparation_data(self._path)
        for name in ("authkey", "name"):
            python.pop(name, None)
        env, levels = dict(code.env), levels_of_logging()
        host_env = None if self._handle is None else self._handle.environment
        tree = mark_of(cast("ProcessIncarnation", self._regrow_incarnation).system)
        memory = None if code.memory_mb is None else code.memory_mb * MEGABYTE
        setup = Setup(self._path, tree, python, env, host_env, code.cwd, memory, code.code, levels)
        self._send(Kind.BOOT, 0, dumped(setup))
        self._is_booted = True
        started, exit_ = self._futures()
        await asyncio.wait((started, exit_), return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            self._raise(exit_.result())

    async def on_stop(self) -> None:
        """Have it run its own ``on_stop``, and wait for its end."""
        try:
            await self._stopped()
        except ProcessDiedError:
            if not self.is_excused:
                raise

    async def on_failure(self, *_: object) -> None:
        """Wait while it runs its own ``on_failure``; kill it where it does not know that it has crashed."""
        if self._goes:
            await asyncio.shield(self._futures()[1])

    async def _stopped(self) -> None:
        self.tell_to_stop()
        if self._is_called_off:
            return
        self._raise(await asyncio.shield(self._futures()[1]))

    def tell_to_stop(self) -> None:
        """Tell it once to end, as soon as it can hear; where no code of it runs yet, it is not started."""
        if not self._is_booted:
            self._is_called_off = True
            if self._starting is not None:
                self._starting.cancel()
        elif not self._goes and not self._futures()[1].done():
            self._goes = True
            self._send(Kind.STOP, 0, [b""])

    async def _regrow_body(self) -> None:
        """Wait for the end of its body; an order is passed on."""
        try:
            self._raise(await asyncio.shield(self._futures()[1]))
        except asyncio.CancelledError:
            incarnation = self._regrow_incarnation
            if incarnation is None or incarnation.order is None or incarnation.was_killed:
                raise
            await self._stopped()

    def _raise(self, exit_: InnerExit) -> None:
        if exit_.ignored:
            raise Ignore
        if exit_.error is not None:
            raise exit_.error

    def _futures(self) -> tuple[asyncio.Future[None], asyncio.Future[InnerExit]]:
        assert self._started is not None and self._exit is not None  # noqa: S101, PT018 - made with the lifespan
        return self._started, self._exit

    # -- messages ------------------------------------------------------------------------------------------

    def _regrow_handler(self) -> Any:
        return self._handed_over if self._code.recycle_after is None else self._receive

    def _receive(self, message: Any) -> Any:
        work = self._handed_over(message)
        return None if work is None else self._counted(work)

    async def _counted(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await the outcome of a message; after the last one that the process may handle another one follows it."""
        try:
            return await work
        finally:
            if self._answered >= (self._code.recycle_after or 0):
                cast("ProcessIncarnation", self._regrow_incarnation).recycle()

    def _handed_over(self, message: Any) -> Any:
        kind = type(message)
        if issubclass(kind, SystemMessage):
            return message.handle(self)
        if kind is not Packed:  # it came by another way than a Ref
            try:
                message = packed(self._path, message)
            except NotPicklableError as error:
                raise own_error(error) from None
        return self._asked(Kind.MESSAGE, [*self._meta(), *message.parts])

    def _meta(self) -> Parts:
        """Return what goes along with a message: how long it may take, where it came from, and the span around it."""
        current, left, sender, hops = CURRENT.get(), None, None, 0
        is_asked = current is not None and current.reply is not None
        origin = None if current is None else current.origin
        if origin is not None and current is not None:
            sender, hops = origin.sender, origin.hops
            left = None if origin.deadline is None else origin.deadline - current.incarnation.system.now()
        tracer = None if current is None else current.incarnation.system.tracer
        return dumped((left, sender, hops, is_asked, packed_span(tracer)))

    async def execute(self, task: Any, context: Any) -> Any:
        """Have it do the work of an attempt; where that is ended from outside, it has a moment to end by itself."""
        message, attempt = context._regrow_crossing(task)  # noqa: SLF001 - a name of ours that users have no need of
        self._calls.attempt = attempt
        try:
            return await self._asked(Kind.MESSAGE, [*self._meta(), *dumped(message)])
        except NotBegunError as error:
            raise (error.cause or ProcessDiedError(self._path, 0)) from None
        except asyncio.CancelledError:
            incarnation = cast("ProcessIncarnation", self._regrow_incarnation)
            if not incarnation.was_killed:
                is_late = attempt.ended_by in {"timeout", "idle"} and not self._code.is_async
                await self._end_work(None if incarnation.order is not None else 0.0 if is_late else GRACE_S)
            raise
        finally:
            self._calls.end_work()

    async def _end_work(self, grace_s: float | None) -> None:
        """Have it end what it does; kill it where it has not within ``grace_s``. None: its stop has a limit itself.

        A kill for work that took too long says nothing of the worker, so it is no crash: a fresh process goes on.
        """
        if self._answered == self._number:
            return  # its answer and the order have met here: it does nothing any more
        answer = self._answer = Answer()
        self._send(Kind.CANCEL, self._number, [b"" if grace_s is None else b"to its end"])
        try:
            over = (answer, self._futures()[1])
            await asyncio.wait(over, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._answer = None
        if answer.done() or self._futures()[1].done() or self._handle is None:
            return
        if cast("ProcessIncarnation", self._regrow_incarnation).give_up():
            return  # the lifespan, which is left next, kills the group
        self.is_excused = True
        self._handle.kill()
        await asyncio.shield(self._futures()[1])

    async def _asked(self, kind: Kind, parts: Parts) -> Any:
        self._number += 1
        answer = self._answer = Answer()
        try:
            if not self._futures()[1].done():
                self._send(kind, self._number, parts)
                await answer
        finally:
            self._answer = None
        frame = answer.frame
        if frame is None:
            raise self._why_over(self._number)
        is_value, value, is_failure = self._unpickled(frame) if len(frame.body) < LARGE else await self._apart(frame)
        if is_value:
            return value
        error = rebuilt(value)
        if is_failure:
            error = own_error(error)
        else:
            self._goes = True
        raise CarriedError(error) if is_a(error, StopIteration) else error

    def _why_over(self, number: int) -> BaseException:
        """Why no answer to this message comes any more."""
        exit_ = self._futures()[1].result()
        if number > exit_.handled or (self._handle is not None and self._handle.is_unread(number)):
            return NotBegunError(exit_.error)
        return exit_.error or ProcessDiedError(self._path, 0)

    async def _apart(self, frame: Frame) -> tuple[bool, Any, bool]:
        """Unpickle off the loop."""
        return await asyncio.get_running_loop().run_in_executor(None, self._unpickled, frame)

    def _unpickled(self, frame: Frame) -> tuple[bool, Any, bool]:
        try:
            found: tuple[bool, Any, bool] = loaded(parts_of(frame))
        except BaseException as error:  # noqa: BLE001 - unpickling runs the user's code
            why = f"{type_name(type(error))} while it was unpickled"
            failure = NotPicklableError(self._path, "a reply", why)
            return False, PackedError(dumped(failure)[0], type_name(type(failure)), str(failure), why), True
        return found

    def _send(self, kind: Kind, number: int, parts: Parts) -> None:
        if self._handle is not None:
            self._handle.send(kind, number, parts)

    # -- as the owner of the process -----------------------------------------------------------------------

    def took(self, frame: Frame) -> None:
        """Take a frame of the worker."""
        started, exit_ = self._futures()
        if frame.kind == Kind.RESULT:
            self._answered = frame.number
            if self._answer is not None and frame.number == self._number:
                self._answer.come(frame, at_once=self._calls.are_begun)
        elif frame.kind == Kind.CALL:
            self._calls.perform(frame)
        elif frame.kind == Kind.STARTED:
            if not started.done():
                started.set_result(None)
        elif frame.kind == Kind.EXIT and not exit_.done():
            reason, error, ignored, handled = loaded(parts_of(frame))
            self._ends(InnerExit(Reason(reason), None if error is None else rebuilt(error), ignored, handled))

    def died(self, exit_code: int | None, number: int | None, node: str | None = None, pid: int | None = None) -> None:
        """Take note of its end."""
        if not self._futures()[1].done():
            error = ProcessDiedError(self._path, exit_code, None if number is None else named_signal(number), pid)
            self._ends(InnerExit(Reason.CRASHED, error if node is None else WorkerLostError(self._path, node)))

    def _ends(self, exit_: InnerExit) -> None:
        """Tell whoever waits for the worker's half that it is over; if nobody does, end the host's half."""
        started, over = self._futures()
        over.set_result(exit_)
        was_up, answer, incarnation = started.done(), self._answer, self._regrow_incarnation
        if answer is not None and not answer.done():
            answer.come(None, at_once=False)
        elif was_up and not self._goes and incarnation is not None and not incarnation.recipe.is_body:  # type: ignore[attr-defined]
            if exit_.error is None:
                incarnation.request_stop(Reason.NORMAL)
            else:
                cast("ProcessIncarnation", incarnation).lose_resource(exit_.error)
