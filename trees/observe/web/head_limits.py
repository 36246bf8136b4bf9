"""Limits of a connection: size and time of the head of a request, time of an answer, and how many there may be."""

from __future__ import annotations

from typing import Final

HEAD_S: Final = 10.0
"""Seconds that a head may take."""
MOST_CONNECTIONS: Final = 200
"""Connections at a time; more are closed at once."""
MOST_HEAD: Final = 16 * 1024
"""Bytes of a head."""
TAKE_S: Final = 30.0
"""Seconds between two looks at how much of an answer was taken."""
LEAST_TAKEN: Final = 64 * 1024
"""Bytes of an answer, or all that is left, that must have been taken since the last look."""
