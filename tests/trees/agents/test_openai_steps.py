"""Steps of an agent of the OpenAI Agents SDK: a request that was answered is not made again for the same attempt."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model, ModelProvider, ModelResponse, RunConfig, Runner, Usage, function_tool
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from tests.support.attempts import LONG_S
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.agents.openai_steps import durable_model, durable_provider


class Ten(Model):
    """Model that calls a tool nine times, and then answers."""

    def __init__(self) -> None:
        self.requests: list[int] = []

    def _answer(self, said: Any) -> list[Any]:
        items = [said] if isinstance(said, str) else said
        number = 1 + sum(isinstance(each, dict) and each.get("type") == "function_call" for each in items)
        self.requests.append(number)
        if number < 10:
            call = f'{{"number": {number}}}'
            tool = ResponseFunctionToolCall(
                type="function_call", call_id=f"c{number}", name="double", arguments=call, id=f"f{number}"
            )
            return [tool]
        text = ResponseOutputText(type="output_text", text="done", annotations=[])
        return [ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])]

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002
        usage = Usage(requests=1, input_tokens=5, output_tokens=2, total_tokens=7)
        return ModelResponse(output=self._answer(input), usage=usage, response_id="r")

    async def stream_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002
        response = Response(
            id="r",
            created_at=0.0,
            model="ten",
            object="response",
            output=self._answer(input),
            parallel_tool_calls=False,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


class Provider(ModelProvider):
    def __init__(self, model: Model) -> None:
        self.model = model

    def get_model(self, model_name: str | None) -> Model:
        assert model_name == "ten"
        return self.model


@function_tool
def double(number: int) -> int:
    """Double it."""
    return 2 * number


def tree_of(model: Ten, how: str, ended: Callable[[], bool]) -> SupervisorSpec:
    async def work(task: Any, context: Any) -> Any:
        given: Any = durable_model(model, context) if how != "by name" else "ten"
        config = RunConfig(tracing_disabled=True, model_provider=durable_provider(Provider(model), context))
        agent = Agent(name="a", model=given, tools=[double])
        if how == "streamed":
            run = Runner.run_streamed(agent, str(task), max_turns=12, run_config=config)
            async for _ in run.stream_events():
                pass
            found = run.final_output, 0
        else:
            whole = await Runner.run(agent, str(task), max_turns=12, run_config=config)
            found = whole.final_output, whole.context_wrapper.usage.total_tokens
        if not ended():
            await asyncio.Event().wait()
        return list(found)

    tasks = Tasks(planner=StaticPlan([Subtask("x", worker="w")]), on_failure=[])
    return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=work)])


@pytest.mark.parametrize("how", ["whole", "streamed", "by name"])
def test_a_run_that_begins_again_in_a_new_process_makes_no_request_again(tmp_path: Path, how: str) -> None:
    model, reached = Ten(), threading.Event()

    def first() -> bool:
        reached.set()
        return False

    store = f"sqlite:///{tmp_path / 'db'}"
    with start(tree_of(model, how, first), store=store) as tree:
        tree.submit(Task(goal="go", id="t"))
        assert reached.wait(LONG_S)
    assert model.requests == list(range(1, 11))
    with start(tree_of(model, how, lambda: True), store=store) as tree:
        report = tree.task("t").result(LONG_S)
    assert report.results == {"x": ["done", 70 if how != "streamed" else 0]}
    assert model.requests == list(range(1, 11))
