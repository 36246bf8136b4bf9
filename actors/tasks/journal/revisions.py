"""Facts that a subtask has from those who have looked at its work: reviewers, the check of its result, and people.

Part of the fold (``actors.tasks.journal.task_state``). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from actors.tasks.model import task_events


@dataclass(frozen=True, slots=True)
class RevisionHistory:
    """History of what a subtask was told, by feedback and by answers. Each change makes a new one."""

    number: int = 0
    """How often it was sent back, or what it needs was."""
    feedback: str = ""
    """The present one; empty: none."""
    earlier: tuple[str, ...] = ()
    """Feedbacks before that, the oldest first."""
    answers: tuple[task_events.EscalationAnswered, ...] = ()
    """Answers to all questions about it, the oldest first."""
    approved: tuple[tuple[str | None, str], ...] = ()
    """Questions that a person has approved since it was begun, or sent back: the worker that asked, and the text."""

    def heard(self, feedback: str) -> RevisionHistory:
        """Return it with another feedback, or with none."""
        earlier = (*self.earlier, self.feedback) if self.feedback else self.earlier
        return replace(self, feedback=feedback, earlier=earlier)

    def sent_back(self, feedback: str) -> RevisionHistory:
        """Return it after a review: the result is to be another one, so nothing that was approved holds for it."""
        return replace(self.heard(feedback), number=self.number + 1, approved=())

    def told(self, answer: task_events.EscalationAnswered, asked: tuple[str | None, str] | None) -> RevisionHistory:
        """Return it with an answer; ``asked`` is the question that the worker had raised, where it did."""
        told = self.heard(str(answer.value)) if answer.answer == "respond" else self
        approved = (*self.approved, asked) if asked is not None and answer.answer == "approve" else self.approved
        return replace(told, answers=(*self.answers, answer), approved=approved)


UNREVISED: Final = RevisionHistory()
"""History of a subtask that nobody has said anything about."""
