"""Work of an attempt in another process: what crosses, and the context that its code sees there.

The attempt itself stays in its host (``actors.tasks.execution.attempt``), with all that is decided about it. What
crosses is a message with the subtask and copies of all that its code is to see. What that code says or asks for
meanwhile goes back to the context in the host by calls; what it returns or raises is made an outcome there. Of the
result of a framework the answer is taken here, with its usage: the rest may be nothing that can be pickled.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from actors.messaging.blocking import require_thread
from actors.messaging.caller_variables import Borrowed, borrow, give_back
from actors.messaging.envelope import CURRENT, SystemMessage, own_error
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.tasks.execution.adapters import execute_of
from actors.tasks.execution.agent_results import unwrap_returned
from actors.tasks.execution.attempt_steps import AttemptSteps, Keep, KnownSteps, StepCall
from actors.tasks.execution.given_results import GivenValues
from actors.tasks.execution.limited_code import RESULTS_CLASS
from actors.tasks.execution.stored_form import stored_form
from actors.tasks.model.attempt_end import AttemptEnded
from actors.tasks.model.outcome import Done, plain_text
from actors.tasks.model.task import Usage
from actors.validation.introspection import type_name
from actors.validation.validation_messages import fraction_of

if TYPE_CHECKING:
    from actors.dispatch.worker.back_calls import BackCallClient
    from actors.tasks.execution.context import Context
    from actors.tasks.model.executable import ToolInfo

_SEEN: Final = (
    *("goal", "attempt", "idempotency_key", "task_id", "path", "inputs", "results", "metadata", "revision"),
    *("previous", "state", "feedback", "history", "answers", "answer", "context_tokens", "is_light", "used_before"),
    *("part", "_regrow_notes"),
)
"""Attributes of a context that cross as they are."""


class WorkElsewhere(SystemMessage):
    """One attempt's work, as it crosses."""

    __slots__ = ("calls", "is_cancelled", "seen", "task")
    calls: BackCallClient
    """Calls to the host, in the process where it is handled."""

    def __init__(self, task: Any, context: Context, known: KnownSteps) -> None:
        self.task = task
        self.seen = {name: getattr(context, name) for name in _SEEN} | {
            "remaining": context.remaining_s,
            "steps": known,
        }
        self.is_cancelled = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.task, self.seen)

    def handle(self, worker: Any) -> Any:
        """Have the worker do it. In its process."""
        current = CURRENT.get()
        assert current is not None  # noqa: S101 - the boundary has set it
        here: Any = current.incarnation
        self.calls = here.calls
        result = execute_of(worker)(self.task, ContextElsewhere(self.seen, here.calls, self.task.id))
        if hasattr(type(result), "__await__"):
            return self._awaited(here, result)
        return unwrap_returned(result)

    def form_that_crosses(self, value: Any) -> Any:
        """Return the JSON of a result that cannot be pickled: it is all that would be kept of it."""
        with LimitedCodeElsewhere(self.calls, RESULTS_CLASS):
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
        """Note that it is to be cancelled; False where it was already."""
        was, self.is_cancelled = self.is_cancelled, True
        return not was


def _arrived(task: Any, seen: dict[str, Any]) -> WorkElsewhere:
    work = WorkElsewhere.__new__(WorkElsewhere)
    work.task, work.seen, work.is_cancelled = task, seen, False
    return work


