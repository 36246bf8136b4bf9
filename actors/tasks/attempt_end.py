"""How an attempt is ended by others: the reasons that are words of the runtime or of a process, and its error then."""

from __future__ import annotations

from typing import Final

from actors.errors import Failed
from actors.messages import STOP

LOST: Final = "lost"
"""``ended_by``: its process ended with it once too often."""


class AttemptEnded(Failed):
    """What an attempt that was ended by others fails with; never seen by users' code."""


__all__ = ["LOST", "STOP", "AttemptEnded"]
