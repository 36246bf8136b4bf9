"""Waits among the workers of all orchestrators, as ``find_wait_cycle`` and limits of silence are told of them.

A subtask that was given to a team waits for what the team does of it: for the subtasks of its part that run, or wait
for a member. So a circle may lead through members of teams, on any level. All orchestrators run on one loop, and this
is called there: nothing changes meanwhile.

A circle that is closed stays closed, so it is looked for when one may have been:

* an ask begins, or an attempt is about to wait for a task that was submitted (``Delegation``);
* what was asked for stands in line once more, perhaps for another worker (``look_again``, from the queue);
* a part of a team, or of a task that an attempt waits for, stands in line, or has ended, and perhaps all of that waits
  (``look_below``): whoever asks a team knows not which member is to do it, only the team does, when it has a plan;
* one of several asks of an attempt is over: perhaps the others wait for each other (``look_again``);
* a worker is gone, or down, that could have done it (``Delegation.look_at_all``);
* an orchestrator is new (``Delegation.recheck_deadlocks``).

A wait of another kind leads nowhere as well: for workers that are down, and not started again before whoever waits has
stopped (``dead_end_of``). It is looked for in the same moments.

Each enters what has changed first, then posts a ``WaitsChanged`` for one ask that cannot be served if the change has
closed a circle: it is looked at in a turn of its own. Whatever waits hopelessly waits for nothing but what does, too;
so one ask below what has changed is enough, whichever it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from actors.tasks.model.task import SubtaskStatus
from actors.tasks.orchestration.messages import WaitsChanged
from actors.tasks.scheduling.selection import awaited, in_reach, lane_of
from actors.tasks.scheduling.wait_cycle import find_wait_cycle

if TYPE_CHECKING:
    from actors.messaging.message_errors import ActorStoppedError
    from actors.messaging.reply import Reply
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.journal.subtask_state import SubtaskState
    from actors.tasks.journal.task_state import TaskState
    from actors.tasks.orchestration.attempt_table import RunningAttempt
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
    from actors.tasks.orchestration.task_runtime import TaskRuntime
    from actors.tasks.scheduling.worker_registry import RegistryEntry

_Wanted: TypeAlias = "tuple[OrchestratorPort, TaskState, SubtaskState]"
_UNDER_WAY: Final = frozenset({SubtaskStatus.QUEUED, SubtaskStatus.RUNNING})
_LATER: Final = frozenset({SubtaskStatus.RETRYING, SubtaskStatus.WAITING})
"""Where a subtask goes on by itself, at a time or with an answer."""


def wait_cycle_of(port: OrchestratorPort, state: TaskState, node: SubtaskState) -> tuple[str, ...]:
    """Return the chain of those who wait for each other if a subtask can never be done; empty where it can."""
    return find_wait_cycle((port, state, node), _holders, partial(_waits_for, port.runtime), _path_of)


def wait_cycle_from(runtime: TaskRuntime, attempt: Attempt) -> tuple[str, ...]:
    """Return the chain of those who wait for each other, this attempt first, if it waits for ever; empty where not."""

    def holders(wanted: _Wanted | None) -> list[Attempt] | None:
        return [attempt] if wanted is None else _holders(wanted)

    return find_wait_cycle(None, holders, partial(_waits_for, runtime), _path_of)


def dead_end_of(port: OrchestratorPort, state: TaskState, node: SubtaskState, reply: Reply) -> ActorStoppedError | None:
    """Return why nobody begins a subtask before one who waits for it has ended; None: somebody may, or has begun it.

    A team that is down goes on with nothing that it has begun either, whatever it waited for.

    ``reply`` is what those wait for who asked for it.
    """
    if node.status is SubtaskStatus.QUEUED:
        paths = [entry.path for entry in in_reach(port.workers, lane_of(state, node, port.path), port.time())]
    else:
        attempt = port.attempts.of(node) if node.status is SubtaskStatus.RUNNING else None
        waits = attempt is not None and (attempt.started is None or attempt.spec.part)
        paths = [attempt.spec.path] if attempt is not None and waits else []
    targets = [port.system.boxes.get(path) for path in paths]
    for current in set(reply.waiters):
        errors = [None if target is None else port.system.dead_end(target, current) for target in targets]
        if errors and None not in errors:
            return errors[0]
    return None


def last_sign_of(runtime: TaskRuntime, attempt: Attempt, now: float) -> float:
    """Return the time of the last sign of life of an attempt: its own, or that of the work that it waits for.

    A team shows life with the attempts of its members, and whoever asks with that of what was asked for. As long as
    some of that work waits for a person, a delay or a worker, or is being planned or reviewed, it is no silence.
    """
    sign, below, seen = 0.0, [attempt], set[str]()
    while below:
        each = below.pop()
        if each.key in seen:
            continue
        seen.add(each.key)
        sign = max(sign, each.last_sign)
        for wanted in _waits_for(runtime, each) or ():
            at_work = None if wanted is None else wanted[0].attempts.of(wanted[2])
            if at_work is None or at_work.started is None:
                return now
            below.append(at_work)
    return sign


def look_again(runtime: TaskRuntime, key: str) -> None:
    """Have an ask looked at again, where it is open."""
    if (ask := runtime.asks.get(key)) is not None:
        ask.port.post(WaitsChanged(key))


def look_below(runtime: TaskRuntime, port: OrchestratorPort, state: TaskState) -> None:
    """Have an ask looked at again in which a team's part waits, or a task that is waited for, where all of it does."""
    key = _ask_below(runtime, port, state)
    if key is not None:
        look_again(runtime, key)


