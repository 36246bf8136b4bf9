"""Events of workers that are taken to be hung."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from actors.model.event_metadata import SECONDS
from actors.model.events import Event
from actors.model.record import record


@record(frozen=True, slots=True)
class ChildStalled(Event):
    """A worker has given no sign of life for too long. It is ended next: its ``ChildExited`` has a ``StalledError``."""

    level: ClassVar[str] = "WARNING"
    advice: ClassVar[str] = "In long code call actors.heartbeat(), or raise stall_s."
    silent_s: float = field(metadata=SECONDS)
