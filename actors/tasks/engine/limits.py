"""Limits of time: of attempts, of teams, of questions and of tasks; and how an attempt is ended from outside.

A worker on the loop is never in the middle of a step while the engine acts, so cancelling one is exact. Code that does
not end in ``GRACE_S`` is replaced with its worker's incarnation.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.supervision.supervisor_incarnation import ReplaceChild
from actors.tasks.journal.unit import Unit
from actors.tasks.model import task_events
from actors.tasks.model.task import QUEUED, RUNNING, TaskStatus
from actors.tasks.scheduling.selection import lane_of, put_off

if TYPE_CHECKING:
    from actors.execution.timers import Timer
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.scheduling.worker_registry import RegistryEntry

LOOK_AGAIN_S: Final = 1.0
"""How soon an answer that is on its way is looked for again, should it not come."""
GRACE_S: Final = 1.0
"""How long code that was cancelled may take to end, or a thread to come back by itself, before it is replaced."""


class Limits:
    """Limits that one engine watches."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._deadlines: dict[str, Timer] = {}

    # -- tasks and questions -------------------------------------------------------------------------------

    def watch_deadline(self, run: Run) -> None:
        """End a task when its time is up; also where it is ending: what runs may finish, and not beyond its time."""
        deadline = run.state.deadline
        if deadline is None:
            return
        if deadline <= self._engine.now:
            _too_late(run.id, self._engine)  # before anything of it is begun
        else:
            self._deadlines[run.id] = self._engine.at(deadline, partial(_too_late, run.id))

    def forget(self, run: Run) -> None:
        """Watch a task no longer: it has ended."""
        timer = self._deadlines.pop(run.id, None)
        if timer is not None:
            timer.cancel()

    def watch_question(self, run: Run, question: str, due: float | None) -> None:
        """End an open question when its time is up. An answer that was given in time counts, also if it comes later."""
        if due is not None:
            self._engine.at(due, partial(_question_is_late, run.id, question))

    # -- teams ---------------------------------------------------------------------------------------------

    def watch_team(self, run: Run, unit: Unit, entry: RegistryEntry) -> None:
        """End what a team has when its time is up, or nothing in it gives a sign of life for too long."""
        if unit.due is not None:
            self._engine.at(unit.due, partial(_team_is_late, run.id, unit.path, unit.seq, "timeout"))
        own, theirs = unit.spec.idle_timeout_s, entry.executable.idle_timeout_s
        idle_s = own if own is not None else theirs
        if idle_s is not None:
            said = (run.id, unit.path, unit.seq, idle_s)
            self._engine.at(self._engine.now + idle_s, lambda engine: engine.limits.team_is_idle(*said))

    def team_is_idle(self, task: str, path: str, seq: int, idle_s: float) -> None:
        """Look whether a team has been silent; its clock stands while all in it waits for people, delays or workers."""
        engine = self._engine
        run = engine.runs.get(task)
        unit = run.state.units.get(path) if run is not None else None
        if run is None or unit is None or unit.status is not RUNNING or unit.seq != seq:
            return
        now = engine.system.now()
        quiet = now - self.last_sign(run, unit, now)
        if quiet >= idle_s:
            _team_is_late(task, path, seq, "idle", engine)
        else:
            left = idle_s - quiet
            engine.at(engine.now + left, lambda engine: engine.limits.team_is_idle(task, path, seq, idle_s))

    def last_sign(self, run: Run, unit: Unit, now: float) -> float:
        """When something below a unit last gave a sign of life, on the tree's clock; now, if nothing of it runs."""
        rows, prefix = self._engine.attempts.rows.values(), f"{unit.path}/"
        below = [row for row in rows if row.attempt.task == run.id and row.path.startswith(prefix)]
        runs = [row.attempt.started is not None and row.has_slot for row in below]
        signs = (row.attempt.last_sign if at_work else now for row, at_work in zip(below, runs, strict=True))
        return max(signs, default=now)

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


def _too_late(task: str, engine: Engine) -> None:
    run = engine.runs.get(task)
    if run is None:
        return
    unit = next((each for each in run.state.units.values() if each.status is QUEUED), None)
    scope = engine.scope_of(unit) if unit is not None else None
    why = put_off(scope.workers, lane_of(run.state, unit), engine.now) if unit is not None and scope else ""
    waited = f"; {unit.id} waited: {why}" if unit is not None and why else ""
    engine.decide(run, engine.end, run, run.state.root, TaskStatus.FAILED, "deadline", f"its time is up{waited}")


def _question_is_late(task: str, question: str, engine: Engine) -> None:
    """An answer that was given in time, and lies at the port or in the store, counts first."""

    def expires(engine: Engine) -> None:
        run = engine.runs.get(task)
        asked = run.state.questions.get(question) if run is not None else None
        if run is None or asked is None:
            return
        if question in engine.service.answers or any(
            order.body.get("escalation") == question for order in engine.port.orders
        ):
            engine.at(engine.now + LOOK_AGAIN_S, partial(_question_is_late, task, question))  # should it not come
            return
        engine.decide(run, run.emit, run.state.find(asked.about, asked.role), task_events.EscalationExpired, question)

    engine.service.when_heard(lambda: engine.port.post(expires))


def _team_is_late(task: str, path: str, seq: int, kind: str, engine: Engine) -> None:
    run = engine.runs.get(task)
    unit = run.state.units.get(path) if run is not None else None
    if run is None or unit is None or unit.seq != seq or unit.status is not RUNNING:
        return
    what = "its time is up" if kind == "timeout" else "nothing in it has given a sign of life"
    engine.decide(run, engine.end, run, unit, TaskStatus.FAILED, kind, what)
