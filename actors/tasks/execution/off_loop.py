"""Calls of user code by a coroutine on the event loop: on the pool, each in an incarnation of its own.

Validators, sync planners, reviewers and undos, copies and checks of large values: whatever they do,
and however long it takes, the loop goes on. The call is in the same crash boundary as every worker, and whoever waits
for it is its owner: where that is cancelled, because its time is up or nobody wants it any more, the call is killed.
A thread that does not return is then left to itself and stays in the books.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar, cast

from actors.execution.crash_boundary import WorkerIncarnation
from actors.execution.incarnation import Exited
from actors.messaging.envelope import CURRENT, CurrentMessage
from actors.messaging.message_errors import ActorStoppedError
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import waiting_for
from actors.model.process_errors import for_asker
from actors.model.spec import DispatcherKind
from actors.tasks.execution.detached_incarnation import detached_incarnation
from actors.validation.introspection import is_async

ResultT = TypeVar("ResultT")


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
            call.end()
            raise
    return result


async def called(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the user's that may be sync or async, and return its result.

    An async one is awaited here; a sync one is called off the loop, and what it returns is awaited here if it can be.
    Whatever it raises is raised here: a ``SystemExit`` is a crash of the worker, wherever it was called. That of
    somebody whom it asks is not its own, and comes as a ``WorkerCrashedError``.
    """
    if is_async(function):
        return await function(*args)
    result, end = await off_loop(partial(_result_or_end, function, args))
    if end is not None:
        raise end
    return await result if hasattr(type(result), "__await__") else result


async def called_beside(context: Any, what: str, function: Callable[..., Any], *args: Any) -> Any:
    """As ``called``, for code beside the work of an attempt, whose time is limited (``LimitedCode``).

    Args:
        context: of the attempt; any other has no limit.
        what: names the code, as the user has declared it.
        function: sync or async.
        args: its arguments.
    """
    limited = getattr(context, "_regrow_limited", None)
    with limited(what) if limited is not None else nullcontext():
        return await called(function, *args)


def _result_or_end(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, BaseException | None]:
    """Return what a function returns, or what it has raised that is no ``Exception``, as it is."""
    try:
        return function(*args), None
    except Exception:
        raise
    except BaseException as end:  # noqa: BLE001 - it is raised where it is waited for
        return None, end


class _OffLoopCall:
    """One call, and the owner of its incarnation."""

    def __init__(self, code: Callable[[], Any], current: CurrentMessage) -> None:
        self._caller = current
        path = current.incarnation.mailbox.path
        system = cast("WorkerIncarnation", current.incarnation).system
        self.incarnation = detached_incarnation(system, path, "aside", self._run, code, DispatcherKind.POOL, self)
        self.reply = Reply(self.incarnation.mailbox)
        """With a target: whoever is asked for it knows that the caller waits."""

    def _run(self, code: Callable[[], Any]) -> None:
        current = CurrentMessage(self.incarnation, self._caller.origin, self.reply)
        CURRENT.set(current)
        current.borrow()
        try:
            result = code()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            current.end()
            self.reply.fail(for_asker(self.incarnation.mailbox.path, error))
        else:
            current.end()
            self.reply.complete(result)

    def end(self) -> None:
        """End it: nothing waits for it any more. A thread that has it is abandoned."""
        if not self.reply.done:
            self.incarnation.kill()

    def post(self, message: Any, reply: Reply | None = None) -> bool:  # noqa: ARG002 - as a supervisor's mailbox
        """Receive a report of its incarnation."""
        if isinstance(message, Exited):
            self.reply.fail(ActorStoppedError(self.incarnation.mailbox.path, "was ended"))
        return True
