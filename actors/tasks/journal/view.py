"""What the rest of the library sees of tasks. The rooms of ``trees`` look at tasks through this module alone.

* ``TaskView`` is one task: of a tree that runs, or of the records of a journal. ``UnitView`` is one subtask of it.
* ``tasks_of(system)`` has the tasks of a tree that runs, by the path of their supervisor (``SupervisorTasks``).
* ``attempt_facts`` and ``attempt_end`` tell a tracer about one attempt.

Everything here reads and waits for nobody, but for ``report`` of a task whose large results are in the store. An
orchestrator changes its states meanwhile: each table is copied in one step, and two looks may differ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from actors.model.events import Event
from actors.model.record import record
from actors.tasks.execution.attempt import Attempt
from actors.tasks.journal.dropped import NotHeld
from actors.tasks.journal.fold import fold
from actors.tasks.journal.metadata import has_metadata
from actors.tasks.journal.person_waits import no_part, status_of, subtask_status_of
from actors.tasks.journal.questions import Escalation
from actors.tasks.journal.reporting import report_of, usage_by_role
from actors.tasks.journal.store import RemoteCommand
from actors.tasks.journal.subtask_state import LOST, SubtaskState, part_id_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.event_base import TaskEvent
from actors.tasks.model.outcome import UNCOUNTED, FailureKind
from actors.tasks.model.report import Report, SubtaskReport
from actors.tasks.model.step_events import ROLES
from actors.tasks.model.task import SubtaskStatus, Task, TaskStatus, Usage
from actors.tasks.model.task_errors import StoreError
from actors.tasks.model.task_events import SubtaskStarted
from actors.tasks.model.task_ids import MARK, is_part_of, whole_of
from actors.tasks.orchestration.left_orders import CANCEL, PRIORITY, RESPOND
from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
from actors.tasks.orchestration.task_runtime import task_runtime_of
from actors.tasks.planning.settings import ladder_of_teams
from actors.tasks.scheduling.selection import lane_of, put_off_by

if TYPE_CHECKING:
    from contextvars import Context as Variables

    from actors.execution.incarnation import Incarnation
    from actors.runtime.system import System
    from actors.tasks.scheduling.ready_queue import LaneKey

__all__ = [
    "CANCEL",
    "PRIORITY",
    "RESPOND",
    "ROLES",
    "UNCOUNTED",
    "Attempt",
    "AttemptEnd",
    "AttemptFacts",
    "Escalation",
    "NotHeld",
    "RemoteCommand",
    "SupervisorTasks",
    "TaskPhase",
    "TaskView",
    "UnitView",
    "attempt_end",
    "attempt_facts",
    "has_metadata",
    "is_lost",
    "is_of_part",
    "know_parts",
    "ladder_of_teams",
    "on_commit",
    "store_paused_s",
    "tasks_of",
    "trace_unfinished",
    "when_kept",
    "whole_of",
]

TaskPhase: TypeAlias = Literal["paused", "reviewing", "combining", "replanning", "ending", "undoing"]
"""Phase of a task beside its subtasks. ``ending``: it waits for those that run. ``undoing``: work is undone, because
the task ends, or before what a review sent back runs again."""

_Reasons: TypeAlias = "dict[LaneKey, tuple[str, float | None]]"
"""Why subtasks wait, by the lane that they wait in: the reason is the same for all of a lane."""


@record(frozen=True, slots=True)
class UnitView(SubtaskReport):
    """One subtask, at one moment. ``queued_s`` and ``running_s`` include the time that goes on now."""

    wanted_worker: str | None = None
    """The worker that the plan names for it. None: any one that has the capability."""
    capability: str | None = None
    queued_at: float = 0.0
    inputs: dict[str, Any] = field(default_factory=dict, repr=False)
    """Its own inputs, without those of the task."""
    result: Any = field(default=None, repr=False)
    """Its result, ``NotHeld`` if that is only in the store. None unless it has succeeded."""
    question: str | None = None
    """Id of the open question about it."""
    retry_in_s: float | None = None
    """Seconds until its next attempt may begin. None: it waits for no delay."""
    progress: tuple[float, str] | None = None
    """Share and words of the last ``context.progress`` of the attempt that runs."""
    streams: str | None = None
    """The last line that the attempt has streamed."""
    waits: str = ""
    """Why it waits in the queue although no one who could do it is busy. Empty: it does not."""
    probe_in_s: float | None = None
    """Seconds until a breaker that it waits for lets a probe through."""

    @property
    def reason(self) -> str:
        """Why it waits, with that time: ``breaker of x open, probe in 12 s``."""
        return self.waits if self.probe_in_s is None else f"{self.waits}, probe in {math.ceil(self.probe_in_s)} s"


class TaskView:
    """One task, or a team's part of one, as it stands when it is looked at.

    Args:
        root: id of the root of its tree.
        id: of the task.
        records: of its journal. None: read from the store of the tree.
        state: where it stands. None: what the records say.
        port: of its supervisor in a tree that runs. None: it is only known from its journal.
        report: of a task that has ended. None: made when it is needed.
    """

    def __init__(
        self,
        root: str,
        id: str,
        records: Sequence[Event] | None = None,
        state: TaskState | None = None,
        port: OrchestratorPort | None = None,
        report: Report | None = None,
    ) -> None:
        self.root, self.id = root, id
        self._records, self._state, self._port, self._report = records, state, port, report
        self._part_of = no_part if port is None else port.runtime.part_of

    @classmethod
    def of(cls, root: str, id_: str, records: Sequence[Event]) -> TaskView:
        """View a task from the records of its journal.

        Raises:
            StoreError: the records make no sense.
        """
        return cls(root, id_, records, fold(id_, records))

    @property
    def records(self) -> Sequence[Event]:
        """Records of its journal, the oldest first; large values may be left out of them."""
        if self._records is None:
            self._records = () if self._port is None else self._port.runtime.outline(self.id)
        return self._records

    @property
    def state(self) -> TaskState:
        """The engine's own state. For ``trees.host`` only."""
        if self._state is None:
            self._state = fold(self.id, self.records)
        return self._state

    # -- the task ------------------------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        """The task that was submitted, with its present priority."""
        return self.state.task

    @property
    def path(self) -> str:
        """Path of its supervisor."""
        return self.state.path

    @property
    def status(self) -> TaskStatus:
        """Where it stands, with what its teams do."""
        return status_of(self.state, self._part_of)

    @property
    def ended(self) -> TaskStatus | None:
        """How it ended. None: it goes on."""
        return self.state.final

    @property
    def submitted_at(self) -> float:
        """Seconds since 1970."""
        return self.state.submitted_at

    @property
    def finished_at(self) -> float | None:
        """Seconds since 1970. None: it goes on."""
        return None if self.state.final is None else self.state.finished_at

    @property
    def usage(self) -> Usage:
        """What it has used up so far."""
        return self.state.usage

    @property
    def usage_by_role(self) -> dict[str, Usage]:
        """The same by role: planner, reviewer, synthesizer, workers."""
        return usage_by_role(self.state)

    @property
    def iterations(self) -> int:
        """Reviews so far."""
        return self.state.iterations

    @property
    def replans(self) -> int:
        """Further plans, made after a required subtask had failed."""
        return self.state.replans

    @property
    def best_effort(self) -> bool:
        """True if it is not all that was wanted."""
        return self.state.best_effort

    @property
    def compensated(self) -> list[str]:
        """Subtasks that were undone, in that order."""
        return list(self.state.compensated)

    @property
    def undo_errors(self) -> dict[str, str]:
        """Subtasks that could not be undone, and why."""
        return dict(self.state.undo_errors)

    @property
    def output(self) -> Any:
        """Output of the synthesizer, if it is held in memory; else None."""
        return None if isinstance(self.state.output, NotHeld) else self.state.output

    @property
    def error(self) -> str:
        """Why it cannot succeed. Empty: nothing is known that speaks against it."""
        ending = self.state.ending
        return "" if ending is None else ending.error

    @property
    def questions(self) -> list[Escalation]:
        """Its open questions, without those of its teams."""
        return list(self.state.escalations.values())

    def question(self, id_: str) -> Escalation | None:
        """Return one of these questions."""
        return self.state.escalations.get(id_)

    @property
    def phase(self) -> TaskPhase | None:
        """What is done beside its subtasks. None: nothing."""
        state = self.state
        if state.final is not None:
            return None
        if state.phase == "undoing" or state.undoing is not None:
            return "undoing"
        if state.ending is not None:
            return "ending"
        if state.paused:
            return "paused"
        if state.phase == "replanning":
            return "replanning"
        return self._phase_of_results() if state.phase == "running" else None

    def _phase_of_results(self) -> TaskPhase | None:
        """Say whether results are reviewed or combined; with ``review="each"`` also while other subtasks run."""
        state = self.state
        if state.open:
            return "reviewing" if state.review.waiting else None
        has_reviewer = self._port is not None and self._port.settings.reviewer is not None
        is_reviewed = not state.review.waiting if state.review.each else state.reviewed or not has_reviewer
        return "combining" if is_reviewed else "reviewing"

    def notes(self, now: float) -> tuple[str, ...]:
        """Say what is odd: about the plan, or a planner, reviewer or synthesizer that has failed."""
        state = self.state
        refusal, stage = state.refusal, state.stage
        refused = refusal.problems if refusal is not None and state.plan is None else ()
        notes = [*state.notes, *state.warnings, *(f"plan refused: {each}" for each in refused)]
        if (due := stage.due) is not None:
            again = max(0.0, due - now)
            notes.append(f"{stage.step} failed {stage.tries} times, next in {again:.1f} s: {stage.error}")
        return tuple(notes)

    def results(self) -> dict[str, Any]:
        """Return the results of the plan's subtasks that are held in memory."""
        return {
            node.id: node.value
            for node in list(self.state.nodes.values())
            if node.status is SubtaskStatus.SUCCEEDED and node.parent is None and not isinstance(node.value, NotHeld)
        }

    def report(self) -> Report | None:
        """Return the report of a task that has ended; None: it goes on.

        Raises:
            StoreError: a large result cannot be read.
        """
        if self._report is None and self._state is None and self._port is not None:
            self._report = self._port.report(self.id)
        if self._report is None and self.state.final is not None:
            self._report = report_of(self.state, lambda: self.records)
        return self._report

    # -- its subtasks --------------------------------------------------------------------------------------

    def counts(self) -> Counter[SubtaskStatus]:
        """Count its subtasks by status."""
        state = self.state
        return Counter(subtask_status_of(state, node, self._part_of) for node in list(state.nodes.values()))

    def done(self) -> list[str]:
        """Return the ids of the subtasks whose results are there."""
        return [node.id for node in list(self.state.nodes.values()) if node.status is SubtaskStatus.SUCCEEDED]

    def units(self, now: float = 0.0) -> list[UnitView]:
        """Look at its subtasks.

        Args:
            now: in seconds since 1970, by the tree's clock. 0: times leave out what goes on now.
        """
        reasons: _Reasons = {}
        return [self._unit(node, now, reasons) for node in list(self.state.nodes.values())]

    def unit(self, id_: str, now: float = 0.0) -> UnitView | None:
        """Look at one of them."""
        node = self.state.nodes.get(id_)
        return None if node is None else self._unit(node, now, {})

    def _unit(self, node: SubtaskState, now: float, reasons: _Reasons) -> UnitView:
        port, spec, state = self._port, node.spec, self.state
        status = subtask_status_of(state, node, self._part_of)
        queued_s, running_s, asked = node.queued_s, node.running_s, node.escalation
        waits: tuple[str, float | None] = "", None
        live = None
        if status is SubtaskStatus.QUEUED:
            queued_s += max(0.0, now - node.queued_at)
            if port is not None:
                lane = lane_of(state, node, port.path)
                if lane not in reasons:
                    reasons[lane] = put_off_by(port.workers, lane, now)
                waits = reasons[lane]
        elif node.status is SubtaskStatus.RUNNING:
            running_s += max(0.0, now - node.started_at)
            live = None if port is None else port.runtime.attempt_at(state, node)
        progress, stream = (None, None) if live is None else (live.progress, live.stream)
        due = node.due if status is SubtaskStatus.RETRYING else None
        return UnitView(
            node.id,
            status,
            node.worker,
            tuple(spec.depends_on),
            node.parent,
            node.attempt,
            queued_s,
            running_s,
            "" if status is SubtaskStatus.SUCCEEDED else node.error,
            spec.instruction,
            node.usage,
            node.started_at,
            node.ended_at,
            spec.worker,
            spec.capability,
            node.queued_at,
            spec.inputs,
            node.value if status is SubtaskStatus.SUCCEEDED else None,
            None if asked is None else asked.id,
            None if due is None else max(0.0, due - now),
            None if progress is None else (progress.fraction, progress.text),
            None if stream is None else stream.last_line,
            *waits,
        )

    # -- teams ---------------------------------------------------------------------------------------------

    @property
    def team_subtask(self) -> str | None:
        """The subtask that a team's part stands for. None: this is a task by itself."""
        parent = self.state.parent
        return None if parent is None else parent.rpartition("/")[2].rpartition("#")[0]

    def is_part_of(self, other: TaskView) -> bool:
        """Return True for a team's part of the other task."""
        return self.root == other.root and is_part_of(self.id, self.state.parent, other.id)

    def parts(self) -> dict[str, TaskView]:
        """Return what the teams of a tree that runs have of it, by the subtask that each was given.

        A part that the store has let go of, or cannot read, is left out.
        """
        try:
            ids = {each.subtask: each.part for each in self.records if isinstance(each, SubtaskStarted) and each.part}
        except StoreError:
            return {}
        parts = {subtask: self._part(id_) for subtask, id_ in ids.items()}
        return {subtask: part for subtask, part in parts.items() if part is not None}

    def _part(self, id_: str) -> TaskView | None:
        runtime = self._port.runtime if self._port is not None else None
        standing = runtime.store.standing(id_) if runtime is not None else None
        if runtime is None or standing is None or not standing.owner:
            return None
        port = runtime.port_at(standing.owner)
        part = TaskView(self.root, id_, state=port.states.get(id_), port=port)
        try:
            return part if part._state is not None or part.report() is not None or part.records else None
        except StoreError:
            return None

    def _knows(self, states: dict[str, TaskState]) -> None:
        def part_of(state: TaskState, node: SubtaskState) -> TaskState | None:
            return states.get(part_id_of(state.id, node, node.acts[-1], state.ids)) if node.acts else None

        self._part_of = part_of


