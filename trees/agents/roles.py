"""``model_call``: a model, or an agent, as what plans, reviews and synthesizes.

A planner, a reviewer and a synthesizer that ask a model take ``call(prompt, schema)``. Here one is made of a model of
pydantic-ai, the name of one, an agent of pydantic-ai, or a chat model of LangChain. They take these objects directly as
well: ``recognised_model`` is what they ask. Nothing is imported before a call is made.

An answer is held to the schema as strictly as the model allows: its native structured output, else a tool, else words.
An agent with an output type of its own keeps that. What a model answers that is no JSON goes back as text: the role
says what is wrong with it, and asks again. Usage is reported after every request, so that it counts also where the call
then fails, takes too long, is cancelled, or dies with its process; what was not reported is returned with the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from actors.model.errors import ConfigError, Problem
from actors.tasks.execution.role_call import report_usage
from actors.tasks.model import NO_USAGE, Schema, Usage, usage_of
from actors.validation.json_form import json_form
from actors.validation.validation_messages import type_phrase, value_phrase
from trees.agents import model_errors, packages
from trees.agents.recognise import AgentWrapper, bases_of
from trees.agents.wrapper import RoleOptions

_NAME: Final = re.compile(r"[a-z][a-z0-9_.-]*:\S+", re.IGNORECASE)
_HINT: Final = (
    "Give a pydantic-ai model, its name ('openai:gpt-...', 'anthropic:...', 'test'), an Agent of pydantic-ai or of the "
    "OpenAI Agents SDK, or a chat model of LangChain"
)
_PACKAGES: Final = {"chat": packages.LANGCHAIN, "openai": packages.OPENAI_AGENTS}
"""By kind of what is asked; all others are pydantic-ai's."""


def model_call(model: Any, *, instructions: str = "", settings: Mapping[str, Any] | None = None) -> ModelCall:
    """Make what ``ModelPlanner``, ``ModelReviewer`` and ``ModelSynthesizer`` take of a model or an agent.

    Args:
        model: a pydantic-ai model, the name of one (``"openai:gpt-..."``, ``"test"``), an ``Agent`` of pydantic-ai or
            of the OpenAI Agents SDK, or a chat model of LangChain; also in its wrapper (``PydanticAI(agent, ...)``).
        instructions: what the model is told before each prompt; an agent has its own besides.
        settings: settings of the model, such as ``{"temperature": 0.0, "max_tokens": 1000}``.

    Raises:
        ConfigError: it is nothing of the kind.
    """
    asked, options = _asked(model)
    kind = _kind_of(asked)
    if kind is None:
        got = value_phrase(model) if isinstance(model, str) else type_phrase(model)
        raise ConfigError((Problem("model_call", f"expected a model or an agent, got {got}", f"{_HINT}."),))
    if not isinstance(instructions, str):
        what = f"expected a text, got {type_phrase(instructions)}"
        raise ConfigError((Problem("model_call.instructions", what, "Write instructions='Answer in French.'"),))
    if settings is not None and not isinstance(settings, Mapping):
        what = f"expected a dict, got {type_phrase(settings)}"
        raise ConfigError((Problem("model_call.settings", what, "Write settings={'temperature': 0.0}."),))
    return ModelCall(kind, asked, instructions, None if settings is None else dict(settings), options)


def recognised_model(model: object) -> ModelCall | None:
    """Return the call of a model, its name, or an agent; None: it is nothing of the kind. Imports nothing."""
    if isinstance(model, ModelCall):
        return model
    asked, options = _asked(model)
    kind = _kind_of(asked)
    return None if kind is None else ModelCall(kind, asked, "", None, options)


def _asked(model: Any) -> tuple[Any, RoleOptions | None]:
    """Return what is asked, and further arguments of its run; of a wrapper the agent in it."""
    return (model.as_role if isinstance(model, AgentWrapper) else None) or (model, None)


