"""Shapes of a tree for the page's API: a ``TreeSnapshot`` becomes rows, problems and counts. Pure.

A row is a child: supervisors and pools have their ``size``. ``folded``: what stands below it is left out here.
``last_error``: the text of the error of the last crash; its type if no text is known.
``restarts``: how often it was restarted itself. ``restarts_used`` of ``max_restarts`` ``within_s``: how much of a limit
is used up, of a supervisor by its children.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from heapq import nsmallest
from typing import Final

from actors.model.child_state import WORST_FIRST
from actors.model.spec import ChildSpec, SupervisorRecipe
from trees.observe.source import Shape
from trees.views.snapshot import (
    ExitSnapshot,
    LimitSnapshot,
    NodeSnapshot,
    PoolSnapshot,
    SupervisorSnapshot,
    TreeSnapshot,
    WorkerSnapshot,
)

BLANK_ROW: Final[Shape] = dict.fromkeys((
    "path", "id", "depth", "kind", "strategy", "restart", "state", "doing", "incarnation", "restarts", "restarts_used",
    "max_restarts", "within_s", "last_error", "mailbox", "current_s", "breaker", "pid", "node", "size", "busy",
    "folded",
))  # fmt: skip
"""Row of which nothing is known."""
FOLDED_FROM: Final = 50
"""More children than this, and a supervisor is folded unless it is asked for."""


def found_by(paths: Iterable[str], text: str, limit: int) -> tuple[frozenset[str], int]:
    """Find children by a part of their path, in any case.

    Args:
        paths: of all children; a pool is found by its members.
        text: what is looked for.
        limit: of rows, with those of what stands above what is found.

    Returns:
        The paths of the rows that are to be shown, those first whose id is the text, or begins with it; and how many
        were found.
    """
    wanted = text.casefold()
    found = dict.fromkeys(path.partition("#")[0] for path in paths if wanted in path.casefold())
    kept: set[str] = set()
    for path in nsmallest(limit, found, key=lambda each: _how_far(each, wanted)):
        more = {path[:end] for end, each in enumerate(path) if each == "/"} | {path}
        if len(kept | more) > limit:
            break
        kept |= more
    return frozenset(kept), len(found)


def _how_far(path: str, wanted: str) -> int:
    id_ = path.rpartition("/")[2].casefold()
    return 0 if id_ == wanted else 1 if id_.startswith(wanted) else 2


class Rooms:
    """Room for the children of each supervisor: all of few, none of many unless it is unfolded, up to a limit.

    A capture is told of it, so that it looks at no more children than are drawn. The top is asked for first. Its
    children are shown where they fit: a picture of one row tells nothing. Rows in ``keep`` are shown in any case, and
    count.
    """

    def __init__(self, unfold: Collection[str], limit: int, keep: Collection[str] = ()) -> None:
        self._unfold = frozenset(unfold)
        self._left = max(0, limit - max(1, len(keep)))
        self._few = max(FOLDED_FROM, self._left)

    def __call__(self, path: str, number: int) -> int:
        """Return how many of them are shown, and count those."""
        shown = min(number, self._left) if number <= self._few or path in self._unfold else 0
        self._left -= shown
        self._few = FOLDED_FROM
        return shown


def rows(node: NodeSnapshot, depth: int = 0) -> Iterator[Shape]:
    """Yield the rows of what a snapshot shows."""
    yield row_of(node, depth)
    if isinstance(node, SupervisorSnapshot):
        for below in node.children:
            yield from rows(below, depth + 1)


def row_of(node: NodeSnapshot, depth: int = 0) -> Shape:
    """Return the row of one child."""
    limit = node.limit if isinstance(node, SupervisorSnapshot) else getattr(node, "own_limit", None)
    return {
        **BLANK_ROW,
        "path": node.path,
        "id": node.id,
        "depth": depth,
        "kind": node.kind,
        "restart": node.restart,
        "restarts": node.restarts,
        **(_limit(limit) if limit is not None else {}),
        "last_error": _last_error(node.last_exit),
        "mailbox": 0,
        "breaker": None if node.breaker is None else node.breaker.state,
        "folded": False,
        **_own(node),
    }


def _last_error(last: ExitSnapshot | None) -> str | None:
    return (last.detail or last.reason) if last is not None and last.reason in {"crashed", "killed"} else None


def _limit(limit: LimitSnapshot) -> Shape:
    return {"restarts_used": limit.restarts, "max_restarts": limit.max_restarts, "within_s": limit.period_s}


def _own(node: NodeSnapshot) -> Shape:
    """Return what only rows of this kind have."""
    if isinstance(node, PoolSnapshot):
        state = next((word for word in WORST_FIRST if node.states.get(word)), "stopped")
        return {
            "state": state,
            "incarnation": 0,
            "mailbox": node.mailbox or 0,
            "size": node.size,
            "busy": node.busy,
            "folded": True,
        }
    own: Shape = {"state": node.state, "doing": node.doing, "incarnation": node.incarnation}
    if isinstance(node, SupervisorSnapshot):
        size = len(node.children) + node.hidden
        return own | {"strategy": node.strategy, "size": size, "folded": node.hidden > 0}
    return own | _worker(node)


def _worker(node: WorkerSnapshot) -> Shape:
    return {
        "mailbox": node.mailbox or 0,
        "current_s": None if node.current is None else node.current.age_s,
        "pid": None if node.process is None else node.process.pid,
        "node": node.node,
    }


def role_of(snapshot: TreeSnapshot) -> str:
    """``leader``, ``standby``, or ``alone`` where nobody else could lead."""
    return "alone" if snapshot.token is None else snapshot.role


def settings_of(spec: ChildSpec) -> dict[str, str]:
    """Return the settings of a child that somebody who operates it may want to know."""
    told: dict[str, object] = {
        "description": spec.description or None,
        "restart": spec.restart,
        "shutdown": "at once" if spec.brutal_kill else f"{spec.shutdown_s:g} s",
        "start timeout": None if math.isinf(spec.start_timeout_s) else f"{spec.start_timeout_s:g} s",
        "significant": spec.significant or None,
        "required": None if spec.required else "no",
        "parks": spec.park or None,
    }
    backoff = spec.backoff
    if backoff is not None:
        told["backoff"] = f"{backoff.initial_s:g} s, times {backoff.factor:g}, up to {backoff.max_s:g} s"
    recipe = spec.recipe
    if isinstance(recipe, SupervisorRecipe):
        told["strategy"] = recipe.strategy
        told["restart limit"] = f"{recipe.limit.max_restarts} in {recipe.limit.period_s:g} s"
        told["auto shutdown"] = recipe.auto_shutdown
        told["max children"] = recipe.max_children
    else:
        told["runs on"] = recipe.where
        told["mailbox"] = recipe.bounds.capacity
        told["when full"] = None if recipe.bounds.capacity is None else recipe.bounds.overflow
        told["stall after"] = None if recipe.stall_s is None else f"{recipe.stall_s:g} s"
        told["expected errors"] = ", ".join(each.__name__ for each in recipe.expected) or None
    return {name: _word(value) for name, value in told.items() if value is not None}


def _word(value: object) -> str:
    return "yes" if value is True else str(value)