def know_parts(tasks: Iterable[TaskView]) -> None:
    """Let each of these tasks of a store find the parts that teams have of it among them."""
    states: dict[str, dict[str, TaskState]] = {}
    for task in (tasks := list(tasks)):
        states.setdefault(task.root, {})[task.id] = task.state
    for task in tasks:
        task._knows(states[task.root])  # noqa: SLF001 - its own module


# -- a tree that runs ---------------------------------------------------------------------------------------


class SupervisorTasks:
    """The tasks of one supervisor of a tree that runs, as they stand now."""

    def __init__(self, port: OrchestratorPort) -> None:
        self._port = port
        self.path = port.path

    def now(self) -> float:
        """Return the time by the tree's clock, in seconds since 1970."""
        return self._port.time()

    @property
    def finished(self) -> int:
        """Tasks that have ended since the tree was started."""
        return self._port.finished

    def tasks(self) -> list[TaskView]:
        """Return the tasks that are at hand: those that go on, and those whose end is being recorded.

        A task that the orchestrator has not looked at yet is not among them.
        """
        root = self._port.system.root_path
        return [TaskView(root, state.id, None, state, self._port) for state in list(self._port.states.values())]

    def questions(self) -> list[Escalation]:
        """Return the questions that no one has answered, the oldest first."""
        return self._port.answers.open_questions()

    def queued(self) -> int:
        """Count the subtasks that wait for a worker."""
        return sum(1 for _ in self._queued())

    def oldest_queued_s(self) -> float:
        """Return how long the subtask has waited that has waited longest; 0 if none waits."""
        since = min((node.queued_at for node in self._queued()), default=None)
        return 0.0 if since is None else max(0.0, self.now() - since)

    def _queued(self) -> Iterator[SubtaskState]:
        for state in list(self._port.states.values()):
            yield from (node for node in list(state.nodes.values()) if node.status is SubtaskStatus.QUEUED)

    def breakers(self) -> dict[str, str]:
        """Return ``closed``, ``open`` or ``half_open`` of each worker that has a breaker, by its id."""
        return {row.id: row.breaker for row in self._port.rows() if row.breaker is not None}

    def breaker(self, worker: str) -> tuple[Literal["closed", "open", "half_open"], float | None] | None:
        """Return the state of a worker's breaker and, if it is open, the seconds until it lets a probe through."""
        entry = self._port.workers.get(worker)
        if entry is None or entry.breaker is None:
            return None
        now, breaker = self.now(), entry.breaker
        state = "half_open" if breaker.state == "open" and breaker.admits(now) else breaker.state
        return state, breaker.retry_in_s(now) if state == "open" else None


