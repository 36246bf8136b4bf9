"""Hooks of an attempt in a run of pydantic-ai: questions of tools, streaming, and steps. One object a run.

A capability of pydantic-ai: it wraps the model and the tools of the run, whichever these are by then (an agent that is
overridden, a model that a hook has chosen), and leaves the agent itself as it is.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from pydantic_ai import ApprovalRequired
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel

from actors.model.errors import Escalated
from trees.agents.pydantic_ai_approval import QUESTION
from trees.agents.pydantic_ai_steps import durable_model, durable_toolset

_MOST_RESULT = 2_000
"""Most characters of a tool's result in an event."""


class AttemptHooks(AbstractCapability[Any]):
    """Hooks of one attempt.

    Args:
        context: of the attempt.
        durable: requests and calls of tools are steps.
        stream: text and calls of tools become events.
    """

    def __init__(self, context: Any, *, durable: bool, stream: bool) -> None:
        self._context = context
        self._durable = durable
        self._stream = stream

    async def for_run(self, ctx: Any) -> AbstractCapability[Any]:
        """Take the events of a model that can stream; of another one its whole answers."""
        if self._stream and can_stream(ctx.model):
            return StreamingHooks(self._context, durable=self._durable, stream=True)
        return self

    def get_wrapper_model(self, model: Any) -> Any:
        """Make each request a step."""
        return durable_model(model, self._context) if self._durable else None

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        """Make each call of a tool a step."""
        return durable_toolset(toolset, self._context) if self._durable else None

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:  # noqa: ARG002 - the framework's names
        """Stream an answer that comes in one piece."""
        if self._stream:
            for part in response.parts:
                if isinstance(part, TextPart):
                    self._context.stream(part.content)
        return response

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:  # noqa: ARG002 - the framework's names
        """Call a tool. One that asks a person, and was not approved by one, waits for the answer."""
        if self._stream:
            self._context.stream(f"{call.tool_name}({_json(args)})", kind="tool_call")
        try:
            result = await handler(args)
        except Escalated as asked:
            if ctx.tool_call_approved:
                raise
            raise ApprovalRequired({QUESTION: str(asked.question), "state": asked.state}) from asked
        if self._stream:
            self._context.stream(f"{call.tool_name}: {_json(result)[:_MOST_RESULT]}", kind="tool_result")
        return result


class StreamingHooks(AttemptHooks):
    """Hooks of an attempt whose model can stream."""

    async def for_run(self, ctx: Any) -> AbstractCapability[Any]:  # noqa: ARG002 - the framework's names
        """Stay as it is."""
        return self

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:  # noqa: ARG002 - the framework's names
        """Leave the answer: its pieces were streamed."""
        return response

    async def wrap_run_event_stream(self, ctx: Any, *, stream: Any) -> AsyncIterator[Any]:
        """Stream the pieces of an answer."""
        async with aclosing(super().wrap_run_event_stream(ctx, stream=stream)) as events:
            async for event in events:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    self._context.stream(event.part.content)
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    self._context.stream(event.delta.content_delta)
                yield event


def can_stream(model: Any) -> bool:
    """Return True where a model has streamed requests."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    several = getattr(model, "models", None)
    if isinstance(several, (list, tuple)):  # a FallbackModel
        return all(can_stream(each) for each in several)
    if hasattr(model, "stream_function"):  # a FunctionModel
        return model.stream_function is not None
    return type(model).request_stream is not Model.request_stream


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
