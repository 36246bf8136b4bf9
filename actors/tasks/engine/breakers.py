"""Breakers of workers: told how attempts end, looked at again in their time.

What a breaker does is decided in ``actors.tasks.scheduling.circuit_breaker``. Breakers are kept in memory only: they
stay with their workers when there is a new engine, and in a new process each begins closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.tasks.model import live_events

if TYPE_CHECKING:
    from actors.tasks.engine.engine import Engine
    from actors.tasks.scheduling.worker_registry import RegistryEntry

_TURNS: Final = {
    "open": live_events.BreakerOpened,
    "half_open": live_events.BreakerHalfOpened,
    "closed": live_events.BreakerClosed,
}


class Breakers:
    """Breakers of the workers of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begin(self, entry: RegistryEntry, key: str) -> None:
        """Tell the breaker of a worker that the attempt of this key begins, which may be its probe."""
        breaker = entry.breaker
        if breaker is not None and breaker.state != "closed":
            before = breaker.state
            breaker.begin(key, self._engine.now)
            if breaker.state != before:
                self._turned(entry)

    def ended(self, entry: RegistryEntry | None, key: str, *, fails: bool | None, is_left: bool = True) -> None:
        """Tell the breaker how an attempt ended; ``fails``: True if that counts as a failure; None: it says nothing.

        A failure counts when the subtask is not tried again with this worker (``is_left``): what a retry mends is no
        failure. While the breaker is half open, the first attempt decides.
        """
        breaker = entry.breaker if entry is not None else None
        if entry is None or breaker is None:
            return
        before = breaker.state
        breaker.ended(key, self._engine.now, fails=fails if is_left or not fails or breaker.probe == key else None)
        if breaker.state != before:
            self._turned(entry)

    def _turned(self, entry: RegistryEntry) -> None:
        """Tell that a breaker has turned."""
        breaker: Any = entry.breaker
        turn = _TURNS[breaker.state]
        event = turn(entry.path, self._engine.now, breaker.state, breaker.failures, breaker.opened_at)
        self._engine.system.publish(event)
        self._cools_down(entry)

    def _cools_down(self, entry: RegistryEntry) -> None:
        """Look again, when its breaker admits a probe, at subtasks that wait for other workers meanwhile."""
        if entry.breaker is not None and entry.breaker.state == "open":
            due = self._engine.now + entry.breaker.retry_in_s(self._engine.now)
            self._engine.at(due, lambda engine: engine.attempts.breakers.cooled_down(entry))

    def cooled_down(self, entry: RegistryEntry) -> None:
        """Let an open breaker admit its probe; look again later where it does not yet: clocks may differ a little."""
        self._engine.attempts.reopen(entry)
        if not entry.admits(self._engine.now):
            self._cools_down(entry)
