"""The restart window: pure, the time is passed in.

The rule is Erlang's (SEMANTICS.md 10): at each restart attempt keep the times ``t`` with
``t >= now - period_s``, add ``now``; more than ``max_restarts`` of them is too much. Full clock resolution, not
whole seconds; a restart exactly ``period_s`` old still counts.
"""

from __future__ import annotations

from collections import deque

from actors.model.spec import RestartLimit


class RestartWindow:
    """Counts restart attempts against one ``RestartLimit``."""

    __slots__ = ("_times", "limit")

    def __init__(self, limit: RestartLimit) -> None:
        self.limit = limit
        self._times: deque[float] = deque()

    def admit(self, now: float) -> bool:
        """Count one attempt at ``now``; False when it is one too many."""
        self._forget(now)
        self._times.append(now)
        return len(self._times) <= self.limit.max_restarts

    def count(self, now: float) -> int:
        """How many attempts still count at ``now``. Changes nothing: safe to call from any thread."""
        oldest = now - self.limit.period_s
        return sum(1 for at in tuple(self._times) if at >= oldest)

    @property
    def admitted(self) -> int:
        """How many attempts counted at the last ``admit``, that one included; costs nothing, however many they are."""
        return len(self._times)

    def _forget(self, now: float) -> None:
        oldest = now - self.limit.period_s
        while self._times and self._times[0] < oldest:
            self._times.popleft()
