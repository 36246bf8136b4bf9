"""Steps of an agent of pydantic-ai: each request of its model and each call of a tool is made once for an attempt.

Requests are steps (``trees.agents.pydantic_ai_requests``) of the name and the fingerprint that stand here;
``durable_toolset(toolset, context)`` is the tools with every call as a step of the attempt (``context.step``). So a run
that begins again, because its process died, has the same messages up to the crash without paying for them.

What makes two requests the same is what the user, the model and the tools have said, in order. Times, ids of runs, and
what stands in instructions and system prompts do not count: these may tell the date. A call of a tool is known by the
id that the model gave it.

What a tool says to the model by raising ``ModelRetry`` or ``ToolFailed`` is its result, and recorded as that. Any other
exception is not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ModelMessagesTypeAdapter, ToolReturn, ToolReturnContent, UserContent
from pydantic_ai.toolsets import WrapperToolset
from pydantic_core import to_jsonable_python

REQUEST: Final = "model request"
"""Name of the steps of a model."""
_VOLATILE: Final = frozenset({"conversation_id", "instructions", "metadata", "run_id", "timestamp", "tool_call_id"})
"""Fields of messages and of their parts that differ each time."""
_BYTES: Final = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
_ASIDE: Final[TypeAdapter[Any]] = TypeAdapter(str | list[UserContent] | None, config=_BYTES)
_CONTENT: Final[TypeAdapter[Any]] = TypeAdapter(ToolReturnContent, config=_BYTES)
_RAISED: Final = {"retry": ModelRetry, "failed": ToolFailed}


def durable_toolset(toolset: Any, context: Any) -> Any:
    """Return the tools with every call as a step of the attempt."""
    return _DurableToolset(toolset, context)


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


def fingerprint_of(messages: Any) -> str:
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
