"""``TreeHealth``: the methods of a ``Tree`` that tell how it is, to probes and pages, and to people by its alerts.

All supervisors are asked at once, and there is one wait for all: it takes as long as the slowest of them, and never
longer than ``WITHIN_S``. A supervisor answers between two messages, so one that does not is stuck in code of a user
that it runs, or the machine gives it no time. A child that hangs holds up no supervisor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.messaging.blocking import require_thread
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.supervision.child import Child, ChildState
from actors.supervision.supervisor_incarnation import Ping
from actors.tasks.engine.service import service_of
from trees.observe.alert_notifier import AlertNotifier
from trees.observe.health import Health, HealthFacts, health_of
from trees.views.capture import capture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.runtime.system import System
    from trees.ha.roles import Leadership
    from trees.observe.alerts import Alert

WITHIN_S: Final = 1.0
"""Seconds that all supervisors together have for their answers."""


class TreeHealth:
    """The part of a ``Tree`` that tells how it is."""

    _system: System
    _leadership: Leadership
    _closing: list[Callable[[], object]]
    _notifiers: list[AlertNotifier]
    """Each watches some alerts of this tree."""

    def health(self) -> Health:
        """Look whether the tree is alive (``ok``) and may be given work (``ready``), and say what is wrong.

        Alive: the root is up, and each supervisor answers within 1 s. Ready: besides, no child is parked, restarting or
        starting, the tree is not being stopped, the store writes, and this process leads. It takes 1 s at
        most: a supervisor that does not answer is one of the ``problems``.

        Raises:
            BlockingAskError: called on the thread of a tree's event loop: ``await asyncio.to_thread(tree.health)``.
        """
        require_thread(self._system.root_path, "await asyncio.to_thread(tree.health)")
        return health(self._system, self._leadership)

    def watch_alerts(self, alerts: Sequence[Alert]) -> AlertNotifier:
        """Watch alerts from now on, until the tree is down; ``start(..., alerts=)`` does it from the beginning."""
        leadership, system = self._leadership, self._system
        notifier = AlertNotifier(
            system, alerts, lambda tasks: capture(system, fold=True, leading=leadership.facts(), tasks=tasks)
        )
        self._closing.append(notifier.stop)
        system.ended.when_done(notifier.end)
        self._notifiers.append(notifier)
        return notifier


def health(system: System, leadership: Leadership) -> Health:
    """Return the health of a tree, after ``WITHIN_S`` at the latest. Blocks the caller's thread."""
    durable = service_of(system).durable
    role = leadership.role
    down = system.is_down and role != "standby"
    facts = HealthFacts(
        root=system.root_path,
        down=None if not down else "is down" if system.cause is None else f"is down: {system.cause}",
        is_ending=_is_ending(system),
        silent=_silent(system, monotonic() + WITHIN_S),
        within_s=WITHIN_S,
        unsettled={
            path: state
            for path, child in system.children.copy().items()
            if child.standing is not ChildState.UP and (state := _unsettled(child))  # nearly all are up
        },
        role=role,
        holder=leadership.facts().get("holder"),
        store_paused_s=None if durable is None else durable.paused_s,
    )
    return health_of(facts)


def _is_ending(system: System) -> bool:
    root = system.supervisors.get(system.root_path)
    return root is not None and root.shutdown is not None


def _unsettled(child: Child) -> str | None:
    """Say what keeps a child from being as it should be; None: nothing."""
    state = child.state
    if state in {"parked", "restarting"}:
        return state
    return "starting" if child.standing is ChildState.STARTING else None


def _silent(system: System, end: float) -> list[str]:
    """Return the paths of the supervisors that are up and have not answered."""
    asked: list[tuple[str, Reply]] = []
    for path, supervisor in system.supervisors.copy().items():
        incarnation, pong = supervisor.incarnation, Reply()
        if not incarnation.is_over and incarnation.mailbox.post(Ping(), pong):
            asked.append((path, pong))  # refused, which is an answer, where it ends meanwhile
    return [path for path, pong in asked if not pong.wait(max(0.0, end - monotonic()))]
