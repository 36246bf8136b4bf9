"""Who is given the next subtask of a lane. Pure, but for looking at the registry.

The rules (orchestration.md, points 10, 11, 16): among those who can do it, run and whose breaker admits, the one with
the fewest attempts; backups only where no primary admits; nobody who waits for this task himself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import RecursionDetectedError, Rejected
from actors.tasks.errors import BreakerOpenError, NoCapableWorkerError
from actors.tasks.node import Node
from actors.tasks.outcome import Failure, Kind
from actors.tasks.schedule import LaneKey
from actors.tasks.staff import Entry, Staff

if TYPE_CHECKING:
    from actors.tasks.orchestrator import Orchestrator
    from actors.tasks.state import TaskState

_OPEN = Failure(Kind.BREAKER, BreakerOpenError("", (), 0.0))
_NOBODY = Failure(Kind.NOBODY, NoCapableWorkerError("", (), ()))


def lane_of(state: TaskState, node: Node, path: str) -> LaneKey:
    """The lane in which a subtask waits."""
    standing, spec = node.standing, node.spec
    if not standing.rejected and not standing.tried and not state.chain and not node.lineage:
        return LaneKey(spec.worker, None if spec.worker is not None else spec.capability)
    without = {*standing.rejected, *waiting_for(state, node, path)}
    if standing.target is not None and standing.target not in without:
        return LaneKey(standing.target, None, tuple(sorted(without)))
    without.update(standing.tried)  # whoever took over said that it is not theirs: that gives nobody fresh tries
    return LaneKey(spec.worker, None if spec.worker is not None else spec.capability, tuple(sorted(without)))


def waiting_for(state: TaskState, node: Node, path: str) -> set[str]:
    """Ids of siblings that wait for this subtask: one that they would have to do could never be done."""
    chain = chain_of(state, node)
    prefix = f"{path}/"
    return {each[len(prefix) :].partition("/")[0] for each in chain if each.startswith(prefix)}


def chain_of(state: TaskState, node: Node) -> tuple[str, ...]:
    """Paths of those who wait for a subtask, the first asker first."""
    return node.chain or state.chain


def serve(staff: Staff, key: LaneKey, now: float) -> Entry | Failure | None:
    """Who takes the next one of a lane; None: those who could are busy, and the lane waits for them."""
    primaries, backups = staff.primaries(key), []
    found = _among(primaries, now)
    if isinstance(found, Failure):
        backups = staff.backups(primaries, key.without)
        second = _among(backups, now)
        found = found if second is _NOBODY else second
    if found is None:
        for entry in (*primaries, *backups):  # also those that are down, or refused: they may be the first to be free
            entry.lanes.add(key)
    return found


def _among(entries: list[Entry], now: float) -> Entry | Failure | None:
    best: Entry | None = None
    refused = waits = False
    for entry in entries:
        if entry.is_gone:
            continue
        if entry.breaker is not None and not entry.breaker.admits(now):
            refused = True
        elif not entry.has_room():
            waits = True
        elif best is None or len(entry.attempts) < len(best.attempts):
            best = entry
    if best is not None:
        return best
    if waits:
        return None
    return _OPEN if refused else _NOBODY


def nobody(failure: Failure, state: TaskState, node: Node, to: Orchestrator) -> Failure:
    """The same failure, told of this subtask."""
    spec, staff = node.spec, to.staff
    wanted = spec.worker or spec.capability or spec.id
    able = staff.primaries(LaneKey(spec.worker, spec.capability))
    waiting = waiting_for(state, node, to.path)
    if failure.kind is Kind.BREAKER:
        now = to.time()
        breakers = [entry.breaker for entry in able if entry.breaker is not None]
        left = min((breaker.retry_in_s(now) for breaker in breakers), default=0.0)
        return Failure(Kind.BREAKER, BreakerOpenError(spec.id, tuple(entry.id for entry in able), left))
    if waiting and any(entry.id in waiting for entry in able):
        target = next(entry.path for entry in able if entry.id in waiting)
        error = RecursionDetectedError((*chain_of(state, node), target))
        return Failure(Kind.RECURSION, error, retryable=False)
    if node.standing.rejected:
        said, last = ", ".join(node.standing.rejected), node.error.removeprefix("Rejected: ")
        text = f"{said} said that it is not theirs, and there is nobody else. Last: {last}"
        return Failure(Kind.REJECTED, Rejected(text))
    known = tuple(name for entry in staff for name in (entry.id, *sorted(entry.executable.capabilities)))
    return Failure(Kind.NOBODY, NoCapableWorkerError(state.id, (wanted,), known), retryable=False)
