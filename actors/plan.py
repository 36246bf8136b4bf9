"""What a supervisor is doing with some of its children: one mechanism for every case.

A plan is: stop these children (batch by batch, newest first), then wait until a time, then start those (one after the
other, in order). The first start of a supervisor, a restart of one child or of a group, a shutdown and the child calls
are all plans; they differ in what a failure and the end of the plan mean. ``advance`` is a loop, not a recursion, and
gives way every ``STEPS`` steps, so that a supervisor of 100,000 children answers while it starts or stops them.

Every child belongs to at most one plan. A plan that needs a child of another takes it over: the other one goes on
without it (``lose``), or, where it only waits until the child is down, is told when it is (``Child.joined``).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from actors.callables import type_name
from actors.child import Standing
from actors.errors import StartError
from actors.spec import Restart

if TYPE_CHECKING:
    from actors.child import Child
    from actors.dispatch.timers import Timer
    from actors.life import Exit
    from actors.reply import Reply
    from actors.supervisor import Supervisor

STEPS = 512
"""Children handled in one go, before other messages get their turn."""


class Plan:
    """Stop, wait, start."""

    starts_again = False
    """True where a child that was stopped for it is still its own, because it will start it."""
    only_waits = False
    """True where it is content when another plan brings its child down."""

    def __init__(
        self, stops: Iterable[list[Child]] = (), starts: Iterable[Child] = (), due: float | None = None
    ) -> None:
        self.stops = list(stops)
        """Batches to stop, the next one last."""
        self.batch: list[Child] = []
        """The batch that is being ordered to stop now."""
        self.starts = deque(starts)
        self.due = due
        self.kill = False
        self.busy: set[Child] = set()
        """Children that are being stopped or started just now."""
        self.over = False
        self.timer: Timer | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} stops={len(self.stops)} starts={len(self.starts)} busy={len(self.busy)}>"

    def cancel(self) -> None:
        """It does nothing more."""
        self.over = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def pending(self) -> list[Child]:
        """Children that it has still to start, in order."""
        return [child for child in self.starts if child.plan is self]

    # -- what the kinds differ in --------------------------------------------------------------------------

    def stopped(self, supervisor: Supervisor, child: Child) -> None:
        """A child of ``stops`` is down."""

    def start_failed(self, supervisor: Supervisor, child: Child, exit_: Exit) -> None:
        """A child of ``starts`` did not come up."""

    def came_up(self, supervisor: Supervisor, child: Child) -> None:
        """A child of ``starts`` is up."""

    def lose(self, supervisor: Supervisor, child: Child) -> None:
        """Another plan has taken the child over."""

    def done(self, supervisor: Supervisor) -> None:
        """Nothing is left to do."""


class FirstPass(Plan):
    """The first start of a supervisor: all children in order; the first that fails fails all."""

    def start_failed(self, supervisor: Supervisor, child: Child, exit_: Exit) -> None:
        """Roll back: no retry, nothing counted."""
        supervisor.roll_back(start_error(child, exit_))

    def done(self, supervisor: Supervisor) -> None:
        """The supervisor is up."""
        supervisor.all_up()


class RestartPlan(Plan):
    """A restart: of one child, or of a group around it."""

    starts_again = True

    def __init__(self, culprit: Child, stops: list[list[Child]], starts: list[Child], due: float) -> None:
        super().__init__(stops, starts, due)
        self.culprit = culprit
        for child in itertools.chain(starts, *stops):
            if child.plan is None or child.plan.over:
                child.plan = self

    def stopped(self, supervisor: Supervisor, child: Child) -> None:
        """A temporary sibling is not started again."""
        if child.spec.restart is Restart.TEMPORARY:
            supervisor.forget(child)

    def start_failed(self, supervisor: Supervisor, child: Child, exit_: Exit) -> None:
        """One more attempt, which counts; the culprit is now this child."""
        supervisor.restarts.attempt(child, exit_)

    def came_up(self, supervisor: Supervisor, child: Child) -> None:
        """Counted where it is shown."""
        child.restarts += 1

    def lose(self, supervisor: Supervisor, child: Child) -> None:
        """The rest goes on at once: also without the backoff, if that was the child's own."""
        if child.due is None:
            return
        child.due = None
        self.due = max((other.due for other in self.pending() if other.due is not None), default=None)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def done(self, supervisor: Supervisor) -> None:
        """All are up again."""
        supervisor.restarts.done(self)


