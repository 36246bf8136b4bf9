"""How a child stands, in words that everybody may read: plain records, without the child."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from actors.model.spec import Reason

State: TypeAlias = Literal["running", "restarting", "stopped", "parked"]
WORST_FIRST: Final[tuple[State, ...]] = ("parked", "stopped", "restarting", "running")
"""The state of a pool is the first of these that a member has."""


@dataclass(frozen=True, slots=True)
class LastExit:
    """How the last incarnation ended."""

    reason: Reason
    detail: str
    """The type of the exception, or what happened; never its text, which may hold payloads."""
    at: float
    """When, on the tree's clock."""

    def __str__(self) -> str:
        return f"{self.reason} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class ChildCounts:
    """How many children a supervisor has (OTP's count_children)."""

    specs: int
    """All listed, dead or alive."""
    active: int
    """Running now."""
    supervisors: int
    """Listed supervisors, dead or alive."""
    workers: int
    """Listed workers, dead or alive."""
