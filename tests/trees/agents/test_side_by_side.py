"""Agents side by side in one attempt that are told the same words: each goes on with what it was answered itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agents import Agent as OpenAI
from agents import ModelProvider, ModelSettings, RunConfig, Runner, function_tool
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from tests.support.attempts import LONG_S
from tests.tasks.resuming import NotingStore
from tests.trees.agents.openai_fakes import Scripted, calls, says
from trees import StaticPlan, Subtask, SubtaskStepped, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.agents import OpenAIAgent
from trees.agents.openai_steps import durable_model as openai_model
from trees.agents.pydantic_ai_steps import durable_model

Turn = Callable[[str], Awaitable[str]]
"""Called by the model of one of the two, with its name; returns its answer."""


class Turns:
    """In the first process "a" asks first, and is answered when "b" is done. In the next one "b" asks first."""

    def __init__(self, *, is_first: bool) -> None:
        self._is_first = is_first
        self.b_is_done = asyncio.Event()
        self.asked: list[str] = []

    async def may_ask(self, who: str) -> None:
        """Wait for the turn of a request, before it is made."""
        if who == "a" and not self._is_first:
            await asyncio.wait_for(self.b_is_done.wait(), LONG_S)

    async def __call__(self, who: str) -> str:
        self.asked.append(who)
        if who == "a" and self._is_first:
            await asyncio.wait_for(self.b_is_done.wait(), LONG_S)
        return f"of {who}"


async def both(turns: Turns, run: Callable[[str], Awaitable[str]]) -> list[str]:
    """Run "a" and "b" at once."""

    async def a() -> str:
        await turns.may_ask("a")
        return await run("a")

    async def b() -> str:
        found = await run("b")
        turns.b_is_done.set()
        return found

    return list(await asyncio.gather(a(), b()))


class Short(BaseModel):
    text: str


def by_pydantic_ai(differ: str) -> Callable[[Turns], Any]:
    def made(turns: Turns) -> Any:
        async def work(_: Any, context: Any) -> Any:
            def agent(who: str) -> Any:
                async def answer(_: Any, info: Any) -> ModelResponse:
                    said = await turns(who)
                    if info.output_tools:
                        assert differ == "output"
                    return ModelResponse([TextPart(said)])

                of: dict[str, Any] = {
                    "instructions": {"instructions": f"You are {who}."},
                    "system prompt": {"system_prompt": f"You are {who}."},
                    "settings": {"model_settings": {"temperature": 0.0 if who == "a" else 1.0}},
                    "tools": {"tools": [look if who == "a" else find]},
                    "output": {"output_type": str if who == "a" else [str, Short]},
                    "model": {},
                }[differ]
                name = who if differ == "model" else "same"
                return Agent(durable_model(FunctionModel(answer, model_name=name), context), **of)

            async def run(who: str) -> str:
                return str((await agent(who).run("go")).output)

            return await both(turns, run)

        return work

    return made


def look() -> str:
    """Look."""
    return "seen"


def find() -> str:
    """Find."""
    return "found"


class Named(Scripted):
    """A model with a name."""

    def __init__(self, name: str, answer: Any) -> None:
        super().__init__(*[answer] * 9)
        self.model = name


def by_openai_agents(differ: str) -> Callable[[Turns], Any]:
    def made(turns: Turns) -> Any:
        async def work(_: Any, context: Any) -> Any:
            async def run(who: str) -> str:
                async def answer(_: Any) -> Any:
                    return says(await turns(who))

                of: dict[str, Any] = {
                    "instructions": {"instructions": f"You are {who}."},
                    "settings": {"model_settings": ModelSettings(temperature=0.0 if who == "a" else 1.0)},
                    "tools": {"tools": [function_tool(look if who == "a" else find)]},
                    "model": {},
                }[differ]
                model = Named(who if differ == "model" else "same", answer)
                agent = OpenAI(name="it", model=openai_model(model, context), **of)
                return str((await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))).final_output)

            return await both(turns, run)

        return work

    return made


def as_tools(turns: Turns) -> Any:
    """Two agents that are tools, and are given the same input."""
    models: dict[str, Any] = {}

    class Provider(ModelProvider):
        def get_model(self, model_name: str | None) -> Any:
            return models[str(model_name)]

    def inner(who: str) -> Any:
        async def answer(_: Any) -> Any:
            return says(await turns(who))

        async def ended(run: Any) -> str:
            if who == "b":
                turns.b_is_done.set()
            return str(run.final_output)

        models[who] = Named("same", answer)
        agent = OpenAI(name=who, model=who, instructions=f"You are {who}.")
        return agent.as_tool(who, who, custom_output_extractor=ended)

    async def turn(data: Any) -> Any:
        await turns.may_ask(data.agent.name)
        return data.model_data

    def outer(items: Any) -> Any:
        returned = [] if isinstance(items, str) else [each["output"] for each in items if "output" in each]
        return says(str(returned)) if returned else calls(("a", {"input": "go"}), ("b", {"input": "go"}))

    models["outer"] = Named("outer", outer)
    config = RunConfig(model_provider=Provider(), tracing_disabled=True, call_model_input_filter=turn)
    return OpenAIAgent(OpenAI(name="outer", model="outer", tools=[inner("a"), inner("b")]), run_config=config)


CASES: dict[str, tuple[Callable[[Turns], Any], Any]] = {
    **{
        f"pydantic-ai, {each}": (by_pydantic_ai(each), ["of a", "of b"])
        for each in ("instructions", "system prompt", "settings", "tools", "output", "model")
    },
    **{
        f"openai-agents, {each}": (by_openai_agents(each), ["of a", "of b"])
        for each in ("instructions", "settings", "tools", "model")
    },
    "openai-agents, as tools": (as_tools, "['of a', 'of b']"),
}


@pytest.mark.parametrize(("made", "wanted"), CASES.values(), ids=CASES)
def test_agents_that_are_told_the_same_go_on_with_their_own_answers_whichever_comes_first(
    made: Callable[[Turns], Any], wanted: Any
) -> None:
    """The process dies when "b" has its answer and "a" none. In the next one "b" asks before "a"."""

    def spec(turns: Turns) -> SupervisorSpec:
        tasks = Tasks(planner=StaticPlan([Subtask("x", worker="w")]), on_failure=[])
        return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=made(turns))])

    store, turns = NotingStore(), Turns(is_first=True)
    with start(spec(turns), store=store) as tree:
        assert tree.run(Task("go", id="t"), LONG_S).results == {"x": wanted}
    assert turns.asked == ["a", "b"]
    steps = [at for at, each in enumerate(store.changes, 1) if SubtaskStepped.__name__ in str(each)]
    of_b = steps[1 if made is as_tools else 0]  # the first one of these is that of the agent that has the tools

    turns = Turns(is_first=False)
    with start(spec(turns), store=NotingStore(store.changes[:of_b])) as tree:
        assert tree.task("t").result(LONG_S).results == {"x": wanted}
    assert turns.asked == ["a"], "what b was answered is recorded"
