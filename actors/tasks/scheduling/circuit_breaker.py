"""The circuit breaker of one worker: pure, the time is passed in, and no lock is held while an attempt runs.

Comes in: that an attempt starts, and how it ended. Goes out: whether the next one is admitted. Three states: closed
(work is admitted), open (none is, until the cooldown is over), half_open (one attempt at a time is let through: the
probe). It opens on a number of failures within the window that is also a share of what ended there: bad input is not a
bad worker. What is tried again with the same worker is told as ``neutral``. The attempts of one subtask count once, so
whoever tells an end also says when that subtask's last failure was counted. The one who starts an attempt keeps its
token until its end, so that a late end from before a trip is told apart from the end of the probe. This module must
never import threads, a clock or Pykka.
"""

from __future__ import annotations

import math
from collections import deque

from actors.tasks.model.executable import BreakerState
from actors.tasks.model.policy import Breaker

_MOST_ENDED = 1_000
"""The newest ends that are looked at, beside as many as may be failures."""
_UNKNOWN_START = 0
"""The token of an attempt that was not admitted: its end changes nothing."""


class CircuitBreaker:
    """Decides whether a worker gets work, after a ``Breaker``. Times are seconds of any one clock that goes forward."""

    __slots__ = ("_closed_at", "_generation", "_probing", "ended", "failures", "opened_at", "policy", "state")

    def __init__(self, policy: Breaker) -> None:
        self.policy = policy
        self.state: BreakerState = "closed"
        self.failures: tuple[float, ...] = ()
        """When, the oldest first; never more than ``failure_threshold``. Those outside the window go at the next."""
        self.ended: deque[tuple[float, bool]] = deque(maxlen=_MOST_ENDED + policy.failure_threshold)
        """The newest ends of subtasks: when, and whether with a failure."""
        self.opened_at: float | None = None
        """When it opened for the last time; None while it is closed."""
        self._generation = _UNKNOWN_START + 1
        self._probing = False
        self._closed_at = -math.inf
        """When it was closed for the last time: failures before that are forgotten."""

    def admits(self, now: float) -> bool:
        """Return True where an attempt may start at ``now``. Changes nothing."""
        if self.state == "closed":
            return True
        return not self._probing and now >= self._due()

    @property
    def probe(self) -> int | None:
        """Token of the probe that is under way: nothing is admitted before its end. None: there is none."""
        return self._generation if self._probing else None

    def begin(self, now: float) -> int:
        """Start an attempt, and give the token that its end needs.

        Where the breaker is not closed and admits, the attempt is the probe and the state half_open. Where it does not
        admit, the attempt counts for nothing, however it ends.
        """
        if self.state != "closed":
            if not self.admits(now):
                return _UNKNOWN_START
            self.state = "half_open"
            self._probing = True
        return self._generation

    def succeeded(self, token: int, now: float, counted: float | None = None) -> None:
        """End an attempt well. A probe closes the breaker, failures forgotten.

        While it is closed a success forgets no failure: only the window does.

        Args:
            token: what ``begin`` gave.
            now: the time.
            counted: when the last failure of the same subtask was counted; None: none was.
        """
        if token != self._generation:
            return
        if self._probing:
            self._turn("closed", None)
            self._closed_at, self.failures = now, ()
            self.ended.clear()
        elif counted is None or not self._has_counted(counted, now):
            self.ended.append((now, False))

    def failed(self, token: int, now: float, counted: float | None = None) -> bool:
        """End an attempt with a failure that counts; False if it is of before the breaker turned, or counted already.

        One failure too many opens the breaker, and so does that of a probe: each time for a whole cooldown. The
        arguments are those of ``succeeded``.
        """
        if token != self._generation or (counted is not None and not self._probing and self._has_counted(counted, now)):
            return False
        self.ended.append((now, True))
        oldest, most = now - self.policy.window_s, self.policy.failure_threshold
        ended = [failed for at, failed in self.ended if at >= oldest]
        self.failures = tuple(at for at, failed in self.ended if failed and at >= oldest)[-most:]
        is_so_often = len(self.failures) == most and sum(ended) >= self.policy.failure_rate * len(ended)
        if self._probing or is_so_often:
            self._turn("open", now)
        return True

    def _has_counted(self, counted: float, now: float) -> bool:
        """Return True where a failure of the same subtask is among those that there are."""
        return counted >= max(now - self.policy.window_s, self._closed_at)

    def neutral(self, token: int) -> None:
        """End an attempt that says nothing of the worker: cancelled, preempted, tried again with the same worker.

        A probe is given back: the next attempt is admitted at once.
        """
        if token == self._generation and self._probing:
            self._turn("half_open", self.opened_at)

    def retry_in_s(self, now: float) -> float:
        """Seconds until the next attempt could be admitted; 0.0 when it would be now.

        While a probe is under way, the whole cooldown: the wait if it fails now.
        """
        if self.admits(now):
            return 0.0
        if self._probing:
            return self.policy.cooldown_s
        return self._due() - now

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
