"""Models of an agent of the OpenAI Agents SDK, each in a wrapper that sees every request of an attempt.

The wrapper makes each request a step of the attempt, counts what it has cost as soon as it is answered, and shows the
pieces of an answer as they come. What a step that is recorded has cost was counted when it was made. It finds its
attempt in a context variable, which the tasks of a run inherit. So one copy of an agent, with those that it hands over
to, serves all attempts; tools and everything else are the user's own objects.

A model that cannot stream is asked for the whole answer, from its first refusal on. So is one of Chat Completions whose
stream does not tell its usage, or why it has ended: such an answer cannot be counted, or is not known to be whole:
what a connection has lost looks like the end of the stream. One that has told both before has lost its connection: it
goes on with streams (``StreamHabits``).
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextvars import ContextVar
from functools import partial
from operator import methodcaller
from typing import Any, Final

from agents import (
    Agent,
    FunctionTool,
    Handoff,
    Model,
    ModelProvider,
    ModelResponse,
    OpenAIChatCompletionsModel,
    RunConfig,
    Usage,
)
from openai import APIStatusError

from actors.tasks.execution.attempt_steps import use_in_step
from trees.agents.model_errors import is_malformed
from trees.agents.openai_chat_ends import ending
from trees.agents.openai_steps import approved_tool, asker_of, request_step, said_of
from trees.agents.stream_habits import StreamHabits

ATTEMPT: Final[ContextVar[RunRequests | None]] = ContextVar("regrow_openai_run", default=None)
"""Requests of the attempt that runs; None: the model is used by somebody else."""
_BROKEN: Final = frozenset({"response.failed", "response.incomplete", "error", "response.error"})
"""Events with which an answer ends that is not whole."""
_SETTINGS: Final = 2
"""Place of the settings among the arguments of a request."""


class RunRequests:
    """Requests of one attempt.

    ``durable``: each is a step of the attempt (``trees.agents.openai_steps``).
    """

    def __init__(self, context: Any, *, durable: bool) -> None:
        self._context = context
        self._durable = durable
        self.tokens = 0
        """Tokens of all answers so far, also of those that were taken from a record, and whatever else was counted."""
        self.own: Any = None
        """Input of the request that the run itself makes now. All others are those of agents that are tools of it."""
        self.approved: dict[str, int] = {}
        """Calls of tools that people have approved, by id: the number of the question."""

    async def answer(self, said: Any, asker: Callable[[], Any], ask: Callable[[], Awaitable[Any]]) -> Any:
        """Return the answer to a request: that of the model, which is counted, or what is recorded of it.

        Args:
            said: input of the request.
            asker: says what tells apart who asks, where several may ask at once.
            ask: asks the model.
        """

        async def paid() -> Any:
            response = await ask()
            tokens = response.usage.total_tokens
            if tokens and not (self._durable and use_in_step(tokens, 0.0)):
                self._context.use(tokens=tokens)
            return response

        if self._durable:
            response = await request_step(self._context, said, paid, None if said is self.own else asker())
        else:
            response = await paid()
        self.tokens += response.usage.total_tokens
        return response

    def count(self, tokens: int) -> None:
        """Count what an answer has cost that is of no use."""
        self.tokens += tokens
        self._context.use(tokens=tokens)

    def approval(self, id_: str) -> tuple[Any, int] | None:
        """Return the context, and the number of the question, of a call that a person has approved; None: of others."""
        number = self.approved.get(id_) if self._durable else None
        return None if number is None else (self._context, number)

    def says(self, text: str, kind: str = "text") -> None:
        """Show a piece of an answer."""
        if text:
            self._context.stream(text, kind)

    def says_all(self, items: Iterable[Any]) -> None:
        """Show the text of an answer that came in one piece."""
        for item in items:
            for part in getattr(item, "content", None) or ():
                self.says(getattr(part, "text", "") or "")


class AttemptModel(Model):
    """A model as the attempts of a worker use it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._is_chat = isinstance(inner, OpenAIChatCompletionsModel)
        self._habits = StreamHabits()

    def __getattr__(self, name: str) -> Any:
        """Anything else is the model's own."""
        return getattr(self._inner, name)

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        """Ask the model."""
        attempt = ATTEMPT.get()
        if attempt is None:
            return await self._inner.get_response(*args, **kwargs)
        asker = partial(asker_of, self._inner, args, kwargs)
        return await attempt.answer(said_of(args, kwargs), asker, partial(self._ask, attempt, args, kwargs))

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream as the model does; a run of ours never asks for that."""
        return self._inner.stream_response(*args, **kwargs)

    def get_retry_advice(self, request: Any) -> Any:
        """As the model says."""
        return self._inner.get_retry_advice(request)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await methodcaller("_cleanup_on_run_end", owner)(self._inner)  # what wraps a model must hand it on

    async def close(self) -> None:
        """Leave the model open: it is the user's."""

    async def _ask(self, attempt: RunRequests, args: Any, kwargs: Any) -> Any:
        has_ended = True
        if self._habits.streams():
            model = ending(self._inner)
            found = await self._streamed(model, attempt, args, kwargs)
            if found is not None:
                return found
            has_ended = getattr(model, "has_ended", None) is not False
        response = await self._inner.get_response(*args, **kwargs)
        # Not before: a request that is wrong says nothing of streams.
        self._habits.told_nothing(has_ended=has_ended)
        attempt.says_all(response.output)
        return response

    async def _streamed(self, model: Any, attempt: RunRequests, args: Any, kwargs: Any) -> Any:
        """Return an answer whose pieces were shown as they came; None: the model is to be asked for the whole.

        Raises:
            ConnectionError: the stream has ended in the middle.
        """
        read = _Reading(attempt)
        if self._is_chat:
            args, kwargs = _with_usage(args, kwargs)
        try:
            events = model.stream_response(*args, **kwargs)
            response = await read.all(events) if isinstance(events, AsyncIterable) else None
        except (NotImplementedError, AssertionError):
            if read.has_begun:
                raise
            return None
        except APIStatusError as error:
            if read.has_begun or not self._is_chat or not is_malformed(error):
                raise
            return None  # servers of others may not know ``stream_options``
        if response is None or (self._is_chat and response.usage is None):
            return None
        if getattr(model, "has_ended", None) is False:
            attempt.count(response.usage.total_tokens)
            return None
        self._habits.told()
        whole = _response_of(response, read.items)
        if not read.has_text:  # it came in one piece
            attempt.says_all(whole.output)
        return whole


