"""Work of an attempt in another process: what crosses, and the context that its code sees there.

The attempt itself stays in its host (``actors.tasks.execution.attempt``), with all that is decided about it. What
crosses is a message with the subtask and copies of all that its code is to see. What that code says or asks for
meanwhile goes back to the attempt in the host by calls; what it returns or raises is made an outcome there. Of the
result of a framework the answer is taken here, with its usage: the rest may be nothing that can be pickled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.messaging.envelope import CURRENT, SystemMessage, own_error
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.tasks.execution.adapters import execute_of
from actors.tasks.execution.agent_results import unwrap_returned
from actors.tasks.execution.context import Context
from actors.tasks.execution.stored_form import stored_form
from actors.tasks.model import AttemptEnded, Done

if TYPE_CHECKING:
    from actors.dispatch.worker.back_calls import BackCallClient
    from actors.tasks.execution.attempt import AttemptSpec


class WorkElsewhere(SystemMessage):
    """One attempt's work, as it crosses."""

    __slots__ = ("is_cancelled", "seen", "task")

    def __init__(self, task: Any, *seen: Any) -> None:
        self.task = task
        self.seen = seen
        """What its code is to see: the specification, the tokens of a prompt, the seconds that are left."""
        self.is_cancelled = False

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkElsewhere, (self.task, *self.seen)

    def handle(self, worker: Any) -> Any:
        """Have the worker do it. In its process."""
        current = CURRENT.get()
        assert current is not None  # noqa: S101 - the boundary has set it
        here: Any = current.incarnation
        result = execute_of(worker)(self.task, Context(AttemptElsewhere(here.calls, *self.seen)))
        if hasattr(type(result), "__await__"):
            return self._awaited(here, result)
        return unwrap_returned(result)

    def form_that_crosses(self, value: Any) -> Any:
        """Return the JSON of a result that cannot be pickled: it is all that would be kept of it."""
        if type(value) is Done:
            return replace(value, value=stored_form(value.value))
        return stored_form(value)

    async def _awaited(self, incarnation: Any, result: Awaitable[Any]) -> Any:
        try:
            return unwrap_returned(await result)
        except asyncio.CancelledError:
            if not self.is_cancelled:
                raise
            raise AttemptEnded("cancel") from None
        finally:
            while self.is_cancelled and incarnation.task is not None and incarnation.task.cancelling():
                incarnation.task.uncancel()  # the work was cancelled, the worker is not

    def request_cancel(self, why: str) -> bool:  # noqa: ARG002 - the host knows why
        """Note that it is to be cancelled; False if it was already."""
        was, self.is_cancelled = self.is_cancelled, True
        return not was


def _told(name: str) -> Callable[..., None]:
    """Make a method that is carried out in the host, and that waits for nothing."""

    def call(self: AttemptElsewhere, *args: Any) -> None:
        self.calls.tell("work", name, *args)

    return call


def _got(name: str) -> Callable[..., Any]:
    """Make a method that is carried out in the host, and that waits for what it returns."""

    def call(self: AttemptElsewhere, *args: Any) -> Any:
        try:
            return self.calls.get("work", name, *args)
        except Exception as error:
            own_error(error)
            raise

    return call


def _asked(name: str) -> Callable[..., Reply]:
    """Make a method that is carried out in the host, and that returns a reply to wait for."""

    def call(self: AttemptElsewhere, *args: Any) -> Reply:
        reply = Reply()
        self.calls.ask(reply, "work", name, *args, span=self.calls.span())
        return reply

    return call


class AttemptElsewhere:
    """Attempt as its code sees it in the process of its worker: what it says or asks is a call to the ``Attempt``."""

    def __init__(self, calls: BackCallClient, spec: AttemptSpec, context_tokens: int, left: float | None) -> None:
        self.calls = calls
        self.spec, self.context_tokens = spec, context_tokens
        self.task, self.subtask = spec.task, spec.subtask
        self._until = None if left is None else monotonic() + left

    @property
    def remaining_s(self) -> float | None:
        """Seconds that it has left; None: no limit."""
        return None if self._until is None else max(0.0, self._until - monotonic())

    def step_trace(self, _name: str) -> None:
        """Here no step has a span of its own."""

    shows_life = _told("shows_life")
    tell_progress = _told("tell_progress")
    use = _told("use")
    tell_usage = _told("tell_usage")
    token = _got("token")
    tools = _got("tools")
    tell_stream = _got("tell_stream")
    count = _got("count")
    delegate = _asked("delegate")
    ask_leave = _asked("ask_leave")
    keep_step = _asked("keep_step")
