"""Results of a task for those who need them: attempts, reviewers, synthesizers, undos, and the report.

Most are held (``actors.tasks.results.result_cache``); others are read again from the journal.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from actors.tasks.execution.attempt_steps import NO_STEPS, KnownSteps
from actors.tasks.execution.packing import Note, Notes
from actors.tasks.recovery.next_step import StageFacts, planned_results
from actors.tasks.results.result_cache import ResultCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from actors.tasks.journal.effect_record import EffectRecord
    from actors.tasks.journal.kept_steps import KeptSteps
    from actors.tasks.journal.subtask_state import SubtaskState
    from actors.tasks.journal.task_state import TaskState
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort


class TaskResults:
    """Results of the tasks of one orchestrator."""

    def __init__(self, port: OrchestratorPort, settle: Callable[[TaskState], object]) -> None:
        """Make them for one incarnation; ``settle`` is called where a result takes a store longer than a moment."""
        self._port = port
        self.cache = ResultCache(port.settings.context_tokens, port.runtime.outline, settle)

    def one(self, state: TaskState, node: SubtaskState) -> dict[str, Any]:
        """Return the result of a subtask that has succeeded, under its id."""
        return self.cache.results(state, [node.id])

    def of(self, state: TaskState, ids: Sequence[str]) -> dict[str, Any]:
        """Return the results of these subtasks, those that there are."""
        return self.cache.results(state, ids) if ids else {}

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

    def of_act(self, state: TaskState, node: SubtaskState, act: EffectRecord) -> Any:
        """Return the result for an undo to undo; None where it is not known."""
        return self.cache.result_of(state, node, act) if act.done else None

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
