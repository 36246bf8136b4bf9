"""Selection of the worker for the next unit of a lane. Pure, but for looking at the registry.

The rules (CONTRACT.md 6): among those who can do it, run and whose breaker admits, the one with the fewest attempts;
backups only where no primary admits; nobody who waits for this unit himself. An open breaker puts off and does not use
up: where nobody admits, the lane waits for the first who does, and no attempt is made of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import lru_cache
from typing import Final

from actors.model.errors import RecursionDetectedError, Rejected
from actors.tasks.journal.fold import TaskState
from actors.tasks.journal.unit import Unit
from actors.tasks.model.outcome import Failure, FailureKind
from actors.tasks.model.task import same_instruction
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.scheduling.ready_queue import LaneKey
from actors.tasks.scheduling.worker_registry import RegistryEntry, WorkerRegistry

_NOBODY: Final = Failure(FailureKind.NOBODY, NoCapableWorkerError())


def chain_of(state: TaskState, unit: Unit) -> tuple[str, ...]:
    """Return the paths of those who wait for a unit, the first asker first: workers, and the teams that it is in."""
    if unit.ask.chain:
        return unit.ask.chain
    above = unit.above
    if above is None or above.above is None:
        return (*state.chain, state.path)
    return (*chain_of(state, above), unit.scope)


def lineage_of(state: TaskState, unit: Unit) -> tuple[str, ...]:
    """Return the instructions that those were given who wait for a unit."""
    if unit.ask.lineage:
        return unit.ask.lineage
    above = unit.above
    if above is None or above.above is None:
        return state.lineage
    words = same_instruction(above.spec.instruction or state.task.goal, above.spec.inputs)
    return (*lineage_of(state, above), words)


def lane_of(state: TaskState, unit: Unit) -> LaneKey:
    """The lane in which a unit waits."""
    standing, spec = unit.standing, unit.spec
    capability = None if spec.worker is not None else spec.capability
    home = unit.home if unit.kept is not None or unit.steps is not None else None
    is_plain = not standing.rejected and not standing.tried and home is None
    if is_plain and not state.chain and unit.asker is None and (unit.above is None or unit.above.above is None):
        return _lane_of_anybody(unit.scope, spec.worker, capability)
    without = {*standing.rejected, *waiting_for(state, unit)}
    without.update(standing.tried)  # also where whoever took over said that it is not theirs: nobody has fresh tries
    first = home if home is not None and home not in without else standing.target
    worker = first if first is not None and first not in without else spec.worker
    return LaneKey(unit.scope, worker, capability, tuple(sorted(without)))


@lru_cache(maxsize=1024)
def _lane_of_anybody(scope: str, worker: str | None, capability: str | None) -> LaneKey:
    """Return the key of a lane that nobody is kept from: most units wait in one of a few such."""
    return LaneKey(scope, worker, capability)


def waiting_for(state: TaskState, unit: Unit) -> set[str]:
    """Ids of siblings that wait for this unit: one that they would have to do could never be done."""
    prefix = f"{unit.scope}/"
    chain = chain_of(state, unit)
    return {each[len(prefix) :].partition("/")[0] for each in chain if each.startswith(prefix)}


def choose_worker(workers: WorkerRegistry, key: LaneKey, now: float) -> RegistryEntry | Failure | None:
    """Return the worker for the next of a lane; None: those who could are busy or put it off, and the lane waits."""
    primaries = workers.primaries(key)
    if len(primaries) == 1 and primaries[0].is_ready:
        return primaries[0]
    found = _among(primaries, now)  # first, and alone: one who can do it has room most of the time
    if isinstance(found, RegistryEntry):
        return found
    asked = primaries
    if found is not _Wait.BUSY:
        asked, is_put_off = [*primaries], found is _Wait.BREAKER
        for entries in _further(workers, key, primaries):
            asked += entries
            found = _among(entries, now)
            if isinstance(found, RegistryEntry):
                return found
            if found is _Wait.BUSY:
                break
            is_put_off = is_put_off or found is _Wait.BREAKER
        else:
            if not is_put_off:
                return _NOBODY
    for entry in asked:  # also those that are down, or refused: they may be the first to be free
        entry.lanes.add(key)
    return None


def awaited(workers: WorkerRegistry, key: LaneKey, now: float) -> list[RegistryEntry] | None:
    """Return the workers that a lane waits for, by the rules of ``choose_worker``: they are busy, or have a probe.

    None where it need not wait for what anybody does now: there is nobody, somebody has room, or a worker comes back,
    or lets its breaker admit it, by itself.
    """
    found: list[RegistryEntry] = []
    for entries in _in_turn(workers, key):
        able = [entry for entry in entries if not entry.is_gone]
        if any(entry.may_have_room() and entry.probe is None for entry in able):
            return None
        found += able
        if any(entry.admits(now) for entry in able):
            break
    return found or None


def _in_turn(workers: WorkerRegistry, key: LaneKey) -> Iterator[list[RegistryEntry]]:
    """Yield the workers that are asked, group by group: the next one only where nobody of those before admits."""
    primaries = workers.primaries(key)
    yield primaries
    yield from _further(workers, key, primaries)


def _further(workers: WorkerRegistry, key: LaneKey, primaries: list[RegistryEntry]) -> Iterator[list[RegistryEntry]]:
    """Yield the groups after the first."""
    yield workers.backups(primaries, key.without)
    if key.worker is not None and key.capability is not None:
        without = tuple(sorted({*key.without, key.worker}))
        others = workers.primaries(LaneKey(key.scope, None, key.capability, without))
        yield others
        yield workers.backups(others, without)


class _Wait(Enum):
    """Why nobody of a group is given it."""

    BUSY = "busy"
    BREAKER = "breaker"
    NOBODY = "nobody"


def _among(entries: list[RegistryEntry], now: float) -> RegistryEntry | _Wait:
    best: RegistryEntry | None = None
    refused = waits = False
    for entry in entries:
        if entry.is_gone:
            continue
        if not entry.admits(now):
            refused = True
        elif not entry.has_room():
            waits = True
        elif best is None or len(entry.attempts) < len(best.attempts):
            best = entry
    if best is not None:
        return best
    return _Wait.BUSY if waits else _Wait.BREAKER if refused else _Wait.NOBODY


def put_off(workers: WorkerRegistry, key: LaneKey, now: float) -> str:
    """Why a lane waits where nobody who could serve it admits: ``breaker of x open, probe in 12 s``; else nothing."""
    why, probe_in_s = put_off_by(workers, key, now)
    return why if probe_in_s is None else f"{why}, probe in {math.ceil(probe_in_s)} s"


def put_off_by(workers: WorkerRegistry, key: LaneKey, now: float) -> tuple[str, float | None]:
    """Why a lane waits where nobody who could serve it admits, and how many seconds at least; else nothing."""
    asked = [entry for entries in _in_turn(workers, key) for entry in entries if not entry.is_gone]
    waits = [(entry.breaker.retry_in_s(now), entry.id) for entry in asked if entry.breaker and not entry.admits(now)]
    if not waits or len(waits) < len(asked):
        return "", None
    names = ", ".join(dict.fromkeys(id_ for _, id_ in waits))
    return f"breaker of {names} open", min(waits)[0]


def no_worker_failure(state: TaskState, unit: Unit, workers: WorkerRegistry) -> Failure:
    """Why there is nobody for a unit."""
    spec, lane = unit.spec, LaneKey(unit.scope, unit.spec.worker, unit.spec.capability)
    able = workers.primaries(lane)
    waiting = waiting_for(state, unit)
    if waiting and any(entry.id in waiting for entry in able):
        target = next(entry.path for entry in able if entry.id in waiting)
        error = RecursionDetectedError((*chain_of(state, unit), target))
        return Failure(FailureKind.RECURSION, error, retryable=False)
    if unit.standing.rejected:
        said, last = ", ".join(unit.standing.rejected), unit.error.removeprefix("Rejected: ")
        text = f"{said} said that it is not theirs, and there is nobody else. Last: {last}"
        return Failure(FailureKind.REJECTED, Rejected(text))
    known = tuple(name for entry in workers for name in (entry.id, *sorted(entry.executable.capabilities)))
    asked = [entry for entries in _in_turn(workers, lane) for entry in entries]
    wanted = spec.worker or spec.capability or spec.id
    nobody = NoCapableWorkerError((wanted,), known, task=state.id, hint=_hint(asked))
    return Failure(FailureKind.NOBODY, nobody, retryable=False)


def _hint(asked: Iterable[RegistryEntry]) -> str:
    """Say who of these could do it, if it were not down; nothing where there is nobody."""
    down = {entry.path: entry.state for entry in asked if entry.is_gone}
    said = ", ".join(f"{path} is {state}" for path, state in down.items())
    again = " or ".join(f"tree.restart_child({path!r})" for path in down)
    return f"{said}: {again} starts it again" if down else ""
