"""``LangChain``: a chat model, a chain or a graph of LangGraph as a worker.

Each attempt is one call of it, told through ``render_prompt``. Usage is counted by callbacks as models answer
(``trees.agents.langchain_events``), so it counts however the attempt ends. A graph goes on where it was, and asks
people (``trees.agents.langgraph_run``). What can only be called from sync code runs on the pool, never on the loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final

from actors.model.errors import ConfigError, Problem
from actors.tasks.execution.off_loop import called, off_loop
from actors.validation.validation_messages import type_phrase, value_phrase
from trees.agents import packages
from trees.agents.model_errors import given_up, outcome_of, raise_outcome
from trees.agents.prompt import Prompt, render_prompt
from trees.agents.wrapper import AgentWrapper, call_flaw, class_flaw

RECURSION_LIMIT: Final = 100
"""Steps of a graph, unless its config says otherwise."""
_FINAL: Final = {("langgraph.errors", "GraphRecursionError"), ("langgraph.errors", "InvalidUpdateError")}
"""Errors of graphs that would come again."""


class LangChain(AgentWrapper):
    """A runnable of LangChain, with options; without them ``execute=runnable`` is enough.

    Args:
        runnable: chat model, chain, or compiled graph.
        input: ``(task, context) -> Any``: what it is called with. None: a prompt; a graph whose state has ``messages``
            gets that as a ``HumanMessage`` in them.
        output: ``(result) -> Any``: the result of what it returns. None: the content of a message, or of the last one
            of ``messages``; anything else as it is.
        config: its ``RunnableConfig``. Thread, limit of steps and callbacks of an attempt are added.
        prompt: ``(task, context) -> str`` in place of ``render_prompt``.
    """

    requires: ClassVar = packages.LANGCHAIN

    def __init__(
        self,
        runnable: Any,
        *,
        input: Callable[[Any, Any], Any] | None = None,  # noqa: A002 - the contract's name
        output: Callable[[Any], Any] | None = None,
        config: Mapping[str, Any] | None = None,
        prompt: Prompt | None = None,
    ) -> None:
        self.runnable = runnable
        self._input = input
        self._output = output
        self._config = _config(config)
        self._prompt = prompt or render_prompt
        self._is_sync: bool | None = None
        """True where only sync code can call it. Found out at the first attempt, which loads the framework."""

    @property
    def as_role(self) -> tuple[Any, None]:
        """Return what a role asks: the model, without further arguments. Its prompt is the role's own."""
        return self.runnable, None

    @property
    def name(self) -> str:
        """Name that it was given."""
        found = getattr(self.runnable, "name", None)
        return found if isinstance(found, str) and found != "LangGraph" else ""

    @property
    def description(self) -> str:
        """Name that it was given: it has no other words."""
        return self.name

    def flaw(self) -> tuple[str, str] | None:
        """Say why it cannot be used as it is declared."""
        found = packages.package_flaw(*self.requires)
        if found is None and is_graph(self.runnable):
            found = packages.package_flaw(*packages.LANGGRAPH)
        if found is not None:
            return found
        if not callable(getattr(self.runnable, "ainvoke", None)):
            compiles = callable(getattr(self.runnable, "compile", None))
            hint = "Give the compiled one: graph.compile()." if compiles else "Give a chat model, a chain or a graph."
            return f"{type_phrase(self.runnable)} cannot be called", hint
        return (
            class_flaw(self.runnable)
            or call_flaw("prompt", self._prompt, "task", "context")
            or call_flaw("input", self._input, "task", "context")
            or call_flaw("output", self._output, "result")
            or (None if self._input is not None else _input_flaw(self.runnable))
        )

    async def execute(self, task: Any, context: Any) -> Any:
        """Call it once, or have a graph go on."""
        from trees.agents.langchain_events import AttemptEvents  # noqa: PLC0415 - loaded when it is used

        events = AttemptEvents(context)
        try:
            result = await self._result(task, context, events)
        except Exception as error:
            final = any((base.__module__, base.__name__) in _FINAL for base in type(error).__mro__)
            outcome = given_up(error) if final else outcome_of(error)
            raise_outcome(error, outcome)
            raise
        finally:
            events.end()
        if self._output is None:
            return _output_of(result)
        return await called(self._output, result)

    async def _result(self, task: Any, context: Any, events: Any) -> Any:
        runnable, config = self.runnable, self._config_of(context, events)
        told = partial(self._told, task, context)
        if is_graph(runnable):
            from trees.agents.langgraph_run import GraphRun  # noqa: PLC0415 - loaded when it is used

            return await GraphRun(runnable, config, context, events).result(told)
        given = await told()
        if self._is_sync is None:
            self._is_sync = _is_sync(runnable)
        if self._is_sync:
            return await off_loop(partial(runnable.invoke, given, config))
        return await runnable.ainvoke(given, config)

    async def _told(self, task: Any, context: Any) -> Any:
        """Return what it is called with."""
        if self._input is not None:
            return await called(self._input, task, context)
        prompt = await called(self._prompt, task, context)
        if is_graph(self.runnable) and _state_of(self.runnable) is not None:
            from langchain_core.messages import HumanMessage  # noqa: PLC0415 - loaded when it is used

            return {"messages": [HumanMessage(prompt)]}
        return prompt

    def _config_of(self, context: Any, events: Any) -> dict[str, Any]:
        own, bound = self._config, getattr(self.runnable, "config", None) or {}
        callbacks = own.get("callbacks") or []
        if isinstance(callbacks, (list, tuple)):
            callbacks = [*callbacks, events]
        else:  # a manager of callbacks, which is the user's
            callbacks = callbacks.copy()
            callbacks.add_handler(events, inherit=True)
        return {
            "recursion_limit": bound.get("recursion_limit", RECURSION_LIMIT),
            **own,
            "configurable": {"thread_id": context.idempotency_key, **own.get("configurable", {})},
            "callbacks": callbacks,
        }


