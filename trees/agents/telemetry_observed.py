"""Instruments that OpenTelemetry reads: gauges, and counters of the messages that were handled.

A meter keeps one instrument of a name, with the callbacks that it was first made with: those of a second tree are
dropped without a word, and none can be taken out. So the trees that share a meter provider share these instruments,
and their callbacks look at the trees that are instrumented now. What is counted of a tree stays when it ends: a counter
never falls.

Locking: one lock guards which trees there are, and what has ended. Nobody waits for a reply under it; it is
re-entrant, for a finalizer that looks in between, so what it guards is one tuple, which is replaced in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from actors.concurrency.look_lock import LookLock
from actors.model.weak_tables import WeakKeys
from trees.agents.telemetry_names import SCOPE
from trees.agents.tree_gauges import GAUGES, Combine, Value, combined
from trees.agents.tree_meter import HANDLING, HISTOGRAMS

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider

    from actors.runtime.system import System


class Handled(NamedTuple):
    """Messages that were handled, of one path."""

    number: float = 0.0
    total_s: float = 0.0

    def plus(self, other: Handled, sign: int = 1) -> Handled:
        """Return the sum, or with a sign of -1 the difference."""
        return Handled(self.number + sign * other.number, self.total_s + sign * other.total_s)


NONE: Final = Handled()


class _State(NamedTuple):
    """Trees and counts of one moment."""

    begun: dict[System, dict[str, Handled]]
    """Trees that are instrumented, each with what was handled before that."""
    past: dict[str, Handled]
    """Messages that were handled in those that are not any more."""


class ObservedTrees:
    """The trees that are read through one meter provider."""

    def __init__(self, meter: Meter) -> None:
        self._lock = LookLock()
        self._state: _State = _State({}, {})
        for name, (tells, look, combine) in GAUGES.items():
            meter.create_observable_gauge(name, [partial(self._gauge, look, combine)], description=tells)
        tells = HISTOGRAMS[HANDLING]  # a histogram would have to be told of each message
        name = f"regrow_{HANDLING}_seconds"
        meter.create_observable_counter(f"{name}_count", [partial(self._count, 0)], description=f"{tells}: how many")
        meter.create_observable_counter(
            f"{name}_sum", [partial(self._count, 1)], unit="s", description=f"{tells}: their sum"
        )

    def add(self, system: System) -> None:
        """Have a tree read from now on."""
        self._lock.look(partial(self._add, system))

    def remove(self, system: System) -> None:
        """Read a tree no more; what it has handled stays counted."""
        self._lock.look(partial(self._remove, system))

    def _add(self, system: System) -> None:
        """With the lock held."""
        begun = {system: _handled(system)}
        self._state = _State(begun | self._state.begun, self._state.past)

    def _remove(self, system: System) -> None:
        """With the lock held."""
        begun, past = self._state
        if system in begun:
            others = {each: handled for each, handled in begun.items() if each is not system}
            self._state = _State(others, _since(begun[system], system, past))

    def _gauge(self, look: Callable[[System], Iterable[Value]], combine: Combine, _: CallbackOptions) -> Any:
        found = combined(look, combine, [each for each in self._state.begun if not each.is_down])
        return [Observation(value, dict(labels)) for labels, value in found.items()]

    def _count(self, at: int, _: CallbackOptions) -> Any:
        return [Observation(found[at], {"path": path}) for path, found in self._lock.look(self._total).items()]

    def _total(self) -> dict[str, Handled]:
        """With the lock held: what was handled in all."""
        begun, total = self._state
        for system, before in begun.items():
            total = _since(before, system, total)
        return total


def _handled(system: System) -> dict[str, Handled]:
    return {path: Handled(sum(row[:-1]), row[-1]) for path, row in system.reports.measures.times().items()}


def _since(begun: dict[str, Handled], system: System, other: dict[str, Handled]) -> dict[str, Handled]:
    """Return what a tree has handled since, and others."""
    total = other.copy()
    for path, found in _handled(system).items():
        total[path] = total.get(path, NONE).plus(found.plus(begun.get(path, NONE), -1))
    return total


_OBSERVED: Final[WeakKeys[Any, ObservedTrees]] = WeakKeys()
"""By meter provider."""
_MAKING: Final = LookLock()
"""Guards that each provider has its instruments once. Nothing else is held meanwhile but the provider's own locks."""


class _GlobalProvider:
    """Stands for the global provider, whose object changes once, when the program sets it: its instruments stay."""


_GLOBAL: Final = _GlobalProvider()


def observed_trees(provider: MeterProvider | None) -> ObservedTrees:
    """Return the trees that are read through a provider; None: the global one."""
    is_global = provider is None or provider is metrics.get_meter_provider()
    return _MAKING.look(partial(_find_or_make, _GLOBAL if is_global else provider, provider))


def _find_or_make(key: object, provider: MeterProvider | None) -> ObservedTrees:
    """With the lock held."""
    found = _OBSERVED.get(key)
    if found is None:
        made = ObservedTrees(metrics.get_meter(SCOPE, meter_provider=provider))
        found = _OBSERVED.first(key, made)
    return found
