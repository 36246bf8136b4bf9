"""Follow-ups of a record of a subtask: one table for what has just been recorded and for a resume.

Comes in: a record, or the folded state of a task. Goes out: follow-ups, in the order in which they are to be carried
out (``actors.tasks.orchestration.follow_up_handlers`` does that). Each is harmless where it was carried out before:
so an orchestrator that dies anywhere between a record and what follows from it loses nothing, and nothing is written
twice for the living and for the resumed. Pure.

What follows from a step of the task, or from the end of an undo, is found by looking at where the task stands
(``actors.tasks.recovery.next_step``, ``UndoDispatch.advance``): the same look after a record and after a resume.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.task import SubtaskStatus


class FollowUp(Enum):
    """Thing to be done about one subtask."""

    KNOW = "note that somebody has asked for it"
    PART = "have the team let go of it that it was given to"
    QUEUE = "put it in line"
    ADOPT = "find out what has become of its attempt"
    WAIT = "queue it again when its time has come"
    HOLD = "have its result at hand"
    ANSWER = "tell whoever asked for it how it has ended"
    SKIP = "skip what cannot do without it"
    LIMIT = "end the question about it when its time is up"
    GO_ON = "do what the answer about it says, or what no answer means"
    UNDO = "go on with undoing: this one again, the next one, or the task has ended"

    __hash__ = object.__hash__  # that of an Enum is computed anew each time


FOLLOWS: Final[dict[type[task_events.TaskEvent], tuple[FollowUp, ...]]] = {
    task_events.SubtaskQueued: (FollowUp.QUEUE,),
    task_events.SubtaskPutBack: (FollowUp.QUEUE,),
    task_events.SubtaskPreempted: (FollowUp.QUEUE,),
    task_events.SubtaskRetrying: (FollowUp.WAIT,),
    task_events.SubtaskSucceeded: (FollowUp.PART, FollowUp.HOLD, FollowUp.ANSWER),
    task_events.SubtaskFailed: (FollowUp.PART, FollowUp.ANSWER, FollowUp.SKIP),
    task_events.SubtaskSkipped: (FollowUp.PART, FollowUp.ANSWER),
    task_events.SubtaskCancelled: (FollowUp.PART, FollowUp.ANSWER),
    task_events.EscalationRaised: (FollowUp.PART, FollowUp.LIMIT),
    task_events.EscalationAnswered: (FollowUp.GO_ON,),
    task_events.EscalationExpired: (FollowUp.GO_ON,),
    task_events.CompensationRetrying: (FollowUp.UNDO,),
    task_events.Compensated: (FollowUp.UNDO,),
}
"""By the kind of a record: what follows from it for its subtask."""


class TaskFollowUp(Enum):
    """Thing to be done about a task as a whole."""

    NEXT = "look whether its budget is used up, and do what is next"
    ASK = "end the question about a step when its time is up, and do what is next meanwhile"
    END = "end what runs of it and what waits"
    RANK = "have all of it that waits or runs take its new rank"
    OVER = "let go of it, and tell who waits for it"


FOLLOWS_OF_TASK: Final[dict[type[task_events.TaskEvent], TaskFollowUp]] = {
    task_events.PlanRefused: TaskFollowUp.NEXT,
    task_events.Planned: TaskFollowUp.NEXT,
    task_events.Replanning: TaskFollowUp.NEXT,
    task_events.StepRetrying: TaskFollowUp.NEXT,
    task_events.StepFailed: TaskFollowUp.NEXT,
    task_events.StepAnswered: TaskFollowUp.NEXT,
    task_events.StepUnanswered: TaskFollowUp.NEXT,
    task_events.StepEscalated: TaskFollowUp.ASK,
    task_events.ReviewRefused: TaskFollowUp.NEXT,
    task_events.Reviewed: TaskFollowUp.NEXT,
    task_events.ReworkBegun: TaskFollowUp.NEXT,
    task_events.Synthesized: TaskFollowUp.NEXT,
    task_events.TaskPriorityChanged: TaskFollowUp.RANK,
    task_events.TaskEnding: TaskFollowUp.END,
    task_events.TaskFinished: TaskFollowUp.OVER,
}
"""By the kind of a record: what follows from it for its task."""


def pending(state: TaskState) -> Iterator[tuple[FollowUp, SubtaskState]]:
    """Follow-ups to be carried out, or perhaps once more, for a task that was folded from its journal.

    Read it as you carry it out: what is carried out may change what comes next.
    """
    for node in list(state.nodes.values()):
        if node.ask is not None:
            yield FollowUp.KNOW, node
            if node.is_done:
                yield FollowUp.ANSWER, node
        follow_up = _of(state, node)
        if follow_up is not None:
            yield follow_up, node
        if node.escalation is not None:
            yield FollowUp.LIMIT, node
        elif node.answered is not None:
            yield FollowUp.GO_ON, node


def _of(state: TaskState, node: SubtaskState) -> FollowUp | None:
    status = node.status
    if status is SubtaskStatus.QUEUED:
        return FollowUp.QUEUE
    if status is SubtaskStatus.RUNNING:
        return FollowUp.ADOPT
    if status is SubtaskStatus.RETRYING and node.due is not None:
        return FollowUp.WAIT
    if status is SubtaskStatus.SUCCEEDED:
        return FollowUp.HOLD
    is_gone = node.is_done and status is not SubtaskStatus.COMPENSATED  # that one runs again, or all is being undone
    return FollowUp.SKIP if is_gone and state.ending is None else None
