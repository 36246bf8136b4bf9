"""The health of a tree, for probes and pages.

All supervisors are asked at once, and there is one wait for all: it takes as long as the slowest of them, and never
longer than ``WITHIN_S``. A supervisor answers between two messages, so one that does not is stuck in code of a user
that it runs, or the machine gives it no time. A child that hangs holds up no supervisor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.runtime.system import System
from actors.supervision.child import ChildState
from actors.supervision.supervisor_incarnation import Ping
from actors.tasks.engine.service import service_of
from trees.ha.roles import Leadership
from trees.observe.health import Health, HealthProblem

WITHIN_S: Final = 1.0
"""Seconds that all supervisors together have for their answers."""
MOST_PROBLEMS: Final = 50
"""Children that are named; of the others it is said how many they are."""
_UNSETTLED: Final = {"starting", "parked", "restarting"}


def health(system: System, leadership: Leadership) -> Health:
    """Return the health of a tree, after ``WITHIN_S`` at the latest. Blocks the caller's thread."""
    root = system.root_path
    if system.is_down:
        why = "is down" if system.cause is None else f"is down: {system.cause}"
        return Health(ok=False, ready=False, problems=(HealthProblem(root, why),))
    silent = [HealthProblem(path, f"did not answer within {WITHIN_S:g} s") for path in sorted(_silent(system))]
    hindered = list(_hindrances(system, leadership))
    return Health(ok=not silent, ready=not (silent or hindered), problems=(*silent, *hindered))


def _hindrances(system: System, leadership: Leadership) -> Iterator[HealthProblem]:
    """Yield the reasons why the tree is not ready."""
    path, role, holder = system.root_path, leadership.role, leadership.holder
    if role != "leader":
        leads = "nobody is known to lead" if holder is None else f"{holder} leads"
        yield HealthProblem(path, f"{role}: {leads}")
        return  # none of its children is up, which is as it should be
    root, durable = system.supervisors.get(path), service_of(system).durable
    paused_s = None if durable is None else durable.paused_s
    if root is not None and root.shutdown is not None:
        yield HealthProblem(path, "is being stopped")
    if paused_s is not None:
        yield HealthProblem(path, f"its store has written nothing for {paused_s:.1f} s")
    down = {at: child for at, child in system.children.copy().items() if child.standing is not ChildState.UP}
    states = ((at, "starting" if each.standing is ChildState.STARTING else each.state) for at, each in down.items())
    unsettled = [HealthProblem(at, f"is {state}") for at, state in states if state in _UNSETTLED]
    yield from unsettled[:MOST_PROBLEMS]
    if (more := len(unsettled) - MOST_PROBLEMS) > 0:
        yield HealthProblem(path, f"{more:,} more are parked, restarting or starting")


def _silent(system: System) -> list[str]:
    """Return the paths of the supervisors that are up and do not answer."""
    end, asked = monotonic() + WITHIN_S, list[tuple[str, Reply]]()
    for path, supervisor in system.supervisors.copy().items():
        incarnation, pong = supervisor.incarnation, Reply()
        if not incarnation.is_over and incarnation.mailbox.post(Ping(), pong):
            asked.append((path, pong))  # refused, which is an answer, where it ends meanwhile
    return [path for path, pong in asked if not pong.wait(max(0.0, end - monotonic()))]
