"""``TreeHealth``: the method of a ``Tree`` that tells how it is, for probes and pages.

All supervisors are asked at once, and there is one wait for all: it takes as long as the slowest of them, and never
longer than ``WITHIN_S``. A supervisor answers between two messages, so one that does not is stuck in code of a user
that it runs, or the machine gives it no time. A child that hangs holds up no supervisor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.messaging.reply import Reply, require_thread
from actors.model.clock import monotonic
from actors.supervision.supervisor_incarnation import Ping
from trees.observe.health import Health, health_of
from trees.views.capture import capture

if TYPE_CHECKING:
    from actors.runtime.system import System
    from trees.ha.roles import Leadership

WITHIN_S: Final = 1.0
"""Seconds that all supervisors together have for their answers."""


class TreeHealth:
    """The part of a ``Tree`` that tells how it is."""

    _system: System
    _leadership: Leadership

    def health(self) -> Health:
        """Look whether the tree is alive (``ok``) and may be given work (``ready``), and say what is wrong.

        Alive: the root is up, and each supervisor answers within 1 s. Ready: besides, no child is parked, restarting or
        starting, the store writes, and this process leads. It takes 1 s at most: a supervisor that does not answer is
        one of the ``problems``.

        Raises:
            BlockingAskError: called on the thread of a tree's event loop: ``await asyncio.to_thread(tree.health)``.
        """
        system = self._system
        require_thread(system.root_path, "await asyncio.to_thread(tree.health)")
        silent = _silent(system, monotonic() + WITHIN_S)
        snapshot = capture(system, fold=True, leading=self._leadership.facts())
        return health_of(snapshot, silent, WITHIN_S, is_up=not system.is_down)


def _silent(system: System, end: float) -> list[str]:
    """Return the paths of the supervisors that are up and have not answered."""
    asked: list[tuple[str, Reply]] = []
    for path, supervisor in system.supervisors.copy().items():
        incarnation, pong = supervisor.incarnation, Reply()
        if not incarnation.is_over and incarnation.mailbox.post(Ping(), pong):
            incarnation.when_over().when_done(pong.complete)  # one that ends meanwhile owes nobody an answer
            asked.append((path, pong))
    return [path for path, pong in asked if not pong.wait(max(0.0, end - monotonic()))]
