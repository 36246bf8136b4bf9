"""When an alert is told: decided here, pure, from whether its condition holds.

==============  =========================================  =====================================================
it was          the condition                              then
==============  =========================================  =====================================================
quiet           holds, for ``for_s``                       firing is told, unless something was within ``every_s``
told            holds                                      still firing is told every ``every_s``
told            does not hold                              resolved is told, at once, where that is wanted
quiet           does not hold                              nothing
==============  =========================================  =====================================================

So whoever is told of a firing is told once of its end, and a condition that comes and goes is told of at most once in
``every_s``, with its end.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Told: TypeAlias = Literal["firing", "still_firing", "resolved"]


class AlertState:
    """Where one alert stands."""

    __slots__ = ("_every_s", "_for_s", "_last", "_resolve", "firing_since", "is_told", "since")

    def __init__(self, for_s: float, every_s: float, *, resolve: bool) -> None:
        self._for_s, self._every_s, self._resolve = for_s, every_s, resolve
        self._last: float | None = None
        """When it was last told that it fires."""
        self.since: float | None = None
        """Since when the condition holds, in the clock of ``step``; None: it does not."""
        self.firing_since: float | None = None
        """``since``, once that is ``for_s`` ago: it fires, whether that was told yet or not; None: it does not."""
        self.is_told = False
        """True from a firing that was told to its end."""

    def step(self, now: float, *, holds: bool) -> Told | None:
        """Take a look; return what is to be told, None: nothing."""
        if not holds:
            self.since = self.firing_since = None
            was_told, self.is_told = self.is_told, False
            return "resolved" if was_told and self._resolve else None
        if self.since is None:
            self.since = now
        if now - self.since < self._for_s:
            return None
        self.firing_since = self.since
        if self._last is not None and now - self._last < self._every_s:
            return None
        was_told, self.is_told, self._last = self.is_told, True, now
        return "still_firing" if was_told else "firing"
