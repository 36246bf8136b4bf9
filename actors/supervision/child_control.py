"""One child's operation: start it, stop it, run out of patience with it, take note of its end.

The supervisor decides; its ``ChildControl`` does it to one child at a time and knows nothing of the others. Every wait
has a limit (``actors.supervision.time_limits``).

A child's limit is that of its start, of a stop that its supervisor has ordered, or of an end of its own: it crashed, or
stopped, and is in its last hook. What is over by itself has the ``shutdown`` of its spec for that, but where this is 0
(or "brutal_kill"): that says how long its supervisor waits when it orders a stop, not that on_failure is not to run. A
stop that finds a start under way gives that no more time: until the start is over, its own limit holds if it is due
earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.model.events import ChildExited, ChildStarted, ChildStopAbnormal
from actors.model.spec import Reason, Restart
from actors.supervision.child import Child, ChildState
from actors.supervision.time_limits import TimeLimits

if TYPE_CHECKING:
    from actors.execution.incarnation import Exit
    from actors.messaging.supervisor_mailbox import SupervisorMailbox
    from actors.supervision.registry import Registry

GRACE_S = 0.5
"""How long a cancelled coroutine may take to end before it is abandoned."""
OWN_END_S = 5.0
"""How long a child that ends by itself may take for its last hook, where its supervisor would not wait at all."""


class ChildControl:
    """Operations of one supervisor on one child at a time."""

    def __init__(self, system: Registry, box: SupervisorMailbox, period_s: float) -> None:
        self._system = system
        self._box = box
        self._period_s = period_s
        self.limits = TimeLimits(system, box)
        self._stops_of_starts: dict[Child, float] = {}
        """When the stops have to be over that have found a start under way, of which the limit still holds."""
        self.kill_is_expected = False
        """True once its supervisor is killed because of its "brutal_kill": its children are to end so, too."""

    def start(self, child: Child, *, counts: bool = False) -> bool:
        """Begin a new incarnation, which counts as a restart or does not; True when it is up already."""
        spec, make = child.spec, child.form.incarnation
        incarnation = child.incarnation = make(self._system, spec, child.mailbox, self._box)
        if counts:
            incarnation.restart_of = child
        child.standing = ChildState.STARTING
        child.timed_out = False
        child.up_since = None
        if incarnation.start():
            return True
        self.limits.set(child, spec.start_timeout_s)
        return False

    @staticmethod
    def open(child: Child) -> bool:
        """Open the mailbox of a child that is to be started: messages wait from now on. False: it was open."""
        natural = child.form.refusal
        if child.mailbox.refusal is natural:
            return False
        child.mailbox.open(natural)
        return True

    def is_up(self, child: Child) -> None:
        """Take note that its start succeeded."""
        self.limits.lift(child)
        child.standing = ChildState.UP
        child.has_been_up = True
        child.up_since = self._system.now()
        incarnation = child.incarnation
        if incarnation is not None and incarnation.pulse is not None:
            self._system.stalls.watch(incarnation)
        box = child.mailbox
        self._system.publish(ChildStarted(box.path, box.incarnation))

    def stop(self, child: Child, *, kill: bool) -> Exit | None:
        """Begin to stop it, or to kill it; its Exit if that is done already. A second stop joins the first."""
        incarnation = child.incarnation
        if incarnation is None or (child.standing is ChildState.STOPPING and not kill):
            return None
        child.standing = ChildState.STOPPING
        kill = kill or child.spec.brutal_kill
        ended = incarnation.kill() if kill else incarnation.stop()
        if ended is None and not incarnation.is_over:
            shutdown_s = GRACE_S if kill else child.spec.shutdown_s
            if not kill and incarnation.is_starting and self.limits.left(child) < shutdown_s:
                self._stops_of_starts[child] = self._system.now() + shutdown_s
            else:
                self.limits.set(child, shutdown_s)
        return ended

    def ends_by_itself(self, child: Child) -> None:
        """Limit the end of a child that was not ordered to end: one limit, for its handler and its last hook."""
        if child not in self.limits:
            self.limits.set(child, child.spec.shutdown_s or OWN_END_S)

    def out_of_time(self, child: Child) -> Exit | None:
        """Cancel a child that took too long; abandon it if it was cancelled before. Its Exit if it is over now.

        *It comes up while its supervisor is busy, and its time passes before that has heard of it*: what comes before
        this look counts. ``Started`` is on its way then, and stands behind the news that a time is over.
        """
        incarnation = child.incarnation
        if incarnation is None:
            return None
        if child.standing is ChildState.STARTING:
            if child.is_up and not incarnation.was_killed:
                return None
            child.timed_out = True
        stop_ends = self._stops_of_starts.pop(child, None)
        if stop_ends is not None and not incarnation.is_starting and not incarnation.was_killed:
            self.limits.set(child, stop_ends - self._system.now())  # its start is over, and it is in its last hook
            return None
        ended = incarnation.abandon() if incarnation.was_killed else incarnation.kill()
        if ended is None and not incarnation.is_over:
            self.limits.set(child, GRACE_S)
        return ended

    def is_down(self, child: Child, exit_: Exit) -> None:
        """Take note of its end, and tell the world."""
        standing = child.standing
        self.limits.lift(child)
        self._stops_of_starts.pop(child, None)
        now = self._system.now()
        child.record_exit(exit_, now)
        child.came_up = child.incarnation is not None and child.incarnation.came_up
        if child.came_up and self._was_quiet(child):
            child.consecutive = 0
        if child.came_up and child.up_since is None:  # it was ended before its supervisor was told that it was up
            self._system.publish(ChildStarted(child.path, child.mailbox.incarnation))
        child.incarnation = None
        child.standing = ChildState.DOWN
        incarnation = child.mailbox.incarnation + (not child.came_up)  # of a failed start: the one it would have been
        self._system.publish(
            ChildExited(
                path=child.path,
                reason=exit_.reason,
                incarnation=incarnation,
                error=exit_.error,
                frames=exit_.frames,
                started=child.came_up,
                lost=exit_.lost,
                detail=_detail(child, exit_),
                output=exit_.output,
                lasted_s=self._lasted_s(child),
                at=self._system.epoch + now,
            )
        )
        if standing is ChildState.STOPPING and not self._is_expected(child, exit_):
            self._system.publish(ChildStopAbnormal(child.path, exit_.reason, str(exit_), exit_.error))

    def _is_expected(self, child: Child, exit_: Exit) -> bool:
        """True if a child that was being stopped ended as it should (OTP: ``normal`` is odd for a permanent one)."""
        if exit_.reason is Reason.SHUTDOWN:
            return True
        if exit_.reason is Reason.KILLED:
            return child.spec.brutal_kill or self.kill_is_expected
        return exit_.reason is Reason.NORMAL and child.spec.restart is not Restart.PERMANENT

    def _lasted_s(self, child: Child) -> float:
        """Return how long its incarnation was up."""
        return self._system.now() - child.up_since if child.came_up and child.up_since is not None else 0.0

    def _was_quiet(self, child: Child) -> bool:
        """True if it was up so long, whoever ended it, that its next restart is the first of a new row."""
        backoff, since = child.spec.backoff, child.up_since
        quiet_s = backoff.reset_after_s if backoff is not None else self._period_s
        return since is not None and self._system.now() - since >= quiet_s


def _detail(child: Child, exit_: Exit) -> str:
    return f"did not start within {child.spec.start_timeout_s:g} s" if child.timed_out else exit_.what
