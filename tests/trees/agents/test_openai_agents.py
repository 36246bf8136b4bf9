"""OpenAIAgent: agents of the OpenAI Agents SDK as they are, and with the options of the wrapper."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    ModelBehaviorError,
    ModelProvider,
    RunConfig,
    RunContextWrapper,
    SQLiteSession,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)
from agents.tracing import TracingProcessor, get_trace_provider, set_trace_provider
from agents.tracing.provider import DefaultTraceProvider
from openai import APIConnectionError, APIStatusError, AuthenticationError, BadRequestError, RateLimitError
from openai.types.responses import Response, ResponseCompletedEvent, ResponseTextDeltaEvent, ResponseUsage
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from pydantic import BaseModel

from actors import ConfigError, Failed, RecursionDetectedError
from tests.trees.agents.one_agent import report_of, result_of, tree_of
from tests.trees.agents.openai_fakes import Scripted, calls, says
from trees import (
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    WorkerSpec,
    start,
)
from trees.agents import OpenAIAgent

httpx = pytest.importorskip("httpx2", reason="the client of openai")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a model nor the SDK's tracing asks for a server."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a test asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@function_tool
def look(path: str) -> str:
    """Look at a file."""
    return f"seen {path}"


@function_tool
def whose(wrapper: RunContextWrapper[Any]) -> str:
    """Say whose run it is."""
    return str(wrapper.context)


@function_tool(failure_error_function=None)
def breaks() -> str:
    """Break."""
    raise ValueError("broken")


def agent(*answers: Any, **words: Any) -> Agent[Any]:
    return Agent(name="clerk", model=Scripted(*answers), **words)


def other() -> Agent[Any]:
    return Agent("other", model=Scripted(says("mine")))


def told_of(found: Agent[Any]) -> list[Any]:
    return found.model.told  # type: ignore[union-attr]


# -- what it takes, and what it gives ---------------------------------------------------------------------------


class Answer(BaseModel):
    number: int


@pytest.mark.parametrize("wrap", [lambda found: found, OpenAIAgent], ids=["bare", "wrapped"])
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: agent(says("hello")), "hello"),
        (lambda: agent(calls(("look", {"path": "x"})), says("done"), tools=[look]), "done"),
        (lambda: agent(says('{"number": 3}'), output_type=Answer), {"number": 3}),
        (lambda: agent(calls(("transfer_to_other", {})), handoffs=[other()]), "mine"),
        (lambda: agent(calls(("go", {})), handoffs=[handoff(other(), tool_name_override="go")]), "mine"),
        (lambda: agent(says("")), ""),
    ],
    ids=["words", "tool", "output", "handoff", "handoff object", "nothing"],
)
def test_an_agent_works_as_it_is_and_wrapped(make: Any, expected: Any, wrap: Any) -> None:
    assert result_of(wrap(make())) == expected


def test_it_is_told_through_render_prompt_or_the_users_own() -> None:
    found = agent(says("x"))
    plan = StaticPlan([Subtask("a", instruction="Find"), Subtask("b", instruction="Sum up", depends_on=["a"])])
    children = [WorkerSpec(id="a", execute=lambda task: "a fact"), WorkerSpec(id="b", execute=found)]
    with start(SupervisorSpec(id="office", tasks=Tasks(planner=plan), children=children)) as tree:
        tree.run(Task("Report", inputs={"topic": "bees"}))

    ((message,),) = told_of(found)
    assert message["content"].startswith("Sum up")
    assert all(each in message["content"] for each in ("Report", "bees", "a fact"))

    mine = agent(says("x"))
    result_of(OpenAIAgent(mine, prompt=lambda task, _context: f"<{task}>"))
    assert told_of(mine)[0][0]["content"] == "<Say hello>"


def test_context_session_and_run_config_are_the_users() -> None:
    class Provider(ModelProvider):
        def get_model(self, model_name: str | None) -> Any:
            assert model_name == "mine"
            return model

    model = Scripted(calls(("whose", {})), says("done"))
    session = SQLiteSession("s")
    found = OpenAIAgent(
        Agent("clerk", model="mine", tools=[whose]),
        context=lambda context: f"attempt {context.attempt}",
        run_config=RunConfig(model_provider=Provider(), tracing_disabled=True),
        session=session,
    )
    report = report_of(found)

    assert report.results["w"] == "done"
    assert model.told[1][-1]["output"] == "attempt 1"
    assert report.usage.tokens == 20
    assert len(asyncio.run(session.get_items())) == 4
    session.close()


def test_a_model_of_the_run_config_is_counted_and_streams_too() -> None:
    found = OpenAIAgent(Agent("clerk"), run_config={"model": Scripted(says("hi", 9)), "tracing_disabled": True})
    report = report_of(found)

    assert (report.results["w"], report.usage.tokens) == ("hi", 9)


def test_agents_that_hand_over_to_each_other_are_told_in_turn() -> None:
    first = agent(calls(("transfer_to_second", {}), id_="a"), says("end"))
    second = Agent("second", model=Scripted(calls(("transfer_to_clerk", {}), id_="b")), handoffs=[first])
    first.handoffs = [second]
    report = report_of(first)

    assert (report.results["w"], report.usage.tokens) == ("end", 30)


def test_what_an_agent_says_of_itself_stands_in_the_registry() -> None:
    found = agent(says("x"), output_type=Answer, handoff_description="Knows numbers")
    with start(tree_of(found)) as tree:
        (row,) = tree.registry("office")

    assert (row.type, row.description) == ("agent", "Knows numbers")
    assert row.output_schema is not None
    assert "number" in row.output_schema["properties"]
    with start(tree_of(agent(says("x")))) as tree:
        assert tree.registry("office")[0].description == "clerk"


def test_what_is_no_agent_is_a_problem_of_the_check() -> None:
    with pytest.raises(ConfigError) as caught, start(tree_of(OpenAIAgent(object()))):
        pass
    (problem,) = caught.value.problems
    assert (problem.path, problem.hint) == ("office/w.execute", "Write OpenAIAgent(Agent(...)).")


# -- usage ------------------------------------------------------------------------------------------------------


def nested() -> Agent[Any]:
    inner = Agent("inner", model=Scripted(says("inner", 100), says("inner", 100), says("inner", 100)))
    asking = [calls(("ask", {"input": "q"}), id_=f"c{number}") for number in range(3)]
    return agent(asking[0], says("outer"), tools=[inner.as_tool("ask", "Ask.")])


@pytest.mark.parametrize(
    ("make", "tokens"),
    [
        (lambda: agent(says("x", 7)), 7),
        (lambda: agent(calls(("look", {"path": "x"}), tokens=5), says("done", 6), tools=[look]), 11),
        (nested, 120),
        (lambda: agent(says("x", 0)), 0),
    ],
    ids=["one", "two", "an agent as a tool", "none"],
)
def test_tokens_of_all_requests_are_counted_once(make: Any, tokens: int) -> None:
    assert report_of(make()).usage.tokens == tokens


# -- hard moments -----------------------------------------------------------------------------------------------


def status(kind: type[APIStatusError], code: int, **headers: str) -> APIStatusError:
    request = httpx.Request("POST", "http://offline")
    return kind(f"status {code}", response=httpx.Response(code, headers=headers, request=request), body=None)


def connection() -> APIConnectionError:
    return APIConnectionError(request=httpx.Request("POST", "http://offline"))


class QuotaError(RateLimitError):
    """An account that has no money left."""

    def __init__(self, message: str, **told: Any) -> None:
        super().__init__(message, **{**told, "body": {"code": "insufficient_quota"}})


@pytest.mark.parametrize(
    ("error", "requests", "ends"),
    [
        (lambda: status(RateLimitError, 429), 2, "at last"),
        (lambda: status(RateLimitError, 429, **{"retry-after": "0.02"}), 2, "at last"),
        (lambda: status(APIStatusError, 500), 2, "at last"),
        (lambda: status(APIStatusError, 503), 2, "at last"),
        (connection, 2, "at last"),
        (lambda: TimeoutError("slow"), 2, "at last"),
        (lambda: ModelBehaviorError("no JSON"), 2, "at last"),
        (lambda: status(BadRequestError, 400), 1, None),
        (lambda: status(AuthenticationError, 401), 1, None),
        (lambda: status(QuotaError, 429), 1, None),
    ],
)
def test_what_passes_is_tried_again_and_a_wrong_request_is_not(error: Any, requests: int, ends: str | None) -> None:
    found = agent(error(), says("at last"))
    report = report_of(found)

    assert len(told_of(found)) == requests
    assert report.results.get("w") == ends


def test_an_agent_that_loops_ends_at_max_turns_and_is_not_tried_again() -> None:
    answers = [calls(("look", {"path": "x"}), id_=f"c{number}", tokens=1) for number in range(50)]
    found = agent(*answers, tools=[look])
    report = report_of(OpenAIAgent(found, max_turns=4))

    assert "Max turns (4) exceeded" in report.failed["w"]
    assert len(told_of(found)) == 4
    assert report.usage.tokens == 4


def test_max_turns_is_10_unless_given() -> None:
    found = agent(*(calls(("look", {"path": "x"}), id_=f"c{number}") for number in range(50)), tools=[look])
    report_of(found)

    assert len(told_of(found)) == 10


@input_guardrail
async def no_input(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)


@output_guardrail
async def no_output(_context: Any, _agent: Any, _output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)


@pytest.mark.parametrize("rails", [{"input_guardrails": [no_input]}, {"output_guardrails": [no_output]}])
def test_a_guardrail_that_trips_is_not_tried_again(rails: dict[str, Any]) -> None:
    found = agent(says("one"), says("two"), says("three"), **rails)
    report = report_of(found)

    assert "Guardrail" in report.failed["w"]
    assert len(told_of(found)) <= 1


def test_a_tool_that_raises_is_told_to_the_model_or_fails_the_attempt_as_the_agent_says() -> None:
    found = agent(calls(("breaks", {})), calls(("breaks", {}), id_="d"), says("ok"), tools=[breaks])
    assert "broken" in report_of(found, on_failure=[]).failed["w"]
    assert result_of(found) == "ok"

    @function_tool
    def told() -> str:
        """Break, and say so."""
        raise ValueError("broken")

    found = agent(calls(("told", {})), says("I see"), tools=[told])
    assert result_of(found) == "I see"
    assert "error occurred" in told_of(found)[1][-1]["output"]


@pytest.mark.parametrize(
    ("error", "attempts", "ends"),
    [
        (lambda: RecursionDetectedError(("a", "b", "a")), 1, "would wait for itself"),
        (lambda: Failed("sold out", retryable=False), 1, "sold out"),
        (lambda: LookupError("gone"), 1, "gone"),
        (lambda: OSError("down"), 3, "down"),
    ],
    ids=["recursion", "failed", "given up by type", "tried again"],
)
def test_the_error_of_a_tool_counts_as_it_is_and_not_as_the_framework_wraps_it(
    error: Callable[[], Exception], attempts: int, ends: str
) -> None:
    @function_tool(failure_error_function=None)
    def breaks_so() -> str:
        """Break."""
        raise error()

    found = agent(*(calls(("breaks_so", {}), id_=f"c{n}") for n in range(3)), tools=[breaks_so])
    report = report_of(found, on_failure=[Retry(3, initial_s=0.0, give_up_on=[LookupError])])

    assert len(told_of(found)) == attempts
    assert ends in report.failed["w"]


@pytest.mark.parametrize(("run_config", "traced"), [(None, False), (RunConfig(), True)])
def test_nothing_is_traced_unless_the_run_config_says_so(run_config: Any, traced: bool) -> None:
    class Notes(TracingProcessor):
        def on_trace_start(self, trace: Any) -> None:
            begun.append(trace)

        def _nothing(self, *_: Any) -> None:
            """Do nothing."""

        on_trace_end = on_span_start = on_span_end = shutdown = force_flush = _nothing

    begun: list[Any] = []
    before = get_trace_provider()
    provider = DefaultTraceProvider()
    provider.register_processor(Notes())
    set_trace_provider(provider)
    try:
        assert result_of(OpenAIAgent(agent(says("hello")), run_config=run_config)) == "hello"
    finally:
        set_trace_provider(before)
    assert bool(begun) is traced


# -- streams ----------------------------------------------------------------------------------------------------


class Streams(Scripted):
    """Streams words, the second one when it may; then its answer."""

    def __init__(self, may: threading.Event, *, breaks: int = 0) -> None:
        super().__init__()
        self.may = may
        self.breaks = breaks

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield self._piece("first ")
        assert await asyncio.to_thread(self.may.wait, 20)
        self.told.append("stream")
        if len(self.told) <= self.breaks:
            return
        yield self._piece("second")
        usage = ResponseUsage(
            input_tokens=5,
            output_tokens=2,
            total_tokens=7,
            input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        )
        response = Response(
            id="r",
            created_at=0,
            model="m",
            object="response",
            output=says("first second").output,
            tool_choice="none",
            tools=[],
            parallel_tool_calls=False,
            usage=usage,
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=3)

    def _piece(self, text: str) -> Any:
        return ResponseTextDeltaEvent(
            type="response.output_text.delta",
            delta=text,
            content_index=0,
            item_id="m",
            logprobs=[],
            output_index=0,
            sequence_number=1,
        )


def test_the_pieces_of_an_answer_are_shown_as_they_come() -> None:
    may = threading.Event()
    with start(tree_of(Agent("clerk", model=Streams(may)))) as tree:
        handle = tree.submit(Task("go"))
        pieces = []
        for piece in handle.stream():
            pieces.append(piece)
            may.set()
        report = handle.result(60)

    assert pieces == ["first ", "second"]
    assert (report.results["w"], report.usage.tokens) == ("first second", 7)
