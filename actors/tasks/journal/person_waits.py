"""The public status of a task, and of a subtask that a team has: whether it goes on by itself, or waits for a person.

A task waits where a question is open, in it or in a team that has a part of it, and nothing of it goes on before that
is answered. What does not go on by itself::

    done, pending, waiting          nothing of these runs
    running, a team has it          as its part does
    running, it has asked           what it has asked for, here or above, is not done: it waits in ``context.ask``
    step (review="each")            none is at work, and no result is yet to be reviewed
    anything else                   goes on

Pure: a fold and the folds of its parts go in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.model.task import SubtaskStatus, TaskStatus

if TYPE_CHECKING:
    from actors.tasks.journal.task_state import TaskState

PartOf: TypeAlias = "Callable[[TaskState, SubtaskState], TaskState | None]"
"""Finds the part that a team has of a running subtask; None: no team has it, or its part is not known."""

_UNMOVED: Final = frozenset({SubtaskStatus.PENDING, SubtaskStatus.WAITING})


def no_part(_: TaskState, __: SubtaskState) -> None:
    """Find no part: whoever asks knows of none."""


def status_of(state: TaskState, part_of: PartOf = no_part) -> TaskStatus:
    """Public status of a task, with what the teams have of it."""
    if state.final is not None:
        return state.final
    if state.phase == "new":
        return TaskStatus.PENDING
    if state.phase == "planning" or (state.phase == "replanning" and not state.escalations):
        return TaskStatus.PLANNING
    return TaskStatus.WAITING if _asks(state, part_of) and _stands(state, part_of, ()) else TaskStatus.RUNNING


def subtask_status_of(state: TaskState, node: SubtaskState, part_of: PartOf = no_part) -> SubtaskStatus:
    """Public status of a subtask: one that a team has waits where the team's part does."""
    status = node.status
    if status is not SubtaskStatus.RUNNING:
        return status
    part = part_of(state, node)
    if part is None or part.final is not None or not _asks(part, part_of):
        return status
    return SubtaskStatus.WAITING if _stands(part, part_of, _asked_of_others(state, node)) else status


def _asked_of_others(state: TaskState, node: SubtaskState) -> set[str]:
    """Return the paths of those who wait for what a subtask has asked for."""
    asked = [state.nodes[id_] for ids in list((node.asked or {}).values()) for id_ in list(ids)]
    return {each.chain[-1] if each.chain else "" for each in asked if not each.is_done}


def _parts(state: TaskState, part_of: PartOf) -> Iterator[TaskState]:
    for node in list(state.nodes.values()):
        part = part_of(state, node) if node.status is SubtaskStatus.RUNNING else None
        if part is not None and part.final is None:
            yield part


def _asks(state: TaskState, part_of: PartOf) -> bool:
    """True where a question is open."""
    return bool(state.escalations) or any(_asks(part, part_of) for part in _parts(state, part_of))


def _steps_go_on(state: TaskState) -> bool:
    """True where a step is at work or is to be called, though a question is open: with ``review="each"``."""
    if state.step:
        return True
    if state.rework is not None:
        return not any(question.undoing for question in list(state.escalations.values()))
    return bool(state.review.waiting) and not state.stage.failed


def _stands(state: TaskState, part_of: PartOf, askers: Collection[str]) -> bool:
    """True where nothing goes on by itself; ``askers`` are the paths of workers that wait for an ask above."""
    if state.phase in {"new", "planning"} or _steps_go_on(state):
        return False
    if not state.open:
        return bool(state.escalations)  # else its reviewer, its synthesizer or an undo is at work
    for node in list(state.nodes.values()):
        if node.is_done or node.status in _UNMOVED:
            continue
        if node.status is not SubtaskStatus.RUNNING:
            return False
        waited_for = _asked_of_others(state, node)
        part = part_of(state, node)
        if part is not None:
            if part.final is not None or not _stands(part, part_of, waited_for):
                return False
        elif not waited_for and f"{state.path}/{node.worker}" not in askers:
            return False
    return True