# -- kinds of runnables -----------------------------------------------------------------------------------------


def _config(config: object) -> dict[str, Any]:
    if config is not None and not isinstance(config, Mapping):
        what, hint = f"expected a dict, got {value_phrase(config)}", "Write config={'recursion_limit': 50}."
        raise ConfigError((Problem("LangChain.config", what, hint),))
    return dict(config or {})


def is_graph(runnable: Any) -> bool:
    """True for a compiled graph of LangGraph."""
    found = sys.modules.get("langgraph.pregel")
    return found is not None and isinstance(runnable, found.Pregel)


def _state_of(graph: Any) -> Mapping[str, Any] | None:
    """Return the fields of the state that a graph begins with; None: it takes a value, and no state."""
    builder = getattr(graph, "builder", None)
    schemas = getattr(builder, "schemas", None)
    return schemas.get(builder.input_schema) if builder is not None and isinstance(schemas, Mapping) else None


def _input_flaw(runnable: Any) -> tuple[str, str] | None:
    """Say what is missing where it takes something else than a prompt."""
    if is_graph(runnable):
        state = _state_of(runnable)
        if state is None or "messages" in state:
            return None
        fields = [name for name in state if name != "__root__"]
        what = f"the graph's state ({', '.join(fields)})" if fields else "the graph's state"
        hint = f"Write LangChain(graph, input=lambda task, context: {{{(fields or ['field'])[0]!r}: str(task)}})."
        return f"{what} has no 'messages', so nothing tells it what to do", hint
    first = getattr(runnable, "first", runnable)
    wanted = getattr(first, "input_variables", None)
    if isinstance(wanted, list) and len(wanted) > 1:
        parts = ", ".join(f"{name!r}: ..." for name in wanted)
        hint = f"Write LangChain(chain, input=lambda task, context: {{{parts}}})."
        return f"the chain's prompt has {len(wanted)} variables, and one text does not say which is which", hint
    return None


def _is_sync(runnable: Any) -> bool:
    """True where all of it that takes time can only be called from sync code."""
    from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 - loaded when it is used
    from langchain_core.output_parsers import BaseOutputParser  # noqa: PLC0415
    from langchain_core.prompts import BasePromptTemplate  # noqa: PLC0415
    from langchain_core.runnables import Runnable, RunnableLambda, RunnableSequence  # noqa: PLC0415
    from langchain_core.runnables.base import RunnableBindingBase  # noqa: PLC0415

    if isinstance(runnable, RunnableSequence):
        steps = [step for step in runnable.steps if not isinstance(step, (BasePromptTemplate, BaseOutputParser))]
        return all(_is_sync(step) for step in steps)
    if isinstance(runnable, RunnableBindingBase):
        return _is_sync(runnable.bound)
    if isinstance(runnable, RunnableLambda):
        return not hasattr(runnable, "afunc")
    kind = type(runnable)
    if isinstance(runnable, BaseChatModel):
        methods = ("ainvoke", "_agenerate", "_astream")
        return all(getattr(kind, name) is getattr(BaseChatModel, name) for name in methods)
    return kind.ainvoke is Runnable.ainvoke


# -- results ----------------------------------------------------------------------------------------------------


def _output_of(result: Any) -> Any:
    """Return the content of a message, or of the last one in a state; anything else as it is."""
    from langchain_core.messages import BaseMessage  # noqa: PLC0415 - loaded when it is used

    if isinstance(result, Mapping) and "messages" in result:
        messages = result["messages"]
        result = messages[-1] if isinstance(messages, list) and messages else None
    if not isinstance(result, BaseMessage):
        return result
    if isinstance(result.content, str):
        return result.content
    return str(result.text) or result.content