class AttemptProvider(ModelProvider):
    """A provider whose models are wrapped."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def get_model(self, model_name: str | None) -> Any:
        """Wrap the model of this name."""
        return wrapped_model(self._inner.get_model(model_name))

    async def aclose(self) -> None:
        """Leave the provider open: it is the user's."""


def wrapped_model(model: Any) -> Any:
    """Wrap a model, once."""
    return model if isinstance(model, AttemptModel) else AttemptModel(model)


def wrapped_config(config: Any) -> Any:
    """Copy a run's config, with models wrapped. None: one without the SDK's own tracing, which needs a network."""
    found = RunConfig(tracing_disabled=True) if config is None else config
    found = RunConfig(**found) if isinstance(found, dict) else found
    own = {"model": wrapped_model(found.model)} if isinstance(found.model, Model) else {}
    return dataclasses.replace(found, model_provider=AttemptProvider(found.model_provider), **own)


class WrappedAgents:
    """Copies of an agent and of those that it hands over to, with models wrapped, and tools that people approve."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Any, Any]] = {}
        """By the object's id: the agent, which is kept so that the id stays its own, and its copy."""

    def of(self, agent: Any) -> Any:
        """Copy an agent, once."""
        if not isinstance(agent, Agent):
            return agent
        found = self._copies.get(id(agent))
        if found is None:
            own: dict[str, Any] = {"model": wrapped_model(agent.model)} if isinstance(agent.model, Model) else {}
            if any(map(_may_need_approval, agent.tools)):
                own["tools"] = _with_approvals(agent.tools)
            handoffs: list[Any] = []
            copy = agent.clone(handoffs=handoffs, model_settings=agent.model_settings, **own)
            if agent.mcp_servers:
                kind: Any = type(agent)
                copy.__class__ = _with_mcp_approvals(kind)
            found = self._copies[id(agent)] = self._copies[id(copy)] = (agent, copy)
            handoffs += [self._handoff(each) if isinstance(each, Handoff) else self.of(each) for each in agent.handoffs]
        return found[1]

    def _handoff(self, handoff: Any) -> Any:
        async def invoke(context: Any, arguments: str) -> Any:
            return self.of(await handoff.on_invoke_handoff(context, arguments))

        copy = dataclasses.replace(handoff, on_invoke_handoff=invoke)
        known = vars(handoff).get("_agent_ref")
        target = None if known is None else known()
        if target is not None:
            vars(copy)["_agent_ref"] = weakref.ref(self.of(target))  # a run that goes on finds its agents by it
        return copy


