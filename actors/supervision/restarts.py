"""Restarts: whether one may be made, what it touches, and what follows when it may not.

Every automatic restart attempt comes through ``attempt``: the first after an exit, and each further one after a start
that failed. It is counted when it is decided, before its backoff; so giving up never waits. The figures are asked of
``limit``, the scope of ``strategy``, the delay of the child's ``Backoff``; the result is a ``RestartProcedure``.

Where a restart touches a group there is one restart at a time: an exit outside of it enlarges it, a start that fails in
it begins it anew with that child as the culprit, and both replace the plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.execution.incarnation import Exit
from actors.messaging.mailbox import Refusal
from actors.model import strategy
from actors.model.errors import RestartLimitError
from actors.model.events import ChildParked, ChildRestarting, SupervisorGaveUp
from actors.model.restart_window import RestartWindow
from actors.model.spec import Reason, Restart, Strategy
from actors.supervision.child import Child, ChildState
from actors.supervision.closing import close_child
from actors.supervision.hung_children import is_given_up_too_often
from actors.supervision.procedures import RenewProcedure, RestartProcedure

if TYPE_CHECKING:
    from actors.supervision.supervisor import Supervisor


class Restarts:
    """The restarts of one supervisor."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._system = supervisor.system
        self._recipe = supervisor.recipe
        self.window = RestartWindow(supervisor.recipe.limit)
        """Shared by all children that do not park."""
        self.group: RestartProcedure | None = None
        """Restart under way, where a restart touches a group."""

    def attempt(self, child: Child, exit_: Exit) -> None:
        """Count one restart attempt of a child, and make it; or park the child, or give up."""
        if self._supervisor.shutdown is not None:
            return
        if exit_.renews:
            self._supervisor.carry_out(RenewProcedure(starts=[child]))
            return
        if self._supervisor.first is not None:
            self._supervisor.first.put_off(self._supervisor, child, exit_)
            return
        now = self._system.now()
        if exit_.excused:  # bad input is no bad worker: neither counted nor put off
            event = ChildRestarting(child.path, child.consecutive + 1, 0.0, error=exit_.error, detail=exit_.what)
            self._system.publish(event)
            self._supervisor.carry_out(self._plan(child, now))
            return
        window = self._window_of(child)
        if is_given_up_too_often(self._supervisor, child, exit_):
            child.plan = child.due = None
            self.park(child, child.restarts, exit_)
            return
        if not window.admit(now):
            child.plan = child.due = None
            if child.spec.park:
                self.park(child, window.count(now), exit_)
            else:
                self._give_up(child, exit_, window.count(now))
            return
        child.consecutive += 1
        backoff = child.spec.backoff
        delay_s = backoff.delay_s(child.consecutive, self._system.random) if backoff is not None else 0.0
        counted = (window.admitted, self._recipe.limit.max_restarts)
        self._system.publish(ChildRestarting(child.path, child.consecutive, delay_s, *counted, exit_.error, exit_.what))
        child.due = now + delay_s if delay_s > 0 else None
        self._supervisor.carry_out(self._plan(child, now + delay_s))

    def done(self, plan: RestartProcedure) -> None:
        """All that the plan had to start is up."""
        if self.group is plan:
            self.group = None

    def _window_of(self, child: Child) -> RestartWindow:
        if not child.spec.park:
            return self.window
        if child.window is None:
            child.window = RestartWindow(self._recipe.limit)
        return child.window

    def _plan(self, culprit: Child, due: float) -> RestartProcedure:
        """Stop whom the strategy names, wait, start them; what a restart under way had still to do is joined.

        The siblings of a child that has been missing so far have never relied on it: it comes alone.
        """
        if self._recipe.strategy is Strategy.ONE_FOR_ONE or culprit.is_missing:
            return RestartProcedure([], [culprit], due)
        members = strategy.scope(self._recipe.strategy, self._supervisor.table.newest_first(), culprit)
        starting: list[Child] = []
        old = self.group
        if old is not None and not old.over:
            touched = set(members)
            left = [child for child in old.owned() if child not in touched]
            starting = [child for child in left if child.standing is ChildState.STARTING]
            missing = [child for child in left if child.standing is not ChildState.STARTING]
            members = sorted([*members, *missing], key=lambda child: child.seq) if missing else members
            due = max(due, old.due or due)
            old.cancel()
        members = [child for child in members if self._may_restart(child)]
        stops = [child for child in members if not child.is_down]
        starts = [child for child in members if child.spec.restart is not Restart.TEMPORARY]
        batches = strategy.stop_batches(stops, parallel=self._recipe.parallel_stop)
        self.group = RestartProcedure(batches, starts, due, starting)
        return self.group

    def _may_restart(self, child: Child) -> bool:
        """Parked children are left parked; a call about one child goes on by itself."""
        return child.standing is not ChildState.PARKED and (child.plan is None or not child.plan.exclusive)

    def park(self, child: Child, restarts: int, exit_: Exit | None = None) -> None:
        """Park a child: it stays down until somebody restarts it; ``exit_`` is the end that it was one too many for."""
        child.standing = ChildState.PARKED
        close_child(self._supervisor, child, Refusal.PARKED)
        said = (exit_.error, exit_.what) if exit_ is not None else (None, "too much of it was given up")
        self._system.publish(ChildParked(child.path, restarts, *said))
        if self._supervisor.observer is not None:
            self._supervisor.observer.changed(child)  # perhaps it ended long before: in the first start of all

    def _give_up(self, child: Child, exit_: Exit, restarts: int) -> None:
        path, limit = self._supervisor.path, self._recipe.limit
        last = exit_.detail or str(exit_.reason)
        error = RestartLimitError(path, restarts, limit.max_restarts, limit.period_s, child.id, last)
        error.__cause__ = exit_.error
        root = path == self._system.root_path
        said = (exit_.error, exit_.what)
        event = SupervisorGaveUp(path, child.path, restarts, limit.max_restarts, limit.period_s, root, *said)
        self._system.publish(event)
        if root and self._system.cause is None:
            self._system.cause = error  # now: its children end one by one, and those that still run may ask the others
        self._supervisor.shut_down(Exit(Reason.SHUTDOWN, error, what="gave up"))
