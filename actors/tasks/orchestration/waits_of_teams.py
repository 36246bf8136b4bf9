"""Waits among the workers of all orchestrators, as ``find_wait_cycle`` is told of them.

A subtask that was given to a team waits for what the team does of it: for the subtasks of its part that run, or wait
for a member. So a circle may lead through members of teams, on any level. All orchestrators run on one loop, and this
is called there: nothing changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from actors.tasks.model.task import SubtaskStatus
from actors.tasks.orchestration.messages import WaitsChanged
from actors.tasks.scheduling.selection import lane_of
from actors.tasks.scheduling.wait_cycle import find_wait_cycle

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.journal.subtask_state import SubtaskState
    from actors.tasks.journal.task_state import TaskState
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
    from actors.tasks.orchestration.task_runtime import TaskRuntime

_Wanted: TypeAlias = "tuple[OrchestratorPort, TaskState, SubtaskState]"
_GOES_ON: Final = frozenset({SubtaskStatus.QUEUED, SubtaskStatus.RUNNING})
_LATER: Final = frozenset({SubtaskStatus.RETRYING, SubtaskStatus.WAITING})
"""Where a subtask goes on by itself, at a time or with an answer."""


def wait_cycle_of(port: OrchestratorPort, state: TaskState, node: SubtaskState) -> tuple[str, ...]:
    """Return the chain of those who wait for each other if a subtask can never be done; empty where it can."""
    return find_wait_cycle((port, state, node), _holders, partial(_waits_for, port.runtime), _path_of)


def tell_of_waits(runtime: TaskRuntime, parent: str) -> None:
    """Have the ask looked at again that a part belongs to, where somebody asked for it, once who can begin has begun.

    Whoever asks a team knows not which member is to do it: only the team does, when it has a plan. So there are two
    moments at which a circle is closed: an ask begins, and a part of what was asked for waits in line. Each enters what
    it waits for first, then looks.

    Args:
        runtime: of the tree.
        parent: key of the attempt that the part is for.
    """
    attempt = runtime.attempts.get(parent)
    while attempt is not None:
        port = runtime.ports.get(attempt.owner.path)
        state = None if port is None else port.states.get(attempt.task)
        node = None if state is None else state.nodes.get(attempt.subtask.id)
        if port is None or state is None or node is None:
            return
        if node.ask is not None:
            port.post(WaitsChanged(node.ask))
            return
        attempt = None if state.parent is None else runtime.attempts.get(state.parent)


def _path_of(attempt: Attempt) -> str:
    return attempt.spec.path


def _asked_for(runtime: TaskRuntime, key: str) -> _Wanted | None:
    """Return what was asked for; None: nobody has taken it up yet, or it is answered."""
    ask = runtime.asks.get(key)
    found = None if ask is None else ask.port.asked.get(key)
    return None if ask is None or found is None else (ask.port, *found)


def _holders(wanted: _Wanted) -> list[Attempt] | None:
    """Return the attempts that keep everybody busy who could do it; None where somebody has room, or it is done."""
    port, state, node = wanted
    if node.is_done:
        return None
    if node.status is SubtaskStatus.RUNNING:
        attempt = port.attempts.of(node)
        return [attempt] if attempt is not None else None
    able = port.workers.primaries(lane_of(state, node, port.path))
    if not able or any(entry.has_room() or len(entry.attempts) < len(entry.members) for entry in able):
        return None
    rows = [port.attempts.get(key) for entry in able for key in entry.attempts]
    return [row.attempt for row in rows if row is not None]


def _waits_for(runtime: TaskRuntime, attempt: Attempt) -> Iterable[_Wanted | None] | None:
    """Return what an attempt waits for; None where it does not wait."""
    if asks := attempt.asks.copy():
        return (_asked_for(runtime, key) for key in asks)
    port = runtime.ports.get(attempt.spec.path) if attempt.spec.part else None
    state = None if port is None else port.states.get(attempt.spec.part)
    if port is None or state is None or any(node.status in _LATER for node in state.nodes.values()):
        return None
    going = [(port, state, node) for node in state.nodes.values() if node.status in _GOES_ON]
    return going or None
