"""How many crashes it takes, at most, until a root gives up: pure arithmetic on what is declared.

A supervisor bears ``max_restarts`` restarts within its period and gives up at the next one. That next one is a single
restart for the supervisor above, and the one that comes back has an empty window. So the limits of the levels above a
worker multiply: with the defaults (3) on two levels a worker crashes ``4 * 4 = 16`` times before the root gives up.
Waiting longer than ``period_s`` between crashes starts anew, of course. This module must never import anything.
"""

from __future__ import annotations

from collections.abc import Iterable


def crashes_to_give_up(max_restarts: int, shares: Iterable[int | None]) -> int | None:
    """Crashes of one worker until a supervisor gives up, from the ``share_of`` each child; None: it never does."""
    most = max((share for share in shares if share is not None), default=None)
    return None if most is None else (max_restarts + 1) * most


def share_of(restart: str, crashes: int | None, *, parks: bool, supervisor: bool) -> int | None:
    """Crashes below this child per restart that its supervisor counts; None: it never counts there.

    ``crashes``: how many crashes end the child, 1 for a worker. A temporary child is never restarted, one that parks
    has a limit of its own, and a supervisor that gives up ends clean, so only a permanent one is restarted.
    """
    if parks or restart == "temporary" or (supervisor and restart != "permanent"):
        return None
    return crashes
