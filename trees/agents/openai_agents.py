"""``OpenAIAgent``: an agent of the OpenAI Agents SDK as a worker.

Each attempt is one ``Runner.run``, told through ``render_prompt``. Calls of tools that need approval are questions to
people (``trees.agents.openai_run``). The SDK's own tracing is off unless ``run_config=`` says otherwise: it sends what
the agent is told to a server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

from actors.tasks.execution.off_loop import called
from actors.validation.validation_messages import type_phrase, value_phrase
from trees.agents import packages
from trees.agents.model_errors import given_up, outcome_of, raise_outcome
from trees.agents.prompt import Prompt, render_prompt
from trees.agents.recognise import kind_flaw
from trees.agents.wrapper import AgentWrapper, Flaw, RoleOptions, awaited, call_flaw, class_flaw, switch_flaw

_CONFIG: Final = ("agents", "RunConfig")
_FINAL: Final = frozenset(
    {
        "MaxTurnsExceeded",
        "InputGuardrailTripwireTriggered",
        "OutputGuardrailTripwireTriggered",
        "ToolInputGuardrailTripwireTriggered",
        "ToolOutputGuardrailTripwireTriggered",
    }
)
"""Errors of the SDK that would come again."""


class OpenAIAgent(AgentWrapper):
    """An agent of the OpenAI Agents SDK, with options; without them ``execute=agent`` is enough.

    Args:
        agent: the agent.
        context: ``(context) -> Any``, sync or async: the object that its tools find as ``wrapper.context``, made for
            each attempt.
        max_turns: requests of one attempt; one that wants more has failed, and is not tried again.
        run_config: the SDK's ``RunConfig``. None: one with its tracing off.
        session: the SDK's session.
        durable: True: requests that were answered are not paid again after a crash of the process.
        prompt: ``(task, context) -> str`` in place of ``render_prompt``.
    """

    requires: ClassVar = packages.OPENAI_AGENTS

    def __init__(
        self,
        agent: Any,
        *,
        context: Callable[[Any], Any] | None = None,
        max_turns: int = 10,
        run_config: Any = None,
        session: Any = None,
        durable: bool = True,
        prompt: Prompt | None = None,
    ) -> None:
        self.agent = agent
        self._context = context
        self._options = {"max_turns": max_turns, "session": session}
        self._run_config = run_config
        self._durable = durable
        self._prompt = prompt or render_prompt
        self._agents: Any = None
        """Copies of the agents, made at the first attempt."""

    @property
    def as_role(self) -> tuple[Any, RoleOptions]:
        """Return what a role asks: the agent, with further arguments of its run. Its prompt is the role's own."""
        return self.agent, self._role_options

    async def _role_options(self) -> dict[str, Any]:
        own = {} if self._run_config is None else {"run_config": self._run_config}
        return {**self._options, **own}

    @property
    def name(self) -> str:
        """Name of the agent."""
        found = getattr(self.agent, "name", None)
        return found if isinstance(found, str) else ""

    @property
    def description(self) -> str:
        """Description of the agent for others that hand over to it, else its name."""
        said = getattr(self.agent, "handoff_description", None)
        return said if isinstance(said, str) and said else self.name

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON schema of its output; None where that is any text, or cannot be told."""
        kind = getattr(self.agent, "output_type", None)
        if kind is None or kind is str:
            return None
        from agents import AgentOutputSchema, AgentOutputSchemaBase  # noqa: PLC0415 - loaded when it is used

        try:
            found = (
                kind if isinstance(kind, AgentOutputSchemaBase) else AgentOutputSchema(kind, strict_json_schema=False)
            )
            return dict(found.json_schema())
        except Exception:  # noqa: BLE001 - a type of the user's may have no schema, and says so in its own words
            return None

    def flaw(self) -> tuple[str, str] | None:
        """Say why it cannot be used as it is declared."""
        found = super().flaw()
        if found is None and not callable(getattr(self.agent, "as_tool", None)):
            return (
                f"{type_phrase(self.agent)} is not an agent of the OpenAI Agents SDK",
                "Write OpenAIAgent(Agent(...)).",
            )
        return (
            found
            or class_flaw(self.agent)
            or call_flaw("prompt", self._prompt, "task", "context")
            or call_flaw("context", self._context, "context")
            or _turns_flaw(self._options["max_turns"])
            or (None if isinstance(self._run_config, dict) else kind_flaw("run_config", self._run_config, _CONFIG))
            or switch_flaw("durable", self._durable)
        )

    async def execute(self, task: Any, context: Any) -> Any:
        """Run the agent once, or have its run go on after the answer of a person."""
        from trees.agents.openai_models import WrappedAgents, wrapped_config  # noqa: PLC0415 - loaded when it is used
        from trees.agents.openai_run import AgentRun  # noqa: PLC0415 - the same

        if self._agents is None:
            self._agents = WrappedAgents()
        own = None if self._context is None else await awaited(self._context(context))
        options = {**self._options, "context": own, "run_config": wrapped_config(self._run_config)}
        run = AgentRun(self._agents.of(self.agent), context, options, durable=self._durable)
        try:
            return await run.result(partial(called, self._prompt, task, context))
        except Exception as error:
            raise_outcome(error, outcome_of_run(error), has_steps=self._durable)
            raise


def _turns_flaw(turns: object) -> Flaw:
    """Say that a number of turns is none; None is the SDK's word for no limit."""
    if turns is None or (isinstance(turns, int) and not isinstance(turns, bool) and turns >= 1):
        return None
    return f"max_turns= got {value_phrase(turns)}", "Give a whole number from 1 on, or None for no limit."


def outcome_of_run(error: Exception) -> BaseException:
    """Return what an error of a run means for its attempt: itself, where that is tried again like any other.

    Of a tool that raises the tool's own error counts: a ladder, and the rules of the tree, go by its type.
    """
    names = {base.__name__ for base in type(error).__mro__ if base.__module__ == "agents.exceptions"}
    if not names.isdisjoint(_FINAL):
        return given_up(error)
    if "UserError" not in names:
        return outcome_of(error)
    cause = error.__cause__
    if cause is None:
        return given_up(error)
    return outcome_of(cause) if isinstance(cause, Exception) else error
