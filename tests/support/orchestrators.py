"""Orchestrators that crash when a test wants them to."""

from __future__ import annotations

from actors.tasks.orchestration.messages import TimerFired
from trees import Tree


class BugError(Exception):
    """Error that an orchestrator dies of."""


def kill_orchestrator(tree: Tree, path: str = "p") -> None:
    """Have the orchestrator of this supervisor crash, as by a mistake of its own."""
    system = tree._system
    incarnation = system.children[f"{path}/orchestrator"].incarnation
    assert incarnation is not None
    system.services["tasks"].ports[path].tell(TimerFired(incarnation, _bug))


def _bug() -> None:
    raise BugError("a bug")
