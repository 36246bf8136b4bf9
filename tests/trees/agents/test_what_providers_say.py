"""What a provider says of the time to come back, and of the tokens that were used, counts for the attempt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, Usage
from langchain_core.runnables import RunnableLambda
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from actors import Event
from actors.testing import ManualClock, settle
from trees import StaticPlan, Subtask, SubtaskRetrying, SupervisorSpec, Tasks, WorkerSpec, start
from trees.agents import LangChain, OpenAIAgent


def tree_of(agent: Any) -> SupervisorSpec:
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    return SupervisorSpec(id="t", tasks=tasks, children=[WorkerSpec(id="w", execute=agent)])


class BusyError(Exception):
    """As clients of providers raise it."""

    status_code = 429

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__("too many requests")
        self.response = SimpleNamespace(status_code=429, headers=headers)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry-after": "7"}, 7.0), ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5)],
    ids=["seconds", "milliseconds"],
)
def test_the_time_to_come_back_is_waited_for(headers: dict[str, str], seconds: float) -> None:
    answers, seen, clock = iter([BusyError(headers), "hello"]), list[SubtaskRetrying](), ManualClock()

    def answer(_: object) -> str:
        said = next(answers)
        if isinstance(said, BusyError):
            raise said
        return said

    def hear(event: Event) -> None:
        if isinstance(event, SubtaskRetrying):
            seen.append(event)

    with start(tree_of(LangChain(RunnableLambda(answer))), clock=clock) as tree:
        tree.subscribe(hear)
        handle = tree.submit("greet")
        settle(tree, 60.0)
        clock.advance(60.0)
        assert handle.result(60.0).results == {"a": "hello"}

    assert [event.due - event.at for event in seen] == [pytest.approx(seconds, abs=0.01)]


class OneAnswer(Model):
    """Answers with 42 tokens."""

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        text = ResponseOutputText(text="hello", type="output_text", annotations=[], logprobs=[])
        message = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        usage = Usage(requests=1, input_tokens=30, output_tokens=12, total_tokens=42)
        return ModelResponse(output=[message], usage=usage, response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@pytest.mark.parametrize("durable", [True, False])
def test_tokens_count_once_whether_requests_are_steps_or_not(durable: bool) -> None:
    agent = OpenAIAgent(Agent(name="greeter", model=OneAnswer()), durable=durable)
    with start(tree_of(agent)) as tree:
        assert tree.run("greet", timeout=60.0).usage.tokens == 42
