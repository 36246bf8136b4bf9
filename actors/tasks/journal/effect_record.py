"""Record of what one worker did for a subtask: what would have to be undone, and what that has used up.

Comes in: the changes that ``SubtaskState`` makes when an event says so. Plain data. This module must never import
threads, a clock or Pykka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from actors.tasks.model import task_events
from actors.tasks.model.task import NO_USAGE, Usage

UNBEGUN: Final = "it had not begun"
"""Why an attempt is queued again that nobody had begun: it had no effect for sure."""


@dataclass(slots=True, eq=False)
class EffectRecord:
    """Record of what one worker did, or began, for a subtask, and of what would have to be undone."""

    worker: str
    number: int
    seq: int
    """Grows with the starts of the whole task."""
    attempt: int = 0
    answers: tuple[task_events.EscalationAnswered, ...] = ()  # of people, to the questions about its undo
    open: bool = False
    """An attempt was started, and nothing is known of its end."""
    broken: bool = False
    """True where it had begun and was broken off; stays so where it is started once more and does not begin."""
    unknown: bool = False
    """An attempt ended, or was broken off, so that it may have had its effect."""
    done: bool = False
    result: Any = None
    undone: bool = False
    stands: bool = False
    """True where its undo was given up: it is not called again, and its effect stands, or may."""
    undoable: bool = False
    """True where its worker declares an undo."""
    part: str = ""
    """Id of its part, of a team, where the journal says it."""
    told: Usage = NO_USAGE
    """Usage of it that is counted."""

    def interrupted(self, why: str = "") -> None:
        """An attempt was ended for reasons of others, or lost: where it had begun, nobody knows what it had done."""
        if why == UNBEGUN:
            self.open = self.broken
        else:
            self.broken = True

    def succeeds(self, result: Any) -> None:
        """An attempt has ended with a result."""
        self.open = self.broken = False
        self.done, self.result = True, result

    def fails(self, *, may_have_acted: bool) -> None:
        """An attempt has ended without one. That it did nothing says nothing of one before it that was broken off.

        A team that gave way goes on where it was: its part knows what was done.
        """
        self.unknown = self.unknown or may_have_acted or (self.broken and not self.part)
        self.open = self.broken = False

    @property
    def needs_compensation(self) -> bool:
        """True where it has had its effect, or may have had it."""
        return not self.undone and not self.stands and (self.done or self.unknown or self.open)
