"""An agent of the OpenAI Agents SDK as what plans, reviews and synthesizes: one run for each question.

It is held to the schema by its output type, unless it has one of its own. What is no JSON goes back as text: the role
says what is wrong with it. Usage is reported when the run ends, however it does.
"""

from __future__ import annotations

import json
from typing import Any

from agents import AgentOutputSchemaBase, RunConfig, RunHooks, Runner

from actors.tasks.execution.role_call import report_usage
from actors.tasks.model import NO_USAGE, Schema, Usage, usage_of
from actors.validation.json_form import json_form
from trees.agents.model_errors import given_up, raise_outcome


async def ask_openai(agent: Any, options: dict[str, Any], prompt: str, schema: Schema | None) -> tuple[Any, Usage]:
    """Ask an agent; its answer, and the usage that nobody has taken yet.

    Without a ``schema`` the answer is a text.
    """
    from trees.agents.openai_agents import outcome_of_run  # noqa: PLC0415 - it is above this one

    if schema is not None and agent.output_type in {None, str}:
        agent = agent.clone(output_type=_Schema(schema))
    given = {"run_config": RunConfig(tracing_disabled=True), **options}
    meter = _Meter()
    try:
        result = await Runner.run(agent, prompt, hooks=meter, **given)
    except Exception as error:
        raise_outcome(error, outcome_of_run(error))
        raise
    finally:
        meter.report()
    if result.interruptions:
        wrong = "a tool of the agent waits for an approval, and a role has nobody to ask. Give it an agent without"
        raise given_up(TypeError(wrong))
    return json_form(result.final_output), meter.left()


class _Meter(RunHooks):
    """The usage of one run, and how much of it is reported."""

    def __init__(self) -> None:
        self._usage: Any = None
        """Usage of the run, to which it adds as it goes; None: it has not begun."""
        self._reported = 0

    async def on_agent_start(self, context: Any, agent: Any) -> None:  # noqa: ARG002 - its signature
        """Note where the run counts, before anything was used."""
        self._usage = context.usage

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:  # noqa: ARG002 - its signature
        """Report what a request has used."""
        self.report()

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:  # noqa: ARG002 - its signature
        """Report what an agent has used that is a tool."""
        self.report()

    def report(self) -> None:
        """Report what is new to the step that runs here, if one does."""
        new = self.left()
        if new != NO_USAGE and report_usage(new):
            self._reported += new.tokens

    def left(self) -> Usage:
        """Return what is not reported."""
        used = 0 if self._usage is None else self._usage.total_tokens
        return usage_of(max(0, used - self._reported), 0.0, 0.0)


class _Schema(AgentOutputSchemaBase):
    """Output type of an agent, from a JSON schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def is_plain_text(self) -> bool:
        """Return False: it is an object."""
        return False

    def name(self) -> str:
        """Name for the model."""
        return str(self._schema.get("title", "answer"))

    def json_schema(self) -> dict[str, Any]:
        """The schema as it is."""
        return dict(self._schema)

    def is_strict_json_schema(self) -> bool:
        """Return False: the SDK's strict form forbids optional fields."""
        return False

    def validate_json(self, json_str: str) -> Any:
        """Return the object; what is none goes back as text."""
        try:
            return json.loads(json_str)
        except ValueError:
            return json_str
