"""``toolset``: the tools of MCP servers for an agent inside an attempt.

Each call goes through ``context.ask``: it is a subtask of the same task, so it is supervised, journaled, counted for
the budget, and refused in a loop. A call that fails, also because the server is down, is a text for the model: the
agent goes on and decides what follows.

One object for all frameworks. It *is* a toolset of pydantic-ai where that is loaded (``toolsets=[...]``);
``langchain()`` and ``openai()`` give lists of the tools of these; iterating gives plain async functions, with signature
and docstring, which everybody takes. No framework is loaded that the user has not loaded.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from actors.messaging.message_errors import ActorStoppedError
from actors.model.errors import ActorsError, RecursionDetectedError
from actors.tasks.model import LeaseLostError, ToolInfo
from actors.validation.validation_messages import nearest, type_phrase
from trees.agents.tool_names import UsedNames, for_models, parameters_for

_TYPES: Final[dict[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}


class OfferedTool(NamedTuple):
    """One tool, as the model sees it."""

    name: str
    """Name of the tool; where two servers have one of that name, ``SERVER_NAME``. What no model takes in a name is
    ``_`` there."""
    worker: str
    info: ToolInfo


class Toolset:
    """Tools of some servers, for one attempt."""

    def __init__(self, context: Any, workers: tuple[str, ...], timeout: float | None) -> None:
        self._context = context
        self._timeout = timeout
        self.workers = workers
        self.offered = {each.name: each for each in _offered({id_: context.tools(id_) for id_ in workers})}
        """Tools by the name under which the model knows them."""

    def __repr__(self) -> str:
        return f"<toolset of {', '.join(self.workers)}: {', '.join(self.offered)}>"

    def __len__(self) -> int:
        return len(self.offered)

    def __iter__(self) -> Iterator[Callable[..., Awaitable[Any]]]:
        return (self._function(each) for each in self.offered.values())

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool; its result, or a text that says why there is none."""
        tool = self.offered.get(name)
        if tool is None:
            return self._unknown(name)
        try:
            return await self._context.ask(
                tool.worker, f"Call {tool.info.name}", arguments, tool=tool.info.name, timeout=self._timeout
            )
        except LeaseLostError:
            raise
        except (ActorsError, ActorStoppedError, RecursionDetectedError, ValueError) as error:
            return _failure(name, error)

    def call_sync(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool from sync code."""
        tool = self.offered.get(name)
        if tool is None:
            return self._unknown(name)
        try:
            return self._context.ask_sync(
                tool.worker, f"Call {tool.info.name}", arguments, tool=tool.info.name, timeout=self._timeout
            )
        except LeaseLostError:
            raise
        except (ActorsError, ActorStoppedError, RecursionDetectedError, ValueError) as error:
            return _failure(name, error)

    def _unknown(self, name: str) -> str:
        """Tell a model that it has made up a tool."""
        near = nearest(str(name), self.offered)
        return f"Error: there is no tool {name!r}. {near}There are: {', '.join(self.offered) or 'none'}"

    # -- conversions ---------------------------------------------------------------------------------------

    def pydantic_ai(self) -> Any:
        """Return a toolset of pydantic-ai: ``Agent(..., toolsets=[...])``, ``agent.run(..., toolsets=[...])``."""
        from trees.agents.mcp_toolset_pydantic import PydanticToolset  # noqa: PLC0415 - loaded when it is used

        return (
            self if isinstance(self, PydanticToolset) else PydanticToolset(self._context, self.workers, self._timeout)
        )

    def langchain(self) -> list[Any]:
        """Return LangChain tools, which work in sync and async code: ``model.bind_tools(...)``, ``ToolNode(...)``."""
        from langchain_core.tools import StructuredTool  # noqa: PLC0415 - loaded when it is used

        return [
            StructuredTool(
                name=each.name,
                description=each.info.description or each.name,
                args_schema=tool_schema(each.info),
                func=self._sync(each.name),
                coroutine=self._async(each.name),
            )
            for each in self.offered.values()
        ]

    def _sync(self, name: str) -> Callable[..., str]:
        """Make a function of a tool that takes nothing but what the model gives."""

        def call(**given: Any) -> str:
            return as_text(self.call_sync(name, given))

        return call

    def _async(self, name: str) -> Callable[..., Awaitable[str]]:
        async def call(**given: Any) -> str:
            return as_text(await self.call(name, given))

        return call

    def openai(self) -> list[Any]:
        """Return function tools of the OpenAI Agents SDK: ``Agent(..., tools=[...])``."""
        from agents import FunctionTool  # noqa: PLC0415 - loaded when it is used

        return [
            FunctionTool(
                name=each.name,
                description=each.info.description,
                params_json_schema=tool_schema(each.info),
                on_invoke_tool=self._for_openai(each.name),
                strict_json_schema=False,
            )
            for each in self.offered.values()
        ]

    def _for_openai(self, name: str) -> Callable[[Any, str], Awaitable[str]]:
        async def call(_context: Any, arguments: str) -> str:
            try:
                given = json.loads(arguments or "{}")
            except ValueError:
                return f"{name} was not called: its arguments are no JSON"
            if not isinstance(given, dict):
                return f"{name} was not called: its arguments are no JSON object"
            return as_text(await self.call(name, given))

        return call

    def _function(self, tool: OfferedTool) -> Callable[..., Awaitable[Any]]:
        """Make a plain function of a tool."""
        names = parameters_for(tool_schema(tool.info)["properties"])

        async def call(**given: Any) -> Any:
            return await self.call(tool.name, {names.get(name, name): value for name, value in given.items()})

        signature = _signature(tool.info, names)
        call.__name__ = call.__qualname__ = tool.name
        call.__doc__ = tool.info.description or f"Call {tool.name}."
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
        return call


def toolset(context: Any, *workers: str, timeout: float | None = None) -> Toolset:
    """Give the tools of MCP servers to an agent that runs in this attempt.

    Args:
        context: of the attempt.
        workers: ids of the servers' workers; looked up as ``context.ask`` does.
        timeout: seconds that one call may take; None: the time that the attempt has left.

    Raises:
        NoCapableWorkerError: there is no such worker.
        TypeError: that is no context of an attempt.
        ValueError: none is named.
    """
    if not callable(getattr(context, "tools", None)):
        what = f"toolset(context, ...): {type_phrase(context)} is no context of an attempt"
        raise TypeError(f"{what}. Write toolset(context, 'files') in execute(task, context).")
    if not workers:
        raise ValueError("toolset(context, ...) names no server. Write toolset(context, 'files').")
    if "pydantic_ai" in sys.modules:
        from trees.agents.mcp_toolset_pydantic import PydanticToolset  # noqa: PLC0415 - it is loaded already

        return PydanticToolset(context, workers, timeout)
    return Toolset(context, workers, timeout)


def as_text(value: Any) -> str:
    """Return a result as a model reads it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _failure(name: str, error: BaseException) -> str:
    return f"Error: {name} failed: {error}"


def _offered(tools: dict[str, tuple[ToolInfo, ...]]) -> Iterator[OfferedTool]:
    """Give each tool a name that models take, and that no other one has: its own, where it can."""
    every = [(worker, tool) for worker, each in tools.items() for tool in each]
    count = Counter(for_models(tool.name) for _, tool in every)
    used = UsedNames(name for name, number in count.items() if name and number == 1)
    for worker, tool in every:
        own = for_models(tool.name)
        is_free = own and count[own] == 1
        yield OfferedTool(own if is_free else used.use(for_models(f"{worker}_{tool.name}")), worker, tool)


def tool_schema(tool: ToolInfo) -> dict[str, Any]:
    """Return the JSON schema of a tool's inputs: always of an object."""
    return {"type": "object", "properties": {}, **(tool.input_schema or {})}


def _signature(tool: ToolInfo, names: Mapping[str, str]) -> inspect.Signature:
    """Return the signature that a schema stands for; what has no simple type is ``Any``."""
    schema = tool_schema(tool)
    needed = set(schema.get("required") or ())
    found = [
        inspect.Parameter(
            parameter,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if name in needed else _default(schema["properties"][name]),
            annotation=_type_of(schema["properties"][name])
            if name in needed
            else _type_of(schema["properties"][name]) | None,
        )
        for parameter, name in names.items()
    ]
    return inspect.Signature(found, return_annotation=Any)


def _default(said: Any) -> Any:
    return said.get("default") if isinstance(said, dict) else None


def _type_of(said: Any) -> Any:
    kind = said.get("type") if isinstance(said, dict) else None
    return _TYPES.get(kind, Any) if isinstance(kind, str) else Any
