"""Functions of a user's that a wrapper calls: sync and async, and where they run.

One that is sync and makes a text or data is called off the loop: here it asks a worker of the loop and waits for the
answer, which on the loop itself is refused. What makes an object for the agent stays on the loop, and may be async.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent as OpenAI
from agents import RunContextWrapper, function_tool
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from actors import ref
from tests.trees.agents.one_agent import result_of
from tests.trees.agents.openai_fakes import Scripted, calls, says
from trees import (
    ModelPlanner,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    WorkerSpec,
    start,
)
from trees.agents import LangChain, OpenAIAgent, PydanticAI


def shown(value: Any) -> str:
    """What an agent of pydantic-ai that has a tool says of its deps."""
    return json.dumps({"look": f"<{value}>"}, separators=(",", ":"))


def looking() -> Any:
    agent = Agent(TestModel(), deps_type=str)

    @agent.tool
    def look(ctx: RunContext[str]) -> str:
        return f"<{ctx.deps}>"

    return agent


async def attempt_of(context: Any) -> str:
    return f"attempt {context.attempt}"


def test_deps_may_be_made_by_an_async_function() -> None:
    assert result_of(PydanticAI(looking(), deps=attempt_of)) == shown("attempt 1")


def test_the_context_of_an_openai_agent_may_be_made_by_an_async_function() -> None:
    @function_tool
    def whose(wrapper: RunContextWrapper[Any]) -> str:
        return str(wrapper.context)

    model = Scripted(calls(("whose", {})), says("done"))
    agent = OpenAIAgent(OpenAI("clerk", model=model, tools=[whose]), context=attempt_of)

    assert result_of(agent) == "done"
    assert model.told[1][-1]["output"] == "attempt 1"


def test_deps_of_a_role_are_made_for_each_of_its_calls() -> None:
    made: list[Any] = []

    async def deps(context: Any) -> str:
        made.append(context)
        return f"deps {len(made)}"

    agent = Agent(TestModel(custom_output_args={"subtasks": [{"id": "w"}]}), deps_type=str)
    seen: list[str] = []

    @agent.instructions
    def note(ctx: RunContext[str]) -> str:
        seen.append(ctx.deps)
        return ""

    tasks = Tasks(planner=ModelPlanner(PydanticAI(agent, deps=deps)))
    worker = WorkerSpec(id="w", execute=lambda _task, _context: "x")
    with start(SupervisorSpec(id="office", tasks=tasks, children=[worker])) as tree:
        assert made == []
        tree.run(Task("once"), timeout=60)
        tree.run(Task("twice"), timeout=60)

    assert list(dict.fromkeys(seen)) == ["deps 1", "deps 2"]
    assert made == [None, None]


def echo(messages: list[Any], _info: Any) -> ModelResponse:
    return ModelResponse(parts=[TextPart(str(messages[-1].parts[-1].content))])


def asks(task: Any, _context: Any) -> str:
    """Wait for a worker that runs on the loop."""
    return f"{task}: {ref('office/clerk').ask(20)}"


def pydantic_ai_prompt() -> Any:
    return PydanticAI(Agent(FunctionModel(echo)), prompt=asks)


def openai_prompt() -> Any:
    return OpenAIAgent(OpenAI("o", model=Scripted(lambda said: says(said[0]["content"]))), prompt=asks)


def langchain_input() -> Any:
    return LangChain(EchoModel(messages=iter(())), input=asks)


def langchain_prompt() -> Any:
    return LangChain(EchoModel(messages=iter(())), prompt=asks)


def langchain_output() -> Any:
    return LangChain(EchoModel(messages=iter(())), output=lambda message: asks("Say hello", message.content))


class EchoModel(GenericFakeChatModel):
    async def ainvoke(self, input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002 - its name there
        return AIMessage(input)


@pytest.mark.parametrize(
    "make", [pydantic_ai_prompt, openai_prompt, langchain_input, langchain_prompt, langchain_output]
)
def test_a_sync_prompt_input_or_output_does_not_hold_up_the_loop(make: Callable[[], Any]) -> None:
    async def double(number: int) -> int:
        return 2 * number

    children = [WorkerSpec(id="clerk", handle=double), WorkerSpec(id="w", execute=make())]
    tasks = Tasks(planner=StaticPlan([Subtask("w", instruction="Say hello")]), on_failure=[])
    with start(SupervisorSpec(id="office", tasks=tasks, children=children)) as tree:
        assert tree.run(Task("go"), timeout=60).results == {"w": "Say hello: 40"}
