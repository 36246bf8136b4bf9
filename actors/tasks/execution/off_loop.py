"""Calls of user code by a coroutine on the event loop: on the pool, each in an incarnation of its own.

Validators, sync planners, reviewers and undos, copies and checks of large values: whatever they do,
and however long it takes, the loop goes on. If whoever waits is cancelled, because its time is up or nobody wants it
any more, the call is killed. A thread that does not return is then left to itself and stays in the books.

Code beside the work of an attempt (prompts, validators) counts as its running: it ends with the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar, cast

from actors.execution.crash_boundary import WorkerIncarnation
from actors.execution.incarnation import Exit, Exited
from actors.execution.incarnation_ports import IncarnationHost
from actors.messaging.envelope import CURRENT, CurrentMessage, MessageContext
from actors.messaging.mailbox import Mailbox, Refusal
from actors.messaging.message_errors import ActorStoppedError
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import waiting_for
from actors.model.process_errors import for_asker
from actors.model.spec import ChildSpec, DispatcherKind
from actors.validation.introspection import is_async
from actors.worker import body_recipe

ResultT = TypeVar("ResultT")


class Detached:
    """Code that belongs to no worker, in an incarnation of its own.

    The incarnation has the crash boundary of every worker, and a mailbox that takes nothing. Once it is started it
    calls ``_run``. An exception ends only this incarnation; it is never restarted.

    Args:
        system: where it runs.
        path: where the code is said to run, in dumps and errors.
        name: what it is.
        where: on the loop or on the pool.
    """

    def __init__(self, system: IncarnationHost, path: str, name: str, where: DispatcherKind) -> None:
        recipe = body_recipe(self._run, (), {}, where=where, expected=(Exception,))
        box = Mailbox(path)
        box.close(Refusal.BODY)
        self.incarnation = WorkerIncarnation(system, ChildSpec(id=name, recipe=recipe), box, self)

    def post(self, message: Any, reply: Reply | None = None) -> bool:  # noqa: ARG002 - as a supervisor's mailbox
        """Receive a report of the incarnation."""
        if isinstance(message, Exited):
            self._has_exited(message.exit)
        return True

    def _run(self) -> Any:
        raise NotImplementedError

    def _has_exited(self, end: Exit) -> None:
        raise NotImplementedError


@contextmanager
def as_current(incarnation: WorkerIncarnation, origin: MessageContext | None, reply: Reply) -> Iterator[None]:
    """Run code of a detached incarnation as the handler of a request: what it asks for carries the ancestry of that."""
    current = CurrentMessage(incarnation, origin, reply)
    CURRENT.set(current)
    current.borrow()
    try:
        yield
    finally:
        current.end()


async def off_loop(code: Callable[[], ResultT]) -> ResultT:
    """Call this on the pool, and wait for it here; called by what runs in a worker on the loop.

    On a thread that somebody has begun by themselves, with a loop of their own, it is called in place: no one else's
    work stands still for it.

    Raises:
        Exception: what ``code`` has raised.
        WorkerCrashedError: it has raised something that is no ``Exception``.
    """
    current = CURRENT.get()
    if current is None:
        return code()
    call = _OffLoopCall(code, current)
    with waiting_for(call.reply):
        call.incarnation.start()
        try:
            result: ResultT = await call.reply
        except BaseException:
            if not call.reply.done:
                call.incarnation.kill()  # nothing waits for it any more: a thread that has it is abandoned
            raise
    return result


async def called(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the user's that may be sync or async, and return its result.

    An async one is awaited here; a sync one is called off the loop, and what it returns is awaited here if it can be.
    Whatever it raises is raised here, as ``off_loop`` says.
    """
    if is_async(function):
        return await function(*args)
    result = await off_loop(partial(function, *args))
    return await result if hasattr(type(result), "__await__") else result


class _OffLoopCall(Detached):
    """One call, with the contextvars that are set where it is made."""

    def __init__(self, code: Callable[[], Any], current: CurrentMessage) -> None:
        self._code = code
        self._origin = current.origin
        self._variables = copy_context()
        self._path = current.incarnation.mailbox.path
        super().__init__(
            cast("WorkerIncarnation", current.incarnation).system, self._path, "aside", DispatcherKind.POOL
        )
        self.reply = Reply(self.incarnation.mailbox)
        """With a target: whoever is asked for it knows that the caller waits."""

    def _run(self) -> None:
        try:
            result = self._variables.run(self._call)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self.reply.fail(for_asker(self._path, error))
        else:
            self.reply.complete(result)

    def _call(self) -> Any:
        with as_current(self.incarnation, self._origin, self.reply):
            return self._code()

    def _has_exited(self, end: Exit) -> None:  # noqa: ARG002 - however it has ended
        self.reply.fail(ActorStoppedError(self._path, "was ended"))
