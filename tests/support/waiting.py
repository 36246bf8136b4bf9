"""Who acts on what is open: the invariant behind every task that ends.

No subtask is open without somebody who will act on it: an attempt that runs, a place in the queue, a timer, a question,
a dependency that is open itself, or an order that is on its way. Looked at after every message of every orchestrator.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.task import SubtaskStatus

LARGE = 200
"""Plans with more subtasks are not looked at, nor more tasks at once: every message would cost as much as they are."""


def stranded(orchestrator: Any) -> Iterator[str]:
    """What is open and nobody will act on."""
    core = orchestrator.core
    if not core.begun or core.closing or core.port.orders or len(core.states) > LARGE:
        return
    if core.system.is_ending:
        return  # teams are down before this one is: what only they could do is left to the next process
    for state in list(islice(core.states.values(), LARGE)):
        if state.final is None and len(state.nodes) <= LARGE and not orchestrator.parts.teams.is_held(state):
            yield from _of(orchestrator, state)


def _of(orchestrator: Any, state: TaskState) -> Iterator[str]:
    if state.phase not in {"new", "planning"} and not state.open and not _goes_on(orchestrator, state):
        yield f"{state.id}: all is done, and nothing follows"
    for node in list(state.nodes.values()):
        if not node.is_done:
            why = _why(orchestrator, state, node)
            if why:
                yield f"{state.id}/{node.id} is {node.status}, {why}"


def _goes_on(orchestrator: Any, state: TaskState) -> bool:
    runs = any(attempt.task == state.id for attempt in orchestrator.core.runtime.attempts.values())
    calls_again = state.undoing is not None  # its worker was stopped: a timer has it called once more
    calls_again |= state.stage.due is not None  # a step has failed, and a timer has it called once more
    return runs or calls_again or bool(state.escalations) or any(node.due is not None for node in state.nodes.values())


def _why(orchestrator: Any, state: TaskState, node: SubtaskState) -> str:  # noqa: PLR0911 - a table
    """Why nobody will act on it; nothing where somebody will."""
    asked = node.ask in orchestrator.core.runtime.asks
    may_be_asked = node.ask in orchestrator.parts.delegation.unclaimed
    if node.ask is not None and not asked and not may_be_asked and node.status is not SubtaskStatus.RUNNING:
        return "and nobody waits for it"
    match node.status:
        case SubtaskStatus.PENDING:
            needed = [state.nodes[each] for each in node.spec.depends_on]
            return "" if any(not state.is_settled(each) for each in needed) else "and nothing is missing"
        case SubtaskStatus.QUEUED:
            waits = orchestrator.parts.queue.holds(node) or orchestrator.parts.queue.is_put_off(node)
            return "" if waits or ((state.paused or may_be_asked) and not asked) else "and in no queue"
        case SubtaskStatus.RUNNING:
            live = orchestrator.core.attempts.of(node)
            row = orchestrator.core.attempts.get(live.key) if live is not None else None
            return "" if row is not None and row.attempt is live else "without attempt"
        case SubtaskStatus.RETRYING:
            return "" if node.due is not None else "without a time"
        case SubtaskStatus.WAITING:
            return "" if node.escalation is not None or node.answered is not None else "without a question"
    return "which is no state of an open one"
