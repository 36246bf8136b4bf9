"""Limits of the head of a request: its size, its time, and how many connections may wait for one."""

from __future__ import annotations

from typing import Final

HEAD_S: Final = 10.0
"""Seconds that a head may take."""
MOST_CONNECTIONS: Final = 200
"""Connections at a time; more are closed at once."""
MOST_HEAD: Final = 16 * 1024
"""Bytes of a head."""
