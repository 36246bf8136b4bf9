"""``Course``: what a task, or a team's part of one, goes through: plan, run, review, combine, and how it ends.

It belongs to a composite unit, and has the units that are done for that: the subtasks of the plan, what these have
asked others of the same supervisor for, and the calls of its planner, reviewer and synthesizer. Plain data, and the
changes that events make to a course as a whole (``actors.tasks.journal.fold`` says which). This module must never
import threads, a clock or Pykka.

Every event costs the same in a plan of ten and of ten thousand subtasks: dependants are counted down, not searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from actors.tasks.journal.unit import GONE, HAVE_RESULT, NO_REMARKS, Unit, with_dependants
from actors.tasks.model import NONE, PENDING, SUCCEEDED, Plan, Subtask, task_events
from actors.validation.spec_model import copy_with

NO_WORK = Subtask(id="task")


@dataclass(slots=True, eq=False, repr=False)
class Course:
    """Where the course of one composite unit stands."""

    unit: Unit
    """The task, or the subtask that a team has."""
    scope: str
    """Path of the supervisor whose workers do it."""
    phase: Literal["planning", "running", "replanning"] = "planning"
    plan: Plan | None = None
    warnings: tuple[str, ...] = ()
    refusal: task_events.PlanRefused | None = None
    replans: int = 0  # further plans
    planned_at: float = 0.0
    units: dict[str, Unit] = field(default_factory=dict)
    """Subtasks of the plan by their ids; what was asked for as ``research/@1``."""
    calls: dict[str, Unit] = NONE
    """Planner, reviewer and synthesizer, by role, as far as they were called.

    A call begins anew with every end of its own. Until then it has what its next try is told (``remarks``), whether it
    has failed for good (``status``), and what a person has said about it (``answered``).
    """
    open: int = 0  # units that are not done
    ready: Sequence[Unit] = ()
    """Units whose last dependency is done since somebody looked; emptied by who looks."""
    barred: Sequence[Unit] = ()
    """Likewise: they are to run, and need one that has failed."""
    reviews_each: bool = False
    """A result is reviewed before anything that depends on it starts."""
    unreviewed: dict[str, None] = NONE
    """Likewise: subtasks whose results are yet to be reviewed."""
    rejected: dict[str, str] = NONE
    """Subtasks that have not passed for good, and of which is yet to be decided, each with the checks of its review in
    a line; an empty id where there are no results."""
    reviewed: bool = False
    """The results that there are now have passed, or are taken as they are."""
    iterations: int = 0  # reviews
    rework: dict[str, str] | None = None
    """Something is void, and is undone before it runs again: subtasks that a review has sent back, with their feedback;
    none: what has failed, before another plan is made."""
    output: Any = None
    combined: bool = False
    best_effort: bool = False
    notes: tuple[str, ...] = ()  # what went wrong beside the subtasks
    ending: task_events.TaskEnding | None = None
    """Why it cannot succeed any more."""
    undoing: Unit | None = None  # whose undo is under way
    undoable: tuple[object, list[Any]] | None = None
    """What is to be undone, the last begun last, and what that was found for. No part of the state: it follows."""

    def path_of(self, id_: str) -> str:
        """Path of a unit of this course in the task."""
        return f"{self.unit.path}/{id_}" if self.unit.path else id_

    def call(self, role: str) -> Unit:
        """Return the unit of a planner, a reviewer or a synthesizer."""
        unit = self.calls.get(role)
        if unit is None:
            spec = copy_with(NO_WORK, id=role)
            unit = Unit(self.path_of(f"@{role}"), role, self.unit, spec, self.scope)  # type: ignore[arg-type]
            self.calls = {**self.calls, role: unit}
        return unit

    def planned(self) -> list[Unit]:
        """Return the subtasks of the plan."""
        return [unit for unit in list(self.units.values()) if unit.asker is None]

    def results(self) -> dict[str, Any]:
        """The results there are, of the subtasks of the plan, also of those that were undone."""
        return {unit.id: unit.value for unit in self.planned() if unit.status in HAVE_RESULT}

    def best_efforts(self) -> list[Unit]:
        """Subtasks of the plan whose result is a best effort of a team: nobody there was content with it."""
        return [unit for unit in self.planned() if unit.best_effort and unit.status is SUCCEEDED]

    def missing(self) -> list[Unit]:
        """Required subtasks of the present plan that have ended without a result."""
        return [
            unit
            for unit in self.planned()
            if unit.status is not SUCCEEDED and unit.spec.required and not unit.dropped and unit.is_done
        ]

    # -- plans ---------------------------------------------------------------------------------------------

    def goes_on_with(self, plan: Plan, kept: Iterable[str]) -> None:
        """Go on with the first plan, or another: what is kept is done, other subtasks of it run.

        A subtask that the new plan has in the same words is the same epoch, under its old key, unless it was undone.
        One of the same id in other words is another piece of work: no feedback, answer or result of the former one is
        about it. What the new plan does not name is left out.
        """
        done, units = frozenset(kept), self.units
        for unit in self.planned():
            unit.dropped = True
        for spec in plan.subtasks:
            known = units.get(spec.id)
            if known is None:
                units[spec.id] = Unit(self.path_of(spec.id), "work", self.unit, spec, self.scope)
                continue
            known.dropped = False
            if spec.id in done:
                continue
            if spec == known.spec:
                known.begins_anew()
                known.takes(spec)  # that of its team may be another one by now
            else:
                known.becomes(spec)
        self.count()

    def count(self) -> None:
        """Find anew what waits for what."""
        planned = self.planned()
        needing: dict[Unit, list[Unit]] = {}
        for unit in planned:
            unit.missing = 0
            for id_ in unit.spec.depends_on if not unit.dropped else ():
                needed = self.units[id_]
                needing.setdefault(needed, []).append(unit)
                unit.missing += not self.is_settled(needed)
        for unit in planned:
            unit.dependants = needing.get(unit, ())
        planned = [unit for unit in planned if not unit.dropped]
        self.open = sum([not unit.is_done for unit in self.units.values()])
        waiting = [unit for unit in planned if unit.status is PENDING] if self.plan is not None else []
        self.ready = [unit for unit in waiting if not unit.missing]
        self.barred = [unit for unit in waiting if unit.missing and self.barring(unit) is not None]

    def is_settled(self, unit: Unit) -> bool:
        """True where what depends on this unit need not wait for it."""
        if unit.status is SUCCEEDED:
            return unit.id not in self.unreviewed and unit.id not in self.rejected
        return unit.is_done and not unit.spec.required

    def passes(self, unit: Unit) -> None:
        """A dependency is settled: what waited for nothing else is ready."""
        for dependant in unit.dependants:
            dependant.missing -= 1
        found = [each for each in unit.dependants if not each.missing and each.status is PENDING]
        if found:
            self.ready = [*self.ready, *found]

    def forget_review(self, unit: Unit) -> None:
        """Forget that the result of a subtask is to be reviewed, or was rejected: it is void, or was looked at."""
        self.unreviewed.pop(unit.id, None)
        self.rejected.pop(unit.id, None)

    def barring(self, unit: Unit) -> Unit | None:
        """Return the subtask that this one needs, and that has ended without a result; None: there is none."""
        for id_ in unit.spec.depends_on:
            needed = self.units[id_]
            if needed.spec.required and needed.status in GONE:
                return needed
        return None

    # -- again ---------------------------------------------------------------------------------------------

    def send_back(self, rerun: dict[str, str]) -> None:
        """Run these again with their feedback, and then all that had used their results."""
        for unit in with_dependants(self.units[id_] for id_ in rerun):
            self.forget_review(unit)
            if unit.is_done:
                unit.is_void()
                unit.remarks = unit.remarks.sent_back(rerun.get(unit.id, ""))
        asked = [unit for unit in self.ready if unit.asker is not None]
        self.count()
        self.ready = [*self.ready, *asked]

    def reopen(self, *, retried: bool = False) -> None:
        """Go on after an end: another attempt of the team begins, or somebody has the failed task tried again.

        What is done stays done, unless the result of the team is void. All else begins anew; of a team that is tried
        again not what a person has refused, or what is in doubt.
        """
        is_void = self.plan is None
        self.ending = self.refusal = self.output = self.rework = None
        self.reviewed = self.combined = self.best_effort = False
        self.iterations = self.replans = 0
        self.notes, self.phase = (), "planning" if is_void else "running"
        if self.reviews_each:
            self.unreviewed = self.unreviewed | dict.fromkeys(id_ for id_ in self.rejected if id_)
        self.rejected = NONE
        for call in self.calls.values():
            call.begins_anew(is_new=True)
            call.remarks = NO_REMARKS
        for unit in list(self.units.values()):
            unit.at_fault, unit.reviews = False, 0
            for effect in unit.effects.values():
                effect.stands = ""
            if unit.asker is not None or unit.dropped:
                continue
            if is_void:
                unit.is_void()
            elif unit.status is SUCCEEDED and not unit.was_undone:
                continue
            elif retried:
                unit.is_retried()
            elif not unit.stays_ended:
                unit.begins_anew()
            self.forget_review(unit)
        self.count()