class ReplacePlan(Plan):
    """A child that hangs: give it up, start it anew. Not a restart: nothing of the child's own doing is counted."""

    starts_again = True

    def __init__(self, child: Child) -> None:
        super().__init__([[child]], [child])
        self.kill = True
        child.plan = self

    def start_failed(self, supervisor: Supervisor, child: Child, exit_: Exit) -> None:
        """From here on it is a restart like any other."""
        supervisor.restarts.attempt(child, exit_)


class ParkPlan(Plan):
    """A child of which too much was given up: kill it, and leave it down until somebody restarts it."""

    def __init__(self, child: Child) -> None:
        super().__init__([[child]])
        self.kill = True
        child.plan = self

    def stopped(self, supervisor: Supervisor, child: Child) -> None:
        """It is parked."""
        supervisor.restarts.park(child, child.restarts)


class Shutdown(Plan):
    """The end of the supervisor: all children, newest first."""

    def __init__(self, stops: list[list[Child]], exit_: Exit, *, kill: bool) -> None:
        super().__init__(stops)
        self.exit = exit_
        self.kill = kill

    def done(self, supervisor: Supervisor) -> None:
        """The supervisor's own end."""
        supervisor.finish(self.exit)


class StopCall(Plan):
    """terminate_child."""

    only_waits = True

    def __init__(self, children: list[Child], reply: Reply) -> None:
        super().__init__([children])
        self.reply = reply

    def stopped(self, supervisor: Supervisor, child: Child) -> None:
        """It stays down; a temporary one is forgotten."""
        supervisor.stay_down(child)

    def done(self, supervisor: Supervisor) -> None:
        """Answer the caller."""
        self.reply.complete()


class StartCall(Plan):
    """start_child and restart_child: a failing start raises in the caller, and is not tried again."""

    def __init__(self, children: list[Child], reply: Reply, *, keep: bool) -> None:
        super().__init__(starts=children)
        self.reply = reply
        self.keep = keep
        """True for restart_child: what fails stays listed as stopped. False: it is forgotten."""
        self.children = children
        self.failure: StartError | None = None
        for child in children:
            child.plan = self

    def start_failed(self, supervisor: Supervisor, child: Child, exit_: Exit) -> None:
        """Stop the members that are up already, and give up."""
        self._fail(supervisor, start_error(child, exit_))

    def lose(self, supervisor: Supervisor, child: Child) -> None:
        """Somebody stopped it while it started."""
        self._fail(supervisor, StartError(child.path, "was stopped while it started"))

    def done(self, supervisor: Supervisor) -> None:
        """Answer the caller."""
        supervisor.starting.discard(self)
        if self.failure is None:
            self.reply.complete()
            return
        for child in self.children:
            if child.plan is None and child.is_down:
                if self.keep:
                    supervisor.stay_down(child)
                else:
                    supervisor.forget(child)
        self.reply.fail(self.failure)

    def _fail(self, supervisor: Supervisor, failure: StartError) -> None:
        self.failure = failure
        self.starts.clear()
        up = [child for child in self.children if child.standing is Standing.UP and child.plan is None]
        self.stops = [up] if up else []
        for child in self.children:
            if child.plan is self and child.is_down:
                child.plan = None


def start_error(child: Child, exit_: Exit) -> StartError:
    """Why a child did not start, with the next level down as its cause."""
    if child.timed_out:
        limit = child.spec.start_timeout_s
        error = StartError(
            child.path,
            f"did not start within {limit:g} s (on_start still running)",
            "Raise start_timeout_s, or do the slow part later, e.g. with a tell to itself.",
        )
    elif isinstance(exit_.error, StartError):
        error = StartError(child.path, f"child {exit_.error.path!r} did not start")
    elif exit_.error is not None:
        error = StartError(child.path, f"raised {type_name(type(exit_.error))} while it started")
    else:
        error = StartError(child.path, f"ended while it started ({exit_})")
    error.__cause__ = exit_.error
    return error
