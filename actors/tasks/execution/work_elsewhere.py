"""Work of an attempt in another process: what crosses, and the context that its code sees there.

The attempt itself stays in its host (``actors.tasks.execution.attempt``), with all that is decided about it. What
crosses is a message with the subtask and copies of all that its code is to see. What that code says or asks for
meanwhile goes back to the context in the host by calls; what it returns or raises is made an outcome there. Of the
result of a framework the answer is taken here, with its usage: the rest may be nothing that can be pickled.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from actors.messaging.caller_variables import borrow, give_back
from actors.messaging.envelope import CURRENT, SystemMessage, own_error
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.tasks.execution.adapters import execute_of
from actors.tasks.execution.agent_results import unwrap_returned
from actors.tasks.execution.attempt_steps import AttemptSteps, KnownSteps, StepCall
from actors.tasks.execution.context import AskedWork, Context, ContextValues
from actors.tasks.execution.stored_form import RESULTS_CLASS, stored_form
from actors.tasks.model.live_events import StreamKind
from actors.tasks.model.outcome import AttemptEnded, Done, plain_text
from actors.tasks.model.task import Usage
from actors.validation.introspection import type_name
from actors.validation.validation_messages import fraction_of

if TYPE_CHECKING:
    from actors.dispatch.worker.back_calls import BackCallClient
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.model.executable import ToolInfo

_NUMBERS: Final = itertools.count()


class Seen(NamedTuple):
    """What the code of an attempt is to see in another process."""

    values: ContextValues
    task: str
    path: str
    subtask: str
    used_before: Usage
    context_tokens: int
    remaining_s: float | None
    steps: KnownSteps


def crossing(context: Context, attempt: Attempt) -> Seen:
    """Return what crosses of a context."""
    spec = attempt.spec
    values = spec.values._replace(metadata=dict(spec.values.metadata))
    seen = (spec.used_before, context.context_tokens, context.remaining_s, spec.steps)
    return Seen(values, spec.task, spec.path, spec.subtask.id, *seen)


class WorkElsewhere(SystemMessage):
    """One attempt's work, as it crosses."""

    __slots__ = ("calls", "is_cancelled", "seen", "task")
    calls: BackCallClient
    """Calls to the host, in the process where it is handled."""

    def __init__(self, task: Any, seen: Seen) -> None:
        self.task = task
        self.seen = seen
        self.is_cancelled = False

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkElsewhere, (self.task, self.seen)

    def handle(self, worker: Any) -> Any:
        """Have the worker do it. In its process."""
        current = CURRENT.get()
        assert current is not None  # noqa: S101 - the boundary has set it
        here: Any = current.incarnation
        self.calls = here.calls
        result = execute_of(worker)(self.task, ContextElsewhere(self.seen, here.calls))
        if hasattr(type(result), "__await__"):
            return self._awaited(here, result)
        return unwrap_returned(result)

    def form_that_crosses(self, value: Any) -> Any:
        """Return the JSON of a result that cannot be pickled: it is all that would be kept of it."""
        with _limited(self.calls, RESULTS_CLASS):
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


class ContextElsewhere(Context):
    """Context of an attempt, in the process of its worker."""

    __slots__ = ("_calls", "_seen", "_until")

    def __init__(self, seen: Seen, calls: BackCallClient) -> None:
        super().__init__(cast("Attempt", None), seen.values)
        self._seen = seen
        self._calls = calls
        self._until = None if seen.remaining_s is None else monotonic() + seen.remaining_s

    def _regrow_limited(self, what: str) -> AbstractContextManager[None]:
        return _limited(self._calls, what)

    @property
    def task_id(self) -> str:
        return self._seen.task

    @property
    def path(self) -> str:
        return self._seen.path

    @property
    def used_before(self) -> Usage:
        return self._seen.used_before

    @property
    def context_tokens(self) -> int:
        return self._seen.context_tokens

    @property
    def remaining_s(self) -> float | None:
        return None if self._until is None else max(0.0, self._until - monotonic())

    @property
    def token(self) -> int:
        try:
            token: int = self._calls.get("work", "token")
        except Exception as error:
            own_error(error)
            raise
        return token

    def progress(self, fraction: float, text: str = "") -> None:
        self._calls.tell("work", "progress", fraction_of(fraction), str(text))

    def stream(self, text: str, kind: StreamKind = "text") -> None:
        self._calls.get("work", "stream", text, kind)

    def heartbeat(self) -> None:
        self._calls.tell("work", "heartbeat")

    def use(self, tokens: int = 0, cost: float = 0.0) -> None:
        Usage(tokens=tokens, cost=cost)  # refuses, here, what is no number
        self._calls.get("work", "use", tokens, cost)

    def tools(self, of: str) -> tuple[ToolInfo, ...]:
        found: tuple[ToolInfo, ...] = self._calls.get("work", "tools", of)
        return found

    def _sent(self, asked: AskedWork, limit: float | None) -> Reply:
        reply = Reply()
        self._calls.ask(reply, "work_ask", *asked, limit, span=self._calls.span())
        return reply

    def _made_steps(self, _: object) -> AttemptSteps:
        return AttemptSteps(StepHostElsewhere(self._seen, self._calls), self.idempotency_key)


@contextmanager
def _limited(calls: BackCallClient, what: str) -> Iterator[None]:
    """Run code beside the work of an attempt: its host limits the time of it."""
    number = next(_NUMBERS)
    calls.tell("limit", number, what)
    try:
        yield
    finally:
        calls.tell("limit", number, None)


@contextmanager
def _traced(calls: BackCallClient, name: str, span: bytes) -> Iterator[None]:
    """Run a step of a traced attempt: the span that its host has made for it is current here until it ends."""
    begun = calls.get("work_step", "begin_trace", name, span=span)
    if begun is None:
        yield
        return
    number, crossing_span = begun
    borrowed = [] if crossing_span is None else borrow(crossing_span.variables(), CURRENT)
    said: tuple[str, ...] = ()
    try:
        yield
    except BaseException as error:
        said = (type_name(type(error)), plain_text(error, otherwise="its text cannot be told"))
        raise
    finally:
        give_back(borrowed)
        calls.tell("work_step", "end_trace", number, *said)


class StepHostElsewhere:
    """Attempt as the steps of its code in another process see it: each operation is a back-call."""

    def __init__(self, seen: Seen, calls: BackCallClient) -> None:
        self.path, self.subtask, self.known = seen.path, seen.subtask, seen.steps
        self._calls = calls

    def ask_leave(self, name: str) -> Reply:
        """Ask if a step may be made; what is returned says so."""
        return self._asked("ask_leave", name)

    def trace(self, name: str) -> AbstractContextManager[object] | None:
        """Return the trace of a step, if its attempt is traced: its span is made in the host."""
        span = self._calls.span()
        return _traced(self._calls, name, span) if span else None

    def use(self, usage: Usage) -> None:
        """Count what the step that runs has used up."""
        self._calls.tell("work_step", "use", usage)

    def tell_usage(self) -> None:
        """Tell what was used up, if no record has it."""
        self._calls.tell("work_step", "tell_usage")

    def keep_step(self, call: StepCall, value: Any) -> Reply:
        """Have a step recorded; what is returned is completed when it is kept."""
        return self._asked("keep_step", call, value)

    def _asked(self, name: str, *args: Any) -> Reply:
        reply = Reply()
        self._calls.ask(reply, "work_step", name, *args)
        return reply
