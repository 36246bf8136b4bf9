"""Contexts of OpenTelemetry in the variables of a message and in the journal, and what a span says of an error."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Final

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from trees.agents import telemetry_names as names

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span

HEADER: Final = "traceparent"
"""Name of a trace in a header of the W3C (https://www.w3.org/TR/trace-context/), and in the journal."""


def within(variables: contextvars.Context | None, context: otel.Context) -> contextvars.Context:
    """Make a copy of contextvars in which this is the current context of OpenTelemetry."""
    copy = variables.copy() if variables is not None else contextvars.Context()
    copy.run(otel.attach, context)
    return copy


def otel_context(span: Span, around: otel.Context) -> otel.Context:
    """Make the context in which a span is the current one."""
    return trace.set_span_in_context(span, around)


def set_error(span: Span, type_: str, text: str) -> None:
    """Mark a span as failed; with a text only where content is wanted."""
    span.set_attribute(names.ERROR_TYPE, type_)
    span.set_status(trace.Status(trace.StatusCode.ERROR, text or None))


def name_of(context: otel.Context) -> str:
    """Name of the trace that is current in a context; empty: there is none."""
    header: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(header, context)
    return header.get(HEADER, "")


def links_to(traceparent: str) -> list[Link]:
    """Return a link to the trace of the process that had the task before."""
    if not traceparent:
        return []
    context = TraceContextTextMapPropagator().extract({HEADER: traceparent}, otel.Context())
    before = trace.get_current_span(context).get_span_context()
    return [trace.Link(before)] if before.is_valid else []


def nanoseconds(at: float) -> int:
    """Time of an event, as OpenTelemetry has it."""
    return int(at * 1e9)
