"""Hooks of an attempt in a run of pydantic-ai: questions of tools, their calls as events and as steps, and its model.

A capability of pydantic-ai: it wraps the model and the tools of the run, whichever these are by then (an agent that is
overridden, a model that a hook has chosen), and leaves the agent itself as it is. A run of an agent that is plain, with
a model of its own and no tools, has no need of it, and is spared what it costs (``PlainAgent``).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, Final

from pydantic_ai import Agent, ApprovalRequired
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import Model

from actors.model.errors import Escalated
from actors.tasks.model import plain_text
from trees.agents.pydantic_ai_approval import QUESTION
from trees.agents.pydantic_ai_requests import AttemptRequests
from trees.agents.pydantic_ai_steps import durable_toolset

_MOST_RESULT = 2_000
"""Most characters of a tool's result in an event."""
_MORE: Final = frozenset({"capabilities", "deferred_tool_results", "event_stream_handler", "spec", "toolsets"})
"""Arguments of a run by which it has more than its agent."""


class AttemptHooks(AbstractCapability[Any]):
    """Hooks of one attempt."""

    def __init__(self, requests: AttemptRequests) -> None:
        self._requests = requests
        self._context = requests.context
        self._durable = requests.durable
        self._stream = requests.stream

    def get_wrapper_model(self, model: Any) -> Any:
        """Have the attempt see each request."""
        return self._requests.model(model)

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        """Make each call of a tool a step."""
        return durable_toolset(toolset, self._context, count=self._requests.count_rest) if self._durable else None

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
        finally:
            self._requests.count_rest(ctx.usage)  # of one that is no step: else it has been counted
        if self._stream:
            self._context.stream(f"{call.tool_name}: {_json(result)[:_MOST_RESULT]}", kind="tool_result")
        return result


class StreamingHooks(AttemptHooks):
    """Hooks of an attempt whose run streams, because somebody else listens."""

    async def wrap_run_event_stream(self, ctx: Any, *, stream: Any) -> AsyncIterator[Any]:
        """Show the pieces of an answer."""
        async with aclosing(super().wrap_run_event_stream(ctx, stream=stream)) as events:
            async for event in events:
                self._requests.shows(event)
                yield event


def hooks_of(agent: Any, requests: AttemptRequests, options: Mapping[str, Any]) -> AttemptHooks:
    """Return the hooks of a run, with these arguments."""
    root = getattr(agent, "root_capability", None)
    listeners = [options.get("event_stream_handler"), getattr(agent, "event_stream_handler", None)]
    requests.has_hooks = requests.stream and (
        root is None or any(listeners) or root.has_wrap_run_event_stream or root.has_on_event or _is_listened_to(agent)
    )
    return (StreamingHooks if requests.has_hooks else AttemptHooks)(requests)


class PlainAgent:
    """An agent as far as it may be run without hooks, where it is plain.

    It is plain that has a model, no tool, no capability but those that every agent has, and is not overridden here.
    """

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._is_bare = isinstance(agent, Agent) and {type(each) for each in _capabilities_of(agent)} == _always()
        self._overrides = tuple(each for each in vars(agent).values() if type(each) is ContextVar)
        """Arguments of ``with agent.override(...)``."""

    def model(self, options: Mapping[str, Any]) -> Model | None:
        """Return the model of a run with these arguments; None: only a hook can tell what the run will have."""
        agent = self._agent
        if not self._is_bare or not _MORE.isdisjoint(options):
            return None
        model = options.get("model") or agent.model
        if not isinstance(model, Model) or _is_listened_to(agent):
            return None
        for variable in self._overrides:  # a loop: it costs a fifth of any(...)
            if variable.get(None) is not None:
                return None
        own, *others = agent.toolsets
        return model if not others and not getattr(own, "tools", True) else None


@cache
def _always() -> frozenset[type]:
    """Return the kinds of capabilities that an agent has to which nobody has given any."""
    return frozenset(type(each) for each in _capabilities_of(Agent()))


def _capabilities_of(agent: Any) -> Sequence[Any]:
    found: Sequence[Any] = agent.root_capability.capabilities
    return found


def _is_listened_to(agent: Any) -> bool:
    """True where functions hear the events of its runs (``on_event``)."""
    return bool(getattr(getattr(agent, "_event_hooks", None), "has_on_event", False))


def _json(value: Any) -> str:
    """Return words for what a tool is given, or gives: what has no JSON form is told by its type."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=partial(plain_text, otherwise="?"))
    except (ValueError, TypeError, RecursionError):  # keys that are no texts, a circle, or what is nested too deep
        return f"<{type(value).__name__}>"
