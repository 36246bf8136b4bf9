"""How long what is in ``trees`` waits in a test (``patience``)."""

from __future__ import annotations

from typing import Any

from tests.support.patience import PATIENT_S
from trees.ha import candidate
from trees.host import tree_health
from trees.host.console import server, session, stream

OF_TREES: list[tuple[Any, str, float]] = [
    (session, "PATIENCE_S", PATIENT_S),  # what a caller of a console has to say
    (server, "LEAVE_S", 20.0),
    (stream, "FAREWELL_S", 5.0),  # a caller that takes nothing more
    (tree_health, "WITHIN_S", 20.0),
    (candidate, "FIRST_ANSWER_S", PATIENT_S),
]
"""Seconds, by module and name."""
