"""Steps of an agent of the OpenAI Agents SDK: each request of its model is made once for an attempt.

``durable_model(model, context)`` is the model with every request, also a streamed one, as a step of the attempt
(``context.step``). ``durable_provider(provider, context)`` is the same for models that are given by name. So a run that
begins again, because its process died, does not pay again for the answers up to the crash. Tools are called again: the
SDK has no place for a wrapper around them.

What makes two requests the same is what the user and the model have said, in order, and which tools have answered. What
these say the second time does not count, nor do instructions.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import blake2b
from typing import Any, Final

from agents import Model, ModelProvider, ModelResponse
from agents.usage import deserialize_usage, serialize_usage
from openai.types.responses import Response, ResponseCompletedEvent

from trees.agents.streamed_step import StreamedStep, request_name

_VOLATILE: Final = frozenset({"created_at", "id", "output", "status"})


def durable_model(model: Any, context: Any) -> Any:
    """Return the model with every request as a step of the attempt."""
    return _DurableModel(model, context)


def durable_provider(provider: Any, context: Any) -> Any:
    """Return the provider; its models have every request as a step of the attempt."""
    return _DurableProvider(provider, context)


async def request_step(context: Any, said: Any, ask: Callable[[], Awaitable[ModelResponse]]) -> ModelResponse:
    """Ask a model as a step of the attempt.

    Args:
        context: of the attempt.
        said: input of the request: a text, or items.
        ask: asks the model; called where the answer is not recorded.
    """
    made: list[ModelResponse] = []

    async def request(_: str) -> Any:
        made.append(await ask())
        return _dumped(made[0])

    fingerprint = _fingerprint(said)
    recorded = await context.step(request_name(fingerprint), request, fingerprint)
    return made[0] if made else _loaded(recorded)


class _DurableModel(Model):
    def __init__(self, wrapped: Any, context: Any) -> None:
        self.wrapped = wrapped
        self._context = context

    def __getattr__(self, name: str) -> Any:
        if name == "wrapped":
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    async def close(self) -> None:
        await self.wrapped.close()

    def get_retry_advice(self, request: Any) -> Any:
        return self.wrapped.get_retry_advice(request)

    async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
        return await request_step(self._context, _said(args, more), lambda: self.wrapped.get_response(*args, **more))

    async def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        said = _fingerprint(_said(args, more))
        step = StreamedStep(self._context, request_name(said), said)
        try:
            if await step.is_recorded():
                response = Response.model_validate(step.recorded)
                yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)
                return
            async for event in self.wrapped.stream_response(*args, **more):
                if isinstance(event, ResponseCompletedEvent):
                    await step.record(event.response.model_dump(mode="json", exclude_unset=True, warnings=False))
                yield event
        finally:
            await step.give_up()


class _DurableProvider(ModelProvider):
    def __init__(self, wrapped: Any, context: Any) -> None:
        self.wrapped = wrapped
        self._context = context

    def get_model(self, model_name: str | None) -> Any:
        return _DurableModel(self.wrapped.get_model(model_name), self._context)

    async def aclose(self) -> None:
        await self.wrapped.aclose()


def _said(args: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """Return the input of a request, which is its second argument."""
    return more["input"] if "input" in more else args[1]


def _dumped(response: ModelResponse) -> Any:
    return {
        "output": [_item(each) for each in response.output],
        "usage": serialize_usage(response.usage),
        "response_id": response.response_id,
        "request_id": response.request_id,
    }


def _item(item: Any) -> Any:
    return item if isinstance(item, dict) else item.model_dump(mode="json", exclude_unset=True, warnings=False)


def _loaded(recorded: dict[str, Any]) -> ModelResponse:
    """Make the answer that was recorded. Its items are read as the client reads them: also those it does not know."""
    return ModelResponse(
        output=Response.construct(output=recorded["output"]).output,
        usage=deserialize_usage(recorded["usage"]),
        response_id=recorded["response_id"],
        request_id=recorded["request_id"],
    )


def _fingerprint(said: Any) -> str:
    """Return the fingerprint of what was said so far."""
    items = [said] if isinstance(said, str) else [_lasting(_item(each)) for each in said]
    text = json.dumps(items, sort_keys=True, default=lambda value: type(value).__name__)
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _lasting(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in _VOLATILE}
