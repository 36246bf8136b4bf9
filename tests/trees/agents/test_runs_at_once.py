"""Several runs at once in one attempt: whichever is faster in this process or the next, each has its own answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent as OpenAI
from agents import ModelProvider, RunConfig, function_tool
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from tests.support.attempts import LONG_S
from tests.tasks.resuming import NotingStore
from tests.trees.agents.openai_fakes import Scripted, calls, says
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.agents import OpenAIAgent
from trees.agents.pydantic_ai_steps import durable_model


class Turns:
    """In the first process the second run is done before the first goes on; in the next ones nobody waits."""

    def __init__(self, *, is_first: bool) -> None:
        self._is_first = is_first
        self._done = asyncio.Event()
        self.asked: list[tuple[str, bool]] = []

    def looks(self, who: str) -> Callable[[], Any]:
        """Tool of one of them."""

        async def look() -> str:
            if self._is_first and who == "a":
                await asyncio.wait_for(self._done.wait(), LONG_S)
            return f"seen by {who}"

        return look

    def ask(self, who: str, *, is_last: bool) -> None:
        """Note a request of a model."""
        self.asked.append((who, is_last))
        if who == "b" and is_last:
            self._done.set()


def gathered(turns: Turns) -> Any:
    """A worker that runs two agents of pydantic-ai at once."""

    async def work(_: Any, context: Any) -> Any:
        async def one(who: str) -> str:
            def answer(messages: list[Any], _: Any) -> ModelResponse:
                turns.ask(who, is_last=len(messages) > 1)
                is_last = len(messages) > 1
                return ModelResponse([TextPart(f"{who} is done") if is_last else ToolCallPart("look", {}, who)])

            agent = Agent(durable_model(FunctionModel(answer), context))
            agent.tool_plain(turns.looks(who), name="look")
            return (await agent.run(who)).output

        return await asyncio.gather(one("a"), one("b"))

    return work


def as_tools(turns: Turns) -> Any:
    """An agent of the OpenAI Agents SDK that calls two others at once, and tells what they have said."""
    models: dict[str, Any] = {}

    class Provider(ModelProvider):
        def get_model(self, model_name: str | None) -> Any:
            return models[str(model_name)]

    def agent(who: str, answer: Callable[[Any, list[Any]], Any], *tools: Any) -> Any:
        def said(items: Any) -> Any:
            returned = [] if isinstance(items, str) else [each for each in items if "output" in each]
            return answer(returned, items)

        models[who] = Scripted(*[said] * 9)
        return OpenAI(name=who, model=who, tools=list(tools))

    def inner(who: str) -> Any:
        def answer(returned: list[Any], _: Any) -> Any:
            turns.ask(who, is_last=bool(returned))
            return says(f"{who} is done") if returned else calls(("look", {}), id_=who)

        tool = function_tool(turns.looks(who), name_override="look")
        return agent(who, answer, tool).as_tool(who, who)

    def outer(returned: list[Any], _: Any) -> Any:
        if returned:
            return says(str([each["output"] for each in returned]))
        return calls(("a", {"input": "for a"}), ("b", {"input": "for b"}))

    config = RunConfig(model_provider=Provider(), tracing_disabled=True)
    return OpenAIAgent(agent("outer", outer, inner("a"), inner("b")), run_config=config)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "wanted"),
    [(gathered, ["a is done", "b is done"]), (as_tools, "['a is done', 'b is done']")],
    ids=["pydantic-ai", "openai-agents"],
)
def test_runs_at_once_go_on_in_another_order_with_what_each_of_them_has_recorded(
    made: Callable[[Turns], Any], wanted: Any
) -> None:
    def spec(turns: Turns) -> SupervisorSpec:
        tasks = Tasks(planner=StaticPlan([Subtask("x", worker="w")]), on_failure=[])
        return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=made(turns))])

    store, first = NotingStore(), Turns(is_first=True)
    with start(spec(first), store=store) as tree:
        assert tree.run(Task("go", id="t"), LONG_S).results == {"x": wanted}
    assert len(first.asked) == 4
    steps = 0
    for at, change in enumerate(store.changes, start=1):
        turns = Turns(is_first=False)
        with start(spec(turns), store=NotingStore(store.changes[:at])) as tree:
            assert tree.task("t").result(LONG_S).results == {"x": wanted}, str(change)
        steps += "SubtaskStepped" in str(change)
        assert len(turns.asked) >= 4 - steps, "nothing is answered that was not asked"
        assert len(turns.asked) == len(set(turns.asked))
    assert steps >= 4
    assert turns.asked == []