def _kind_of(model: object) -> str | None:
    """Say what it is, by the modules of its classes: name, model, agent, chat; None: nothing of the kind."""
    if isinstance(model, str):
        return "name" if model == "test" or _NAME.fullmatch(model) else None
    if isinstance(model, type):
        return None
    bases = bases_of(type(model))
    kinds = {
        ("pydantic_ai", "AbstractAgent"): "agent",
        ("pydantic_ai", "Model"): "model",
        ("langchain_core", "BaseChatModel"): "chat",
        ("agents", "Agent"): "openai",
    }
    return next((kind for base, kind in kinds.items() if base in bases), None)


class ModelCall:
    """One model, or agent, as a call: ``await call(prompt, schema) -> (answer, Usage)``. It has no state of a call.

    The usage that it returns is what it has not reported to the step that runs it (``report_usage``): outside of one,
    all of it.
    """

    def __init__(
        self,
        kind: str,
        model: Any,
        instructions: str,
        settings: dict[str, Any] | None,
        options: RoleOptions | None = None,
    ) -> None:
        self.model = model
        self._options = options
        self.instructions = instructions
        self.settings = settings
        self._kind = kind
        self._agent: Any = model if kind == "agent" else None
        self.__qualname__ = f"model_call({_named(model)})"

    def __repr__(self) -> str:
        return self.__qualname__

    def flaw(self) -> tuple[str, str] | None:
        """Say why it cannot be called, as (what, hint); None: it can. Part of the check of a tree."""
        return packages.package_flaw(*self._package)

    @property
    def _package(self) -> packages.Package:
        return _PACKAGES.get(self._kind, packages.PYDANTIC_AI)

    async def __call__(self, prompt: str, schema: Schema | None = None) -> tuple[Any, Usage]:
        """Ask the model; with a schema the answer is an object, or a text that may be one."""
        packages.require(*self._package)
        if self._kind == "chat":
            try:
                return await _ask_chat(self, prompt, schema)
            except Exception as error:
                model_errors.raise_outcome(error, model_errors.outcome_of(error))
                raise
        if self._kind == "openai":
            return await self._ask_openai(prompt, schema)
        agent = self._made()
        if self._kind != "name":
            return await _ask_agent(self, agent, prompt, schema)
        async with agent:  # its connections are ours, and are closed on the loop that has opened them
            return await _ask_agent(self, agent, prompt, schema)

    async def _ask_openai(self, prompt: str, schema: Schema | None) -> tuple[Any, Usage]:
        from agents import ModelSettings  # noqa: PLC0415 - loaded when it is used

        from trees.agents.openai_role import ask_openai  # noqa: PLC0415 - the same

        agent = self.model
        if self.settings:
            agent = agent.clone(model_settings=agent.model_settings.resolve(ModelSettings(**self.settings)))
        told = f"{self.instructions}\n\n{prompt}" if self.instructions else prompt
        return await ask_openai(agent, await self.options(), told, schema)

    async def options(self) -> dict[str, Any]:
        """Make the further arguments of a run of an agent, which its wrapper has."""
        return {} if self._options is None else await self._options()

    def _made(self) -> Any:
        """Return the agent that asks the model, made once."""
        if self._agent is None:
            from pydantic_ai import Agent  # noqa: PLC0415 - loaded when it is used

            self._agent = Agent(self.model, retries=0)  # the role asks again, and says what was wrong
        return self._agent


def _named(model: Any) -> str:
    """The name of a model, as far as it says one."""
    if isinstance(model, str):
        return repr(model)
    name = getattr(model, "name", None) or getattr(model, "model_name", None)
    return repr(name) if isinstance(name, str) and name else type(model).__name__


# -- pydantic-ai -------------------------------------------------------------------------------------------------


