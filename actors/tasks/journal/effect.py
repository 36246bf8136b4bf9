"""Effect of one epoch of a unit with one worker: what would have to be undone. Part of the fold. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

WITHDRAWN: Final = "withdrawn"
"""Why an attempt is queued again that nobody had begun: it had no effect for sure."""


@dataclass(slots=True, eq=False)
class Effect:
    """What one worker did, or began, for a unit."""

    worker: str
    epoch: int
    seq: int
    """Grows with the starts of the whole task."""
    undoable: bool = False
    """True where its worker declares an undo."""
    is_team: bool = False
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

    def interrupted(self, why: str) -> None:
        """An attempt was ended for reasons of others, or lost: where it had begun, nobody knows what it had done."""
        if why == WITHDRAWN:
            self.open = self.broken
        else:
            self.broken = True

    def succeeds(self, result: Any) -> None:
        """An attempt has ended with a result."""
        self.open = self.broken = False
        self.done, self.result = True, result

    def fails(self, *, may_have_acted: bool) -> None:
        """An attempt has ended without one. That it did nothing says nothing of one before it that was broken off."""
        self.unknown = self.unknown or may_have_acted or self.broken
        self.open = self.broken = False

    @property
    def needs_undo(self) -> bool:
        """True where it has had its effect, or may have had it."""
        return not self.undone and not self.stands and (self.done or self.unknown or self.open)
