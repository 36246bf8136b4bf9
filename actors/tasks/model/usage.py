"""Usage and budgets: what attempts, subtasks and tasks use up, and may use up.

Comes in: numbers of a user, or sums of them. Goes out: frozen records, each right by itself. This module must never
import threads, a clock or Pykka.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from actors.validation import field_types
from actors.validation.spec_model import SpecModel, copy_with

MOST_TOKENS: Final = 10**18
"""More is no count of tokens. Sums of legal values end here, so that every sum is legal as well."""


class Usage(SpecModel, frozen=True, kw_only=False):
    """Usage of an attempt, a subtask or a task."""

    tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] = 0
    cost: field_types.Amount = 0.0
    """In whatever currency you count."""
    seconds: field_types.Amount = 0.0
    """Seconds of running, all attempts together."""

    def __add__(self, other: Usage) -> Usage:
        """The sum. It never raises: a number beyond the largest legal one is that one."""
        if other is NO_USAGE:
            return self
        if self is NO_USAGE:
            return other
        return usage_of(self.tokens + other.tokens, self.cost + other.cost, self.seconds + other.seconds)

    def __sub__(self, other: Usage) -> Usage:
        """The difference, and never less than nothing."""
        return usage_of(self.tokens - other.tokens, self.cost - other.cost, self.seconds - other.seconds)


def usage_of(tokens: int, cost: float, seconds: float) -> Usage:
    """Make a ``Usage`` of numbers counted here, not checked like a user's: each is held within its limits."""
    return copy_with(
        _ZERO,
        tokens=min(MOST_TOKENS, max(0, tokens)),
        cost=min(field_types.MAX_AMOUNT, max(0.0, cost)),
        seconds=min(field_types.MAX_AMOUNT, max(0.0, seconds)),
    )


NO_USAGE: Final = Usage()
_ZERO: Final = Usage(0, 0.0, 0.0)


class Budget(SpecModel, frozen=True, kw_only=False):
    """Limit of what a task or a subtask may use up."""

    tokens: Annotated[int, Field(ge=0)] | None = None
    """Tokens. ``None``: no limit."""
    cost: field_types.Delay | None = None
    """In the currency that you count in. ``None``: no limit."""
    seconds: field_types.Delay | None = None
    """Seconds of running, all attempts together. A limit by the clock is the deadline. ``None``: no limit."""

    def left(self, usage: Usage) -> Budget:
        """Return what is left of it."""
        return Budget(**{name: max(0, limit - getattr(usage, name)) for name, limit in self._limits()})

    def exceeded_by(self, usage: Usage) -> str:
        """Say what of it is used up and how far, or nothing: ``tokens 120 of 100``."""
        used = [(name, getattr(usage, name), limit) for name, limit in self._limits()]
        return ", ".join(f"{name} {amount:g} of {limit:g}" for name, amount, limit in used if amount > limit)

    def _limits(self) -> list[tuple[str, Any]]:
        return [(name, limit) for name, limit in vars(self).items() if limit is not None]