class _Meter:
    """The usage of one run, and how much of it is reported."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self._reported = NO_USAGE

    def report(self) -> None:
        """Report what is new to the step that runs here, if one does."""
        new = self.left()
        if new != NO_USAGE and report_usage(new):
            self._reported = self._reported + new

    def left(self) -> Usage:
        """Return what is not reported."""
        cost = float(self._run.cost or 0.0)
        return usage_of(self._run.total_tokens - self._reported.tokens, cost - self._reported.cost, 0.0)


async def _ask_agent(call: ModelCall, agent: Any, prompt: str, schema: Schema | None) -> tuple[Any, Usage]:
    from pydantic_ai import RunUsage, UserError  # noqa: PLC0415 - loaded when it is used

    from trees.agents.pydantic_ai import outcome_of  # noqa: PLC0415 - the same

    usage = RunUsage()
    meter = _Meter(usage)
    settings = call.settings or None
    options = {**await call.options(), "usage": usage, "model_settings": settings, "infer_name": False}
    if call.instructions:
        options["instructions"] = call.instructions
    outputs = _outputs(agent, schema)
    try:
        for n, output in enumerate(outputs):
            try:
                answer = await _run(agent, _with_schema(prompt, schema, output), {**options, **output}, meter)
            except UserError:
                if n + 1 == len(outputs):  # else the model has no such output: no request was made
                    raise
            else:
                meter.report()
                return answer, meter.left()
    except Exception as error:
        model_errors.raise_outcome(error, outcome_of(error))
        raise
    finally:
        meter.report()
    raise AssertionError  # pragma: no cover - there is at least one output


def _outputs(agent: Any, schema: Schema | None) -> list[dict[str, Any]]:
    """Return the ways in which an answer is held to a schema, the strictest first. An agent's own type is kept."""
    if schema is None or agent.output_type is not str:
        return [{}]
    if getattr(agent, "_output_validators", None):
        return [{"output_type": str}]  # an agent with validators of its own takes no other type
    from pydantic_ai import NativeOutput, PromptedOutput, StructuredDict  # noqa: PLC0415 - loaded when it is used

    kind = StructuredDict(schema, name=str(schema.get("title", "answer")))
    return [{"output_type": each} for each in (NativeOutput(kind), kind, PromptedOutput(kind))]


def _with_schema(prompt: str, schema: Schema | None, output: Mapping[str, Any]) -> str:
    """Put the schema into the prompt, where the model is held to it by nothing else."""
    if schema is None or (output and output["output_type"] is not str):
        return prompt
    return _told_schema(prompt, schema) if output else prompt


def _told_schema(prompt: str, schema: Schema) -> str:
    return f"{prompt}\n\nThe JSON schema of the answer:\n{json.dumps(schema)}"


async def _run(agent: Any, prompt: str, options: dict[str, Any], meter: _Meter) -> Any:
    """Run an agent once; its output as plain data, or the last text where that was not what it should be."""
    from pydantic_ai import UnexpectedModelBehavior  # noqa: PLC0415 - loaded when it is used

    if options.get("output_type") is str:
        del options["output_type"]
    async with agent.iter(prompt, **options) as run:
        try:
            async for _ in run:
                meter.report()
        except UnexpectedModelBehavior as error:
            text = _last_text(run) if type(error) is UnexpectedModelBehavior else ""
            if not text:
                raise
            return text
        output = run.result.output
    return output if isinstance(output, (str, bool, int, float)) else json_form(output)


def _last_text(run: Any) -> str:
    """Return the text of the last answer of a model."""
    answers = (message for message in reversed(run.all_messages()) if message.kind == "response")
    return str(getattr(next(answers, None), "text", "") or "")


# -- LangChain ---------------------------------------------------------------------------------------------------


async def _ask_chat(call: ModelCall, prompt: str, schema: Schema | None) -> tuple[Any, Usage]:
    model = call.model
    if schema is not None:
        try:
            model = model.with_structured_output(schema, include_raw=True, **(call.settings or {}))
        except NotImplementedError:
            prompt = _told_schema(prompt, schema)
            schema = None
    if schema is None and call.settings:
        model = model.bind(**call.settings)
    messages = [("system", call.instructions)] if call.instructions else []
    said = await model.ainvoke([*messages, ("human", prompt)])
    message = said["raw"] if schema is not None else said
    usage = message.usage_metadata or {}
    parsed = said.get("parsed") if schema is not None else None
    answer = parsed if parsed is not None else message.text
    return answer, usage_of(int(usage.get("total_tokens", 0)), 0.0, 0.0)
