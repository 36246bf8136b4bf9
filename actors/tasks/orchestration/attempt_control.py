"""Control of attempts from outside: a slot is taken for one, its limits are watched, it is ended or replaced.

A worker on the loop is never in the middle of a step while the orchestrator acts, so cancelling one is exact. Code that
does not end in ``GRACE_S`` is replaced with its worker's incarnation.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from actors.supervision.supervisor_incarnation import ReplaceChild
from actors.tasks.orchestration.waits_of_teams import last_sign_of

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.journal.subtask_state import SubtaskState
    from actors.tasks.orchestration.attempt_table import RunningAttempt
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.team_calls import TeamCalls
    from actors.tasks.scheduling.worker_registry import RegistryEntry

GRACE_S = 1.0
"""How long code that was cancelled may take to end, or a thread to come back by itself, before it is replaced."""


class AttemptControl:
    """Control of the attempts of one orchestrator."""

    def __init__(self, core: OrchestratorCore, team_calls: TeamCalls) -> None:
        self._core, self._team_calls = core, team_calls

    def hold(self, attempt: Attempt, node: SubtaskState, rank: int | None = None) -> RunningAttempt:
        """Take a slot for an attempt, which outlives this incarnation from here on.

        The next incarnation goes on with what it finds. So all that it takes up is there by now, before anything more
        is recorded: its mailbox, its outcome, or that it is a team's.
        """
        core = self._core
        core.priorities.add(attempt.priority)
        core.runtime.attempts[attempt.key] = attempt
        if rank is not None:
            attempt.rank = rank
        return core.attempts.add(attempt, node)

    # -- ending --------------------------------------------------------------------------------------------

    def end(self, attempt: Attempt, why: str, *, at_once: bool = False) -> None:
        """Have an attempt end: taken back, cancelled, or given up with its worker's incarnation."""
        if attempt.done:
            return
        is_withdrawn = attempt.withdraw(why)
        if attempt.call is not None:
            attempt.end_for(why)
            attempt.call.kill()  # also one that waits for a slot, or has one
        if is_withdrawn or attempt.call is not None:
            return
        entry = self._core.workers.get(attempt.spec.worker)
        if entry is not None and entry.is_team:
            self._team_calls.end(attempt, why)
            return
        incarnation: Any = attempt.incarnation
        if attempt.ended_by is None and incarnation is not None and getattr(incarnation, "task", None) is not None:
            incarnation.cancel_current(why)
            at_once = False
            self._core.at(self._core.time() + GRACE_S, partial(self._look_at_threads, incarnation))
        attempt.end_for(why)
        if at_once:
            self._replace(attempt)
        else:
            self.replace_after_grace(attempt)

    def end_of(self, node: SubtaskState, why: str) -> None:
        """Have the attempt end that a subtask has now."""
        attempt = self._core.attempts.of(node)
        if attempt is not None:
            self.end(attempt, why)

    def interrupt(self, node: SubtaskState) -> None:
        """Have the attempt of a subtask give way, where it may be interrupted."""
        attempt = self._core.attempts.of(node)
        if attempt is not None and attempt.spec.preemptible:
            self.end(attempt, "preempt")

    def set_due(self, node: SubtaskState, due: float | None) -> None:
        """Give the attempt of a subtask another time, on the tree's clock: that of whoever waits for it."""
        attempt = self._core.attempts.of(node)
        if attempt is not None:
            self._team_calls.set_due(attempt, due)

    def replace_after_grace(self, attempt: Attempt) -> None:
        """Replace an attempt that was told to end, should it not do so in time."""
        attempt.watch(self._core.at(self._core.time() + GRACE_S, lambda: self._replace(attempt)))

    def _replace(self, attempt: Attempt) -> None:
        """Replace the incarnation of an attempt that does not end. This counts in no restart window."""
        if not attempt.done and attempt.incarnation is not None:
            self._order(ReplaceChild(attempt.incarnation, self._core.settings.max_abandoned))

    def _look_at_threads(self, incarnation: Any) -> None:
        """Park a worker on the loop that has left too many threads behind: what it calls off the loop may hang, too.

        What was cut short has had a grace to come back by now.
        """
        address = incarnation.mailbox.address
        left, boxes = self._core.system.abandoned_by_path, getattr(address, "members", (address,))
        if sum(left[box.path] for box in tuple(boxes)) > self._core.settings.max_abandoned:
            self._order(ReplaceChild(incarnation, 0))

    def _order(self, message: ReplaceChild) -> None:
        box: Any = self._core.system.boxes.get(self._core.path)
        if box is not None:
            box.post(message)

    # -- limits --------------------------------------------------------------------------------------------

    def watch(self, attempt: Attempt, node: SubtaskState, entry: RegistryEntry) -> None:
        """See to it that it ends when its time is up."""
        own, theirs = node.spec.idle_timeout_s, entry.executable.idle_timeout_s
        idle_s = own if own is not None else theirs
        if attempt.spec.timeout_s is not None or idle_s is not None:
            self.watch_limits(attempt, attempt.spec.timeout_s, idle_s)

    def watch_limits(self, attempt: Attempt, timeout_s: float | None, idle_s: float | None) -> None:
        """Look at the attempt again when its time could be up. Its time counts from its beginning, not from now."""
        limits = [limit for limit in (timeout_s, idle_s) if limit is not None]
        started = attempt.started
        if started is None:
            left = min(limits)
        else:
            now = self._core.system.now()
            ends = [] if timeout_s is None else [(started + timeout_s - now, "timeout")]
            if idle_s is not None:
                sign = last_sign_of(self._core.runtime, attempt, now)
                ends.append((max(started, sign) + idle_s - now, "idle"))
            left, why = min(ends)
            if left <= 0:
                self.end(attempt, why, at_once=True)
                return

        def look() -> None:
            takes_its_time = attempt.gives_way and attempt.spec.part  # a team may, and has its limits all the while
            if not attempt.done and (attempt.ended_by is None or takes_its_time):
                self.watch_limits(attempt, timeout_s, idle_s)

        attempt.watch(self._core.at(self._core.time() + left, look))
