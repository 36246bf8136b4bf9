"""Functions that return what an agent of a framework has returned: the answer counts, with its usage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent as OpenAI
from agents import ModelResponse as OpenAIResponse
from agents import RunConfig, Runner, Usage
from agents.models.interface import Model
from langchain_core.messages import AIMessage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from actors import Done
from trees import StaticPlan, Subtask, SubtaskStepped, SupervisorSpec, Task, TaskFailedError, Tasks, WorkerSpec, start
from trees import Usage as RegrowUsage


def run(execute: Callable[..., Any], **fields: Any) -> Any:
    tasks = Tasks(planner=StaticPlan([Subtask("w")]), on_failure=[])
    worker = WorkerSpec(id="w", execute=execute, **fields)
    with start(SupervisorSpec(id="r", tasks=tasks, children=[worker])) as tree:
        return tree.run(Task("go"), timeout=60)


class Report(BaseModel):
    title: str = "all"


def paid(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    usage = RequestUsage(input_tokens=30, output_tokens=12, cost=Decimal("0.25"))
    return ModelResponse(parts=[TextPart("hello")], usage=usage)


class OneAnswer(Model):
    """A model of the OpenAI Agents SDK."""

    async def get_response(self, *_: Any, **__: Any) -> OpenAIResponse:
        text = ResponseOutputText(text="hello", type="output_text", annotations=[], logprobs=[])
        message = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        usage = Usage(requests=1, input_tokens=30, output_tokens=12, total_tokens=42)
        return OpenAIResponse(output=[message], usage=usage, response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def pydantic_ai(task: Any, _context: Any) -> Any:
    return await Agent(FunctionModel(paid)).run(str(task))


def pydantic_ai_sync(task: Any, _context: Any) -> Any:
    return asyncio.run(Agent(FunctionModel(paid)).run(str(task)))


async def openai(task: Any, _context: Any) -> Any:
    config = RunConfig(tracing_disabled=True)
    return await Runner.run(OpenAI(name="o", model=OneAnswer()), str(task), run_config=config)


def langchain(_task: Any, _context: Any) -> Any:
    usage = {"input_tokens": 30, "output_tokens": 12, "total_tokens": 42}
    return AIMessage("hello", usage_metadata=usage)


@pytest.mark.parametrize(
    ("execute", "cost"), [(pydantic_ai, 0.25), (pydantic_ai_sync, 0.25), (openai, 0.0), (langchain, 0.0)]
)
def test_the_answer_is_taken_out_of_the_result_of_a_framework_with_its_usage(
    execute: Callable[..., Any], cost: float
) -> None:
    report = run(execute)

    assert report.results == {"w": "hello"}
    assert (report.usage.tokens, report.usage.cost) == (42, cost)


@pytest.mark.parametrize("execute", [pydantic_ai, pydantic_ai_sync, openai, langchain])
@pytest.mark.parametrize(("usage", "tokens"), [(None, 42), (RegrowUsage(tokens=7), 7)])
def test_the_answer_is_taken_out_of_a_result_within_a_done_which_may_say_its_usage_itself(
    execute: Callable[..., Any], usage: RegrowUsage | None, tokens: int
) -> None:
    async def done(task: Any, context: Any) -> Any:
        found = await asyncio.to_thread(execute, task, context)
        found = await found if asyncio.iscoroutine(found) else found
        return Done(found) if usage is None else Done(found, usage=usage)

    report = run(done)

    assert report.results == {"w": "hello"}
    assert report.usage.tokens == tokens


@pytest.mark.parametrize("execute", [pydantic_ai, openai, langchain])
def test_the_result_of_a_step_is_the_answer_and_its_usage_counts(execute: Callable[..., Any]) -> None:
    given: list[Any] = []

    async def steps(task: Any, context: Any) -> Any:
        given.append(await context.step("ask", execute, task, None))
        given.append(await context.step("plain", lambda: Done("mine")))
        return "done"

    tasks = Tasks(planner=StaticPlan([Subtask("w")]), on_failure=[])
    with start(SupervisorSpec(id="r", tasks=tasks, children=[WorkerSpec(id="w", execute=steps)])) as tree:
        handle = tree.submit(Task("go"))
        report = handle.result(60)
        asked, _ = [event for event in handle.events() if isinstance(event, SubtaskStepped)]

    assert given[0] == asked.value == "hello"
    assert given[1]["value"] == "mine"  # a Done is how a worker ends, not a step
    assert report.usage.tokens == 42


def langchain_done(task: Any, context: Any) -> Any:
    return Done(langchain(task, context))


def openai_sync(task: Any, context: Any) -> Any:
    return asyncio.run(openai(task, context))


@pytest.mark.parametrize("execute", [langchain_done, openai, openai_sync, pydantic_ai])
def test_a_worker_in_a_process_has_the_answer_taken_out_there_also_of_what_cannot_be_pickled(
    execute: Callable[..., Any],
) -> None:
    report = run(execute, dispatch="process")

    assert report.results == {"w": "hello"}
    assert report.usage.tokens == 42


def test_a_step_on_a_thread_takes_the_answer_as_well() -> None:
    def steps(task: Any, context: Any) -> Any:
        return context.step_sync("ask", langchain, task, None)

    report = run(steps)

    assert report.results == {"w": "hello"}
    assert report.usage.tokens == 42


def test_structured_output_of_a_returned_result_is_json() -> None:
    async def report(task: Any, _context: Any) -> Any:
        return await Agent(TestModel(), output_type=Report).run(str(task))

    assert run(report).results["w"]["title"]


def test_an_object_of_a_users_own_is_no_result_of_a_framework() -> None:
    class AgentRunResult(BaseModel):
        output: str = "mine"
        usage: int = 3

    assert run(lambda _task, _context: AgentRunResult()).results == {"w": {"output": "mine", "usage": 3}}


def test_a_run_that_waits_for_approval_is_no_result_and_the_error_says_what_to_do() -> None:
    agent = Agent(TestModel(), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def transfer(amount: int) -> str:
        raise AssertionError(amount)

    async def waits(task: Any, _context: Any) -> Any:
        return await agent.run(str(task))

    with pytest.raises(TaskFailedError, match=r"approval of tools.*\(transfer\).*execute="):
        run(waits)


def test_a_run_of_openai_that_waits_for_approval_is_no_result() -> None:
    from actors.tasks.execution.agent_results import unwrap_returned  # noqa: PLC0415
    from actors.tasks.model.outcome import InvalidResultError  # noqa: PLC0415

    kind = type("RunResult", (), {"__module__": "agents.result"})
    base = type("RunResultBase", (kind,), {"__module__": "agents.result"})
    result = base()
    result.interruptions = [SimpleNamespace(name="transfer")]

    with pytest.raises(InvalidResultError, match=r"\(transfer\)"):
        unwrap_returned(result)
