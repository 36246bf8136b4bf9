"""Events of the breakers of workers: records that a store keeps beside the journals of tasks."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from actors.model.event_metadata import LOGGED_TIME, UNLOGGED
from actors.model.events import Event
from actors.model.record import record


@record(frozen=True, slots=True)
class BreakerChanged(Event):
    """Count of the breaker of the worker at ``path``. Kept, so that a new orchestrator goes on from here."""

    journalled: ClassVar[bool] = True

    at: float = field(metadata=UNLOGGED)
    state: str  # closed, open or half_open
    failures: tuple[float, ...] = field(metadata=UNLOGGED)  # when, within the window
    opened_at: float | None = field(metadata=LOGGED_TIME)
    ended: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    """Ends of attempts within the window, in slices of it: since when, how many, how many of them failed."""


@record(frozen=True, slots=True)
class BreakerOpened(BreakerChanged):
    """A worker failed too often: it gets no work until its cooldown is over."""

    level: ClassVar[str] = "WARNING"


@record(frozen=True, slots=True)
class BreakerHalfOpened(BreakerChanged):
    """One probe is let through."""


@record(frozen=True, slots=True)
class BreakerClosed(BreakerChanged):
    """The worker works again."""
