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

from tests.support.attempts import LONG_S
from tests.trees.agents.traced_work import (
    Names,
    asks_in_a_span,
    baggage_here,
    delegates_in_a_span,
    span_here,
)
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start
from trees.agents import instrument

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
