"""The health of a tree, for probes and pages.

All supervisors are asked at once, and there is one wait for all: it takes as long as the slowest of them, and never
longer than ``WITHIN_S``. A supervisor answers between two messages, so one that does not is stuck in code of a user
that it runs, or the machine gives it no time. A child that hangs holds up no supervisor.
"""

from __future__ import annotations

from typing import Final

from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.runtime.system import System
from actors.supervision.child import ChildState
from actors.supervision.supervisor_incarnation import Ping
from actors.tasks.engine.service import service_of
from trees.ha.roles import Leadership
from trees.observe.health import Health, HealthFacts, health_of

WITHIN_S: Final = 1.0
"""Seconds that all supervisors together have for their answers."""


def health(system: System, leadership: Leadership) -> Health:
    """Return the health of a tree, after ``WITHIN_S`` at the latest. Blocks the caller's thread."""
    durable, role = service_of(system).durable, leadership.role
    down = system.is_down and role != "standby"
    root = system.supervisors.get(system.root_path)
    unsettled = {}
    for path, child in system.children.copy().items():
        if child.standing is not ChildState.UP:  # nearly all are up
            state = "starting" if child.standing is ChildState.STARTING else child.state
            if state in {"starting", "parked", "restarting"}:
                unsettled[path] = str(state)
    return health_of(
        HealthFacts(
            root=system.root_path,
            down=None if not down else "is down" if system.cause is None else f"is down: {system.cause}",
            is_ending=root is not None and root.shutdown is not None,
            silent=_silent(system),
            within_s=WITHIN_S,
            unsettled=unsettled,
            role=role,
            holder=leadership.holder,
            store_paused_s=None if durable is None else durable.paused_s,
        )
    )


def _silent(system: System) -> list[str]:
    """Return the paths of the supervisors that are up and do not answer."""
    end, asked = monotonic() + WITHIN_S, list[tuple[str, Reply]]()
    for path, supervisor in system.supervisors.copy().items():
        incarnation, pong = supervisor.incarnation, Reply()
        if not incarnation.is_over and incarnation.mailbox.post(Ping(), pong):
            asked.append((path, pong))  # refused, which is an answer, where it ends meanwhile
    return [path for path, pong in asked if not pong.wait(max(0.0, end - monotonic()))]
