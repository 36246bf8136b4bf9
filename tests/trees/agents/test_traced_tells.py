"""What a tell takes along of the trace of its sender, and that many tells cost it no more than one."""

from __future__ import annotations

from typing import Any

from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider

from actors import CallbackRaised
from actors.testing import settle
from trees import SupervisorSpec, WorkerSpec, start
from trees.agents import instrument

PROVIDER = TracerProvider()
USER = PROVIDER.get_tracer("user")


def spans_seen(send: Any, change: bool = False) -> list[int]:
    """Ids of the spans that are current for the messages that are sent by ``send(ref)``; 0: there is none."""
    seen: list[int] = []

    def handle(_: object) -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)
        if change:
            context.attach(trace.set_span_in_context(USER.start_span("the handler's")))

    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="h", handle=handle)])) as tree:
        instrument(tree, PROVIDER)
        send(tree.ref("p/h"))
        settle(tree)
    return seen


def test_each_tell_has_the_span_that_is_current_where_it_is_sent() -> None:
    ids: list[int] = []

    def send(ref: Any) -> None:
        ref.tell(1)
        with USER.start_as_current_span("outer") as outer:
            ref.tell(2)
            with USER.start_as_current_span("inner") as inner:
                ref.tell(3)
                ref.tell(4)
            ref.tell(5)
        ref.tell(6)
        first, second = (each.get_span_context().span_id for each in (outer, inner))
        ids.extend([0, first, second, second, first, 0])

    assert spans_seen(send) == ids


def test_a_context_of_opentelemetry_that_raises_is_told_once_and_costs_no_message(monkeypatch: Any) -> None:
    handled, told = [], []
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="h", handle=handled.append)])) as tree:
        instrument(tree, PROVIDER)
        tree.subscribe(told.append)

        def broken() -> Any:
            raise RuntimeError("no context")

        with monkeypatch.context() as patch:
            patch.setattr(context, "get_current", broken)
            for number in range(3):
                tree.ref("p/h").tell(number)
        settle(tree)

    assert handled == [0, 1, 2]
    assert [str(each.error) for each in told if isinstance(each, CallbackRaised)] == ["no context"]
