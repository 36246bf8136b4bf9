"""Program that a command runs, as the runtime needs it; what users write is ``trees.Command``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Program:
    """A program, its surroundings, and what its end and its output mean."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict, repr=False)
    """Added to the environment of the host."""
    cwd: str | None = None
    ok_codes: frozenset[int] = frozenset({0})
    ready: str | Callable[[], object] | None = None
    stop_signal: str = "TERM"
    on_line: Callable[[str], object] | None = None
