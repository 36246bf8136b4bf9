"""Selection of the worker for the next unit of a lane. Pure, but for looking at the registry.

The rules (CONTRACT.md 6): among those who can do it, run and whose breaker admits, the one with the fewest attempts;
backups only where no primary admits; nobody who waits for this unit himself. An open breaker puts off and does not use
up: where nobody admits, the lane waits for the first who does, and no attempt is made of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from actors.model.errors import RecursionDetectedError, Rejected
from actors.tasks.journal.fold import TaskState
from actors.tasks.journal.unit import Unit
from actors.tasks.model import Failure, FailureKind, NoCapableWorkerError, same_instruction
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
    # Who has tried is out also where whoever took over said that it is not theirs: nobody has fresh tries.
    without = {*standing.rejected, *standing.tried, *waiting_for(state, unit)}
    worker = spec.worker
    for each in (standing.target, unit.home):
        if each is not None and each not in without:
            worker = each
    return LaneKey(unit.scope, worker, capability, tuple(sorted(without)))


def waiting_for(state: TaskState, unit: Unit) -> set[str]:
    """Ids of siblings that wait for this unit: one that they would have to do could never be done."""
    if not (state.chain or state.has_asks):
        return set()  # nobody waits but the supervisors above it
    prefix, chain = f"{unit.scope}/", chain_of(state, unit)
    return {each[len(prefix) :].partition("/")[0] for each in chain if each.startswith(prefix)}


def choose_worker(workers: WorkerRegistry, key: LaneKey, now: float) -> RegistryEntry | Failure | None:
    """Return the worker for the next of a lane; None: those who could are busy or put it off, and the lane waits.

    So it does where an earlier process had a worker for it, and the declaration has none any more.
    """
    asked: list[RegistryEntry] = []
    for entries in _groups(workers, key):
        free = [entry for entry in entries if entry.has_room() and entry.admits(now)]
        if free:
            return min(free, key=lambda entry: len(entry.attempts))
        asked += entries
        if _admit(entries, now):
            break
    if all(entry.is_gone for entry in asked):
        return _NOBODY if workers.has_had(key) else None
    for entry in asked:  # also those that are down, or refused: they may be the first to be free
        entry.lanes.add(key)
    return None


def awaited(workers: WorkerRegistry, key: LaneKey, now: float) -> list[RegistryEntry]:
    """Return the workers that a lane waits for, by the rules of ``choose_worker``: they are busy, or have a probe.

    None of them if it need not wait for what anybody does now: somebody has room, or a worker comes back, or lets its
    breaker admit it, by itself.
    """
    found: list[RegistryEntry] = []
    for entries in _groups(workers, key):
        found += [entry for entry in entries if not entry.is_gone]
        if _admit(entries, now):
            break
    return [] if any(entry.may_have_room() and entry.probe is None for entry in found) else found


def _admit(entries: list[RegistryEntry], now: float) -> bool:
    return any(entry.admits(now) and not entry.is_gone for entry in entries)


def _groups(workers: WorkerRegistry, key: LaneKey) -> Iterator[list[RegistryEntry]]:
    """Yield all workers that could be asked, group by group: one is asked only if nobody of those before admits."""
    primaries = workers.primaries(key)
    yield primaries
    yield workers.backups(primaries, key.without)
    if key.worker is not None and key.capability is not None:
        yield from _groups(workers, LaneKey(key.scope, None, key.capability, (*key.without, key.worker)))


def put_off(workers: WorkerRegistry, key: LaneKey, now: float) -> tuple[str, float | None]:
    """Why a lane waits if nobody who could serve it admits, and the seconds until a breaker lets a probe through.

    Empty: it is not put off. None: no breaker is the reason.
    """
    if not workers.has_had(key):
        return f"no {key.worker or key.capability} is declared", None
    asked = [entry for entries in _groups(workers, key) for entry in entries if not entry.is_gone]
    waits = [(entry.breaker.retry_in_s(now), entry.id) for entry in asked if entry.breaker and not entry.admits(now)]
    if not waits or len(waits) < len(asked):
        return "", None
    return f"breaker of {', '.join(dict.fromkeys(id_ for _, id_ in waits))} open", min(waits)[0]


def with_probe(why: str, probe_in_s: float | None) -> str:
    """Say both of ``put_off``: ``breaker of x open, probe in 12 s``."""
    return why if probe_in_s is None else f"{why}, probe in {math.ceil(probe_in_s)} s"


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
    asked = [entry for entries in _groups(workers, lane) for entry in entries]
    wanted = spec.worker or spec.capability or spec.id
    hint = down_hint({entry.path: entry.state for entry in asked if entry.is_gone})
    nobody = NoCapableWorkerError((wanted,), known, task=state.id, hint=hint)
    return Failure(FailureKind.NOBODY, nobody, retryable=False)


def down_hint(down: Mapping[str, str]) -> str:
    """Say which workers are down, given their states by path, and how they are started again; nothing for none."""
    said = ", ".join(f"{path} is {state}" for path, state in down.items())
    again = " or ".join(f"tree.restart_child({path!r})" for path in down)
    return f"{said}: {again} starts it again" if down else ""
