"""The circuit breaker of one worker: pure, the time is passed in, and no lock is held while an attempt runs.

Comes in: that an attempt starts, and how it ended. Goes out: whether the next one is admitted. Three states: closed
(work is admitted), open (none is, until the cooldown is over), half_open (one attempt at a time is let through: the
probe). The one who starts an attempt keeps its token until its end, so that a late end from before a trip is told
apart from the end of the probe. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

from actors.tasks.policy import Breaker

BreakerState: TypeAlias = Literal["closed", "open", "half_open"]

_STRAY = 0
"""The token of an attempt that was not admitted: its end changes nothing."""


class CircuitBreaker:
    """Decides whether a worker gets work, after a ``Breaker``. Times are seconds of any one clock that goes forward."""

    __slots__ = ("_generation", "_probing", "failures", "opened_at", "policy", "state")

    def __init__(self, policy: Breaker) -> None:
        self.policy = policy
        self.state: BreakerState = "closed"
        self.failures: tuple[float, ...] = ()
        """When, the oldest first; never more than ``failure_threshold``. Those outside the window go at the next."""
        self.opened_at: float | None = None
        """When it opened for the last time; None while it is closed."""
        self._generation = _STRAY + 1
        self._probing = False

    def admits(self, now: float) -> bool:
        """Whether an attempt may start at ``now``. Changes nothing."""
        if self.state == "closed":
            return True
        return not self._probing and now >= self._due()

    def begin(self, now: float) -> int:
        """Start an attempt, and give the token that its end needs.

        Where the breaker is not closed and admits, the attempt is the probe and the state half_open. Where it does not
        admit, the attempt counts for nothing, however it ends.
        """
        if not self.admits(now):
            return _STRAY
        if self.state != "closed":
            self.state = "half_open"
            self._probing = True
        return self._generation

    def succeeded(self, token: int, now: float) -> bool:  # noqa: ARG002 - the three ends are told in the same way
        """End an attempt well; True when state or failures changed. A probe closes the breaker, failures forgotten.

        While it is closed a success forgets no failure: only the window does.
        """
        if token != self._generation or not self._probing:
            return False
        self._turn("closed", None)
        self.failures = ()
        return True

    def failed(self, token: int, now: float) -> bool:
        """End an attempt with a failure that counts; True when state or failures changed.

        One failure too many opens the breaker, and so does that of a probe: each time for a whole cooldown.
        """
        if token != self._generation:
            return False
        most = self.policy.failure_threshold
        oldest = now - self.policy.window_s
        self.failures = (*(at for at in self.failures if at >= oldest), now)[-most:]
        if self._probing or len(self.failures) == most:
            self._turn("open", now)
        return True

    def neutral(self, token: int, now: float) -> bool:  # noqa: ARG002 - the three ends are told in the same way
        """End an attempt that says nothing of the worker: cancelled, preempted. False: no state and no failure changes.

        A probe is given back: the next attempt is admitted at once.
        """
        if token == self._generation and self._probing:
            self._turn("half_open", self.opened_at)
        return False

    def retry_in_s(self, now: float) -> float:
        """Seconds until the next attempt could be admitted; 0.0 when it would be now.

        Waiting exactly so long is enough. While a probe is under way, the whole cooldown: the wait if it fails now.
        """
        if self.admits(now):
            return 0.0
        if self._probing:
            return self.policy.cooldown_s
        due = self._due()
        wait = due - now
        while now + wait < due:
            wait = math.nextafter(wait, math.inf)
        return wait

    def restore(self, state: str, failures: Iterable[float], opened_at: float | None) -> None:
        """Go on from what a ``BreakerChanged`` kept. A probe that was under way is given back; no old token counts.

        Raises ``ValueError`` for a state that there is not.
        """
        known = {each: each for each in get_args(BreakerState)}
        if state not in known:
            raise ValueError(f"{state!r} is no state of a breaker. Use one of {', '.join(known)}.")
        self._turn(known[state], None if state == "closed" else opened_at)
        self.failures = tuple(sorted(failures))[-self.policy.failure_threshold :]

    def _due(self) -> float:
        """When the cooldown is over. In half_open it is; an unknown moment is long ago."""
        if self.state == "half_open" or self.opened_at is None:
            return -math.inf
        return self.opened_at + self.policy.cooldown_s

    def _turn(self, state: BreakerState, opened_at: float | None) -> None:
        """Enter a state with no probe under way; from here on no older token counts."""
        self.state = state
        self.opened_at = opened_at
        self._probing = False
        self._generation += 1
