"""A part of a snapshot: down to some depth, or only what is in trouble, with all that stands above it.

In trouble is what does not run and should, what has crashed or been killed within the period of its restart limit, what
has left threads behind or has an open breaker, and a supervisor with a task of which something fails, is tried again,
waits for a person or for a breaker. Pure.
"""

from __future__ import annotations

from typing import Final

from actors.tasks.model import SubtaskStatus, TaskStatus
from actors.validation.validation_messages import is_one_of, value_phrase
from trees.views.snapshot import (
    NodeSnapshot,
    Only,
    PoolSnapshot,
    SupervisorSnapshot,
    TaskSnapshot,
    TreeSnapshot,
)

_FAILS: Final = frozenset({SubtaskStatus.FAILED, SubtaskStatus.RETRYING, SubtaskStatus.WAITING})
_UNCLEAN: Final = frozenset({"crashed", "killed"})


def selected(snapshot: TreeSnapshot, *, only: Only | None = None, depth: int | None = None) -> TreeSnapshot:
    """Leave out what was not asked for; each supervisor says how many of its children that are.

    Args:
        snapshot: of a tree, or of a part of it.
        only: ``"troubled"``; None: everything.
        depth: levels below the top; 0: the top alone. None: all of them.

    Raises:
        ValueError: there is no such part, or depth.
    """
    if only is not None and not is_one_of({"troubled"}, only):
        raise ValueError(
            f"dump: only={value_phrase(only)} is not a part of a tree. Use 'troubled', or None for everything"
        )
    if depth is not None and (type(depth) is not int or depth < 0):
        raise ValueError(
            f"dump: depth={value_phrase(depth)} is not a depth. Give the number of levels below the top, 0 or more"
        )
    top = snapshot.top
    if isinstance(top, SupervisorSnapshot):
        top = _troubled_part(top) if only is not None else top
        top = _cut(top, depth) if depth is not None else top
    return snapshot.model_copy(update={"top": top})


def _cut(node: SupervisorSnapshot, depth: int) -> SupervisorSnapshot:
    if not depth:
        return node.model_copy(update={"children": (), "hidden": node.hidden + len(node.children)})
    children = tuple(
        _cut(child, depth - 1) if isinstance(child, SupervisorSnapshot) else child for child in node.children
    )
    return node.model_copy(update={"children": children})


def _troubled_part(node: SupervisorSnapshot) -> SupervisorSnapshot:
    children = list[NodeSnapshot]()
    for child in node.children:
        part = _troubled_part(child) if isinstance(child, SupervisorSnapshot) else child
        below = isinstance(part, SupervisorSnapshot) and (part.children or part.tasks)
        if below or is_troubled(child, node.limit.period_s):
            children.append(part)
    tasks = None if node.tasks is None else tuple(task for task in node.tasks if _is_in_trouble(task))
    hidden = node.hidden + len(node.children) - len(children)
    return node.model_copy(update={"children": tuple(children), "tasks": tasks, "hidden": hidden})


def is_troubled(node: NodeSnapshot, period_s: float) -> bool:
    """Return True where a child is in trouble; ``period_s`` is that of its supervisor's restart limit."""
    last = node.last_exit
    died = last is not None and last.reason in _UNCLEAN
    if node.abandoned or (died and last is not None and last.age_s <= period_s):
        return True
    if node.breaker is not None and node.breaker.state != "closed":
        return True
    states = node.states if isinstance(node, PoolSnapshot) else {node.state: 1}
    if "restarting" in states or "parked" in states or (died and "stopped" in states):
        return True
    return isinstance(node, SupervisorSnapshot) and any(map(_is_in_trouble, node.tasks or ()))


def _is_in_trouble(task: TaskSnapshot) -> bool:
    fails = any(subtask.status in _FAILS or subtask.reason for subtask in task.subtasks)
    return fails or task.status is TaskStatus.WAITING or task.phase in {"ending", "undoing"}
