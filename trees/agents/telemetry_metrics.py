"""Metrics of a tree for OpenTelemetry: the table of ``trees.agents.tree_meter``, told to a meter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from opentelemetry import metrics

from trees.agents.telemetry_names import SCOPE
from trees.agents.telemetry_observed import observed_trees
from trees.agents.tree_meter import COUNTERS, HANDLING, HISTOGRAMS, UNLABELLED, Add, Labels, TreeMeter

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from actors.runtime.system import System


class TreeMetrics:
    """Metrics of one tree. ``hear`` runs on one thread; ``attempt_ended`` on any."""

    def __init__(self, system: System, provider: MeterProvider | None) -> None:
        self._system = system
        meter = metrics.get_meter(SCOPE, meter_provider=provider)
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
        meter_of_tree = TreeMeter(system, self, attempts=False)
        self.hear, self._end_meter = meter_of_tree.hear, meter_of_tree.end
        self._observed = observed_trees(provider)
        self._observed.add(system)

    def end(self) -> None:
        """Tell no more of the tree."""
        self._end_meter()
        self._observed.remove(self._system)

    def counter(self, name: str, labels: Labels) -> Add:
        """Return what adds to a series of a counter."""
        return partial(self._counters[name].add, attributes=dict(labels))

    def histogram(self, name: str, labels: Labels) -> Add:
        """Return what adds to a series of a histogram."""
        return partial(self._histograms[name].record, attributes=dict(labels))

    def attempt_ended(self, worker: str, status: str, seconds: float) -> None:
        """Measure an attempt."""
        label = self._system.reports.measures.worker_label(worker)
        self.histogram("attempt", (("worker", label), ("status", status)))(seconds)
