"""Events of what runs in a worker: lines that a command writes, and signs of life that do not come."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from actors.model.event_metadata import MEASURED, SECONDS, UNLOGGED
from actors.model.events import Event
from actors.model.record import record


@record
class CommandOutput(Event):
    """A command has written a line."""

    level = "DEBUG"
    bulk = "line"
    at: float = field(metadata=UNLOGGED)
    """When, in seconds since 1970 by the tree's clock."""
    stream: Literal["stdout", "stderr"]
    line: str
    """Text without its end, cut at 8 KiB; what is no UTF-8 is replaced."""


@record
class CommandOutputLost(Event):
    """A command writes faster than lines are passed on: so many since the last such event stand in none."""

    level = "DEBUG"
    count: int = field(metadata={MEASURED: "lines"})


@record
class ChildStalled(Event):
    """A worker has given no sign of life for too long. It is ended next: its ``ChildExited`` has a ``StalledError``."""

    level = "WARNING"
    advice = "In long code call actors.heartbeat(), or raise stall_s."
    silent_s: float = field(metadata=SECONDS)
