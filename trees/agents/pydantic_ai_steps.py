"""Steps of an agent of pydantic-ai: each request of its model and each call of a tool is made once for an attempt.

``durable_model(model, context)`` is the model with every request, also a streamed one, as a step of the attempt
(``context.step``); ``durable_toolset(toolset, context)`` the tools with every call as one. So a run that begins again,
because its process died, has the same messages up to the point of the crash without paying for them.

A call of a tool is known by the id that the model gave it, one that a person has approved by that and by the question;
a request by what was said before it.

What a tool says to the model by raising ``ModelRetry`` or ``ToolFailed`` is its result, and recorded as that. Any other
exception is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ToolReturn, ToolReturnContent, UserContent
from pydantic_ai.toolsets import WrapperToolset

from actors.validation.json_form import json_form, json_form_as
from trees.agents.pydantic_ai_approval import question_number
from trees.agents.pydantic_ai_requests import durable_model
from trees.agents.streamed_step import hash_of

__all__ = ["durable_model", "durable_toolset"]

_BYTES: Final = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
_ASIDE: Final[TypeAdapter[Any]] = TypeAdapter(str | list[UserContent] | None, config=_BYTES)
_CONTENT: Final[TypeAdapter[Any]] = TypeAdapter(ToolReturnContent, config=_BYTES)
_RAISED: Final = {"retry": ModelRetry, "failed": ToolFailed}


def durable_toolset(toolset: Any, context: Any, *, count: Callable[[Any], object] | None = None) -> Any:
    """Return the tools with every call as a step of the attempt.

    Args:
        toolset: the tools.
        context: of the attempt.
        count: called with the ``RunUsage`` of the run at the end of a call, within its step: what agents have used that
            the tool has run stands there, and is recorded with the call. None: nobody counts.
    """
    return _DurableToolset(toolset, context, count)


@dataclass
class _DurableToolset(WrapperToolset[Any]):
    context: Any = field(repr=False)
    count: Callable[[Any], object] | None = field(default=None, repr=False)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        async def call(_: dict[str, Any]) -> Any:
            try:
                result = await self.wrapped.call_tool(name, tool_args, ctx, tool)
            except (ModelRetry, ToolFailed) as error:
                return {"retry" if isinstance(error, ModelRetry) else "failed": error.message}
            finally:
                if self.count is not None:
                    self.count(ctx.usage)
            if isinstance(result, ToolReturn):
                said = {"value": _plain(result.return_value), "metadata": json_form(result.metadata)}
                return {"return": {**said, "content": _ASIDE.dump_python(result.content, mode="json", warnings=False)}}
            return {"value": _plain(result)}

        step, keep = f"tool {name} {ctx.tool_call_id or ''}".strip(), "attempt"
        if ctx.tool_call_approved:
            # A call that a person has approved is made once, also where the run that goes on with it is tried again.
            # Not all models tell their calls apart by ids, so the question belongs to it: another one is another act.
            step, keep = f"{step} approved {question_number(self.context)}", "subtask"
        step = step if len(step) <= 200 else f"tool {hash_of(step)}"  # noqa: PLR2004 - limit of the name of a step
        [(kind, found)] = (await self.context.step(step, call, tool_args, keep=keep)).items()
        if kind in _RAISED:
            raise _RAISED[kind](found)
        if kind == "value":
            return _CONTENT.validate_python(found)
        value, content = _CONTENT.validate_python(found["value"]), _ASIDE.validate_python(found["content"])
        return ToolReturn(value, content=content, metadata=found["metadata"])


def _plain(value: Any) -> Any:
    return json_form_as(_CONTENT, value, warnings=False)