def tasks_of(system: System) -> dict[str, SupervisorTasks]:
    """Return the tasks of a tree, by the path of the supervisor that has them."""
    return {path: SupervisorTasks(port) for path, port in task_runtime_of(system).ports.copy().items()}


def store_paused_s(system: System) -> float | None:
    """Return for how many seconds the store of a tree could not be written. None: it can, or it is in memory."""
    durable = task_runtime_of(system).durable
    return None if durable is None else durable.paused_s


def on_commit(system: System, told: Callable[[float], object]) -> Callable[[], None]:
    """Have ``told(seconds)`` called for each commit of the store, on the thread that writes. Returns how to end it."""
    told_of, key = task_runtime_of(system).commits, object()
    told_of[key] = told

    def end() -> None:
        told_of.pop(key, None)

    return end


def when_kept(system: System, task: str, act: Callable[[], object]) -> None:
    """Call ``act()`` now or, if the task is just being submitted, once it is kept; never if it is refused."""
    task_runtime_of(system).when_kept(task, act)


def trace_unfinished(system: System) -> None:
    """Trace all tasks that go on from here on. What they have under way already is not traced."""
    task_runtime_of(system).trace_unfinished()


# -- events -------------------------------------------------------------------------------------------------


def is_of_part(event: TaskEvent) -> bool:
    """Return True for an event of a team's part of a task. What a part uses up comes once more with its team."""
    return MARK in event.task


