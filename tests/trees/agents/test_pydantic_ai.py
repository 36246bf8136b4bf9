"""An agent of pydantic-ai as a worker: what it is given, what it gives, what it costs, and how it fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext, UsageLimits
from pydantic_ai.exceptions import (
    UserError,
)
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from tests.support.hardening import Witness
from trees import (
    Retry,
    StaticPlan,
    Subtask,
    SubtaskStepped,
    SubtaskStreamed,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)
from trees.agents import PydanticAI, render_prompt

USAGE = RequestUsage(input_tokens=30, output_tokens=12, cost=Decimal("0.25"))
AGAIN = (Retry(max_attempts=3, initial_s=0.01, jitter=0),)


def tree(execute: Any, *rungs: Any, **fields: Any) -> SupervisorSpec:
    tasks = Tasks(planner=StaticPlan([Subtask("w")]), on_failure=list(rungs))
    return SupervisorSpec(id="r", tasks=tasks, children=[WorkerSpec(id="w", execute=execute, **fields)])


def run(execute: Any, *rungs: Any, task: Task | None = None, **fields: Any) -> Any:
    """Run one task, and return its report, also where it fails."""
    with start(tree(execute, *rungs, **fields)) as running:
        try:
            return running.run(task or Task("Say it"), timeout=60)
        except TaskFailedError as error:
            return error.report


def told(messages: list[ModelMessage]) -> str:
    """The prompt that a model gets."""
    (prompt,) = [
        part.content
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]
    assert isinstance(prompt, str)
    return prompt


def says(text: str) -> FunctionModel:
    return FunctionModel(lambda _messages, _info: ModelResponse(parts=[TextPart(text)], usage=USAGE))


def scripted(*answers: Any) -> FunctionModel:
    """A model that says, calls or raises one after the other; the last again and again."""
    left = list(answers)

    def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        said = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(said, BaseException):
            raise said
        part = said if isinstance(said, ToolCallPart) else TextPart(said)
        return ModelResponse(parts=[part], usage=USAGE)

    return FunctionModel(answer)


# -- what it is given, and what it gives -------------------------------------------------------------------------


class Report(BaseModel):
    title: str
    pages: int


@pytest.mark.parametrize("wrap", [lambda agent: agent, PydanticAI])
def test_structured_output_is_json(wrap: Callable[[Any], Any]) -> None:
    agent = Agent(TestModel(custom_output_args={"title": "All", "pages": 3}), output_type=Report)

    assert run(wrap(agent)).results == {"w": {"title": "All", "pages": 3}}


def deps_of(**options: Any) -> Any:
    found: list[Any] = []
    agent = Agent(TestModel(), deps_type=object)

    @agent.tool
    def look(ctx: RunContext[Any]) -> str:
        found.append(ctx.deps)
        return "seen"

    run(PydanticAI(agent, **options), task=Task("Say it", inputs={"who": "me"}))
    return found


@pytest.mark.parametrize(
    ("deps", "found"), [(None, None), ({"a": 1}, {"a": 1}), (lambda context: context.inputs["who"], "me")]
)
def test_deps_are_a_value_or_made_of_the_context(deps: Any, found: Any) -> None:
    assert deps_of(deps=deps) == [found]


def test_a_prompt_of_the_users_own_a_history_and_another_model() -> None:
    seen: list[Any] = []

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        seen.append([part.content for message in messages for part in message.parts if hasattr(part, "content")])
        return ModelResponse(parts=[TextPart("ok")])

    history = [ModelRequest(parts=[UserPromptPart("before")]), ModelResponse(parts=[TextPart("yes")])]
    wrapper = PydanticAI(
        Agent(says("never")),
        message_history=history,
        model=FunctionModel(answer),
        prompt=lambda task, context: f"{render_prompt(task, context)}!",
    )

    assert run(wrapper).results == {"w": "ok"}
    assert seen == [["before", "yes", "Say it!"]]


def test_it_is_told_what_it_depends_on_its_inputs_and_the_goal() -> None:
    agent = Agent(FunctionModel(lambda messages, _info: ModelResponse(parts=[TextPart(told(messages))])))
    plan = StaticPlan([Subtask("find"), Subtask("write", "Write it", depends_on=["find"])])
    spec = SupervisorSpec(
        id="r",
        tasks=Tasks(planner=plan),
        children=[
            WorkerSpec(id="find", execute=lambda _task, _context: {"rows": 2}),
            WorkerSpec(id="write", execute=agent),
        ],
    )
    with start(spec) as running:
        report = running.run(Task("A report", inputs={"to": "CTO"}), timeout=60)

    assert report.results["write"] == (
        "Write it\n\n# Goal of the whole task\n\nA report\n\n# Inputs\n\n## to\n\nCTO\n\n"
        '# Results\n\n## find\n\n{"rows": 2}'
    )


# -- what it costs when it does not succeed ------------------------------------------------------------------------


# -- how it fails --------------------------------------------------------------------------------------------------


def test_a_limit_of_usage_ends_the_subtask_and_what_was_used_counts() -> None:
    agent = Agent(scripted(ToolCallPart("again", {})))

    @agent.tool_plain
    def again() -> str:
        return "once more"

    report = run(PydanticAI(agent, usage_limits=UsageLimits(request_limit=2)), *AGAIN)

    assert "request_limit of 2" in report.graph[0].note
    assert report.graph[0].attempts == 1
    assert report.usage.tokens == 84


# -- hard moments ----------------------------------------------------------------------------------------------------


def with_tool(tool: Callable[..., Any]) -> Agent[None, str]:
    agent = Agent(TestModel())
    agent.tool_plain(tool)
    return agent


def _raise(error: BaseException) -> Callable[..., Any]:
    def tool() -> str:
        raise error

    return tool


@pytest.mark.parametrize(
    ("error", "attempts"), [(LookupError("gone"), 3), (KeyboardInterrupt(), 3), (UserError("misused"), 1)], ids=repr
)
def test_an_exception_of_a_tool_is_a_failed_attempt(error: BaseException, attempts: int) -> None:
    report = run(with_tool(_raise(error)), *AGAIN)

    assert report.graph[0].attempts == attempts
    assert not report.results


# -- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("durable", "steps"), [(True, 3), (False, 0)])
@pytest.mark.parametrize("stream", [True, False])
def test_requests_and_calls_of_tools_are_steps_unless_that_is_off(durable: bool, steps: int, stream: bool) -> None:
    agent = with_tool(lambda: "found")
    with start(tree(PydanticAI(agent, durable=durable, stream=stream))) as running:
        handle = running.submit(Task("Say it"))
        events = list(handle.events())

    assert sum(isinstance(each, SubtaskStepped) for each in events) == steps


# -- streaming -------------------------------------------------------------------------------------------------------


async def _pieces(_messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
    for piece in ("All ", "is ", "well"):
        yield piece


async def _calls(messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[Any]:
    if len(messages) == 1:
        yield {0: DeltaToolCall("look", '{"at": "all"}')}
    else:
        yield "done"


@pytest.mark.parametrize(
    "model", [FunctionModel(stream_function=_calls), scripted(ToolCallPart("look", {"at": "all"}), "done")]
)
@pytest.mark.parametrize("stream", [True, False])
def test_calls_of_tools_and_their_results_are_events_unless_that_is_off(model: Any, stream: bool) -> None:
    if not stream and model.function is None:
        model = scripted(ToolCallPart("look", {"at": "all"}), "done")
    agent = Agent(model)

    @agent.tool_plain
    def look(at: str) -> dict[str, str]:
        return {"found": at}

    with start(tree(PydanticAI(agent, stream=stream))) as running:
        witness = Witness(running)
        running.run(Task("Say it"), timeout=60)
        seen = [(each.kind, each.text) for each in witness.of(SubtaskStreamed)]

    told = [("tool_call", 'look({"at": "all"})'), ("tool_result", 'look: {"found": "all"}'), ("text", "done")]
    assert seen == (told if stream else [])


def test_a_handler_of_events_of_the_users_own_is_called_as_well() -> None:
    seen: list[str] = []

    async def handler(_ctx: Any, events: Any) -> None:
        seen.extend([event.event_kind async for event in events])

    agent = Agent(FunctionModel(stream_function=_pieces))
    with start(tree(PydanticAI(agent), kwargs={"event_stream_handler": handler})) as running:
        handle = running.submit(Task("Say it"))
        assert "".join(handle.stream()) == "All is well"

    assert "part_delta" in seen
