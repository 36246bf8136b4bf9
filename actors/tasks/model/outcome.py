"""How an attempt ended: a closed list.

``Done`` | ``Failed`` | ``Rejected`` | ``Later`` | ``Escalated`` are what a worker says, by returning a value, by
raising (or returning) one of the signals, or by raising anything. The orchestrator adds what happens to an attempt
without the worker saying anything: it timed out, its worker crashed, it was ended for reasons of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from actors.model.errors import Failed, Later
from actors.model.record import record
from actors.tasks.model.usage import NO_USAGE, Usage
from actors.validation.json_form import made_whole


@record
class Done:
    """``return Done(value, usage=Usage(tokens=...))``; a bare value means the same without usage."""

    value: Any
    usage: Usage = NO_USAGE
    summary: str = ""
    """Stands for the value in a prompt that has no room for all of it, and in reviews after one that it has passed."""
    importance: float | None = None
    """From 0 to 1, where the goal has 1 and a result that says nothing 0.7: what a prompt keeps first."""


class FailureKind(StrEnum):
    """How an attempt ended that is not done."""

    FAILED = "failed"
    """The worker said so, or an exception left a plain function: clean, nothing was done."""
    CRASHED = "crashed"
    """The worker died of it: whether it was done is unknown."""
    IN_DOUBT = "in_doubt"
    """The effect is unknown, and must not come twice: never tried again."""
    TIMEOUT = "timeout"
    """The attempt was ended: whether it was done is unknown."""
    INVALID = "invalid"
    """The result does not fit, or cannot be stored: it was done."""
    REJECTED = "rejected"
    """Every candidate said that it is not theirs."""
    RECURSION = "recursion"
    """A worker would have waited for itself; never tried again."""
    ESCALATED = "escalated"
    """The worker asked for a person."""
    NOBODY = "nobody"
    """No worker is left for it."""
    UNANSWERED = "unanswered"
    """A person was asked and did not answer in time."""
    DENIED = "denied"
    """A person said no."""
    LOST = "lost"
    """The process ended with it, as often as is allowed: whether it was done is unknown."""


class PutOff(Later):
    """A ``Later`` of code whose steps stand: nothing but what comes next was refused, and it is to go on from there."""


class InvalidResultError(Failed):
    """A result that does not fit what was declared, or cannot be stored. It was done, and does not count as done."""


MOST_CHARS: Final = 2000
"""Limit of an error's text that is told, in characters."""
UNKNOWN: Final[frozenset[str]] = frozenset(
    {FailureKind.CRASHED, FailureKind.IN_DOUBT, FailureKind.TIMEOUT, FailureKind.INVALID, FailureKind.LOST}
)
"""Ends after which an attempt may have had its effect, so that an undo must be called for it."""

FOR_GOOD: Final = frozenset({FailureKind.RECURSION, FailureKind.DENIED, FailureKind.IN_DOUBT})
"""Ends after which nobody does it again: neither its own ladder, nor that of a team or an attempt that needs it."""

UNCOUNTED: Final[frozenset[str]] = frozenset({"later", FailureKind.REJECTED})
"""Ends of attempts that are no failure, and not counted as attempts, where another one follows."""


@record
class Failure:
    """An attempt that is not done: what the ladder decides about."""

    kind: FailureKind
    error: BaseException
    retryable: bool = True
    counts: bool = False
    """For the breaker of its worker."""
    over_budget: bool = False
    """The budget of its subtask is used up: nobody tries it again, but for a person who says so."""
    question: str = ""
    """Question to a person, where it asked for one."""
    state: Any = None
    """JSON that it wants back after the answer."""
    resumes: bool = False
    """True where it goes on from that with every answer."""
    may_ask: bool = True
    """False where no person is to be asked about it."""
    told: str = ""
    """The text of an error that user code raised: made once, where that code runs. Empty: made of ``error``."""
    types: tuple[type[BaseException], ...] = ()
    """The type of such an error, and that of the error within it; with them a ladder can do without the error."""
    where: str = ""
    """File and line of the user's code that raised such an error: ``tasks.py:12``; empty: it has none."""

    @property
    def text(self) -> str:
        """Say what happened, in a line."""
        told = self.told or text_of(self.error)
        name, _, said = told.partition(": ")
        return said if name in {"Failed", "Escalated"} and said else told


def text_of(error: BaseException) -> str:
    """Type and text of an error, cut to ``MOST_CHARS``."""
    said = plain_text(error, otherwise="its text cannot be told")
    if len(said) > MOST_CHARS:
        said = f"{said[:MOST_CHARS]} ... ({len(said)} characters)"
    return f"{name_of(error)}: {said}".rstrip(": ")


def name_of(value: object) -> str:
    """Name of the type of a value."""
    return type(value).__name__


def plain_text(value: object, *, otherwise: str = "") -> str:
    """Return the text of a value of user code; ``otherwise`` if its ``__str__`` raises.

    Raises:
        InvalidResultError: it raises, and nothing is given for that.
    """
    try:
        return made_whole(str(value))
    except Exception as broken:  # noqa: BLE001 - it is the code of a user
        if not otherwise:
            raise InvalidResultError(f"the text of a {name_of(value)} cannot be told ({name_of(broken)})") from None
        return f"{otherwise} ({name_of(broken)})"


def recorded_name(error: type) -> str:
    """Name of a type of errors as it is recorded: ``module:name``."""
    return f"{error.__module__}:{error.__qualname__}"


def is_one_of(error: type[BaseException], named: Iterable[type[BaseException] | str]) -> bool:
    """True if a declaration names this type of errors, or a base of it: the type itself, or its recorded name."""
    return any(
        each in map(recorded_name, error.__mro__) if isinstance(each, str) else issubclass(error, each)
        for each in named
    )


class AttemptEnded(Failed):
    """Error of an attempt that was ended by others."""
