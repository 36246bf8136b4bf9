"""Paths of the children that are in trouble now, found without a record of each: a tree may have 100,000 of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.tasks.orchestration.task_runtime import task_runtime_of

if TYPE_CHECKING:
    from actors.runtime.system import System

_CALM: Final = frozenset({"running", "stopped"})


def in_trouble(system: System) -> list[str]:
    """Return the paths of children that are neither running nor stopped, or have a breaker that is not closed."""
    found = [path for path, child in system.children.copy().items() if child.state not in _CALM]
    for above, port in task_runtime_of(system).ports.copy().items():
        open_ = [each.id for each in port.workers if each.breaker is not None and each.breaker.state != "closed"]
        found += [f"{above}/{id_}" for id_ in open_]
    return list(dict.fromkeys(found))
