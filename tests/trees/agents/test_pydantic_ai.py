"""An agent of pydantic-ai as a worker: what it is given, what it gives, what it costs, and how it fails."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext, ToolFailed, UsageLimits
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    UserError,
)
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from tests.support.hardening import Witness
from trees import (
    Retry,
    StaticPlan,
    Subtask,
    SubtaskStatus,
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


def test_more_arguments_of_the_run_come_from_kwargs() -> None:
    agent = Agent(TestModel(), deps_type=str)
    found: list[str] = []

    @agent.tool
    def look(ctx: RunContext[str]) -> None:
        found.append(ctx.deps)

    run(agent, kwargs={"deps": "given"})

    assert found == ["given"]


def test_an_agent_whose_model_is_overridden_uses_that() -> None:
    agent = Agent(says("real"))
    with agent.override(model=says("fake")):
        assert run(agent).results == {"w": "fake"}


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


def http(status: int, **headers: str) -> ModelHTTPError:
    return ModelHTTPError(status, "a-model", headers={name.replace("_", "-"): value for name, value in headers.items()})


def attempts_until(error: BaseException) -> tuple[int, list[str]]:
    """How often the model is called where it raises this twice, and what became of the subtask."""
    calls = 0

    def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise error
        return ModelResponse(parts=[TextPart("ok")])

    report = run(Agent(FunctionModel(answer)), *AGAIN)
    return calls, list(report.results.values())


@pytest.mark.parametrize(
    "error",
    [
        http(429),
        http(429, retry_after="0"),
        http(429, retry_after="0.5"),
        http(408),
        http(409),
        http(500),
        http(502),
        http(503, retry_after="0"),
        http(529),
        ModelConnectionError("a-model", "refused"),
        ModelAPIError("a-model", "odd"),
        ConnectionError("reset"),
        TimeoutError(),
    ],
    ids=repr,
)
def test_what_may_pass_is_tried_again(error: BaseException) -> None:
    assert attempts_until(error) == (3, ["ok"])


@pytest.mark.parametrize(
    "error",
    [
        http(400),
        http(401),
        http(403),
        http(404),
        http(422),
        ModelQuotaExceededError("a-model", "no credit"),
        UserError("misused"),
    ],
    ids=repr,
)
def test_what_would_fail_again_is_not_tried_again(error: BaseException) -> None:
    assert attempts_until(error) == (1, [])


@pytest.mark.parametrize(("errors", "attempts"), [((http(401), http(403)), 1), ((http(401), http(503)), 3)])
def test_models_that_stand_in_for_each_other_fail_for_good_only_where_all_do(
    errors: tuple[Exception, ...], attempts: int
) -> None:
    report = run(Agent(FallbackModel(*[scripted(error) for error in errors])), *AGAIN)

    assert report.graph[0].attempts == attempts
    assert report.graph[0].status is SubtaskStatus.FAILED


def test_the_time_that_a_provider_names_is_waited_for_and_costs_no_attempt() -> None:
    agent = Agent(scripted(http(429, retry_after="1"), http(429, retry_after="0.01"), "ok"))

    report = run(agent, Retry(max_attempts=1))

    assert report.results == {"w": "ok"}
    assert report.graph[0].attempts == 1


def test_models_that_stand_in_for_each_other_are_asked_again_when_the_first_of_them_may_be() -> None:
    busy = [scripted(http(429, retry_after=after), "ok") for after in ("60", "0")]
    wrong = scripted(http(400), http(400))

    assert run(Agent(FallbackModel(*busy, wrong))).results["w"] == "ok"


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


@pytest.mark.parametrize("said", ["\x00\ufffd]]}{", "", '{"other": 1}', "null", "[" * 100_000], ids=repr)
def test_an_answer_that_is_no_report_fails_the_attempt_and_never_the_tree(said: str) -> None:
    agent = Agent(says(said), output_type=Report, retries=0)
    with start(tree(agent)) as running:
        for _ in range(2):
            with pytest.raises(TaskFailedError):
                running.run(Task("Say it"), timeout=60)


def test_an_answer_with_another_schema_is_asked_for_again_by_the_agent_itself() -> None:
    wrong, right = ToolCallPart("final_result", {"title": 1}), ToolCallPart("final_result", {"title": "a", "pages": 1})

    report = run(Agent(scripted(wrong, right), output_type=Report))

    assert report.results == {"w": {"title": "a", "pages": 1}}
    assert report.graph[0].attempts == 1
    assert report.usage.tokens == 84


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


@pytest.mark.parametrize("error", [ModelRetry("other arguments"), ToolFailed("no such file")], ids=repr)
def test_errors_that_a_tool_tells_its_model_are_the_agents_own(error: Exception) -> None:
    left = [error]

    def tool() -> str:
        if left:
            raise left.pop()
        return "found"

    report = run(with_tool(tool))

    assert report.graph[0].attempts == 1
    assert report.results


def test_a_tool_that_returns_no_json_is_the_agents_own_business() -> None:
    report = run(with_tool(lambda: {1, 2}))

    assert json.loads(report.results["w"]) == {"<lambda>": [1, 2]} or report.results["w"]


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


@pytest.mark.parametrize(
    "model",
    [FunctionModel(stream_function=_pieces), says("All is well"), FallbackModel(says("All is well"), TestModel())],
)
def test_text_is_streamed_also_of_a_model_that_cannot_stream(model: Any) -> None:
    with start(tree(Agent(model))) as running:
        handle = running.submit(Task("Say it"))

        assert "".join(handle.stream()) == "All is well"
        assert handle.result(60).results == {"w": "All is well"}


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
