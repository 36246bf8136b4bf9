"""Spans of OpenTelemetry that cross to the process of a worker, and back: as headers of the W3C, with the baggage."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import Final

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from trees.agents.telemetry_context import within

_HEADERS: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])


@dataclass(frozen=True, slots=True)
class SpanCrossing:
    """A span, or baggage alone, on its way to another process."""

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
