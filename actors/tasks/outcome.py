"""How an attempt ended: a closed list.

``Done`` | ``Failed`` | ``Rejected`` | ``Later`` | ``Escalated`` are what a worker says, by returning a value, by
raising (or returning) one of the signals, or by raising anything. The orchestrator adds what happens to an attempt
without the worker saying anything: it timed out, its worker crashed, it was ended for reasons of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from actors.tasks.task import NO_USAGE, Usage


@dataclass(frozen=True, slots=True)
class Done:
    """``return Done(value, usage=Usage(tokens=...))``; a bare value means the same without usage."""

    value: Any
    usage: Usage = NO_USAGE


class Kind(StrEnum):
    """How an attempt ended that is not done."""

    FAILED = "failed"
    """It said so, or an exception left a plain function: clean, nothing was done."""
    CRASHED = "crashed"
    """The worker died of it: whether it was done is unknown."""
    TIMEOUT = "timeout"
    """It was ended: whether it was done is unknown."""
    INVALID = "invalid"
    """It returned what does not fit, or cannot be stored: it was done."""
    BREAKER = "breaker"
    """Nobody admits it: it never ran."""
    REJECTED = "rejected"
    """Every candidate said that it is not theirs."""
    RECURSION = "recursion"
    """It would have waited for itself; never tried again."""
    ESCALATED = "escalated"
    """It asked for a person."""
    NOBODY = "nobody"
    """There is no worker for it any more."""
    UNANSWERED = "unanswered"
    """A person was asked and did not answer in time."""
    DENIED = "denied"
    """A person said no."""


UNKNOWN: Final = frozenset({Kind.CRASHED.value, Kind.TIMEOUT.value, Kind.INVALID.value})
"""Ends after which an attempt may have had its effect, so that an undo must be called for it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that is not done: what the ladder decides about."""

    kind: Kind
    error: BaseException
    retryable: bool = True
    counts: bool = False
    """For the breaker of its worker."""
    question: str = ""
    """What a person is to be asked, where it asked for one."""

    @property
    def text(self) -> str:
        """What happened, in a line."""
        error = self.error
        said = str(error)
        name = type(error).__name__
        return said if name in {"Failed", "Escalated"} and said else f"{name}: {said}".rstrip(": ")
