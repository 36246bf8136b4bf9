"""Usage of requests that are steps: counted once for each that is recorded, over all attempts and processes.

Each framework whose requests are steps runs the same agent: its first request calls a tool, its second ends it. What it
has used up is what it uses up where nobody disturbs it, if it is broken off between the two, or its process dies.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent as OpenAI
from agents import function_tool
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from tests.support.attempts import LONG_S
from tests.tasks.resuming import NotingStore, resumed_where_it_hung
from tests.trees.agents.openai_fakes import Scripted, calls, says
from trees import StaticPlan, Subtask, SubtaskStepped, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.agents import OpenAIAgent, PydanticAI

Tool = Callable[[], Any]


def pydantic_ai(tool: Tool) -> Any:
    """An agent of pydantic-ai, whose model can stream."""

    def answer(messages: list[Any], _: Any) -> ModelResponse:
        if any(isinstance(each, ModelResponse) for each in messages):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("look", {}, tool_call_id="c")])

    async def pieces(messages: list[Any], info: Any) -> Any:
        [part] = answer(messages, info).parts
        if isinstance(part, TextPart):
            yield part.content
        else:
            yield {0: DeltaToolCall("look", "{}", tool_call_id="c")}

    agent = Agent(FunctionModel(answer, stream_function=pieces))
    agent.tool_plain(tool, name="look")
    return PydanticAI(agent)


def openai_agents(tool: Tool) -> Any:
    """The same with the OpenAI Agents SDK."""

    def answer(said: Any) -> Any:
        has_called = any(isinstance(each, dict) and each.get("type") == "function_call_output" for each in said)
        return says("done", tokens=30) if has_called else calls(("look", {}), tokens=50)

    agent = OpenAI(name="it", model=Scripted(*[answer] * 9), tools=[function_tool(tool, name_override="look")])
    return OpenAIAgent(agent)


async def _listens(_: Any, events: Any) -> None:
    async for _event in events:
        pass


AGENTS = {
    "pydantic-ai": (pydantic_ai, {}),
    "pydantic-ai, streamed": (pydantic_ai, {"event_stream_handler": _listens}),
    "openai-agents": (openai_agents, {}),
}
FRAMEWORKS = pytest.mark.parametrize(("made", "kwargs"), AGENTS.values(), ids=AGENTS)


class Look:
    """The tool; the first call of it waits for ever, if it is told to."""

    def __init__(self, *, hangs: bool) -> None:
        self.begun = threading.Event()
        self._hangs = hangs

    async def __call__(self) -> str:
        """Look."""
        hangs, self._hangs = self._hangs, False
        self.begun.set()
        if hangs:
            await asyncio.Event().wait()
        return "seen"


def tree_of(made: Callable[[Tool], Any], kwargs: dict[str, Any], look: Look) -> SupervisorSpec:
    async def tool() -> str:
        return await look()

    plan = StaticPlan([Subtask("x", worker="w", preemptible=True)])
    worker = WorkerSpec(id="w", execute=made(tool), kwargs=kwargs)
    return SupervisorSpec(id="p", tasks=Tasks(planner=plan, max_parallel=1, on_failure=[]), children=[worker])


def undisturbed(made: Callable[[Tool], Any], kwargs: dict[str, Any]) -> int:
    """Tokens of the agent where nothing happens."""
    with start(tree_of(made, kwargs, Look(hangs=False))) as tree:
        return tree.run(Task("Say it", id="t"), LONG_S).usage.tokens


@FRAMEWORKS
def test_an_attempt_that_gave_way_counts_each_recorded_request_once(made: Any, kwargs: dict[str, Any]) -> None:
    look = Look(hangs=True)
    with start(tree_of(made, kwargs, look)) as tree:
        handle = tree.submit(Task("Say it", id="t", priority=9))
        assert look.begun.wait(LONG_S)
        tree.submit(Task("soon", id="u", priority=0)).result(LONG_S)
        report = handle.result(LONG_S)

    assert report.results == {"x": "done"}
    assert 0 < report.usage.tokens == undisturbed(made, kwargs)


@FRAMEWORKS
def test_a_process_that_died_counts_each_recorded_request_once(made: Any, kwargs: dict[str, Any]) -> None:
    """It dies with the record of the first request: what that has cost is in the journal before."""
    store, look = NotingStore(), Look(hangs=True)
    with start(tree_of(made, kwargs, look), store=store) as tree:
        tree.submit(Task("Say it", id="t"))
        cut = store.changes_when(SubtaskStepped, "t")
    with start(tree_of(made, kwargs, Look(hangs=False)), store=NotingStore(cut)) as tree:
        report = tree.task("t").result(LONG_S)

    assert report.results == {"x": "done"}
    assert 0 < report.usage.tokens == undisturbed(made, kwargs)


@pytest.mark.parametrize("durable", [True, False])
def test_what_agents_have_used_that_are_tools_is_counted_when_their_call_has_ended(*, durable: bool) -> None:
    """The process dies in the request after the call: one that is a step is not made again, and counts all the same."""
    inner = Agent(FunctionModel(lambda *_: ModelResponse([TextPart("in")], usage=RequestUsage(input_tokens=100))))

    def spec(hangs: threading.Event | None) -> SupervisorSpec:
        async def answer(messages: list[Any], _: Any) -> ModelResponse:
            usage = RequestUsage(input_tokens=10)
            if len(messages) == 1:
                return ModelResponse([ToolCallPart("look", {}, tool_call_id="c")], usage=usage)
            if hangs is not None:
                hangs.set()
                await asyncio.Event().wait()
            return ModelResponse([TextPart("done")], usage=usage)

        agent = Agent(FunctionModel(answer))

        @agent.tool
        async def look(ctx: RunContext[None]) -> str:
            return (await inner.run("look", usage=ctx.usage)).output

        tasks = Tasks(planner=StaticPlan([Subtask("x", worker="w")]), on_failure=[])
        worker = WorkerSpec(id="w", execute=PydanticAI(agent, durable=durable))
        return SupervisorSpec(id="p", tasks=tasks, children=[worker])

    report = resumed_where_it_hung(spec, Task("Say it", id="t"))

    assert report.results == {"x": "done"}
    assert report.usage.tokens == (120 if durable else 230)


def test_what_agents_of_openai_have_used_that_are_tools_is_counted_when_their_call_has_ended() -> None:
    """The process dies in the request after the call. The next one makes the call again, and that counts again."""

    def spec(hangs: threading.Event | None) -> SupervisorSpec:
        async def hang() -> Any:
            assert hangs is not None
            hangs.set()
            await asyncio.Event().wait()

        inner = OpenAI(name="inner", model=Scripted(says("in", tokens=100)))
        last = (lambda _: hang()) if hangs is not None else says("done", tokens=10)
        model = Scripted(calls(("look", {"input": "q"}), tokens=10), last)
        if hangs is None:
            del model.answers[0]  # that one is recorded
        tasks = Tasks(planner=StaticPlan([Subtask("x", worker="w")]), on_failure=[])
        agent = OpenAI(name="outer", model=model, tools=[inner.as_tool("look", "Look.")])
        return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=agent)])

    report = resumed_where_it_hung(spec, Task("Say it", id="t"))

    assert report.results == {"x": "done"}
    assert report.usage.tokens == 10 + 100 + 100 + 10
