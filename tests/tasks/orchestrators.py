"""Orchestrators that crash when a test wants them to."""

from __future__ import annotations

from actors.tasks.orchestration.messages import TimerFired
from tests.support.hardening import eventually
from trees import Tree


class BugError(Exception):
    """Error that an orchestrator dies of."""


def kill_orchestrator(tree: Tree, path: str = "p") -> None:
    """Have the orchestrator of this supervisor crash, as by a mistake of its own."""
    system = tree._system
    incarnation = eventually(lambda: system.children[f"{path}/orchestrator"].incarnation)  # the last one may have died
    system.services["tasks"].ports[path].tell(TimerFired(incarnation, _bug))


def _bug() -> None:
    raise BugError("a bug")