class ContextElsewhere(GivenValues):
    """Context of an attempt, in the process of its worker: as ``Context``."""

    def __init__(self, seen: dict[str, Any], calls: BackCallClient, subtask: str) -> None:
        vars(self).update({name: seen[name] for name in _SEEN})
        self._calls = calls
        host = StepHostElsewhere(seen["path"], subtask, seen["steps"], calls)
        self._steps = AttemptSteps(host, seen["idempotency_key"])
        remaining = seen["remaining"]
        self._until = None if remaining is None else monotonic() + remaining

    def __repr__(self) -> str:
        return "<Context>"

    def _regrow_limited(self, what: str) -> LimitedCodeElsewhere:
        """Return the context for a call of the user's code beside the work: a prompt, say."""
        return LimitedCodeElsewhere(self._calls, what)

    @property
    def remaining_s(self) -> float | None:
        """Seconds that this attempt has left; None: no limit."""
        return None if self._until is None else max(0.0, self._until - monotonic())

    @property
    def token(self) -> int:
        """The fencing token of the process that runs the tree."""
        try:
            token: int = self._calls.get("work", "token")
        except Exception as error:
            own_error(error)
            raise
        return token

    def progress(self, fraction: float, text: str = "") -> None:
        """Say how far it is, from 0 to 1; also a sign of life."""
        self._calls.tell("work", "progress", fraction_of(fraction), str(text))

    def stream(self, text: str, kind: str = "text") -> None:
        """Show what it is just saying or doing, as it comes; also a sign of life."""
        self._calls.get("work", "stream", text, kind)

    def heartbeat(self) -> None:
        """A sign of life."""
        self._calls.tell("work", "heartbeat")

    def use(self, tokens: int = 0, cost: float = 0.0) -> None:
        """Say what was used up."""
        Usage(tokens=tokens, cost=cost)  # refuses, here, what is no number
        self._calls.get("work", "use", tokens, cost)

    def tools(self, of: str) -> tuple[ToolInfo, ...]:
        """Return the tools of a worker that has several."""
        found: tuple[ToolInfo, ...] = self._calls.get("work", "tools", of)
        return found

    async def ask(
        self,
        to: str,
        instruction: str,
        inputs: dict[str, Any] | None = None,
        *,
        tool: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as ref.ask_async
    ) -> Any:
        """Have somebody else do something, and wait for the result."""
        return await self._asked(to, instruction, inputs, tool, timeout)

    def ask_sync(
        self,
        to: str,
        instruction: str,
        inputs: dict[str, Any] | None = None,
        *,
        tool: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """As ``ask``, for sync code."""
        require_thread(to, "await context.ask(...)")
        return self._asked(to, instruction, inputs, tool, timeout).get()

    def _asked(self, to: str, instruction: str, inputs: Any, tool: str | None, timeout: float | None) -> Reply:
        reply = Reply()
        self._calls.ask(reply, "work_ask", to, instruction, inputs, tool, timeout, span=self._calls.span())
        return reply

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, keep: Keep = "attempt", **kwargs: Any
    ) -> Any:
        """Call a function once for this attempt: here, and recorded in the host."""
        return await self._steps.call(name, function, args, kwargs, keep)

    def step_sync(
        self, name: str, function: Callable[..., Any], /, *args: Any, keep: Keep = "attempt", **kwargs: Any
    ) -> Any:
        """As ``step``, for sync code."""
        return self._steps.call_sync(name, function, args, kwargs, keep)

    @property
    def step_key(self) -> str:
        """Key of the effect of the step that runs here."""
        return self._steps.key_here()


class LimitedCodeElsewhere(AbstractContextManager[None]):
    """Context in which code beside the work of an attempt runs there: its host limits the time of it."""

    _numbers = itertools.count()

    def __init__(self, calls: BackCallClient, what: str) -> None:
        self._calls = calls
        self._what = what
        self._number = next(self._numbers)

    def __enter__(self) -> None:
        self._calls.tell("limit", self._number, self._what)

    def __exit__(self, *_: object) -> None:
        self._calls.tell("limit", self._number, None)


class StepTraceElsewhere(AbstractContextManager[None]):
    """Trace of a step in the process that runs it: the span of the host is current here until it ends."""

    def __init__(self, calls: BackCallClient, name: str, span: bytes) -> None:
        self._calls = calls
        self._name = name
        self._span = span
        self._number = 0
        self._borrowed: Borrowed = []

    def __enter__(self) -> None:
        begun = self._calls.get("work_step", "begin_trace", self._name, span=self._span)
        if begun is not None:
            self._number, crossing = begun
            if crossing is not None:
                self._borrowed = borrow(crossing.variables(), CURRENT)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        give_back(self._borrowed)
        if self._number:
            said = () if error is None else (type_name(type(error)), plain_text(error, otherwise=""))
            self._calls.tell("work_step", "end_trace", self._number, *said)


class StepHostElsewhere:
    """Attempt as the steps of its code in another process see it: each operation is a back-call."""

    def __init__(self, path: str, subtask: str, known: KnownSteps, calls: BackCallClient) -> None:
        self.path = path
        self.subtask = subtask
        self.known = known
        self._calls = calls

    def ask_leave(self, name: str) -> Reply:
        """Ask if a step may be made; what is returned says so."""
        return self._asked("ask_leave", name)

    def trace(self, name: str) -> StepTraceElsewhere | None:
        """Return the trace of a step, where its attempt is traced: its span is made in the host."""
        span = self._calls.span()
        return StepTraceElsewhere(self._calls, name, span) if span else None

    def use(self, usage: Usage) -> None:
        """Count what the step that runs has used up."""
        self._calls.tell("work_step", "use", usage)

    def tell_usage(self) -> None:
        """Tell what was used up, where no record has it."""
        self._calls.tell("work_step", "tell_usage")

    def keep_step(self, call: StepCall, value: Any) -> Reply:
        """Have a step recorded; what is returned is completed when it is kept."""
        return self._asked("keep_step", call, value)

    def _asked(self, name: str, *args: Any) -> Reply:
        reply = Reply()
        self._calls.ask(reply, "work_step", name, *args)
        return reply
