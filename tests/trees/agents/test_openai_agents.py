"""OpenAIAgent: agents of the OpenAI Agents SDK as they are, and with the options of the wrapper."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
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
from pydantic import BaseModel

from tests.trees.agents.one_agent import report_of, result_of, tree_of
from tests.trees.agents.openai_fakes import Scripted, calls, says
from trees import (
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    WorkerSpec,
    start,
)
from trees.agents import OpenAIAgent


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


# -- usage ------------------------------------------------------------------------------------------------------


# -- hard moments -----------------------------------------------------------------------------------------------


def test_an_agent_that_loops_ends_at_max_turns_and_is_not_tried_again() -> None:
    answers = [calls(("look", {"path": "x"}), id_=f"c{number}", tokens=1) for number in range(50)]
    found = agent(*answers, tools=[look])
    report = report_of(OpenAIAgent(found, max_turns=4))

    assert "Max turns (4) exceeded" in report.failed["w"]
    assert len(told_of(found)) == 4
    assert report.usage.tokens == 4


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
