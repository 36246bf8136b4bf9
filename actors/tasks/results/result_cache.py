"""Results of tasks that an orchestrator holds, and those that it reads again from the journal when it needs it.

The most that is held of one task is its ``context_tokens`` (see ``actors.tasks.results.result_budget``). A result that
was let go is marked in its node and stays in the journal. Where the journal itself has left it in the store, what is
handed out here is a ``Dropped`` (``actors.tasks.journal.dropped``): it is put back before the effect that needs it
(``actors.tasks.orchestration.fetching``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from actors.tasks.journal.dropped import NotHeld
from actors.tasks.journal.effect_record import EffectRecord
from actors.tasks.journal.fold import fold
from actors.tasks.journal.reporting import kept_results
from actors.tasks.journal.subtask_state import SubtaskState, act_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.task import SUCCEEDED
from actors.tasks.results.result_budget import NEEDED, RESULT, SUMMARY, ResultBudget, summary_of
from actors.tasks.results.tokens import SHORT, estimate_tokens, tokens_of

LARGE_TOKENS: Final = 250_000
"""A result that is worth more takes a store longer than a moment."""


class Evicted(NotHeld):
    """Stands for a result that is not held, and that the journal has; a short cut of it is held."""

    __slots__ = ("summary",)

    def __init__(self, summary: str) -> None:
        self.summary = summary


_BEFORE: Final = Evicted("")
"""The result of an act that was revised: only its undo may want it once more."""


class ResultCache:
    """The results that are held, by task."""

    def __init__(self, limit: int, read: Callable[[str], Sequence[Any]], settle: Callable[[TaskState], object]) -> None:
        """Make it for one orchestrator.

        Args:
            limit: tokens of one task's results that are held.
            read: reads the journal of a task.
            settle: is called where a result is so large that a store takes longer than a moment for it.
        """
        self._limit, self._read, self._settle = limit, read, settle
        self._stores: dict[str, ResultBudget] = {}
        self._let_go: set[str] = set()
        """Tasks of which something is not held."""

    def hold(self, state: TaskState, node: SubtaskState) -> None:
        """A new result; older and less important ones may have to go for it."""
        if isinstance(node.value, NotHeld):
            self._let_go.add(state.id)
            return
        store = self._stores.get(state.id)
        if store is None:
            store = self._stores[state.id] = ResultBudget(self._limit)
            store.pin("goal", estimate_tokens(state.task.goal))
            if state.plan is not None:
                store.pin("plan", sum(estimate_tokens(spec.instruction) for spec in state.plan.subtasks))
        for act in (node.acts or ())[:-1]:
            act.result = _BEFORE if act.done else None
        value = node.value
        small = value is None or (type(value) is str and len(value) <= SHORT)
        tokens = node.tokens  # by the user's counter, which has run where the result was made
        if tokens is None:
            tokens = len(value or "") // 4 + 1 if small else tokens_of(value)
        if tokens > LARGE_TOKENS:
            self._settle(state)
        store.put(node.id, tokens, NEEDED if node.wanted else RESULT)
        for id_ in node.spec.depends_on:
            if not state.nodes[id_].wanted:
                store.importance(id_, RESULT)
        if store.excess():
            self._evict_some(state, store)

    def _evict_some(self, state: TaskState, store: ResultBudget) -> None:
        for id_ in store.evict():
            node = state.nodes.get(id_)
            if node is not None and not isinstance(node.value, NotHeld):
                self._let_go.add(state.id)
                node.value = Evicted(summary_of(node.value))
                for act in node.acts or ():
                    act.result = node.value if act.done else None
                store.put(f"summary of {id_}", estimate_tokens(node.value.summary), SUMMARY)

    def results(self, state: TaskState, ids: Sequence[str]) -> dict[str, Any]:
        """The results of these subtasks, those that there are; from the journal where let go. Nobody changes them.

        Those that the journal has left in the store have a ``Dropped`` in their place.
        """
        found = {id_: node.value for id_ in ids if (node := state.nodes[id_]).status is SUCCEEDED}
        if state.id not in self._let_go or not any(isinstance(value, Evicted) for value in found.values()):
            return found
        kept = kept_results(self._read(state.id))
        return {id_: kept[id_] if isinstance(value, Evicted) else value for id_, value in found.items()}

    def last_result(self, state: TaskState, node: SubtaskState) -> Any:
        """Return the last result of a subtask, also where it is being done anew; None: it has had none."""
        if not isinstance(node.value, Evicted):
            return node.value
        return kept_results(self._read(state.id)).get(node.id)

    def result_of(self, state: TaskState, node: SubtaskState, act: EffectRecord) -> Any:
        """Return the result that an undo gets: that of its act, which need not be the last one of its subtask."""
        if not isinstance(act.result, Evicted):
            return act.result
        then = fold(state.id, self._read(state.id)).nodes[node.id]
        kept = act_of(then, act.worker, act.number)
        return kept.result if kept is not None else None

    def forget(self, state: TaskState) -> None:
        """The task is over: what its report shows is read where it is not held."""
        self._stores.pop(state.id, None)
        self._let_go.discard(state.id)
