"""Calls to teams: an attempt is given to a nested supervisor with ``tasks=``, ended there, or taken from it.

To its parent's orchestrator such a team is one more worker. What the team's own orchestrator does with an attempt
stands in ``actors.tasks.orchestration.teams``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.messaging.mailbox import Refusal
from actors.tasks.journal.subtask_state import SubtaskState, part_id_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.task import SubtaskStatus
from actors.tasks.orchestration.attempt_table import number_in
from actors.tasks.orchestration.messages import Cancel, PartDue, Pause, SetPriority
from actors.tasks.orchestration.part_usage import tell_of_gone
from actors.tasks.orchestration.task_runtime import ORCHESTRATOR

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.scheduling.worker_registry import RegistryEntry

KEEPS: Final = frozenset({SubtaskStatus.RUNNING, SubtaskStatus.QUEUED, SubtaskStatus.RETRYING})
"""Where a subtask goes on with the same team."""


class TeamCalls:
    """Calls of one orchestrator to the teams among its workers."""

    def __init__(self, core: OrchestratorCore) -> None:
        self._core = core

    def give(self, attempt: Attempt, entry: RegistryEntry) -> bool:
        """Have a team do an attempt; False where it is down."""
        box: Any = self._core.system.boxes.get(f"{entry.path}/{ORCHESTRATOR}")
        return box is not None and box.put((attempt, None, None)) is None

    def end(self, attempt: Attempt, why: str) -> None:
        """Have a team end, or pause, what it has."""
        if attempt.ended_by is not None and why == "preempt":
            return
        attempt.end_for(why, overrules=True)
        port, part = self._core.runtime.ports.get(attempt.spec.path), attempt.spec.part
        if port is not None:
            port.tell(Pause(part) if why == "preempt" else Cancel(part, why, number_in(attempt.key)))

    def prioritize(self, attempt: Attempt) -> None:
        """The priority of a task has changed: that of a team's part of it follows."""
        port = self._core.runtime.ports.get(attempt.spec.path) if attempt.spec.part else None
        if port is not None:
            port.tell(SetPriority(attempt.spec.part, attempt.priority))

    def set_due(self, attempt: Attempt, due: float | None) -> None:
        """Give a team's part the time that whoever wants it has now."""
        attempt.due = due  # where also an orchestrator of the team reads it that has yet to come
        port = self._core.runtime.ports.get(attempt.spec.path) if attempt.spec.part else None
        if port is not None:
            port.tell(PartDue(attempt.spec.part))

    def detach_team(self, state: TaskState, node: SubtaskState, taker: RegistryEntry | None = None) -> None:
        """A subtask goes on, or ends, without the team that it had been given to: what that has of it ends."""
        act = node.acts[-1] if node.acts else None
        if act is None or not act.open or (taker is not None and taker.id == act.worker):
            return
        port = self._core.runtime.ports.get(f"{self._core.path}/{act.worker}")
        if port is not None:
            port.tell(Cancel(part_id_of(state.id, node, act, state.ids), "withdrawn", act.attempt))

    def parted(self, state: TaskState, node: SubtaskState) -> None:
        """A subtask has ended, or waits for a person, however it came to that: no team has a part of it any longer."""
        acts = node.acts
        if not acts or not acts[-1].open or node.status in KEEPS:
            return
        if node.escalation is None or not node.escalation.undoing:
            self.detach_team(state, node)

    def gone(self, entry: RegistryEntry) -> None:
        """A team is down for good: nobody there will answer for what it had."""
        core = self._core
        undos = [
            each
            for each in list(core.runtime.attempts.values())
            if each.spec.role == "undo" and each.owner is core.port
        ]
        given = [each for each in undos if each.call is None and each.spec.path == entry.path]
        rows = [row for key in entry.attempts if (row := core.attempts.get(key)) is not None]
        for attempt in [*(row.attempt for row in rows), *given]:
            tell_of_gone(attempt, core.runtime)
            attempt.fail(core.system.stopped_error(entry.path, Refusal.STOPPED))
