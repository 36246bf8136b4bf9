"""Results of a task for those who need them: attempts, reviewers, synthesizers, undos, and the report.

With a store that outlives the process, a result that is not small stays there: a ``Dropped`` stands in its place, and
it is fetched for the effect that needs it (``actors.tasks.orchestration.fetching``). Nobody changes a result.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from actors.tasks.execution.attempt_steps import NO_STEPS, KnownSteps
from actors.tasks.execution.packing import Note, Notes
from actors.tasks.journal.dropped import Dropped, NotHeld
from actors.tasks.model.shared_values import is_small
from actors.tasks.model.task import SUCCEEDED
from actors.tasks.recovery.next_step import StageFacts, planned_results

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.tasks.journal.kept_steps import KeptSteps
    from actors.tasks.journal.subtask_state import SubtaskState
    from actors.tasks.journal.task_state import TaskState
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort


class TaskResults:
    """Results of the tasks of one orchestrator."""

    def __init__(self, port: OrchestratorPort) -> None:
        self._port = port

    def hold(self, state: TaskState, node: SubtaskState) -> None:
        """Leave a new result, whose record was just made, in the store if it is not small."""
        value = node.value
        if self._port.runtime.durable is None or isinstance(value, NotHeld) or is_small(value):
            return
        node.value = Dropped(state.id, state.events - 1)
        for act in (node.acts or ())[-1:]:
            if act.result is value:
                act.result = node.value

    def of(self, state: TaskState, ids: Iterable[str]) -> dict[str, Any]:
        """Return the results of these subtasks, those that there are."""
        return {id_: node.value for id_ in ids if (node := state.nodes[id_]).status is SUCCEEDED}

    def all(self, state: TaskState) -> dict[str, Any]:
        """Return the results of the plan."""
        return self.of(state, planned_results(state))

    def asked_with(self, state: TaskState, record: int | None) -> Any:
        """Return the state that a worker has asked a person with, from the record that has it; None: there is none."""
        return None if record is None else self._port.runtime.outline(state.id, record)[0].state  # type: ignore[attr-defined]

    def steps(self, state: TaskState, kept: KeptSteps) -> KnownSteps:
        """Return the steps that the present attempt of a subtask has done, from their records."""
        if not kept.by_key:
            return NO_STEPS
        first = min(step.record for step in kept.by_key.values())
        records: Any = self._port.runtime.outline(state.id, first)
        found = {key: records[step.record - first].value for key, step in kept.by_key.items()}
        own = [key for key, step in kept.by_key.items() if not step.is_of_subtask] if kept.was_put_off else ()
        return KnownSteps({key: step.fingerprint for key, step in kept.by_key.items()}, found, frozenset(own))

    def facts(self, state: TaskState, *, is_busy: bool = False) -> StageFacts:
        """Return the facts that decide what is next for a task."""
        port = self._port
        return StageFacts(port.settings, port.time(), port.system.random, partial(self.all, state), is_busy)


def notes_of(state: TaskState, results: Iterable[str]) -> Notes:
    """Return what is known of these results beside their values."""
    found = {}
    for id_ in results:
        node = state.nodes[id_]
        if node.summary or node.importance is not None or node.passed:
            found[id_] = Note(node.summary, node.importance, node.passed)
    return found
