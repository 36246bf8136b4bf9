"""Tracer of a tree, as its tasks see it: what makes spans of tasks and attempts.

A span is carried as a contextvar, so it travels as those of a caller do: with a task into its attempts, with an attempt
into the worker's code, with an ask or a tell out of it. That of an attempt is current where its code runs, on whatever
thread or loop. Nothing here raises: what goes wrong in the making of a span stays there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from actors.messaging.ports import Tracer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from contextvars import Context as Variables

    from actors.runtime.system import System
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.attempt_spec import Role
    from actors.tasks.model.report import Report


class AttemptTrace(Protocol):
    """Trace of one attempt."""

    variables: Variables
    """Contextvars that its code is to see: those that it would see, and the span."""

    def step(self, name: str) -> AbstractContextManager[object]:
        """Trace a step that is being called; a step that is recorded is not."""

    def end(self, attempt: Attempt) -> None:
        """Note that the attempt has ended, however that was."""


class TaskTracer(Tracer, Protocol):
    """Maker of spans of tasks and attempts."""

    def submit(self, task: str, path: str) -> str:
        """Trace a task that is about to be kept; returns the name of its trace, for its first record."""

    def withdraw(self, trace: str, status: str) -> None:
        """Trace no task that goes by this name: it was ``known``, or it was ``refused``."""

    def has_task(self, task: str) -> bool:
        """True where the span of a task is open."""

    def begin_task(self, task: str, path: str, variables: Variables | None, trace: str) -> Variables | None:
        """Trace a task from here on, or go on with that.

        Args:
            task: its id.
            path: of its supervisor.
            variables: contextvars that its attempts would see.
            trace: name of the trace in its first record; empty: it has none.

        Returns:
            The contextvars that its attempts are to see.
        """

    def end_task(self, report: Report) -> None:
        """Note that a task has ended; before those who wait for it hear of that."""

    def begin_part(self, key: str, task: str, path: str, variables: Variables | None) -> Variables | None:
        """Trace the part of a task that a team has, under this key; ``path`` is that of the team."""

    def end_part(self, key: str, status: str, error: str) -> None:
        """Note that a team has its part no longer."""

    def stage(self, task: str, path: str, role: Role, variables: Variables | None) -> AbstractContextManager[object]:
        """Trace a step of a task that is no attempt."""

    def begin_attempt(self, attempt: Attempt) -> AttemptTrace | None:
        """Trace an attempt that is being given to whoever does it; None: it is not traced."""


def tracer_of(system: System) -> TaskTracer | None:
    """Return what makes spans of the tasks of a tree; None: nobody wants any."""
    tracer: Any = system.tracer  # asked for twice an attempt, and a cast is a call
    found: TaskTracer | None = tracer
    return found
