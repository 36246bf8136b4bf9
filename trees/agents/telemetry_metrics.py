"""Metrics of a tree for OpenTelemetry: the table of ``trees.agents.tree_meter``, told to a meter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from trees.agents.tree_meter import COUNTERS, GAUGES, HANDLING, HISTOGRAMS, UNLABELLED, TreeMeter

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider

    from actors.runtime.system import System
    from trees.agents.tree_meter import Labels, Value


class TreeMetrics:
    """Metrics of one tree. ``hear`` runs on one thread; ``attempt_ended`` on any."""

    def __init__(self, system: System, provider: MeterProvider | None) -> None:
        self._system = system
        meter = metrics.get_meter("regrow", meter_provider=provider)
        self._counters = {
            name: meter.create_counter(f"regrow_{name}_total", description=tells) for name, tells in COUNTERS.items()
        }
        for name in UNLABELLED:
            self._counters[name].add(0)
        self._histograms = {
            name: meter.create_histogram(f"regrow_{name}_seconds", unit="s", description=tells)
            for name, tells in HISTOGRAMS.items()
            if name != HANDLING
        }
        self._create_handling(meter)
        for name, (tells, look, _) in GAUGES.items():
            meter.create_observable_gauge(name, [self._observed(look)], description=tells)
        meter_of_tree = TreeMeter(system, self, attempts=False)
        self.hear, self.end = meter_of_tree.hear, meter_of_tree.end

    def _create_handling(self, meter: Meter) -> None:
        """Create counters of messages and of their seconds: a histogram would have to be told of each message."""

        def observed(part: Callable[[list[float]], float]) -> Callable[[CallbackOptions], list[Observation]]:
            return lambda _: [
                Observation(part(row), {"path": path}) for path, row in self._system.reports.measures.times().items()
            ]

        tells = HISTOGRAMS[HANDLING]
        meter.create_observable_counter(
            "regrow_handling_seconds_count", [observed(lambda row: sum(row[:-1]))], description=f"{tells}: how many"
        )
        meter.create_observable_counter(
            "regrow_handling_seconds_sum", [observed(lambda row: row[-1])], unit="s", description=f"{tells}: their sum"
        )

    def count(self, name: str, amount: float, labels: Labels) -> None:
        """Add to a counter."""
        self._counters[name].add(amount, dict(labels))

    def measure(self, name: str, seconds: float, labels: Labels) -> None:
        """Add to a histogram."""
        self._histograms[name].record(seconds, dict(labels))

    def attempt_ended(self, worker: str, status: str, seconds: float) -> None:
        """Measure an attempt."""
        label = self._system.reports.measures.worker_label(worker)
        self.measure("attempt", seconds, (("worker", label), ("status", status)))

    def _observed(self, look: Callable[[System], Iterable[Value]]) -> Callable[[CallbackOptions], list[Observation]]:
        return lambda _: [Observation(value, labels) for labels, value in look(self._system)]
