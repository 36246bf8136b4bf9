"""Limits of time: of attempts, of teams, of questions and of tasks; and how an attempt is ended from outside.

A worker on the loop is never in the middle of a step while the engine acts, so cancelling one is exact. Code that does
not end in ``GRACE_S`` is replaced with its worker's incarnation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.supervision.supervisor_incarnation import ReplaceChild
from actors.tasks.journal.unit import Unit
from actors.tasks.model import QUEUED, RUNNING, TaskStatus, task_events
from actors.tasks.scheduling.selection import lane_of, put_off, with_probe

if TYPE_CHECKING:
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.scheduling.worker_registry import RegistryEntry

GRACE_S: Final = 1.0
"""How long code that was cancelled may take to end, or a thread to come back by itself, before it is replaced."""


class Limits:
    """Limits that one engine watches."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # -- tasks and questions -------------------------------------------------------------------------------

    def watch_deadline(self, run: Run) -> None:
        """End a task when its time is up; also where it is ending: what runs may finish, and not beyond its time."""
        deadline = run.state.deadline
        if deadline is None:
            return
        if deadline <= self._engine.now:
            self._too_late(run)  # before anything of it is begun
        else:
            run.at(deadline, self._too_late, run)

    def _too_late(self, run: Run) -> None:
        why = self.put_off(run)
        self._engine.end(run, run.state.root, TaskStatus.FAILED, "deadline", f"its time is up; {why}".rstrip("; "))

    def put_off(self, run: Run) -> str:
        """Say what keeps a subtask waiting that nobody can do for now; nothing where nothing does. From any thread."""
        unit = next((each for each in list(run.state.units.values()) if each.status is QUEUED), None)
        scope = self._engine.scope_of(unit) if unit is not None else None
        if unit is None or scope is None:
            return ""
        why = with_probe(*put_off(scope.workers, lane_of(run.state, unit), self._engine.service.time()))
        return f"{unit.id} waited: {why}" if why else ""

    def watch_question(self, run: Run, question: str, due: float | None) -> None:
        """End an open question when its time is up. An answer that was given in time counts, also if it comes later."""
        hear = self._engine.service.when_heard  # what lies in the store comes to the port first, and is carried out
        if due is not None:
            run.at(due, hear, lambda: run.at(0.0, self._question_is_late, run, question))

    def _question_is_late(self, run: Run, question: str) -> None:
        asked = run.state.questions.get(question)
        if asked is not None and question not in self._engine.service.answers:  # else an order with the answer comes
            run.emit(run.state.find(asked.about, asked.role), task_events.EscalationExpired, question)

    # -- teams ---------------------------------------------------------------------------------------------

    def watch_team(self, run: Run, unit: Unit, entry: RegistryEntry) -> None:
        """End what a team has when its time is up, or nothing in it gives a sign of life for too long."""
        own, theirs = unit.spec.idle_timeout_s, entry.executable.idle_timeout_s
        idle_s = own if own is not None else theirs
        if unit.due is not None or idle_s is not None:
            run.at(self._engine.now, self._look_at_team, run, unit, unit.seq, idle_s)

    def _look_at_team(self, run: Run, unit: Unit, seq: int, idle_s: float | None) -> None:
        """Look how long a team may go on; its silence does not count while all in it waits for people or workers."""
        if unit.seq != seq or unit.status is not RUNNING:
            return
        now = self._engine.now
        ends = [] if unit.due is None else [(unit.due, "timeout", "its time is up")]
        if idle_s is not None:
            system_now = self._engine.system.now()
            silent_at = now + idle_s - (system_now - self._last_sign(run, unit, system_now))
            ends.append((silent_at, "idle", "nothing in it has given a sign of life"))
        due, kind, what = min(ends)
        if due <= now:
            self._engine.end(run, unit, TaskStatus.FAILED, kind, what)
        else:
            run.at(due, self._look_at_team, run, unit, seq, idle_s)

    def _last_sign(self, run: Run, unit: Unit, now: float) -> float:
        """When something below a unit last gave a sign of life, on the tree's clock; now, if nothing of it runs."""
        below = [each for each in self._engine.attempts.of_task(run) if each.spec.unit.startswith(f"{unit.path}/")]
        return max(
            (each.last_sign if each.started is not None and each.has_slot else now for each in below), default=now
        )

    # -- attempts ------------------------------------------------------------------------------------------

    def watch(self, attempt: Attempt) -> None:
        """See to it that an attempt ends when its time is up. That counts from its beginning, not from now."""
        timeout_s, idle_s = attempt.spec.timeout_s, attempt.spec.idle_timeout_s
        if timeout_s is None and idle_s is None:
            return
        started, engine = attempt.started, self._engine
        if started is None:
            left = min(limit for limit in (timeout_s, idle_s) if limit is not None)
        else:
            now = engine.system.now()
            ends = [] if timeout_s is None else [(started + timeout_s - now, "timeout")]
            if idle_s is not None:
                sign = now if attempt.asks else attempt.last_sign
                ends.append((max(started, sign) + idle_s - now, "idle"))
            left, why = min(ends)
            if left <= 0:
                self.end(attempt, why, at_once=True)
                return

        def look(engine: Engine) -> None:
            if not attempt.done and attempt.ended_by is None:
                engine.limits.watch(attempt)

        attempt.watch(engine.at(engine.now + left, look))

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
        incarnation: Any = attempt.incarnation
        if attempt.ended_by is None and incarnation is not None and getattr(incarnation, "task", None) is not None:
            incarnation.cancel_current(why)
            at_once = False
            path, most = attempt.owner.path, attempt.owner.settings.max_abandoned
            self._engine.at(
                self._engine.now + GRACE_S,
                lambda engine: engine.limits.look_at_threads(incarnation, path, most),
            )
        attempt.end_for(why)
        if at_once:
            self.replace(attempt)
        else:
            self.replace_after_grace(attempt)

    def replace_after_grace(self, attempt: Attempt) -> None:
        """Replace an attempt that was told to end, should it not do so in time."""
        attempt.watch(self._engine.at(self._engine.now + GRACE_S, lambda engine: engine.limits.replace(attempt)))

    def replace(self, attempt: Attempt) -> None:
        """Replace the incarnation of an attempt that does not end. This counts in no restart window."""
        if not attempt.done and attempt.incarnation is not None:
            most = attempt.owner.settings.max_abandoned
            self._order(attempt.owner.path, ReplaceChild(attempt.incarnation, most))

    def look_at_threads(self, incarnation: Any, path: str, most: int) -> None:
        """Park a worker on the loop that has left too many threads behind: what it calls off the loop may hang, too.

        What was cut short has had a grace to come back by now.
        """
        address = incarnation.mailbox.address
        left, boxes = self._engine.system.abandoned_by_path, getattr(address, "members", (address,))
        if sum(left[box.path] for box in tuple(boxes)) > most:
            self._order(path, ReplaceChild(incarnation, 0))

    def _order(self, supervisor: str, message: ReplaceChild) -> None:
        box: Any = self._engine.system.boxes.get(supervisor)
        if box is not None:
            box.post(message)
