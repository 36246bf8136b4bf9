"""Questions to people, as a state has them: what is open, and what its worker wants back with the answer.

Part of the fold (``actors.tasks.journal.fold``). Plain data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from actors.tasks.model.policy import LadderPosition
from actors.tasks.model.task_events import EscalationRaised


class Escalation:
    """An open question to a person. Equal to the same question, however often it is read, and in whatever process."""

    def __init__(self, event: EscalationRaised) -> None:
        self.id = event.escalation
        self.task = event.task
        self.about = event.subtask
        """Path of the unit that it is about; of a step that of its task or team."""
        self.question = event.question
        self.error = event.error
        self.is_content = event.has_question or event.has_feedback
        """True where that is no error, but a question, or what a reviewer has said."""
        self.raised_at = event.at
        self.due = event.due
        """When it is too late for an answer, in seconds since 1970; None: never."""
        self.standing = event.standing
        self.role = event.role
        """work, plan, review, combine or undo."""
        self.undoing = event.undoing
        """True where it is about an undo that failed."""
        self.step = event.step
        """Step that it is about, plan, review or combine; empty: a subtask."""
        self.subtasks: tuple[str, ...] = event.subtasks if event.step else (event.subtask,)
        """Subtasks that it is about."""
        only = self.subtasks[0] if event.step and len(self.subtasks) == 1 else ""
        self.subtask = "/".join(part for part in (self.about, only) if part)
        """Path in the task of the subtask that it is about; of a step that is about all of a task empty."""

    answers = ("approve", "edit", "respond", "reject")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Escalation) and (self.id, self.raised_at) == (other.id, other.raised_at)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        """Show the question: whoever prints the open questions is about to answer them."""
        what = "the undo of " if self.undoing else ""
        error = f" ({self.error})" if self.error and self.error != self.question else ""
        return f"<Escalation {self.id!r} about {what}{self.subtask or self.role!r}: {self.question}{error}>"


class KeptState(NamedTuple):
    """State that a worker has asked with, and wants back."""

    worker: str | None
    value: Any
    question: str
    """Id of the question that it was asked with."""
    goes_on_at: LadderPosition | None = None
    """Where it stood on its ladder when it asked, and stands after every answer; None: the answer decides."""
