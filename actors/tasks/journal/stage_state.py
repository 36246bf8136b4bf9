"""Where the calls of a task's planner, reviewer and synthesizer stand, and what is to run again.

Part of the fold (``actors.tasks.journal.task_state``). Plain data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from actors.tasks.model import task_events


@dataclass(slots=True)
class StageState:
    """Calls of the planner, the reviewer and the synthesizer of one task: there is at most one at a time."""

    calls: int = 0
    """Calls that have ended: the next one has its key from this."""
    step: str = ""
    """Step whose last call has failed: plan, review or combine."""
    tries: int = 0
    """Failures of that, one after the other."""
    due: float | None = None
    """When it is called again; None: now."""
    failed: str = ""
    """Step that has failed for good, as long as nothing has followed from it: review or combine."""
    error: str = ""
    """Error of the last failure."""
    feedback: str = ""
    """Feedback for its next call: what was wrong with its last answer, or what a person says."""
    refused: int = 0
    """Verdicts that were handed back, one after the other."""
    vouched: bool = False
    """A person vouches for the results: should the reviewer fail once more, they are taken as they are."""
    answered: task_events.StepAnswered | task_events.StepUnanswered | None = None
    """Answer to the last question about a step, or its expiry, as long as nothing has followed from it."""
    asked: tuple[str, ...] = ()
    """Subtasks that it was about."""

    def ends(self) -> None:
        """A call has come to an end of its own."""
        self.calls += 1
        self.tries, self.due, self.refused = 0, None, 0
        self.step = self.failed = self.error = self.feedback = ""
        self.vouched = False

    def settle(self) -> None:
        """Let go of an answer: what it asks for has happened, or the step has ended otherwise."""
        self.answered, self.asked = None, ()

    @property
    def has_answer_about(self) -> tuple[str, ...]:
        """Rejected subtasks of which a person has said what is to become, and nothing has followed from that."""
        return self.asked if self.answered is not None else ()

    def fails(self, step: str, error: str, tries: int, due: float | None) -> None:
        """A call has failed: it is made again at ``due``, or (None) it has failed for good."""
        self.calls += 1
        self.step, self.error, self.due = step, error, due
        self.tries, self.failed = (0, step) if due is None else (tries, "")

    def is_refused(self, feedback: str) -> None:
        """A call has returned what makes no sense: it is made again, with feedback."""
        self.calls += 1
        self.tries, self.due = 0, None
        self.refused, self.feedback = self.refused + 1, feedback


@dataclass(slots=True)
class ReviewState:
    """Results of one task that have not passed."""

    each: bool = False
    """A result is reviewed before anything that depends on it starts."""
    waiting: dict[str, None] = field(default_factory=dict)
    """Subtasks whose results are to be reviewed before anything that depends on them starts."""
    rejected: dict[str, str] = field(default_factory=dict)
    """Subtasks that have not passed for good, and of which is yet to be decided, each with the checks of its review in
    a line; an empty id stands for all."""

    @property
    def checks(self) -> str:
        """Checks of those that have not passed, in a line."""
        return "; ".join(dict.fromkeys(text for text in self.rejected.values() if text))

    def lets_pass(self, subtask: str) -> bool:
        """True where what depends on the result of this subtask need not wait for a review."""
        return subtask not in self.waiting and subtask not in self.rejected

    def forget(self, subtask: str) -> None:
        """Forget a subtask whose result is void."""
        self.waiting.pop(subtask, None)
        self.rejected.pop(subtask, None)

    def begins_anew(self) -> None:
        """Nothing is decided any more: what had not passed is to be reviewed, by itself or with all others."""
        if self.each:
            self.waiting |= {id_: None for id_ in self.rejected if id_}
        self.rejected = {}


@dataclass(frozen=True, slots=True)
class Rework:
    """Subtasks that are void: what they did is undone first."""

    kind: Literal["revision", "replan"]
    rerun: dict[str, str]
    """Subtasks that a revision has sent back, with their feedback."""
