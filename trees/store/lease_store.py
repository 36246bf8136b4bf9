"""Interface of a store to a candidate: the lease of one root, and what can be asked of it.

``trees.store.sql_lease`` has the one in a database. This module must never import anything that runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The lease of one root as the store has it."""

    token: int
    """0: nobody has ever led."""
    holder: str
    """Leader, the present or the last one."""
    expires_at: float | None
    """By the store's clock, seconds since 1970; None: it has no end, or was never taken."""
    left_s: float
    """Until then; 0 or less: anybody may have it."""


class LeaseStore(Protocol):
    """The lease of one root, in a store. Every method is one short transaction and may be called from any thread."""

    @property
    def store(self) -> str:
        """The store, without its secrets."""

    def look(self) -> LeaseState:
        """As it is."""

    def acquire(self) -> int | LeaseState:
        """Take it, where anybody may have it: the new token; else who has it."""

    def renew(self, token: int) -> int | LeaseState:
        """Keep it for a whole lease from now: the same token; or who has it, where that is an old one."""

    def release(self, token: int) -> None:
        """Give it back, where this token has it."""

    def close(self) -> None:
        """Let go of the store."""
