"""Contexts of OpenTelemetry in variables, in the journal and on the way to a process; what a span says of an error."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
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


_HEADERS: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])


@dataclass(frozen=True, slots=True)
class SpanCrossing:
    """A span, or baggage alone, on its way to another process: as headers of the W3C."""

    headers: dict[str, str]

    def variables(self) -> contextvars.Context:
        """Make variables in which it is current."""
        return within(None, _HEADERS.extract(self.headers, otel.Context()))

    def tracer(self) -> TracerElsewhere:
        """Return what takes spans along from there on."""
        return TracerElsewhere()


class TracerElsewhere:
    """Maker of no spans, in the process of a worker: those that its code makes go along with what it asks and tells."""

    def carried(self) -> contextvars.Context | None:
        """Return the variable that a tell takes along: the current span; None: there is none."""
        here = otel.get_current()
        return within(None, here) if trace.get_current_span(here).get_span_context().is_valid else None

    def crossing(self, variables: contextvars.Context | None = None) -> SpanCrossing | None:
        """Return the span that is current in these variables, or here, as it crosses; None: there is none."""
        return crossing_of(variables)


def crossing_of(variables: contextvars.Context | None) -> SpanCrossing | None:
    """Return what is current in these variables, or here for None, as it crosses; None: nothing is."""
    context = otel.get_current() if variables is None else variables.run(otel.get_current)
    headers: dict[str, str] = {}
    if context:
        _HEADERS.inject(headers, context)
    return SpanCrossing(headers) if headers else None
