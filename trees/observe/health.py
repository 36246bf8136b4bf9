"""Health of a tree: is it alive, and may work be given to it.

Comes in: a snapshot, and the supervisors that did not answer. Goes out: ``Health``. Pure: ``trees.host.tree_health``
asks the supervisors.

``ok`` is for a probe that restarts what is dead (Kubernetes: liveness), ``ready`` for one that gives it no work for a
while (readiness). A standby is ok and not ready; so is a tree with a child in its backoff.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trees.views.snapshot import PoolSnapshot, SupervisorSnapshot

if TYPE_CHECKING:
    from actors.model.child_state import State
    from trees.views.snapshot import Doing, NodeSnapshot, TreeSnapshot


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """One thing that is wrong, and where."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


@dataclass(frozen=True, slots=True)
class Health:
    """Health of a tree at one moment."""

    ok: bool
    """True: the root is up, and each supervisor that is up has answered in time."""
    ready: bool
    """True: it is ok, nothing of it is parked, restarting or starting, its store writes, and this process leads."""
    problems: tuple[HealthProblem, ...]
    """Reasons why it is not ok, or not ready; empty where it is both."""


def health_of(snapshot: TreeSnapshot, silent: Collection[str], within_s: float, *, is_up: bool) -> Health:
    """Judge a tree.

    Args:
        snapshot: of the whole tree.
        silent: paths of the supervisors that are up and did not answer.
        within_s: seconds that they had for it.
        is_up: False: the root has ended.
    """
    root = snapshot.top.path
    if not is_up and snapshot.role != "standby":
        why = "is down" if snapshot.gave_up is None else f"is down: {snapshot.gave_up}"
        return Health(ok=False, ready=False, problems=(HealthProblem(root, why),))
    dead = tuple(HealthProblem(path, f"did not answer within {within_s:g} s") for path in sorted(silent))
    hindered = tuple(_hindrances(snapshot))
    return Health(ok=not dead, ready=not (dead or hindered), problems=dead + hindered)


def _hindrances(snapshot: TreeSnapshot) -> Iterator[HealthProblem]:
    root = snapshot.top.path
    if snapshot.role != "leader":
        leads = "nobody is known to lead" if snapshot.holder is None else f"{snapshot.holder} leads"
        yield HealthProblem(root, f"{snapshot.role}: {leads}")
        return  # none of its children is up, which is as it should be
    if snapshot.store_paused_s is not None:
        yield HealthProblem(root, f"its store has written nothing for {snapshot.store_paused_s:.1f} s")
    yield from _of_node(snapshot.top)


def _of_node(node: NodeSnapshot) -> Iterator[HealthProblem]:
    if isinstance(node, PoolSnapshot):
        yield from _of_pool(node)
        return
    what = _hindrance(node.state, node.doing)
    if what is not None:
        yield HealthProblem(node.path, what)
    if isinstance(node, SupervisorSnapshot):
        for child in node.children:
            yield from _of_node(child)


def _of_pool(pool: PoolSnapshot) -> Iterator[HealthProblem]:
    counts = {"is parked": pool.states.get("parked", 0), "is restarting": pool.states.get("restarting", 0)}
    counts["is starting"] = pool.doing.get("starting", 0) if not counts["is restarting"] else 0
    yield from (HealthProblem(pool.path, f"{count} of {pool.size} {what}") for what, count in counts.items() if count)


def _hindrance(state: State, doing: Doing | None) -> str | None:
    if state in {"parked", "restarting"}:
        return f"is {state}"
    return "is starting" if doing == "starting" else None
