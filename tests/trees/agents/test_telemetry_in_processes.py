"""The current span crosses to a worker in a process and back, with messages, attempts and what they ask for."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import baggage
from opentelemetry import context as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actors import CallbackRaised
from actors.tasks.execution.step_host import AttemptStepHost
from actors.testing import settle
from tests.support.attempts import LONG_S
from tests.trees.agents.traced_work import (
    Names,
    Unrebuilt,
    asks_in_a_span,
    baggage_here,
    delegates_in_a_span,
    dies_in_a_step,
    span_here,
    steps_in_spans,
)
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start
from trees.agents import instrument
from trees.agents.telemetry_spans import TreeSpans

NOBODY: Names = (0, 0)
Seen = tuple[Tree, Any, "queue.Queue[Names]"]


def _spec(told: queue.Queue[Names]) -> SupervisorSpec:
    def tell_here(_: object) -> Names:
        told.put(span_here())
        return span_here()

    def helper(_: Any, context: Any) -> Names:
        return span_here()

    return SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("w")]), on_failure=[]),
        children=[
            WorkerSpec(id="far", handle=span_here, dispatch="process"),
            WorkerSpec(id="asks", handle=asks_in_a_span, dispatch="process"),
            WorkerSpec(id="bags", handle=baggage_here, dispatch="process"),
            WorkerSpec(id="near", handle=tell_here),
            WorkerSpec(id="w", execute=delegates_in_a_span, dispatch="process"),
            WorkerSpec(id="helper", execute=helper),
        ],
    )


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    provider, told = TracerProvider(), queue.Queue[Names]()
    provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    with start(_spec(told)) as tree:
        assert tree.ref("p/far").ask(1, timeout=LONG_S) == NOBODY
        instrument(tree, provider)
        yield tree, provider.get_tracer("here"), told


def test_the_span_of_an_ask_and_of_a_tell_is_current_in_the_process_and_gone_with_its_message(seen: Seen) -> None:
    tree, here, _ = seen
    with here.start_as_current_span("sender"):
        sender = span_here()
        assert tree.ref("p/far").ask(1, timeout=LONG_S) == sender
    assert sender != NOBODY
    assert tree.ref("p/far").ask(2, timeout=LONG_S) == NOBODY


@pytest.mark.parametrize("path", ["p/near", "p/far"])
def test_a_span_that_the_process_has_made_goes_along_with_what_it_asks(seen: Seen, path: str) -> None:
    tree, here, _ = seen
    with here.start_as_current_span("sender"):
        sender = span_here()
        there, found = tree.ref("p/asks").ask(("ask", path), timeout=LONG_S)
    assert found == there
    assert there[0] == sender[0]
    assert there != sender


def test_a_span_that_the_process_has_made_goes_along_with_what_it_tells(seen: Seen) -> None:
    tree, here, told = seen
    while not told.empty():
        told.get()
    with here.start_as_current_span("sender"):
        there, _ = tree.ref("p/asks").ask(("tell", "p/near"), timeout=LONG_S)
    assert told.get(timeout=LONG_S) == there


def test_the_span_of_an_attempt_is_current_in_the_process_and_those_below_it_around_what_it_asks_for(
    seen: Seen,
) -> None:
    tree, here, _ = seen
    with here.start_as_current_span("sender"):
        sender = span_here()
        attempt, there, helper = tree.run(Task("go"), timeout=LONG_S).results["w"]
    assert {each[0] for each in (attempt, there, helper)} == {sender[0]}
    assert len({sender[1], attempt[1], there[1], helper[1]}) == 4, "each is a span of its own"


def test_baggage_goes_along(seen: Seen) -> None:
    tree, here, _ = seen
    with here.start_as_current_span("sender"):
        token = otel.attach(baggage.set_baggage("tenant", "täa"))
        try:
            assert tree.ref("p/bags").ask("tenant", timeout=LONG_S) == "täa"
        finally:
            otel.detach(token)
    assert tree.ref("p/bags").ask("tenant", timeout=LONG_S) is None


def test_a_span_that_cannot_be_rebuilt_there_is_lost_and_told_of_once_and_no_message_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TreeSpans, "crossing", lambda *_: Unrebuilt())
    events: list[Any] = []
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="far", handle=span_here, dispatch="process")])) as tree:
        instrument(tree, TracerProvider())
        tree.subscribe(events.append)
        assert [tree.ref("p/far").ask(n, timeout=LONG_S) for n in range(3)] == [NOBODY] * 3
        settle(tree)

    assert [str(each.error) for each in events if isinstance(each, CallbackRaised)] == ["it is not there"]


def test_a_step_in_a_process_has_its_span_which_is_current_in_its_code_and_says_how_it_failed() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    plan = StaticPlan([Subtask("s", worker="steps"), Subtask("d", worker="dies", required=False)])
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=plan, on_failure=[]),
        children=[
            WorkerSpec(id="steps", execute=steps_in_spans, dispatch="process"),
            WorkerSpec(id="dies", execute=dies_in_a_step, dispatch="process"),
        ],
    )
    with start(spec) as tree:
        instrument(tree, provider)
        attempt, step = tree.run("go", timeout=LONG_S).results["s"]
        spans = {span.name: span for span in exporter.get_finished_spans()}

    names = {name: (span.context.trace_id, span.context.span_id) for name, span in spans.items() if span.context}
    assert names["execute_tool steps"] == tuple(attempt)
    assert names["step good"] == tuple(step)
    parents = {name: span.parent.span_id for name, span in spans.items() if span.parent is not None}
    assert parents["step good"] == parents["step bad"] == attempt[1]
    assert parents["step last"] == names["execute_tool dies"][1], "its span has ended with its process"
    failed = spans["step bad"]
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "ImportError"
    assert failed.status.description is None, "its text is content"
    assert not {"error.type"} & {*(spans["step good"].attributes or ()), *(spans["step last"].attributes or ())}


def test_the_end_of_a_step_that_has_outlived_its_attempt_ends_no_step_of_the_next_one() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    hosts: list[AttemptStepHost] = []

    async def keep(_: Any, context: Any) -> None:
        host = AttemptStepHost(context._attempt)
        begun = host.begin_trace("pay")
        assert begun is not None
        hosts.append(host)
        numbers.append(begun[0])

    numbers: list[int] = []
    plan = StaticPlan([Subtask("one", worker="w"), Subtask("two", worker="w", depends_on=["one"])])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=plan), children=[WorkerSpec(id="w", execute=keep)])
    with start(spec) as tree:
        instrument(tree, provider)
        tree.run("go", timeout=LONG_S)
        hosts[0].end_traces()
        hosts[1].end_trace(numbers[0])
        assert len([each for each in exporter.get_finished_spans() if "pay" in each.name]) == 1
        hosts[1].end_trace(numbers[1])
        assert len([each for each in exporter.get_finished_spans() if "pay" in each.name]) == 2
