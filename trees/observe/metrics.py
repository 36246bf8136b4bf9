"""Metrics of trees for Prometheus: ``metrics(tree)``, with the names of ``trees.agents.tree_meter``.

Events are counted in plain tables. What Prometheus needs is made of them when it asks. Gauges are looked up then, in
the thread that asks: no worker and no supervisor is asked anything.

Locking: a tree's events come on one thread, so each table has one writer. Whoever asks copies a table in one step of C.
One lock, of the collector, guards which trees there are; it is re-entrant, for a finalizer that asks in between, and
each step under it is one of C. Nobody waits for a reply under it: a worker that is asked may be asking for metrics.

Several trees of a process share the collector of a registry. What a tree has counted is kept when it is down: the
counters of a process never fall.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.concurrency.look_lock import LookLock
from actors.messaging.handled import BOUNDS
from actors.model.weak_tables import WeakKeys
from actors.runtime.handle import Handle, system_of
from trees.agents.packages import Package, require
from trees.agents.tree_gauges import GAUGES, combined
from trees.agents.tree_meter import COUNTERS, HANDLING, HISTOGRAMS, UNLABELLED, TreeMeter

if TYPE_CHECKING:
    from actors.runtime.system import System
    from trees.agents.tree_meter import Add, Labels

PROMETHEUS: Final[Package] = ("prometheus-client", "metrics", "0.20")
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Upper bounds of the buckets of histograms, in seconds: an attempt may be a call, or an hour of an agent."""


class Registry(Protocol):
    """``prometheus_client.CollectorRegistry``."""

    def register(self, collector: Any) -> None:
        """Ask this collector at each scrape."""


def metrics(tree: Handle, registry: Registry | None = None) -> Registry:
    """Have Prometheus see a tree: counters from now on, gauges at each scrape. Twice is as once.

    Args:
        tree: what ``start`` has returned.
        registry: of ``prometheus_client``; None: its default one, which ``start_http_server`` and frameworks show.

    Returns:
        The registry.

    Raises:
        ConfigError: the extra ``metrics`` is not installed, or too old.
    """
    require(*PROMETHEUS)
    import prometheus_client  # noqa: PLC0415 - needs the extra

    into: Any = prometheus_client.REGISTRY if registry is None else registry
    _collector_of(into).watch(system_of(tree))
    return into  # type: ignore[no-any-return]


def text_of(collector: TreeCollector) -> str:
    """Return what Prometheus would read of one collector.

    Raises:
        ConfigError: the extra ``metrics`` is not installed, or too old.
    """
    require(*PROMETHEUS)
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - needs the extra

    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


class _Amount:
    """Value of one series of a counter."""

    __slots__ = ("so_far",)

    def __init__(self) -> None:
        self.so_far = 0.0

    def add(self, amount: float) -> None:
        """Add to it."""
        self.so_far += amount


class _Tables:
    """Counters and histograms, as far as they were counted."""

    def __init__(self) -> None:
        self.counters: dict[str, dict[Labels, _Amount]] = {name: {} for name in COUNTERS}
        self.histograms: dict[str, dict[Labels, list[float]]] = {name: {} for name in HISTOGRAMS}
        """For each series: how many are in each bucket, those beyond all of them, and the sum."""

    def add(self, other: _Tables) -> None:
        """Add what others have counted."""
        for name, table in other.counters.items():
            mine = self.counters[name]
            for key, amount in table.copy().items():
                mine.setdefault(key, _Amount()).add(amount.so_far)
        for name, rows in other.histograms.items():
            _add_rows(self.histograms[name], rows)


class _TreeTables(_Tables):
    """Tables of one tree."""

    def __init__(self, system: System) -> None:
        super().__init__()
        self.system = system
        self.meter = TreeMeter(system, self, attempts=True)

    def end(self) -> None:
        """Count nothing of its store any more."""
        self.meter.end()

    def look(self) -> None:
        """Look at what was measured of messages."""
        self.histograms[HANDLING] = {
            (("path", path),): row for path, row in self.system.reports.measures.times().items()
        }

    def counter(self, name: str, labels: Labels) -> Add:
        """Return what adds to a series of a counter."""
        return self.counters[name].setdefault(labels, _Amount()).add

    def histogram(self, name: str, labels: Labels) -> Add:
        """Return what adds to a series of a histogram."""
        return partial(_measure, self.histograms[name].setdefault(labels, [0.0] * (len(BUCKETS) + 2)))


