"""Workers for processes that tell which span is current in their code, and make one of their own."""

from __future__ import annotations

from typing import Any

from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import TracerProvider

import actors

Names = tuple[int, int]
"""Numbers of a trace and of a span in it; zeros: there is none."""


def span_here(_: object = None) -> Names:
    """The span that is current."""
    here = trace.get_current_span().get_span_context()
    return here.trace_id, here.span_id


def baggage_here(key: str) -> object:
    """What goes along with it under a key."""
    return baggage.get_baggage(key)


def asks_in_a_span(message: tuple[str, str]) -> tuple[Names, Any]:
    """Ask, or tell, another worker in a span of this process."""
    how, path = message
    with TracerProvider().get_tracer("there").start_as_current_span("there"):
        ref = actors.ref(path)
        return span_here(), ref.tell(1) if how == "tell" else ref.ask(1, timeout=60.0)


async def delegates_in_a_span(_: Any, context: Any) -> tuple[Names, Names, Any]:
    """Have another worker do something, in a span of this process."""
    outer = span_here()
    with TracerProvider().get_tracer("there").start_as_current_span("there"):
        return outer, span_here(), await context.ask("helper", "tell your span")
