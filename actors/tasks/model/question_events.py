"""Events of questions to people: about a subtask, about an undo that failed, or about a step of the task.

Part of the records of a journal (``actors.tasks.model.task_events``).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from actors.model.event_metadata import LOGGED_ERROR, LOGGED_TIME, UNLOGGED
from actors.model.record import record
from actors.tasks.model.event_base import AttemptEvent, SubtaskEvent
from actors.tasks.model.ladder_position import LadderPosition
from actors.tasks.model.usage import NO_USAGE, Usage


@record(frozen=True, slots=True)
class EscalationRaised(AttemptEvent):
    """A person is asked: see ``handle.escalations``."""

    ends: ClassVar[str] = "attempt"
    large: ClassVar[str] = "state"
    unfolded: ClassVar[bool] = True
    level: ClassVar[str] = "ERROR"
    advice: ClassVar[str] = "Answer it: tree.respond({escalation!r}, ...) or 'regrow tasks respond {escalation} ...'."
    escalation: str  # its id
    question: str = field(repr=False)
    error: str = field(repr=False, metadata=LOGGED_ERROR)
    due: float | None = field(metadata=LOGGED_TIME)
    standing: LadderPosition = field(metadata=UNLOGGED)
    """Where it goes on if nobody answers."""
    undoing: bool = False
    """True where it is about an undo that failed."""
    usage: Usage = NO_USAGE
    kind: str = ""
    worker: str | None = None
    counted: bool = field(default=False, metadata=UNLOGGED)
    state: Any = field(default=None, repr=False, metadata=UNLOGGED)
    """JSON that the worker that has asked wants back after the answer."""
    resumes: bool = field(default=False, metadata=UNLOGGED)
    """True where it goes on from that with every answer."""


@record(frozen=True, slots=True)
class EscalationAnswered(SubtaskEvent):
    """A person answered."""

    large: ClassVar[str] = "value"
    escalation: str
    answer: str
    """approve, edit, respond or reject."""
    value: Any = field(repr=False)
    """Result of an edit, text of a respond, reason of a reject."""


@record(frozen=True, slots=True)
class EscalationExpired(SubtaskEvent):
    """No answer came in time."""

    level: ClassVar[str] = "WARNING"
    escalation: str


@record(frozen=True, slots=True)
class StepEscalated(EscalationRaised):
    """A person is asked about a reviewer that has said no for good, or a reviewer or synthesizer that has failed.

    ``subtask`` is the one that has not passed, where that is one; else it is empty.
    """

    step: str = ""
    """review or combine."""
    subtasks: tuple[str, ...] = ()
    """Subtasks that have not passed."""

    @property
    def has_feedback(self) -> bool:
        """True where a review has said no, and nothing has failed."""
        return bool(self.subtasks)


@record(frozen=True, slots=True)
class StepAnswered(EscalationAnswered):
    """A person answered such a question."""


@record(frozen=True, slots=True)
class StepUnanswered(EscalationExpired):
    """No answer to such a question came in time."""
