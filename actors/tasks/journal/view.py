"""What the rest of the library sees of tasks. The rooms of ``trees`` look at tasks through this module alone.

* ``TaskView`` is one task: of a tree that runs, or of the records of a journal. ``UnitView`` is one subtask of it.
* ``tasks_of(system)`` has the tasks of a tree that runs, by the path of their supervisor (``SupervisorTasks``).

Everything here reads and waits for nothing. The engine changes its states meanwhile: each table is copied in one step,
and two looks may differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from actors.model.events import Event
from actors.model.record import record
from actors.tasks.engine.orders import CANCEL, PRIORITY, RESPOND, RETRY
from actors.tasks.engine.service import service_of
from actors.tasks.execution.attempt import Attempt
from actors.tasks.journal.fold import TaskState, fold, has_metadata, unit_status_of
from actors.tasks.journal.reporting import report_of, row_of, usage_by_role
from actors.tasks.journal.store import RemoteCommand
from actors.tasks.journal.unit import LOST, Escalation, Unit
from actors.tasks.model import (
    ROLES,
    RUNNING,
    UNCOUNTED,
    BreakerState,
    Report,
    Subtask,
    SubtaskProgressed,
    SubtaskReport,
    SubtaskStatus,
    TaskStatus,
    Usage,
)
from actors.tasks.planning.settings import ladder_of_teams
from actors.tasks.scheduling.selection import lane_of, put_off, with_probe

if TYPE_CHECKING:
    from actors.runtime.system import System
    from actors.tasks.engine.scope import Scope
    from actors.tasks.engine.service import TaskService
    from actors.tasks.journal.course import Course

__all__ = [
    "CANCEL", "LOST", "PRIORITY", "RESPOND", "RETRY", "ROLES", "UNCOUNTED", "Attempt", "Escalation", "RemoteCommand",
    "SupervisorTasks", "TaskPhase", "TaskView", "UnitView", "fold", "has_metadata", "ladder_of_teams", "service_of",
    "tasks_of", "usage_by_role",
]  # fmt: skip

TaskPhase: TypeAlias = Literal["reviewing", "combining", "replanning", "ending", "undoing"]
"""Phase of a task beside its subtasks. ``ending``: it waits for those that run. ``undoing``: work is undone, because
the task ends, or before what a review sent back runs again."""


@record
class UnitView(SubtaskReport):
    """One subtask, at one moment. ``queued_s`` and ``running_s`` include the time that goes on now."""

    spec: Subtask = field(kw_only=True, repr=False)
    result: Any = field(default=None, repr=False)
    question: str | None = None
    """Id of the open question about it."""
    retry_in_s: float | None = None
    """Seconds until its next attempt may begin. None: it waits for no delay."""
    progress: SubtaskProgressed | None = None
    """The last ``context.progress`` of the attempt that runs."""
    streams: str | None = None
    """The last line that the attempt has streamed."""
    waits: str = ""
    """Why it waits in the queue although no one who could do it is busy. Empty: it does not."""
    probe_in_s: float | None = None
    """Seconds until a breaker that it waits for lets a probe through."""

    @property
    def reason(self) -> str:
        """Why it waits, with that time: ``breaker of x open, probe in 12 s``."""
        return with_probe(self.waits, self.probe_in_s)


class TaskView:
    """One task, or a team's part of one, as it stands when it is looked at.

    Args:
        root: id of the root of its tree.
        state: where the whole task stands. It changes while the task goes on: it is only read.
        records: of its journal, the oldest first. None: read from the store of the tree.
        service: the tasks of a tree that runs. None: it is only known from its journal.
        part: path of the subtask that a team has, where this is that team's part. Empty: the task itself.
    """

    def __init__(
        self,
        root: str,
        state: TaskState,
        records: Sequence[Event] | None = None,
        service: TaskService | None = None,
        part: str = "",
    ) -> None:
        self.root, self.id, self.state, self.part = root, state.id, state, part
        self._records, self._service = records, service

    @property
    def records(self) -> Sequence[Event]:
        """Records of its journal, the oldest first."""
        if self._records is None:
            self._records = () if self._service is None else self._service.store.read(self.id)
        return self._records

    @property
    def course(self) -> Course:
        """What the task, or the team's part of it, goes through; as the state."""
        course = self.state.units[self.part].course
        return course if course is not None else self.state.course

    # -- the task ------------------------------------------------------------------------------------------

    @property
    def status(self) -> TaskStatus:
        """Where it stands, with what its teams do."""
        if not self.part:
            return self.state.status
        status = unit_status_of(self.course.unit)
        return TaskStatus(status.value) if status.value in set(TaskStatus) else TaskStatus.RUNNING

    @property
    def ended(self) -> TaskStatus | None:
        """How it ended. None: it goes on."""
        return self.status if self.course.unit.is_done else None

    @property
    def finished_at(self) -> float | None:
        """Seconds since 1970. None: it goes on."""
        unit = self.course.unit
        return unit.ended_at if unit.is_done else None

    @property
    def usage(self) -> Usage:
        """What it has used up so far."""
        return self.course.unit.usage

    @property
    def error(self) -> str:
        """Why it cannot succeed. Empty: nothing is known that speaks against it."""
        ending = self.course.ending
        return "" if ending is None else ending.error

    @property
    def questions(self) -> list[Escalation]:
        """Its open questions; those of its teams are with their parts."""
        asked = [(each, self.state.units[each.about]) for each in list(self.state.questions.values())]
        own = self.course
        return [each for each, unit in asked if (unit.course if each.step else self.state.course_of(unit)) is own]

    @property
    def phase(self) -> TaskPhase | None:
        """What is done beside its subtasks. None: nothing."""
        course = self.course
        if self.ended is not None:
            return None
        if course.undoing is not None or (course.ending is not None and not course.open):
            return "undoing"
        if course.ending is not None:
            return "ending"
        if course.phase != "running":
            return "replanning" if course.phase == "replanning" else None
        if course.open:
            return "reviewing" if course.unreviewed else None
        running = next((role for role, call in course.calls.items() if call.status is RUNNING), "")
        return "combining" if running == "combine" else "reviewing" if running == "review" else None

    def notes(self, now: float) -> tuple[str, ...]:
        """Say what is odd: about the plan, or a planner, reviewer or synthesizer that has failed."""
        course = self.course
        refused = course.refusal.problems if course.refusal is not None and course.plan is None else ()
        notes = [*course.notes, *course.warnings, *(f"plan refused: {each}" for each in refused)]
        for role, call in list(course.calls.items()):
            if call.status is SubtaskStatus.RETRYING and call.due is not None:
                again = max(0.0, call.due - now)
                notes.append(f"{role} failed {call.made} times, next in {again:.1f} s: {call.error}")
        return tuple(notes)

    def report(self) -> Report | None:
        """Return the report of a task that has ended; None: it goes on, or this is a team's part."""
        return None if self.part or self.state.final is None else report_of(self.state)

    # -- its subtasks --------------------------------------------------------------------------------------

    def counts(self) -> Counter[SubtaskStatus]:
        """Count its subtasks by status."""
        return Counter(unit_status_of(unit) for unit in list(self.course.units.values()))

    def units(self, now: float = 0.0) -> list[UnitView]:
        """Look at its subtasks.

        Args:
            now: in seconds since 1970, by the tree's clock. 0: times leave out what goes on now.
        """
        return [self._unit(unit, now) for unit in list(self.course.units.values())]

    def unit(self, id_: str, now: float = 0.0) -> UnitView | None:
        """Look at one of them, by its id, or by its path in the task."""
        unit = self.course.units.get(id_) or (self.state.units.get(id_) if id_ else None)
        return None if unit is None else self._unit(unit, now)

    def _unit(self, unit: Unit, now: float) -> UnitView:
        service, spec, row = self._service, unit.spec, row_of(unit, now)
        status, live = row["status"], None
        waits: tuple[str, float | None] = "", None
        if service is not None and status is SubtaskStatus.QUEUED and unit.scope in service.scopes:
            waits = put_off(service.scopes[unit.scope].workers, lane_of(self.state, unit), now)
        elif service is not None and unit.status is RUNNING:
            live = service.attempts.get(f"{self.id}@{unit.path}#{unit.epoch}.{unit.attempt}")
        due = unit.due if status is SubtaskStatus.RETRYING else None
        question = unit.question or (unit.undo.question if unit.undo is not None else None)
        return UnitView(
            **row,
            spec=spec,
            result=unit.value,
            question=None if question is None else question.id,
            retry_in_s=None if due is None else max(0.0, due - now),
            progress=None if live is None else live.progress,
            streams=None if live is None or live.stream is None else live.stream.last_line,
            waits=waits[0],
            probe_in_s=waits[1],
        )

    # -- teams ---------------------------------------------------------------------------------------------

    def parts(self) -> dict[str, TaskView]:
        """Return what teams have of it, by the subtask that each was given."""
        teams = [unit for unit in list(self.course.units.values()) if unit.course is not None]
        return {unit.id: TaskView(self.root, self.state, self._records, self._service, unit.path) for unit in teams}


