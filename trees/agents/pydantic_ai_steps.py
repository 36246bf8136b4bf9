"""Steps of an agent of pydantic-ai: each request of its model and each call of a tool is made once for an attempt.

``durable_model(model, context)`` is the model with every request, also a streamed one, as a step of the attempt
(``context.step``); ``durable_toolset(toolset, context)`` the tools with every call as one. So a run that begins again,
because its process died, has the same messages up to the point of the crash without paying for them.

What makes two requests the same is what the user, the model and the tools have said, in order. Times, ids of runs, and
what stands in instructions and system prompts do not count: these may tell the date. A call of a tool is known by the
id that the model gave it.

What a tool says to the model by raising ``ModelRetry`` or ``ToolFailed`` is its result, and recorded as that. Any other
exception is not.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, ToolReturn, ToolReturnContent, UserContent
from pydantic_ai.models import CompletedStreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.toolsets import WrapperToolset
from pydantic_core import to_jsonable_python

from trees.agents.streamed_step import StreamedStep

REQUEST: Final = "model request"
"""Name of the steps of a model."""
_VOLATILE: Final = frozenset({"conversation_id", "instructions", "metadata", "run_id", "timestamp", "tool_call_id"})
"""Fields of messages and of their parts that differ each time."""
_BYTES: Final = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
_ASIDE: Final[TypeAdapter[Any]] = TypeAdapter(str | list[UserContent] | None, config=_BYTES)
_CONTENT: Final[TypeAdapter[Any]] = TypeAdapter(ToolReturnContent, config=_BYTES)
_RAISED: Final = {"retry": ModelRetry, "failed": ToolFailed}


def durable_model(model: Any, context: Any) -> Any:
    """Return the model with every request as a step of the attempt; ``model`` may be a name."""
    return _DurableModel(model, context)


def durable_toolset(toolset: Any, context: Any) -> Any:
    """Return the tools with every call as a step of the attempt."""
    return _DurableToolset(toolset, context)


class _DurableModel(WrapperModel):
    def __init__(self, wrapped: Any, context: Any) -> None:
        super().__init__(wrapped)
        self._context = context

    async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> ModelResponse:
        async def request(_: str) -> Any:
            return _dumped(await self.wrapped.request(messages, model_settings, model_request_parameters))

        return _loaded(await self._context.step(REQUEST, request, _fingerprint(messages)))

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, run_context: Any = None
    ) -> AsyncIterator[Any]:
        step = StreamedStep(self._context, REQUEST, _fingerprint(messages))
        try:
            if await step.is_recorded():
                response = _loaded(step.recorded)
                yield CompletedStreamedResponse(
                    response, model_request_parameters=model_request_parameters, replay_events=True
                )
                return
            request = (messages, model_settings, model_request_parameters, run_context)
            async with self.wrapped.request_stream(*request) as stream:
                yield stream
                response = stream.get()
            if response.state != "interrupted":
                await step.record(_dumped(response))
        finally:
            await step.give_up()


@dataclass
class _DurableToolset(WrapperToolset[Any]):
    context: Any = field(repr=False)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        async def call(_: dict[str, Any]) -> Any:
            try:
                result = await self.wrapped.call_tool(name, tool_args, ctx, tool)
            except (ModelRetry, ToolFailed) as error:
                return {"retry" if isinstance(error, ModelRetry) else "failed": error.message}
            if isinstance(result, ToolReturn):
                said = {"value": _plain(result.return_value), "metadata": to_jsonable_python(result.metadata)}
                return {"return": {**said, "content": _ASIDE.dump_python(result.content, mode="json", warnings=False)}}
            return {"value": _plain(result)}

        step = f"tool {name} {ctx.tool_call_id or ''}".strip()
        step = step if len(step) <= 200 else f"tool {_hash(step)}"  # noqa: PLR2004 - limit of the name of a step
        # A call that a person has approved is made once, also where the run that goes on with it is tried again.
        keep = "subtask" if ctx.tool_call_approved else "attempt"
        [(kind, found)] = (await self.context.step(step, call, tool_args, keep=keep)).items()
        if kind in _RAISED:
            raise _RAISED[kind](found)
        if kind == "value":
            return _CONTENT.validate_python(found)
        value, content = _CONTENT.validate_python(found["value"]), _ASIDE.validate_python(found["content"])
        return ToolReturn(value, content=content, metadata=found["metadata"])


def _plain(value: Any) -> Any:
    return _CONTENT.dump_python(value, mode="json", warnings=False)


def _dumped(response: ModelResponse) -> Any:
    return ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]


def _loaded(recorded: Any) -> ModelResponse:
    [response] = ModelMessagesTypeAdapter.validate_python([recorded])
    assert isinstance(response, ModelResponse)  # noqa: S101 - it is what was recorded
    return response


def _fingerprint(messages: Any) -> str:
    """Return the fingerprint of what was said so far."""
    said = [_lasting(message) for message in ModelMessagesTypeAdapter.dump_python(messages, mode="json")]
    return _hash(json.dumps(said, sort_keys=True))


def _lasting(message: dict[str, Any]) -> dict[str, Any]:
    parts = [
        {key: value for key, value in part.items() if key not in _VOLATILE}
        for part in message["parts"]
        if part.get("part_kind") != "system-prompt"
    ]
    return {"kind": message["kind"], "parts": parts}


def _hash(text: str) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()
