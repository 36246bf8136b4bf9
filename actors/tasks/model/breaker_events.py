"""Events of the breakers of workers."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from actors.model.event_metadata import LOGGED_TIME, UNLOGGED
from actors.model.events import Event
from actors.model.record import record


@record(frozen=True, slots=True)
class BreakerChanged(Event):
    """The breaker of the worker at ``path`` has turned."""

    journalled: ClassVar[bool] = True

    at: float = field(metadata=UNLOGGED)
    state: str  # closed, open or half_open
    failures: tuple[float, ...] = field(metadata=UNLOGGED)  # when, within the window
    opened_at: float | None = field(metadata=LOGGED_TIME)


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
