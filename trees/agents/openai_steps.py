"""Steps of an agent of the OpenAI Agents SDK: each request of its model is made once for an attempt.

``durable_model(model, context)`` is the model with every request, also a streamed one, as a step of the attempt
(``context.step``). So a run that begins again, because its process died, does not pay again for the answers up to the
crash. Tools are called again: the
SDK has no place for a wrapper around them. Of an ``OpenAIAgent`` those that a person has approved are the exception.

What makes two requests the same is what the user and the model have said, in order, and which tools have answered. What
these say the second time does not count. Agents that may ask side by side are told apart by who asks: the model, its
instructions and settings, the tools, and the type of the output. Instructions of a function that tells the time then
make another request of each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from copy import copy
from functools import partial, wraps
from typing import Any, Final

from agents import FunctionTool, Model, ModelResponse
from agents.usage import deserialize_usage, serialize_usage
from openai.types.responses import Response, ResponseCompletedEvent
from pydantic_core import to_jsonable_python

from actors.tasks.execution.attempt_steps import MOST_NAME_CHARS
from actors.validation.json_form import json_form
from trees.agents.streamed_step import StreamedStep, fingerprint_of, hash_of, request_name

_VOLATILE: Final = frozenset({"created_at", "id", "output", "status"})
_ARGUMENTS: Final = ("system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs")
"""Arguments of a request, in their order, as far as they count."""
_SCALARS: Final = (str, int, float)


def durable_model(model: Any, context: Any) -> Any:
    """Return the model with every request as a step of the attempt."""
    return _DurableModel(model, context)


async def request_step(
    context: Any, said: Any, ask: Callable[[], Awaitable[ModelResponse]], asker: Any = None
) -> ModelResponse:
    """Ask a model as a step of the attempt.

    Args:
        context: of the attempt.
        said: input of the request: a text, or items.
        ask: asks the model; called where the answer is not recorded.
        asker: what tells apart who asks (``asker_of``). None: nobody else asks meanwhile.
    """
    made: list[ModelResponse] = []

    async def request(_: str) -> Any:
        made.append(await ask())
        return _dumped(made[0])

    fingerprint = _fingerprint(said, asker)
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
        ask = partial(self.wrapped.get_response, *args, **more)
        return await request_step(self._context, said_of(args, more), ask, asker_of(self.wrapped, args, more))

    async def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        said = _fingerprint(said_of(args, more), asker_of(self.wrapped, args, more))
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


def said_of(args: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """Return the input of a request, which is its second argument."""
    return more["input"] if "input" in more else args[1]


def asker_of(model: Any, args: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """Return what tells the agent of a request apart from others that say the same, as JSON."""
    given = {**dict(zip(_ARGUMENTS, args, strict=False)), **more}
    output = given.get("output_schema")
    return [
        type(model).__name__,
        str(getattr(model, "model", "")),
        given.get("system_instructions"),
        _plain_settings(given.get("model_settings")),
        sorted(str(getattr(each, "name", "")) for each in given.get("tools") or ()),
        sorted(str(getattr(each, "tool_name", "")) for each in given.get("handoffs") or ()),
        None if output is None or output.is_plain_text() else output.json_schema(),
    ]


def _plain_settings(settings: Any) -> dict[str, Any]:
    """Return the settings that are texts, numbers or models; what else is sent along may differ each time."""
    found = {}
    for name, value in (vars(settings) if hasattr(settings, "__dict__") else {}).items():
        if isinstance(value, _SCALARS):
            found[name] = value
        elif hasattr(value, "model_dump"):
            found[name] = to_jsonable_python(value, fallback=lambda other: type(other).__name__)
    return found


def approved_tool(tool: FunctionTool, step_of: Callable[[str], tuple[Any, int] | None]) -> FunctionTool:
    """Copy a tool, so that a call of it that a person has approved is made once for its subtask.

    Args:
        tool: the tool.
        step_of: by the id of a call: the context of the attempt, and the number of the question whose answer was the
            approval; None: nobody has approved it, or nothing is to be a step.
    """
    made = copy(tool)
    inner = made.on_invoke_tool

    @wraps(inner)
    async def invoke(context: Any, arguments: str) -> Any:
        id_ = str(getattr(context, "tool_call_id", ""))
        found = step_of(id_)
        if found is None:
            return await inner(context, arguments)

        async def call(_: str) -> Any:
            return _result(await inner(context, arguments))

        attempt, number = found
        name = f"tool {made.name} {id_} approved {number}"
        name = name if len(name) <= MOST_NAME_CHARS else f"tool {hash_of(name)}"
        return await attempt.step(name, call, arguments, keep="subtask")

    made.on_invoke_tool = invoke
    return made


def _result(result: Any) -> Any:
    """Return what a tool has given, as it is recorded: the SDK takes JSON for its kinds of output, and texts."""
    if isinstance(result, (str, dict, list)) or hasattr(result, "model_dump"):
        try:
            return json_form(result, exclude_none=True)
        except ValueError:
            return str(result)
    return str(result)


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


def _fingerprint(said: Any, asker: Any = None) -> str:
    """Return the fingerprint of what was said so far, and of who asks."""
    items: Any = [said] if isinstance(said, str) else [_lasting(_item(each)) for each in said]
    if asker is not None:
        items = {"said": items, "asker": asker}
    return fingerprint_of(items)


def _lasting(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in _VOLATILE}
