"""Breakers of one orchestrator's workers: told how attempts end, kept in the journal, looked at again in their time.

What a breaker does is decided in ``actors.tasks.scheduling.circuit_breaker``. Here it is recorded, and read back by a
new incarnation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING

from actors.model.events import Event
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.model import task_events
from actors.tasks.model.outcome import Done, Failure
from actors.tasks.model.task_ids import BREAKER
from actors.tasks.orchestration.attempt_table import RunningAttempt
from actors.tasks.recovery.classify import Outcome
from actors.tasks.scheduling.worker_registry import RegistryEntry

if TYPE_CHECKING:
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.recording import Recording


class BreakerRecords:
    """Breakers, and what is recorded of them."""

    def __init__(self, core: OrchestratorCore, recording: Recording, reopen: Callable[[RegistryEntry], None]) -> None:
        """Make them for one incarnation; ``reopen`` has those looked at again that wait for a worker."""
        self._core, self._recording, self._reopen = core, recording, reopen
        self._resumes = True
        """True until all tasks are taken up: what they record from then on is counted as it happens."""
        self._noted: dict[str, list[float]] = {}
        """Times of failures in the journals of tasks, by worker: its breaker has yet to look if it lacks them."""

    def begin(self, row: RunningAttempt, entry: RegistryEntry, now: float) -> None:
        """Let a breaker know that an attempt begins, which may be its probe."""
        breaker = entry.breaker
        if breaker is not None:
            row.breaker_token = breaker.begin(now)
            if breaker.state == "half_open":
                self.record(entry, task_events.BreakerHalfOpened)

    def resume(self, row: RunningAttempt, entry: RegistryEntry) -> None:
        """Tell the breaker of an attempt that an earlier incarnation began, unless the breaker has opened since."""
        if entry.breaker is not None and row.node.started_at > (entry.breaker.opened_at or 0.0):
            row.breaker_token = entry.breaker.begin(self._core.time())

    def ended(
        self, row: RunningAttempt, entry: RegistryEntry | None, outcome: Outcome
    ) -> tuple[bool, type[task_events.BreakerChanged] | None]:
        """Tell the breaker how one ended: whether it has counted that as a failure, and what that changed, if so.

        Of a worker without a breaker: whether one would have.
        """
        if entry is None:
            return False, None
        if entry.breaker is None:
            return isinstance(outcome, Failure) and entry.counts(outcome), None
        breaker, last, token, failed = entry.breaker, row.node.counted, row.breaker_token, False
        now, before = self._core.time(), breaker.state
        counted = last[1] if last is not None and last[0] == entry.id else None
        if isinstance(outcome, Done):
            changed = breaker.succeeded(token, now, counted)
        elif isinstance(outcome, Failure) and entry.counts(outcome):
            changed = failed = breaker.failed(token, now, counted)
        else:
            changed = breaker.neutral(token, now)
        return failed, _turn_of(breaker.state, before) if changed else None

    def left(self, row: RunningAttempt, entry: RegistryEntry | None) -> None:
        """Tell it that an attempt is over of which nothing is recorded any more."""
        if entry is not None and entry.breaker is not None:
            entry.breaker.neutral(row.breaker_token, self._core.time())

    def note(self, node: SubtaskState) -> None:
        """Note a failure that the journal of a task has. Its breaker may lack it: the orchestrator died in between."""
        if self._resumes and node.counted is not None:
            worker, at = node.counted
            self._noted.setdefault(worker, []).append(at)

    def resumed(self, entries: Iterable[RegistryEntry]) -> None:
        """Have all breakers count what they lack, once all tasks are taken up; those that come later do it then.

        All that one lacks is one record: whoever dies at that finds it either counted or lacking as before.
        """
        self._resumes = False
        for entry in entries:
            self._catch_up(entry)

    def _catch_up(self, entry: RegistryEntry) -> None:
        """Count the failures that were noted and are later than its last record, in the order in which they came."""
        noted, breaker = sorted(self._noted.pop(entry.id, ())), entry.breaker
        if breaker is None:
            return
        before, changed = breaker.state, False
        for at, same in groupby(noted):
            known = breaker.failures.count(at) if at == entry.breaker_at else 0  # by a clock that stands still
            for _ in islice(same, known, None) if at >= entry.breaker_at else ():
                changed |= breaker.failed(breaker.begin(at), at)
        if changed:
            self.record(entry, _turn_of(breaker.state, before))

    def record(self, entry: RegistryEntry, kind: type[task_events.BreakerChanged]) -> None:
        """Record what a breaker has counted, or that it has turned."""
        breaker = entry.breaker
        if breaker is not None:
            ended = tuple(tuple(each) for each in breaker.ended)
            self._recording.emit_breaker(
                kind(entry.path, self._core.time(), breaker.state, breaker.failures, breaker.opened_at, ended)
            )
            self._cools_down(entry)

    def restore(self, entry: RegistryEntry | None) -> None:
        """Have the breaker of a worker go on from where it was."""
        if entry is None or entry.breaker is None:
            return
        if restore_breaker(entry, self._core.store.read):
            self._cools_down(entry)
        if not self._resumes:
            self._catch_up(entry)

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


def restore_breaker(entry: RegistryEntry, read: Callable[[str], Sequence[Event]]) -> bool:
    """Have the breaker of a worker stand as it was recorded last; False where nothing is recorded, or it has none."""
    kept = read(f"{BREAKER}{entry.path}") if entry.breaker is not None else ()
    if entry.breaker is None or not kept or not isinstance(last := kept[-1], task_events.BreakerChanged):
        return False
    entry.breaker.restore(last.state, last.failures, last.opened_at, last.ended)
    entry.breaker_at = last.at
    return True


def _turn_of(state: str, before: str) -> type[task_events.BreakerChanged]:
    """Kind of event for a breaker that is in ``state`` now."""
    turns = {"open": task_events.BreakerOpened, "closed": task_events.BreakerClosed}
    return turns[state] if state != before else task_events.BreakerChanged
