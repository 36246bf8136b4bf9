"""Run of an agent of the OpenAI Agents SDK in an attempt: its requests, its usage, and what it asks people.

A call of a tool that needs approval ends the run. What the run needs to go on (``RunState``) goes with the question
into the journal, as text, without the user's context object; the attempt after the answer goes on from there, in
whatever process. Of several calls that wait each is a question of its own; the run goes on when all are answered.

A call that people have approved is a step that is kept for the subtask: the run that goes on is begun from there again
where it fails after the call, and the approval was for one. Calls of an agent that is a tool are out of reach: its run
is within that tool.

Usage is counted request by request (``trees.agents.openai_models``). What agents have used that are tools of this one,
with models that are not seen, stands in the run's own usage. It is added when the call of such a tool has ended, and
when the attempt ends, however it does.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from agents import RunHooks, Runner, RunState
from pydantic_core import to_json

from actors.model.errors import Escalated
from actors.tasks.model import Answer, Approve, Edit, Respond
from trees.agents.model_errors import given_up
from trees.agents.openai_models import ATTEMPT, RunRequests
from trees.agents.wrapper import question_state

_MOST_CHARS = 2000
"""Characters of a tool's arguments that a question shows."""
_NO_CONTEXT = {"original_type": "none", "serialized_via": "none", "requires_deserializer": False, "omitted": False}


class AgentRun:
    """One attempt of an agent.

    The models of ``agent`` are wrapped. ``durable``: each request is a step of the attempt.
    """

    def __init__(self, agent: Any, context: Any, options: dict[str, Any], *, durable: bool) -> None:
        self._agent = agent
        self._context = context
        self._options = options
        self._requests = RunRequests(context, durable=durable)
        self._hooks = _Hooks(self._requests, self._count_rest)
        self._asked: dict[str, Any] = question_state(context) or {}
        """State of the last question, if there was one."""
        self._before = self._asked.get("tokens", 0)
        """Tokens that the run had used when it asked; attempts before this one have counted them."""

    async def result(self, told: Callable[[], Awaitable[Any]]) -> Any:
        """Run it to its end.

        Args:
            told: gives the prompt of a run that begins.

        Raises:
            Escalated: it asks a person.
        """
        given = await self._answered() if self._asked else await told()
        token = ATTEMPT.set(self._requests)
        try:
            result = await Runner.run(self._agent, given, hooks=self._hooks, **self._options)
        except Exception as error:
            details = getattr(error, "run_data", None)
            if details is not None:
                self._hooks.usage = details.context_wrapper.usage
            raise
        finally:
            ATTEMPT.reset(token)
            self._count_rest()
        self._hooks.usage = result.context_wrapper.usage
        if result.interruptions:
            self._ask(result.to_state(), [])
        return result.final_output

    def _count_rest(self) -> None:
        """Count what the run has used beside the requests that were seen."""
        usage = self._hooks.usage
        rest = 0 if usage is None else usage.total_tokens - self._before - self._requests.tokens
        if rest > 0:
            self._requests.count(rest)

    # -- questions --------------------------------------------------------------------------------------------

    async def _answered(self) -> Any:
        """Return the run as it goes on with the answers of people; asks where one is missing."""
        state = await RunState.from_string(self._agent, self._asked["run"])
        decided, asked, answer = list(self._asked["decided"]), self._asked["call"], self._context.answer
        if answer is not None:
            calls = [call for call in state.get_interruptions() if _facts(call) == asked]
            if not calls:
                raise given_up(LookupError(f"the call that was answered is not among those that wait: {asked}"))
            decide(state, calls[0], answer)
            decided.append(asked)
        if any(_facts(call) not in decided for call in state.get_interruptions()):
            self._ask(state, decided)
        number = self._asked["answers"]
        self._requests.approved = {call[0]: number for call in decided}  # those refused are not made
        return state

    def _ask(self, state: Any, decided: list[Any]) -> None:
        """Ask about the first call that waits, but for those that are decided."""
        left = [call for call in state.get_interruptions() if _facts(call) not in decided]
        call, asked, most = left[0], len(decided) + 1, len(decided) + len(left)
        question = f"May it call {call.qualified_name or call.name}({(call.arguments or '')[:_MOST_CHARS]})?"
        if most > 1:
            question += f" ({asked} of {most} questions)"
        raise Escalated(
            question,
            state={
                "run": json.dumps(_without_context(state.to_json(context_serializer=lambda _: {}))),
                "decided": decided,
                "call": _facts(call),
                "answers": len(self._context.answers),
                "tokens": self._asked.get("tokens", 0) if self._hooks.usage is None else self._hooks.usage.total_tokens,
            },
            resumes=True,
        )


def _facts(call: Any) -> list[str]:
    """Return what tells a call that waits from the others: its id, its tool and its arguments."""
    return [str(call.call_id), call.qualified_name or call.name or "", call.arguments or ""]


def _without_context(state: Any) -> Any:
    """Return the JSON of a run and of agents that are its tools without the user's context: attempts make their own."""
    if isinstance(state, list):
        return [_without_context(each) for each in state]
    if not isinstance(state, dict):
        return state
    own = {"context": None, "context_meta": _NO_CONTEXT} if state.keys() >= {"context", "context_meta"} else {}
    return {name: _without_context(value) for name, value in state.items()} | own


def decide(state: Any, call: Any, answer: Answer) -> None:
    """Note a person's answer about a call: it is made, or the model is told something in place of its result."""
    if isinstance(answer, Approve):
        state.approve(call)
        return
    if isinstance(answer, Edit):
        value = answer.value
        told = value if isinstance(value, str) else to_json(value).decode()
    else:
        told = answer.text if isinstance(answer, Respond) else answer.reason
    state.reject(call, rejection_message=told or None)


class _Hooks(RunHooks):
    """Hooks of one run: its usage, and calls of tools as they begin and end."""

    def __init__(self, requests: RunRequests, count_rest: Callable[[], None]) -> None:
        self.usage: Any = None
        """Usage of the run, to which it adds as it goes; None: it has not begun."""
        self._requests = requests
        self._count_rest = count_rest

    async def on_agent_start(self, context: Any, agent: Any) -> None:  # noqa: ARG002 - its signature
        """Note where the run counts."""
        self.usage = context.usage

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:  # noqa: ARG002 - its signature
        """Note which request is the run's own."""
        self._requests.own = input_items

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:  # noqa: ARG002 - its signature
        """Show a call of a tool."""
        self.usage = context.usage
        self._requests.says(f"{tool.name}({getattr(context, 'tool_arguments', '')})", "tool_call")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:  # noqa: ARG002 - its signature
        """Show the result of a tool, and count what an agent has used that is one."""
        self._count_rest()
        self._requests.says(f"{tool.name}: {result}", "tool_result")
