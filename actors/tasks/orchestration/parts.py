"""Parts of one incarnation of an orchestrator, made in the order of what they need: none knows one that comes later.

::

    core          its tasks, workers and attempts; act, at, time        (``orchestrator_core``)
    recording     every record is made here; follows it with ``FollowUpHandlers.follow``
    queue, team_calls, control, results, turns       what the others work with
    stages, lifecycle                                a task as a whole
    delegation, teams                                asks, and work for the orchestrator above
    deciding, breakers, handoff, dispatcher, undo    attempts and undos
    questions                                        people

The one way back is ``follow_up_handlers``: what follows from a record is carried out by whichever part does it.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.tasks.orchestration.attempt_control import AttemptControl
from actors.tasks.orchestration.attempt_dispatcher import AttemptDispatcher, DispatchParts
from actors.tasks.orchestration.breaker_records import BreakerRecords
from actors.tasks.orchestration.deciding import Deciding
from actors.tasks.orchestration.delegation import Delegation
from actors.tasks.orchestration.follow_up_handlers import FollowUpHandlers
from actors.tasks.orchestration.handoff import AttemptHandoff, HandoffParts
from actors.tasks.orchestration.lifecycle import TaskLifecycle
from actors.tasks.orchestration.open_questions import OpenQuestions
from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
from actors.tasks.orchestration.part_times import PartTimes
from actors.tasks.orchestration.part_usage import PartUsage
from actors.tasks.orchestration.recording import Recording
from actors.tasks.orchestration.stages import TaskStages
from actors.tasks.orchestration.step_turns import Turns
from actors.tasks.orchestration.subtask_queue import SubtaskQueue
from actors.tasks.orchestration.task_results import TaskResults
from actors.tasks.orchestration.team_calls import TeamCalls
from actors.tasks.orchestration.teams import Teams
from actors.tasks.orchestration.undo_dispatch import UndoDispatch, UndoParts


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of one incarnation."""

    handlers: FollowUpHandlers
    recording: Recording
    queue: SubtaskQueue
    team_calls: TeamCalls
    control: AttemptControl
    results: TaskResults
    turns: Turns
    stages: TaskStages
    lifecycle: TaskLifecycle
    delegation: Delegation
    teams: Teams
    deciding: Deciding
    breakers: BreakerRecords
    handoff: AttemptHandoff
    dispatcher: AttemptDispatcher
    undo: UndoDispatch
    part_usage: PartUsage
    part_times: PartTimes
    questions: OpenQuestions


def parts_of(core: OrchestratorCore) -> Parts:
    """Make the parts of an incarnation."""
    handlers = FollowUpHandlers(core)
    recording = Recording(core, handlers.follow)
    queue, team_calls = SubtaskQueue(core), TeamCalls(core)
    control = AttemptControl(core, team_calls)
    results = TaskResults(core.port)
    turns = Turns(core, recording, control.end)
    stages = TaskStages(core.port, recording, turns, results, control, handlers.advance)
    lifecycle = TaskLifecycle(core, recording, queue, control, results, stages, handlers)
    delegation = Delegation(core, recording, lifecycle, handlers.tell_result)
    teams = Teams(core, recording, lifecycle, queue, control, handlers)
    deciding = Deciding(core, recording, lifecycle, delegation.is_wanted, teams.paused)
    breakers = BreakerRecords(core, queue.reopen)
    handoff = AttemptHandoff(core, HandoffParts(recording, results, control, breakers, deciding, team_calls))
    dispatcher = AttemptDispatcher(
        core, DispatchParts(queue, control, handoff, recording, deciding, breakers, delegation, team_calls)
    )
    undo = UndoDispatch(core, UndoParts(recording, turns, results, control, handoff))
    questions = OpenQuestions(core, recording, lifecycle, undo, teams.is_held)
    part_usage = PartUsage(core, recording, lifecycle.go_on)
    part_times = PartTimes(core, recording, lifecycle, queue, control)
    parts = Parts(
        handlers, recording, queue, team_calls, control, results, turns, stages, lifecycle, delegation, teams, deciding,
        breakers, handoff, dispatcher, undo, part_usage, part_times, questions,
    )  # fmt: skip
    handlers.connect(parts)
    return parts
