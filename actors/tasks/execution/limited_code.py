"""Limit of the user's code that runs beside the work of an attempt: prompts and validators.

That code has ``step_timeout_s`` of the supervisor's ``Tasks``, as planners and reviewers have, and also where the
attempt itself has no limit. When it takes longer the orchestrator ends the attempt, as one whose own time is up: that
is the only way in which code that hangs lets go of its slot. A thread that it hangs on is left to itself.

The race: *the code returns just when its time is up*. Either the timer is cancelled, or the attempt is ended although
the code has returned. Both are true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from actors.execution.timers import Timer
    from actors.tasks.execution.attempt import Attempt


RESULTS_CLASS: Final = "result's class"
"""Names the code that makes JSON of a result: serializers of its class."""


class LimitedCode:
    """Context in which one such call is made.

    Args:
        attempt: the one beside whose work it is.
        what: names the code, as the user has declared it: ``output=``; or ``RESULTS_CLASS``.
    """

    __slots__ = ("_attempt", "_limit_s", "_timer", "_what")

    def __init__(self, attempt: Attempt, what: str) -> None:
        self._attempt = attempt
        self._what = what
        self._limit_s = attempt.owner.step_timeout_s
        self._timer: Timer | None = None

    def __enter__(self) -> Self:
        if self._limit_s is not None:
            system = self._attempt.owner.system
            self._timer = system.timers.call_at(system.now() + self._limit_s, self._expires)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expires(self) -> None:
        attempt = self._attempt
        attempt.overdue = self._what, self._limit_s or 0.0
        attempt.owner.tell_overdue(attempt)