@functools.cache
def _with_mcp_approvals(kind: Any) -> Any:
    """Return a subclass of a class of agents: its tools of MCP servers, made anew for each request, are as the others.

    A class, and not a method of the copy: the SDK may copy that once more.
    """

    async def get_mcp_tools(self: Any, run_context: Any) -> list[Any]:
        return _with_approvals(await kind.get_mcp_tools(self, run_context))

    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), {**names, "get_mcp_tools": get_mcp_tools})


def _with_approvals(tools: Iterable[Any]) -> list[Any]:
    return [approved_tool(each, _approval) if _may_need_approval(each) else each for each in tools]


def _may_need_approval(tool: Any) -> bool:
    return isinstance(tool, FunctionTool) and tool.needs_approval is not False


def _approval(id_: str) -> tuple[Any, int] | None:
    attempt = ATTEMPT.get()
    return None if attempt is None else attempt.approval(id_)


class _Reading:
    """The stream of one answer, as it is read."""

    def __init__(self, attempt: RunRequests) -> None:
        self._attempt = attempt
        self.items: list[Any] = []
        self.has_begun = False
        self.has_text = False
        """True where pieces of its text were shown."""

    async def all(self, events: AsyncIterable[Any]) -> Any:
        """Show the pieces, and return the answer as its last event has it; None: there was nothing at all.

        Raises:
            ConnectionError: it has ended in the middle.
        """
        async for event in events:
            self.has_begun = True
            kind = getattr(event, "type", "")
            if kind == "response.output_text.delta":
                self.has_text = True
                self._attempt.says(event.delta)
            elif kind == "response.output_item.done":
                self.items.append(event.item)
            elif kind == "response.completed":
                return event.response
            elif kind in _BROKEN:
                raise _broken(self._attempt, event)
        if self.has_begun:
            raise ConnectionError("the stream of the model's answer ended in the middle")
        return None


def _with_usage(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a request with the wish that its stream tells the usage, unless they say otherwise."""
    named = "model_settings" in kwargs
    settings = kwargs["model_settings"] if named else args[_SETTINGS]
    if settings.include_usage is not None:
        return args, kwargs
    settings = dataclasses.replace(settings, include_usage=True)
    if named:
        return args, {**kwargs, "model_settings": settings}
    return (*args[:_SETTINGS], settings, *args[_SETTINGS + 1 :]), kwargs


def _broken(attempt: RunRequests, event: Any) -> ConnectionError:
    """Make the error of an answer that has failed, or was cut off; what it has cost is counted."""
    response = getattr(event, "response", None)
    used = getattr(response, "usage", None)
    if used is not None:
        attempt.count(used.total_tokens)
    details = getattr(response, "incomplete_details", None)
    error = getattr(response, "error", None)
    why = getattr(details, "reason", None) or getattr(error, "message", None) or getattr(event, "message", None)
    return ConnectionError(f"the model's answer ended with {event.type}{f': {why}' if why else ''}")


def _response_of(response: Any, items: list[Any]) -> Any:
    """Return what ``get_response`` would have: the last event of a stream has it, for some backends without items."""
    used = response.usage
    usage = Usage(requests=1)
    if used is not None:
        usage = Usage(
            requests=1,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            total_tokens=used.total_tokens,
            input_tokens_details=used.input_tokens_details,
            output_tokens_details=used.output_tokens_details,
        )
    return ModelResponse(output=list(response.output) or items, usage=usage, response_id=response.id)
