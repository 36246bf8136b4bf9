"""Bounds of work on a machine that does other things as well."""

from __future__ import annotations

import os


def beside_others(seconds: float) -> float:
    """Return how long work may take that takes so many seconds on an idle machine: each core serves many in turn."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
