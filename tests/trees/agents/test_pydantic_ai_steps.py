"""Steps of an agent of pydantic-ai: what it and its tools have said is the same when its run begins again."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ModelRetry, ToolReturn
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from tests.support.attempts import LONG_S
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.agents.pydantic_ai_steps import durable_model, durable_toolset

TOOLS = ("model", "aside", "picture", "retry", "fails", "plain")


class Found(BaseModel):
    at: tuple[int, int]


class Agents:
    """An agent that calls each tool once, and notes what was called and what it was told."""

    def __init__(self) -> None:
        self.requests = 0
        self.called: list[str] = []
        self.told: list[str] = []
        self.agent: Agent[None, str] = Agent(FunctionModel(self.answer, stream_function=self.pieces))
        self.agent.instructions(lambda: f"request {self.requests}")  # such as the time: it differs each time
        for name in TOOLS:
            self.agent.tool_plain(getattr(self, name))

    def answer(self, messages: list[Any], _: Any) -> ModelResponse:
        self.requests += 1
        self.told = [
            str(part.content)
            for message in messages
            for part in message.parts
            if "tool" in part.part_kind and hasattr(part, "content")
        ]
        number = sum(isinstance(each, ModelResponse) for each in messages)
        if number < len(TOOLS):
            return ModelResponse(parts=[ToolCallPart(TOOLS[number], {}, tool_call_id=f"c{number}")])
        return ModelResponse(parts=[TextPart("done")])

    async def pieces(self, messages: list[Any], info: Any) -> Any:
        [part] = self.answer(messages, info).parts
        if isinstance(part, ToolCallPart):
            yield {0: DeltaToolCall(part.tool_name, "{}", tool_call_id=part.tool_call_id)}
        else:
            yield "do"
            yield "ne"

    def model(self) -> Found:
        self.called.append("model")
        return Found(at=(1, 2))

    def aside(self) -> Any:
        self.called.append("aside")
        return ToolReturn(Found(at=(3, 4)), content=["see", BinaryContent(b"\xff", media_type="image/png")])

    def picture(self) -> BinaryContent:
        self.called.append("picture")
        return BinaryContent(b"\xff\x00", media_type="image/png")

    def retry(self) -> None:
        self.called.append("retry")
        raise ModelRetry("ask something else")

    def fails(self) -> None:
        self.called.append("fails")
        raise ToolFailed("there is none")

    async def plain(self) -> dict[int, set[str]]:
        self.called.append("plain")
        return {1: {"x"}}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_run_that_begins_again_in_a_new_process_calls_neither_model_nor_tools(
    tmp_path: Path, *, streamed: bool
) -> None:
    agents, reached, lives = Agents(), threading.Event(), list[str]()
    said: list[list[str]] = []

    async def look(_: Any, events: Any) -> None:
        said.append([type(event).__name__ async for event in events])

    async def work(task: Any, context: Any) -> Any:
        tools = [durable_toolset(each, context) for each in agents.agent.toolsets]
        with agents.agent.override(toolsets=tools, tools=[]):
            model = durable_model(agents.agent.model, context)
            run = await agents.agent.run(str(task), model=model, event_stream_handler=look if streamed else None)
        lives.append(run.output)
        if len(lives) == 1:
            reached.set()
            await asyncio.Event().wait()
        return [run.output, len(run.all_messages()), run.usage.requests]

    tasks = Tasks(planner=StaticPlan([Subtask("x", worker="w")]), on_failure=[])
    spec = SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=work)])
    store = f"sqlite:///{tmp_path / 'db'}"
    with start(spec, store=store) as tree:
        tree.submit(Task(goal="go", id="t"))
        assert reached.wait(LONG_S)
    assert (agents.requests, agents.called) == (7, list(TOOLS))
    assert "ask something else" in " ".join(agents.told)
    with start(spec, store=store) as tree:
        report = tree.task("t").result(LONG_S)
    assert report.results == {"x": ["done", 14, 7]}
    assert (agents.requests, agents.called) == (7, list(TOOLS))
    if streamed:
        assert any("PartStartEvent" in each for each in said[len(said) // 2 :])