# -- a tree that runs ---------------------------------------------------------------------------------------


class SupervisorTasks:
    """The tasks of one supervisor of a tree that runs, as they stand now; of a team its parts of tasks."""

    def __init__(self, service: TaskService, scope: Scope) -> None:
        self._service, self._scope = service, scope
        self.path = scope.path

    def now(self) -> float:
        """Return the time by the tree's clock, in seconds since 1970."""
        return self._service.time()

    @property
    def finished(self) -> int:
        """Tasks that have ended since the tree was started."""
        return self._service.finished if self._scope.above is None else 0

    def tasks(self) -> list[TaskView]:
        """Return the tasks that are at hand: those that go on, and those whose end is being recorded.

        A task that the engine has not looked at yet is not among them.
        """
        root, states = self._service.system.root_path, [run.state for run in self._service.runs()]
        return [
            TaskView(root, state, None, self._service, unit.path)
            for state in states
            for unit in list(state.units.values())
            if unit.course is not None and unit.course.scope == self.path and (unit.role == "task" or not unit.is_done)
        ]

    def questions(self) -> list[Escalation]:
        """Return the questions that no one has answered, the oldest first."""
        return [each for task in self.tasks() for each in task.questions if each.id not in self._service.answers]

    def queued_s(self) -> list[float]:
        """Return for how many seconds each subtask waits that waits for a worker."""
        now = self.now()
        units = [unit for run in self._service.runs() for unit in list(run.state.units.values())]
        queued = (unit for unit in units if unit.scope == self.path and unit.status is SubtaskStatus.QUEUED)
        return [max(0.0, now - unit.queued_at) for unit in queued]

    def breakers(self) -> dict[str, BreakerState]:
        """Return the states of the breakers of all workers that have one, by their ids."""
        return {row.id: row.breaker for row in self._scope.rows() if row.breaker is not None}

    def breaker(self, worker: str) -> tuple[BreakerState, float | None] | None:
        """Return the state of a worker's breaker and, if it is open, the seconds until it lets a probe through."""
        entry = self._scope.workers.get(worker)
        if entry is None or entry.breaker is None:
            return None
        now = self.now()
        state = entry.breaker.state_at(now)
        return state, entry.breaker.retry_in_s(now) if state == "open" else None


def tasks_of(system: System) -> dict[str, SupervisorTasks]:
    """Return the tasks of a tree, by the path of the supervisor that has them."""
    service = service_of(system)
    return {path: SupervisorTasks(service, scope) for path, scope in service.scopes.copy().items()}
