"""Answer of a store to a candidate (``trees.store.sql_lease``). This module must never import anything that runs."""

from __future__ import annotations

from dataclasses import dataclass


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