class TreeCollector:
    """Collector of ``prometheus_client``: what some trees have counted, and how they stand."""

    def __init__(self) -> None:
        self._lock = LookLock()
        self._trees: dict[System, _TreeTables] = {}
        self._past = _Tables()
        """Counts of trees that are down."""

    def watch(self, system: System) -> None:
        """Count what happens in a tree from now on."""
        tables = self._lock.look(partial(self._add, system))
        if tables is not None:
            system.bus.subscribe(tables.meter.hear, lasting=True, ours=True, wants=tables.meter.wants)

    def _add(self, system: System) -> _TreeTables | None:
        """With the lock held: the tables of a tree that is counted from now on; None: it is already."""
        self._forget_ended()
        tables = None if system in self._trees else _TreeTables(system)
        if tables is None or self._trees.setdefault(system, tables) is tables:
            return tables
        tables.end()  # another one was made in between
        return None

    def describe(self) -> list[Any]:
        """Return nothing: names are known once somebody asks."""
        return []

    def collect(self) -> Iterator[Any]:
        """Return all metrics, as Prometheus wants them."""
        total = _Tables()
        trees = self._lock.look(partial(self._begin, total))
        for each in trees:
            each.look()
            total.add(each)
        yield from _counters(total)
        yield from _histograms(total)
        yield from _gauges([each.system for each in trees if not each.system.is_down])

    def _begin(self, total: _Tables) -> list[_TreeTables]:
        """With the lock held: add what trees have counted that have ended; those that have not."""
        self._forget_ended()
        total.add(self._past)
        return list(self._trees.copy().values())

    def _forget_ended(self) -> None:
        """Keep the counts of trees that have ended, and nothing else of them.

        One that is down goes on to count: there may be much to answer yet. With its end all of that has been told.
        """
        for each in self._trees.copy().values():
            if each.system.ended.done and self._trees.pop(each.system, None) is not None:
                each.look()
                self._past.add(each)


def _counters(total: _Tables) -> Iterator[Any]:
    from prometheus_client import core  # noqa: PLC0415 - needs the extra

    for name, tells in COUNTERS.items():
        found = core.CounterMetricFamily(f"regrow_{name}", tells)
        zero: dict[Labels, _Amount] = {(): _Amount()} if name in UNLABELLED else {}
        for key, amount in (zero | total.counters[name]).items():
            found.add_sample(f"regrow_{name}_total", dict(key), amount.so_far)
        yield found


def _histograms(total: _Tables) -> Iterator[Any]:
    from prometheus_client import core  # noqa: PLC0415 - needs the extra

    for name, tells in HISTOGRAMS.items():
        found = core.HistogramMetricFamily(f"regrow_{name}_seconds", tells)
        for key, row in total.histograms[name].items():
            _add_histogram(found, f"regrow_{name}_seconds", dict(key), row, BOUNDS if name == HANDLING else BUCKETS)
        yield found


def _gauges(systems: list[System]) -> Iterator[Any]:
    from prometheus_client import core  # noqa: PLC0415 - needs the extra

    for name, (tells, look, combine) in GAUGES.items():
        found = core.GaugeMetricFamily(name, tells)
        for key, value in combined(look, combine, systems).items():
            found.add_sample(name, dict(key), value)
        yield found


def _measure(row: list[float], seconds: float) -> None:
    row[bisect_left(BUCKETS, seconds)] += 1
    row[-1] += seconds


def _add_rows(to: dict[Labels, list[float]], rows: dict[Labels, list[float]]) -> None:
    for key, row in rows.copy().items():
        mine = to.setdefault(key, [0.0] * len(row))
        for at, amount in enumerate(list(row)):
            mine[at] += amount


def _add_histogram(
    family: Any, name: str, labels: dict[str, str], row: Iterable[float], bounds: Iterable[float]
) -> None:
    """Add the samples of one series: Prometheus counts each bucket with those below it."""
    *buckets, total_s = row
    so_far = 0.0
    for bound, amount in zip((*bounds, float("inf")), buckets, strict=True):
        so_far += amount
        family.add_sample(f"{name}_bucket", {**labels, "le": "+Inf" if bound == float("inf") else str(bound)}, so_far)
    family.add_sample(f"{name}_count", labels, so_far)
    family.add_sample(f"{name}_sum", labels, total_s)


_COLLECTORS: Final[WeakKeys[Any, TreeCollector]] = WeakKeys()
_MAKING: Final = LookLock()
"""Guards that each registry has one collector, also where one is made in between, by a finalizer on the same thread.
Nothing else is held meanwhile but the registry's own lock."""


def _collector_of(registry: Any) -> TreeCollector:
    return _MAKING.look(partial(_find_or_make, registry))


def _find_or_make(registry: Any) -> TreeCollector:
    found = _COLLECTORS.get(registry)
    if found is None:
        made = TreeCollector()
        found = _COLLECTORS.first(registry, made)  # another one may have been made in between, on this thread
        if found is made:
            registry.register(made)
    return found
