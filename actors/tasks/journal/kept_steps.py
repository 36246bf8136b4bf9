"""Steps of a unit that are recorded: which there are, and their results.

::

    SubtaskStepped             there is one more
    an attempt begins          as another one than theirs (worker, epoch or number): those of one attempt are forgotten
    an attempt has ended       by itself: the same
    put off, with steps kept   its code goes on after them: they stay
    queued again, preempted    broken off by others, or lost with its process: it is the same attempt, so they stay

Those with ``keep="subtask"`` stay as long as the state of the task. Part of the fold. Plain data.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Holder: TypeAlias = tuple[str | None, int, int]
"""Worker, epoch and number of an attempt."""


class KeptStep(NamedTuple):
    """One step that is recorded."""

    fingerprint: str
    """Fingerprint of its arguments."""
    value: Any
    is_of_subtask: bool
    """True where other attempts have it, too."""


class KeptSteps:
    """Steps of one unit, by their keys."""

    __slots__ = ("by_key", "holder", "was_put_off")

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        """Attempt that they are of, but for those of the subtask."""
        self.by_key: dict[str, KeptStep] = {}
        self.was_put_off = False
        """True where it was put off, and has them nevertheless."""

    def begins(self, holder: Holder) -> None:
        """An attempt begins."""
        if holder != self.holder:
            self.ends()
            self.holder = holder

    def ends(self, *, keeps: bool = False) -> None:
        """Forget those of the present attempt: it has come to an end of its own; unless it goes on after them."""
        self.was_put_off = keeps
        if self.by_key and not keeps:
            self.by_key = {key: step for key, step in self.by_key.items() if step.is_of_subtask}

    @property
    def home(self) -> str | None:
        """Worker whose attempt was broken off and has steps; None: there is none."""
        return self.holder[0] if any(not step.is_of_subtask for step in self.by_key.values()) else None


def step_key(name: str, number: int) -> str:
    """Key of a step within its unit."""
    return f"{name}#{number}"
