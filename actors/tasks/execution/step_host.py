"""Attempt in its own process, as the steps of its code see it: see ``actors.tasks.execution.attempt_steps``."""

from __future__ import annotations

import contextvars
import itertools
from typing import TYPE_CHECKING, Any, Final

from actors.messaging.envelope import own_error
from actors.tasks.model.attempt_end import STOP, AttemptEnded
from actors.tasks.model.task_errors import LeaseLostError
from actors.tasks.model.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from actors.messaging.ports import Crossing
    from actors.messaging.reply import Reply
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.attempt_steps import KnownSteps, StepCall


_NUMBERS: Final = itertools.count(1)
"""Numbers of traces, in all attempts of this process."""


class AttemptStepHost:
    """Door to one attempt for its steps. May be used from any thread."""

    __slots__ = ("_attempt", "_traced")

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._traced: dict[int, tuple[AbstractContextManager[object], contextvars.Context]] = {}
        """Traces of steps that run in another process now, each with the variables that it was entered in."""

    @property
    def path(self) -> str:
        """Path of the worker."""
        return self._attempt.spec.path

    @property
    def subtask(self) -> str:
        """Id of the subtask."""
        return self._attempt.subtask.id

    @property
    def known(self) -> KnownSteps:
        """Steps that are recorded already."""
        return self._attempt.spec.steps

    def ask_leave(self, name: str) -> None:
        """Refuse a step where none may be made any more.

        Raises:
            LeaseLostError: this process leads no more.
            AttemptEnded: the attempt was ended.
        """
        attempt = self._attempt
        if not attempt.owner.may_start():
            try:
                attempt.owner.token()
            except LeaseLostError as error:
                raise own_error(error) from None
            raise AttemptEnded(STOP)
        if attempt.done or attempt.ended_by is not None:
            what = f"the attempt was ended ({attempt.ended_by or 'it is over'}): step {name!r} is not made"
            raise AttemptEnded(what)
        attempt.shows_life(attempt.owner.system.now())

    def trace(self, name: str) -> AbstractContextManager[object] | None:
        """Return the trace of a step, where its attempt is traced."""
        trace = self._attempt.trace
        return None if trace is None else trace.step(name)

    def begin_trace(self, name: str) -> tuple[int, Crossing | None] | None:
        """Begin the trace of a step that runs in another process; on the loop, as the two that follow.

        Returns:
            Its number, and the span that is to be current there; None: its attempt is not traced.
        """
        trace, tracer = self.trace(name), self._attempt.owner.system.tracer
        if trace is None or tracer is None:
            return None
        variables = contextvars.copy_context()
        variables.run(trace.__enter__)
        number = next(_NUMBERS)
        self._traced[number] = trace, variables
        return number, tracer.crossing(variables)

    def end_trace(self, number: int, error_type: str = "", text: str = "") -> None:
        """End the trace of that step, unless it has; with an error that it has left by, if any.

        Code that outlives its attempt there tells the end of its step when the next attempt runs: it is none of that.
        """
        found = self._traced.pop(number, None)
        if found is None:
            return
        trace, variables = found
        # Of the type of an error nothing but its name has crossed.
        error = type(error_type, (Exception,), {})(text) if error_type else None
        variables.run(trace.__exit__, error and type(error), error, None)

    def end_traces(self) -> None:
        """End the traces of all steps: their process does nothing for this attempt any more."""
        for number in list(self._traced):
            self.end_trace(number)

    def use(self, usage: Usage) -> None:
        """Count what the step that runs has used up: that is recorded with its result, or told where it has none."""
        self._attempt.use(usage)

    def tell_usage(self) -> None:
        """Tell what was used up, where no record has it."""
        if self._attempt.unrecorded is not NO_USAGE:
            self._attempt.owner.tell_usage(self._attempt)

    def keep_step(self, call: StepCall, value: Any) -> Reply | None:
        """Have a step recorded. None: it is kept; else what is returned is completed when it is."""
        attempt = self._attempt
        owner = attempt.owner
        attempt.shows_life(owner.system.now())
        if attempt.spec.role == "work":
            return owner.keep_step(attempt, call, value)
        self.tell_usage()
        return None  # an undo is called whole
