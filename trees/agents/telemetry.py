"""Traces and metrics of a tree for OpenTelemetry: ``instrument(tree)``. The extra ``otel`` installs what it needs.

Nothing of OpenTelemetry is imported before it is called, and nothing of this costs a tree that is not instrumented.
The names of attributes are those of the GenAI conventions, written out here: they have moved between packages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Protocol

from pydantic import PlainValidator

from actors.model.errors import ConfigError, Problem
from actors.model.events import Event
from actors.runtime.handle import Handle, system_of
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import type_phrase, validation_error
from trees.agents import packages

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

FLUSH_S: Final = 1.0
"""Seconds that the end of it waits for what has happened and was not told yet."""


def _provider(made: str, method: str) -> PlainValidator:
    def checked(value: object) -> object:
        if value is None or callable(getattr(value, method, None)):
            return value
        hint = f"Give a {made} of OpenTelemetry, or leave it out for the global one."
        raise validation_error(f"expected a {made}, got {type_phrase(value)}", hint)

    return PlainValidator(checked)


class _Options(SpecModel, frozen=True):
    _called: ClassVar[str] = "instrument(...)"
    tracer_provider: Annotated[Any, _provider("TracerProvider", "get_tracer")]
    meter_provider: Annotated[Any, _provider("MeterProvider", "get_meter")]
    content: bool


class InstrumentedTree(Handle, Protocol):
    """A running tree, as a ``trees.Tree`` is one."""

    def subscribe(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        """Have a callback called for each event."""


class Instrumentation:
    """Traces and metrics of one tree, until ``stop`` or the end of the tree."""

    def __init__(self, tree: InstrumentedTree, spans: Any, metrics: Any) -> None:
        self._system = system_of(tree)
        self._spans = spans
        self._metrics = metrics
        self._unsubscribe = [tree.subscribe(self._hear), metrics.end]
        self._system.tracer = spans
        self._system.before_end(self.stop)

    def _hear(self, event: Event) -> None:
        self._spans.hear(event)
        self._metrics.hear(event)

    def stop(self) -> None:
        """End it: spans that are open are ended as they stand, and no more are made. A second time it does nothing."""
        unsubscribe, self._unsubscribe = self._unsubscribe, []
        if unsubscribe:
            self._system.bus.flush(FLUSH_S)
            self._system.tracer = None
            for each in unsubscribe:
                each()
            self._spans.close()


def instrument(
    tree: InstrumentedTree,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool = False,
) -> Instrumentation:
    """Make spans and metrics of what happens in a running tree.

    A span of an attempt is current in the worker's code, and goes along with what that asks, tells and delegates: so
    the spans of an agent's framework stand below the attempt. See ``trees/agents/README.md`` for all names.

    Args:
        tree: a running tree.
        tracer_provider: None: the global one of OpenTelemetry.
        meter_provider: None: the global one.
        content: also goals, instructions, results and the texts of errors, which may be private.

    Returns:
        An object whose ``stop()`` ends it; the end of the tree ends it, too.

    Raises:
        ConfigError: OpenTelemetry is not installed, or too old; a wrong argument; or the tree is instrumented already.
    """
    _Options(tracer_provider=tracer_provider, meter_provider=meter_provider, content=content)
    packages.require(*packages.OPENTELEMETRY)
    system = system_of(tree)
    if system.tracer is not None:
        hint = "Call stop() of the one that there is first."
        raise ConfigError((Problem("instrument", f"{system.root_path} is instrumented already", hint),))
    from trees.agents.telemetry_metrics import TreeMetrics  # noqa: PLC0415 - loads OpenTelemetry
    from trees.agents.telemetry_spans import TreeSpans  # noqa: PLC0415 - loads OpenTelemetry

    metrics = TreeMetrics(system, meter_provider)
    return Instrumentation(tree, TreeSpans(system, tracer_provider, metrics, content=content), metrics)
