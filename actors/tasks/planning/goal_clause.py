"""A clause of a goal: a part that asks for one thing, with what is known of it before anybody looks at its verb.

Comes in and goes out: plain data. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.tasks.planning.goal_text import Token


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a goal that asks for one thing."""

    start: int
    end: int
    tokens: tuple[Token, ...]
    after: bool
    """A sequence word stands before it: what comes before has to be done first."""
    back: bool
    """True where it speaks of what comes before it, or waits for it."""
    negated: bool = False
    """True where it says what is not to be done."""
    is_carried: bool = False
    """True where it is negated only because the clause before it is."""
    marks: tuple[str, ...] = ()
    """Marks between it and the clause before it."""
    mark_after: str = ""
    """Mark after it."""
    decides_on: int | None = None
    """Set where it is a condition: the number of the clause that it decides on. It is no work."""
    is_otherwise: bool = False
    """True for ``otherwise fix it`` and for ``if not``: what is to be done in the other case."""
    stage: int = 0
    """Place in time: a clause with a higher one is done later."""

    @property
    def joined(self) -> str:
        """``list`` where a comma or ``and`` ties it to the clause before it; ``and`` where only an ``and`` does."""
        if self.marks == ("and",):
            return "and"
        return "list" if self.marks and set(self.marks) <= {",", "and"} else ""

    @property
    def is_work(self) -> bool:
        """False where it says what is not to be done, or on what something depends."""
        return not self.negated and self.decides_on is None

    @property
    def texts(self) -> list[str]:
        """Return its words in lower case."""
        return [token.text.casefold() for token in self.tokens]
