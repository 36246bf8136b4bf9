"""Functions of a user's that a wrapper calls: sync and async, and where they run.

One that is sync and makes a text or data is called off the loop: here it asks a worker of the loop and waits for the
answer, which on the loop itself is refused. What makes an object for the agent stays on the loop, and may be async.
"""

from __future__ import annotations

import json
import threading
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
from actors.testing import Hang, ManualClock, settle
from tests.tasks.dispatching import until
from tests.trees.agents.one_agent import result_of, tree_of
from tests.trees.agents.openai_fakes import Scripted, calls, says
from trees import (
    ModelPlanner,
    Plan,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
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


@pytest.mark.parametrize("is_sync", [True, False])
def test_a_prompt_that_exits_is_a_crash_of_the_worker_wherever_it_runs(is_sync: bool) -> None:
    def leaves(*_: Any) -> str:
        raise SystemExit(3)

    async def leaves_too(*_: Any) -> str:
        raise SystemExit(3)

    agent = PydanticAI(Agent(FunctionModel(echo)), prompt=leaves if is_sync else leaves_too)
    with start(tree_of(agent, on_failure=[])) as tree:
        with pytest.raises(TaskFailedError, match="SystemExit"):
            tree.run(Task("go"), timeout=60)

        settle(tree)
        assert tree.child("office/w").incarnation == 2


@pytest.mark.parametrize("is_sync", [True, False])
def test_a_prompt_that_asks_one_who_exits_has_failed_of_that_and_its_worker_lives(is_sync: bool) -> None:
    def helps(_: Any) -> str:
        raise SystemExit(3)

    def asks_it(*_: Any) -> Any:
        return ref("office/helper").ask("now")

    async def asks_it_too(*_: Any) -> Any:
        return await ref("office/helper").ask_async("now")

    agent = PydanticAI(Agent(FunctionModel(echo)), prompt=asks_it if is_sync else asks_it_too)
    tasks = Tasks(planner=StaticPlan([Subtask("w", instruction="Say hello")]), on_failure=[])
    children = [WorkerSpec(id="helper", handle=helps), WorkerSpec(id="w", execute=agent)]
    with start(SupervisorSpec(id="office", tasks=tasks, children=children)) as tree:
        with pytest.raises(TaskFailedError, match="WorkerCrashedError: office/helper"):
            tree.run(Task("go"), timeout=60)

        settle(tree)
        assert [tree.child(path).incarnation for path in ("office/helper", "office/w")] == [2, 1]


@pytest.mark.parametrize("pool", [1, 2])
def test_a_worker_whose_prompts_hang_is_parked_when_it_has_left_more_threads_behind_than_may_be(pool: int) -> None:
    clock, hanging = ManualClock(), threading.Semaphore(0)
    with Hang(deaf=True) as gate:

        def hangs(*_: Any) -> str:
            hanging.release()
            gate.hold()
            return "too late"

        agent = PydanticAI(Agent(FunctionModel(echo)), prompt=hangs)
        worker = WorkerSpec(id="w", execute=agent, timeout_s=0.5, breaker=None, pool=pool)
        tasks = Tasks(max_abandoned=2, on_failure=[Retry(max_attempts=3, initial_s=0.0)])
        with start(SupervisorSpec(id="office", tasks=tasks, children=[worker]), clock=clock) as tree:
            handle = tree.submit(Task("go", plan=Plan([Subtask("w", worker="w")])))
            for _ in range(3):
                assert hanging.acquire(timeout=60)
                clock.advance(0.5)
            with pytest.raises(TaskFailedError, match="attempt 3 ran longer"):
                handle.result(60)

            until(lambda: any(child.state == "parked" for child in tree.which_children("office")), clock, by=0.5)
            gate.release()
            settle(tree)


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
