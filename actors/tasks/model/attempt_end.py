"""How an attempt is ended by others: the reasons that are words of the runtime or of a process, and its error then."""

from __future__ import annotations

from typing import Final

from actors.messaging.envelope import STOP
from actors.model.errors import Failed

LOST: Final = "lost"
"""``ended_by``: its process ended with it once too often."""


class AttemptEnded(Failed):
    """Error of an attempt that was ended by others."""


__all__ = ["LOST", "STOP", "AttemptEnded"]
