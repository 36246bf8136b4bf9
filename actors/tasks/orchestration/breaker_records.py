"""Breakers of one orchestrator's workers: told how attempts end, looked at again in their time.

What a breaker does is decided in ``actors.tasks.scheduling.circuit_breaker``. Breakers are kept in memory only: a new
orchestrator in the same process takes those of the one before, and in a new process each begins closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from actors.tasks.model import task_events
from actors.tasks.model.outcome import Done, Failure
from actors.tasks.orchestration.attempt_table import RunningAttempt
from actors.tasks.recovery.classify import Outcome
from actors.tasks.scheduling.worker_registry import RegistryEntry

if TYPE_CHECKING:
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore

_TURNS: Final = {
    "open": task_events.BreakerOpened,
    "half_open": task_events.BreakerHalfOpened,
    "closed": task_events.BreakerClosed,
}


class BreakerRecords:
    """Breakers of one incarnation of an orchestrator."""

    def __init__(self, core: OrchestratorCore, reopen: Callable[[RegistryEntry], None]) -> None:
        """Make them; ``reopen`` has those subtasks looked at again that wait for a worker."""
        self._core, self._reopen = core, reopen

    def begin(self, row: RunningAttempt, entry: RegistryEntry, now: float) -> None:
        """Tell the breaker of a worker that an attempt begins, which may be its probe."""
        breaker = entry.breaker
        if breaker is not None:
            before = breaker.state
            row.breaker_token = breaker.begin(now)
            self._turned(entry, before)

    def resume(self, row: RunningAttempt, entry: RegistryEntry) -> None:
        """Tell the breaker of an attempt that an earlier incarnation began, unless the breaker has opened since."""
        if entry.breaker is not None and row.node.started_at > (entry.breaker.opened_at or 0.0):
            row.breaker_token = entry.breaker.begin(self._core.time())

    def ended(self, row: RunningAttempt, entry: RegistryEntry | None, outcome: Outcome, *, is_left: bool) -> bool:
        """Tell the breaker how an attempt ended; True if that counts as a failure of its worker.

        A failure counts when the subtask is not tried again with this worker (``is_left``): what a retry mends is no
        failure. While the breaker is half open, the first attempt decides. A worker without a breaker counts likewise.
        """
        if entry is None:
            return False
        breaker, token, now = entry.breaker, row.breaker_token, self._core.time()
        fails = isinstance(outcome, Failure) and entry.counts(outcome)
        if breaker is None:
            return fails and is_left
        before, last, failed = breaker.state, row.node.counted, False
        counted = last[1] if last is not None and last[0] == entry.id else None
        if isinstance(outcome, Done):
            breaker.succeeded(token, now, counted)
        elif fails and (is_left or breaker.probe == token):
            failed = breaker.failed(token, now, counted)
        else:
            breaker.neutral(token)
        self._turned(entry, before)
        return failed

    def left(self, row: RunningAttempt, entry: RegistryEntry | None) -> None:
        """Tell it that an attempt is over of which nothing is recorded any more."""
        if entry is not None and entry.breaker is not None:
            entry.breaker.neutral(row.breaker_token)

    def take_over(self, entry: RegistryEntry, known: RegistryEntry | None) -> None:
        """Take the breaker of a worker from the incarnation before, whose probe, if there is one, is given back."""
        if known is not None and known.spec is entry.spec and known.breaker is not None:
            entry.breaker = known.breaker
            if entry.breaker.probe is not None:
                entry.breaker.neutral(entry.breaker.probe)
            self._cools_down(entry)

    def _turned(self, entry: RegistryEntry, before: str) -> None:
        """Tell that a breaker has turned, if it has."""
        breaker = entry.breaker
        if breaker is not None and breaker.state != before:
            at = self._core.time()
            turn = _TURNS[breaker.state](entry.path, at, breaker.state, breaker.failures, breaker.opened_at)
            self._core.system.publish(turn)
            self._cools_down(entry)

    def _cools_down(self, entry: RegistryEntry) -> None:
        """Look again, when its breaker admits a probe, at subtasks that wait for other workers meanwhile."""
        if entry.breaker is not None and entry.breaker.state == "open":
            now = self._core.time()
            self._core.at(now + entry.breaker.retry_in_s(now), lambda: self._cooled_down(entry))

    def _cooled_down(self, entry: RegistryEntry) -> None:
        """Let an open breaker admit its probe; look again later where it does not yet: clocks may differ a little."""
        self._reopen(entry)
        if not entry.admits(self._core.time()):
            self._cools_down(entry)