def is_lost(why: str) -> bool:
    """Return True if this reason, or kind of a failure, says that the process of an attempt has died."""
    return why in {LOST, FailureKind.LOST}


# -- attempts, for a tracer ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """What is known of an attempt when it begins."""

    task: str
    subtask: str
    path: str
    worker: str
    type: str
    """Type of the worker: tool, agent, workflow, team."""
    role: str
    """work, plan, review, combine or undo."""
    number: int
    """1 is the first."""
    variables: Variables | None
    """Contextvars that its code would see."""


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended."""

    worker: str
    has_error: bool
    caught: BaseException | None
    """The exception that left the worker's code."""
    crashed: bool
    ended_by: str | None
    """What ended it from outside: timeout, idle, step, cancel ..."""
    usage: Usage
    instruction: str
    inputs: dict[str, Any]
    is_done: bool
    result: Any
    incarnation: Incarnation | None


def attempt_facts(attempt: Attempt) -> AttemptFacts:
    """Return what is known of an attempt that begins."""
    spec = attempt.spec
    workers = getattr(attempt.owner, "workers", None)
    entry = workers.get(spec.worker) if workers is not None else None
    kind = str(entry.executable.type) if entry is not None else "tool"
    return AttemptFacts(
        spec.task, attempt.subtask.id, spec.path, spec.worker, kind, spec.role, spec.values.number, spec.variables
    )


def attempt_end(attempt: Attempt) -> AttemptEnd:
    """Return how an attempt has ended."""
    outcome, done = attempt.code_outcome, attempt.value
    return AttemptEnd(
        worker=attempt.spec.worker,
        has_error=attempt.error is not None,
        caught=outcome.caught,
        crashed=outcome.crashed,
        ended_by=attempt.ended_by,
        usage=attempt.used,
        instruction=str(attempt.subtask),
        inputs=attempt.spec.values.inputs,
        is_done=done is not None,
        result=getattr(done, "value", None),
        incarnation=attempt.incarnation,
    )