def _ask_below(runtime: TaskRuntime, port: OrchestratorPort, state: TaskState) -> str | None:
    """Return an ask in which somebody waits that a part waits for; None where it goes on.

    One is followed of all that it waits for: who waits hopelessly does so in each of them.
    """
    attempt = next((row.attempt for row in port.attempts if row.attempt.task == state.id), None)
    if attempt is None:
        queued = next((node for node in state.nodes.values() if node.status is SubtaskStatus.QUEUED), None)
        holders = _holders((port, state, queued)) if queued is not None else None
        if not holders:
            return None
        attempt = holders[0]
    if asks := attempt.asks.copy():
        return asks.pop()
    below = _part_of(runtime, attempt)
    return None if below is None else _ask_below(runtime, *below)


def _part_of(runtime: TaskRuntime, attempt: Attempt) -> tuple[OrchestratorPort, TaskState] | None:
    """Return the part that a team has of an attempt; None: it is no team's, or is not there yet."""
    port = runtime.ports.get(attempt.spec.path) if attempt.spec.part else None
    state = None if port is None else port.states.get(attempt.spec.part)
    return None if port is None or state is None else (port, state)


def _path_of(attempt: Attempt) -> str:
    return attempt.spec.path


def _asked_for(runtime: TaskRuntime, key: str) -> _Wanted | None:
    """Return what was asked for; None: nobody has taken it up yet, or it is answered."""
    ask = runtime.asks.get(key)
    found = None if ask is None else ask.port.asked.get(key)
    return None if ask is None or found is None else (ask.port, *found)


def _waited_for(runtime: TaskRuntime, key: str) -> Iterable[_Wanted | None]:
    """Return what an attempt waits for in an ask: what was asked for, or what is open of a task that was submitted."""
    ask = runtime.asks.get(key)
    if ask is None or not ask.task:
        return (_asked_for(runtime, key),)
    state = ask.port.states.get(ask.task) if key not in runtime.answers else None
    return (None,) if state is None else _open_subtasks(ask.port, state)


def _holders(wanted: _Wanted) -> list[Attempt] | None:
    """Return the attempts that keep everybody busy who could do it; None where it need not wait for them."""
    port, state, node = wanted
    if node.is_done or node.status in _LATER:
        return None
    if node.status is SubtaskStatus.RUNNING:
        attempt = port.attempts.of(node)
        return [attempt] if attempt is not None else None
    entries = awaited(port.workers, lane_of(state, node, port.path), port.time())
    rows = [_rows_of(port, entry) for entry in entries or ()]
    return [row.attempt for those in rows for row in those] if rows and all(rows) else None


def _rows_of(port: OrchestratorPort, entry: RegistryEntry) -> list[RunningAttempt]:
    """Return the attempts of a worker one of which must end before it is given another: its probe, or any of them."""
    rows = [row for key in entry.attempts if (row := port.attempts.get(key)) is not None]
    return rows if entry.probe is None else [row for row in rows if row.breaker_token == entry.probe]


def _waits_for(runtime: TaskRuntime, attempt: Attempt) -> Iterable[_Wanted | None] | None:
    """Return what an attempt waits for; None where it does not wait."""
    if asks := attempt.asks.copy():
        return (each for key in asks for each in _waited_for(runtime, key))
    below = _part_of(runtime, attempt)
    return None if below is None else _open_subtasks(*below)


def _open_subtasks(port: OrchestratorPort, state: TaskState) -> Iterator[_Wanted | None]:
    """Yield the subtasks of a part that run or stand in line; None where the part goes on without them."""
    none_waits = True
    for node in state.nodes.values():
        if node.status in _UNDER_WAY:
            none_waits = False
            yield port, state, node
        elif node.status in _LATER:
            yield None
    if none_waits:
        yield None
