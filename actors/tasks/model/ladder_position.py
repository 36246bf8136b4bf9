"""Position of a subtask on its ladder, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LadderPosition:
    """Where a subtask stands on its ladder; what the next attempt needs to know."""

    rung: int = 0
    tries: int = 0
    """Attempts with the present rung and worker."""
    target: str | None = None
    """The worker that it failed over to."""
    tried: tuple[str, ...] = ()
    """Workers that have used up their tries."""
    rejected: tuple[str, ...] = ()
    """Workers that said it is not theirs."""
    laters: int = 0
    last_chance: bool = False
    """A person let it run once more: if that fails too it is the next rung's turn."""
    questions: int = 0
    """Questions that the present rung has asked a person."""
