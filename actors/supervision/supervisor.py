"""The supervisor: receives what happens to its children, and carries out what is to be done about it.

It is an actor like a worker: one message at a time, from a mailbox, on the pool. It never runs user code, never blocks
and never does I/O: slow starts and stops happen in the children, which tell it when they are done, so it answers at all
times. What it receives (``_HANDLERS``) is a closed list. What it does to one child goes through ``ChildControl``; what
it is doing with several is a ``Procedure``; which plan has a child stands in ``actors.supervision.child_ownership``;
restarts are decided in ``Restarts``.

States of a supervisor::

    begin -> InitialStart -> all_up ---- restarts, calls ----> Shutdown -> finish
                 |                                             ^
                 +-- a child fails: roll_back -----------------+  (also: an order to stop, giving up, auto_shutdown)

Only its own message handling touches its state, so there is no lock here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from actors.execution.incarnation import Exit, Exited, Registered, Started, Stopping
from actors.execution.pykka_bridge import ManagedActor
from actors.execution.stall_watch import Stalled
from actors.messaging.mailbox import Refusal
from actors.messaging.reply import Reply
from actors.model import strategy
from actors.model.errors import StartError
from actors.model.spec import Reason, Restart, SupervisorRecipe
from actors.model.strategy import ExitAction
from actors.supervision.child import Child, ChildObserver, ChildState
from actors.supervision.child_control import ChildControl
from actors.supervision.child_ownership import claim, dealt_with
from actors.supervision.child_table import ChildTable
from actors.supervision.closing import as_ordered, begin_to_close, close_child, on_stays_down
from actors.supervision.dead_ends import refuse_dead_ends, refuse_dead_ends_above
from actors.supervision.hung_children import LoopLost, abandoned, on_loop_lost, on_stalled
from actors.supervision.procedures import (
    STEPS,
    InitialStart,
    ParkProcedure,
    Procedure,
    ReplaceProcedure,
    ShutdownProcedure,
    StartCall,
)
from actors.supervision.restarts import Restarts
from actors.supervision.supervisor_incarnation import (
    Continue,
    KillOrder,
    ReplaceChild,
    StaysDown,
    StopOrder,
    SupervisorIncarnation,
)
from actors.supervision.time_limits import LimitsDue


class Supervisor(ManagedActor):
    """One incarnation of a supervisor."""

    def __init__(self, incarnation: SupervisorIncarnation) -> None:
        recipe = incarnation.spec.recipe
        assert isinstance(recipe, SupervisorRecipe)  # noqa: S101 - ours to get right, not a user's mistake
        self._regrow_incarnation = self.incarnation = incarnation
        self.recipe = recipe
        self.system = incarnation.system
        self.path = incarnation.mailbox.path
        self.table = ChildTable(self.system, self.path)
        self.control = ChildControl(self.system, incarnation.mailbox, recipe.limit.period_s)
        self.restarts = Restarts(self)
        self.observer: ChildObserver | None = None if recipe.observer is None else recipe.observer(self)
        """Is told how its children are, once all about a change is decided."""
        self.begun = False
        self.first: InitialStart | None = None
        self.shutdown: ShutdownProcedure | None = None
        self.refusal_after = Refusal.DOWN if incarnation.mailbox.absent is Refusal.DOWN else None
        """Why its children refuse messages once it has stopped them; None: it may be started again."""
        self.starting: set[StartCall] = set()
        """Child calls that wait for a start."""

    # -- hearing -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """List the declared children and start them."""
        self.begun = True
        for spec in self.recipe.children:
            self.table.add(spec)
        self.first = InitialStart(self.table)
        self.carry_out(self.first)

    def receive(self, message: Any, reply: Reply | None) -> None:
        """Handle one message."""
        hears = self._HANDLERS.get(type(message))
        if hears is not None:
            hears(self, message)
        elif reply is not None and self.shutdown is None:
            message.carry_out(self, reply)
        elif reply is not None:
            reply.fail(self.system.stopped_error(self.path, self.incarnation.mailbox.absent))

    def _on_started(self, up: Started) -> None:
        child = self.table.of(up.incarnation)
        if child is not None and child.standing is ChildState.STARTING:
            plan = self._is_up(child)
            if plan is not None:
                self.advance(plan)

    def _on_registered(self, says: Registered) -> None:
        child = self.table.of(says.incarnation)
        if child is not None:
            child.registration = says.registration
            if self.observer is not None and child.standing is ChildState.UP:
                self.observer.changed(child)

    def _on_stopping(self, ending: Stopping) -> None:
        child = self.table.of(ending.incarnation)
        if child is not None and child.standing is ChildState.UP:
            self.control.ends_by_itself(child)

    def _on_limits_due(self, _: LimitsDue) -> None:
        limits = self.control.limits
        for child, end in limits.overdue():
            if limits.expires(child, end):
                ended = self.control.out_of_time(child)
                if ended is not None:
                    self.ended(child, ended)
        limits.look_again()

    def _on_exited(self, ended: Exited) -> None:
        child = self.table.of(ended.incarnation)
        if child is not None:
            self.ended(child, ended.exit)

    def _on_stop(self, order: StopOrder) -> None:
        if order.incarnation is self.incarnation:
            self.shut_down(Exit(Reason.SHUTDOWN))

    def _on_kill(self, order: KillOrder) -> None:
        if order.incarnation is self.incarnation:
            self.control.kill_is_expected = self.incarnation.spec.brutal_kill
            self.shut_down(Exit(Reason.KILLED), kill=True)

    def _on_replace(self, order: ReplaceChild) -> None:
        child = self.table.of(order.incarnation)
        if child is None or child.standing is not ChildState.UP or child.plan is not None or self.shutdown is not None:
            return  # it has ended, or somebody sees to that
        if order.is_outdated:
            return
        if abandoned(self, child) >= order.max_abandoned:
            self.carry_out(ParkProcedure(child))
        else:
            self.carry_out(ReplaceProcedure(child))

    def _on_continue(self, go_on: Continue) -> None:
        go_on.plan.timer = None
        self.advance(go_on.plan)

    # -- carrying out a plan -------------------------------------------------------------------------------

    def carry_out(self, plan: Procedure) -> None:
        """Begin a plan: its children are its own from now on, and those that it will start take messages again."""
        claim(self, plan, plan.members())
        for child in plan.starts:
            shut = child.mailbox.refusal is not child.form.refusal and child.is_down
            if shut and self.control.open(child) and self.observer is not None:
                self.observer.changed(child)  # it was down for good, and from now on it is about to be up
            if child.is_down and plan.stops_first and plan.has_more_to_stop:
                refuse_dead_ends(self, child)
        self.advance(plan)

    def advance(self, plan: Procedure) -> None:
        """Do what can be done of a plan now."""
        for _ in range(STEPS):
            if plan.over:
                return
            if plan.batch:
                self._stop_for(plan, plan.take_next())
                plan.turn = None
            elif plan.busy:
                return
            elif plan.stops:
                plan.begin_batch()
            elif plan.starts and plan.starts[0].plan is not plan:
                plan.starts.popleft()
            elif plan.starts and plan.due is not None and plan.due > self.system.now():
                self._wait_for(plan, plan.due)
                return
            elif plan.starts:
                self._start_for(plan, plan.starts.popleft())
            else:
                plan.cancel()
                plan.done(self)
                return
        self.incarnation.mailbox.post(Continue(plan))

    def _advance_all(self, plans: list[Procedure]) -> None:
        for plan in plans:
            self.advance(plan)

    def _wait_for(self, plan: Procedure, due: float) -> None:
        if plan.timer is None:
            box = self.incarnation.mailbox
            plan.timer = self.system.timers.call_at(due, lambda: box.post(Continue(plan)))

    def _start_for(self, plan: Procedure, child: Child) -> None:
        child.due = None
        plan.busy.add(child)
        if self.control.start(child, counts=plan.counts):
            self._is_up(child)

    def start_at_once(self, child: Child) -> None:
        """Start a child that no plan has, and that is up when it is made (``ChildSpec.starts_at_once``)."""
        self.control.open(child)
        self.control.start(child)
        self._is_up(child)

    def _is_up(self, child: Child) -> Procedure | None:
        """Take note; the plan that goes on now."""
        plan = child.plan
        self.control.is_up(child)
        if plan is not None and child in plan.busy:
            child.plan = None
            plan.busy.discard(child)
        if self.observer is not None:
            self.observer.up(child)
        return plan

    def _stop_for(self, plan: Procedure, child: Child) -> None:
        if child.plan is not plan:
            return  # it was taken over since
        if child.is_down:
            self._advance_all(self._is_stopped(child, plan))
            return
        plan.busy.add(child)
        below = child.incarnation
        if isinstance(below, SupervisorIncarnation) and (refusal := plan.refusal_after(self, child)) is not None:
            below.stay_down(refusal)
        ended = self.control.stop(child, kill=plan.kill)
        if ended is not None:
            self._advance_all([other for other in self._ended(child, ended) if other is not plan])

    def _is_stopped(self, child: Child, plan: Procedure) -> list[Procedure]:
        """Note that the owner has what it wanted; return the plans that waited for that."""
        if not plan.starts_again(child):
            child.plan = None
        plan.stopped(self, child)
        return dealt_with(child)

    # -- the end of a child --------------------------------------------------------------------------------

    def ended(self, child: Child, exit_: Exit) -> None:
        """Treat the end of a child's present incarnation, and go on with what waited for it."""
        self._advance_all(self._ended(child, exit_))

    def _ended(self, child: Child, exit_: Exit) -> list[Procedure]:
        """Treat the end of a child's present incarnation; the plans that go on now."""
        standing, plan, exit_ = child.standing, child.plan, as_ordered(self, child, exit_)
        self.control.is_down(child, exit_)
        plans: list[Procedure] = []
        if plan is None:
            self.ended_by_itself(child, exit_)
        elif child in plan.busy:
            plan.busy.discard(child)
            plans = [plan]
            if standing is ChildState.STOPPING:
                plans += self._is_stopped(child, plan)
            else:
                self._did_not_start(child, plan, exit_)
        elif not plan.starts_again(child):
            plans = self._is_stopped(child, plan)  # before its turn, but down for good: nothing has to wait for that
        else:  # it ended just before its turn to be stopped, and is part of that restart
            refuse_dead_ends(self, child)
        if self.observer is not None:
            self.observer.changed(child)  # now that all is decided about it
        return plans

    def _did_not_start(self, child: Child, plan: Procedure, exit_: Exit) -> None:
        child.plan = None
        if exit_.ignored:
            self.stay_down(child)
        else:
            plan.start_failed(self, child, exit_)

    def ended_by_itself(self, child: Child, exit_: Exit) -> None:
        """Treat a child that ended by itself: its restart type says what follows, unless the exit itself does."""
        if exit_.is_last:
            if self.system.is_ending:
                self.stay_down(child)
            return  # else it comes back with this supervisor, which is stopped next: its messages wait for that
        if exit_.renews or strategy.decide(child.spec.restart, exit_.reason) is ExitAction.RESTART:
            self.restarts.attempt(child, exit_)
            return
        significant = child.spec.significant
        self.stay_down(child)
        if significant:
            self._significant_ended()

    def _significant_ended(self) -> None:
        if self.first is not None:
            self.first.significant_ended = True
            return
        alive = sum(other.counts_as_alive for other in self.table.significant.values())
        if strategy.ends_supervisor(self.recipe.auto_shutdown, significant=True, significant_alive=alive):
            self.shut_down(Exit(Reason.SHUTDOWN, what="auto_shutdown"))

    def stay_down(self, child: Child) -> None:
        """The child stays down: answer all in its mailbox. A temporary one, or one of a failed start_child, goes."""
        added_by = child.added_by
        if child.spec.restart is Restart.TEMPORARY or (added_by is not None and added_by.failure is not None):
            self.forget(child)
            return
        if child.standing is not ChildState.PARKED:
            close_child(self, child, Refusal.STOPPED)
        if self.observer is not None:
            self.observer.changed(child)

    def forget(self, child: Child) -> None:
        """Nothing of the child stays, and nothing can happen to it any more."""
        self.table.remove(child)
        if self.observer is not None:
            self.observer.forgotten(child)
        close_child(self, child, Refusal.FORGOTTEN)

    # -- beginning and end ---------------------------------------------------------------------------------

    def all_up(self, first: InitialStart) -> None:
        """The first pass is over: treat what ended meanwhile."""
        self.first = None
        self.incarnation.is_up()
        for child, exit_ in first.late.items():
            if child.plan is first:  # nobody has stopped it since, and it is no part of a restart of another
                self.restarts.attempt(child, exit_)
        if first.significant_ended and self.shutdown is None:
            self._significant_ended()

    def roll_back(self, error: StartError) -> None:
        """The first pass failed: stop what is up, and fail as a whole."""
        self.shut_down(Exit(Reason.CRASHED, error))

    def shut_down(self, exit_: Exit, *, kill: bool = False) -> None:
        """Stop all children, newest first, then end with this exit. A kill overtakes a stop."""
        if self.shutdown is not None:
            if kill:
                self._kill_the_rest(self.shutdown)
            return
        begin_to_close(self)
        if self.observer is not None:
            self.observer.closing()
        for plan in filter(None, (self.first, self.restarts.group, *self.starting)):
            plan.cancel()
        for call in self.starting:
            call.reply.fail(StartError(self.path, "was stopped while a child of it started"))
        self.first = self.restarts.group = None
        self.starting.clear()
        self.shutdown = ShutdownProcedure(self, exit_, kill=kill)
        refuse_dead_ends_above(self)
        self.carry_out(self.shutdown)

    def _kill_the_rest(self, plan: ShutdownProcedure) -> None:
        plan.kill = True
        plan.exit = Exit(Reason.KILLED)
        plan.batch = [child for batch in plan.stops for child in batch] + plan.batch
        plan.stops.clear()
        for child in list(plan.busy):
            ended = self.control.stop(child, kill=True)
            if ended is not None:
                self._advance_all([other for other in self._ended(child, ended) if other is not plan])
        self.advance(plan)

    def fail_internally(self, error: BaseException) -> None:
        """A bug of ours left this supervisor in an unknown state: kill what there is."""
        before, self.shutdown = self.shutdown, None
        if before is not None:
            before.cancel()
        self.shut_down(Exit(Reason.CRASHED, error), kill=True)

    def finish(self, exit_: Exit) -> None:
        """All children are down. What start_child had added is gone."""
        for child in [child for child in self.table if child.dynamic]:
            self.forget(child)
        self.control.limits.close()
        self.incarnation.finish(exit_)

    _HANDLERS: ClassVar[dict[type[Any], Callable[[Supervisor, Any], None]]] = {
        Started: _on_started,
        Registered: _on_registered,
        Stopping: _on_stopping,
        Exited: _on_exited,
        LimitsDue: _on_limits_due,
        Continue: _on_continue,
        StopOrder: _on_stop,
        KillOrder: _on_kill,
        StaysDown: on_stays_down,
        ReplaceChild: _on_replace,
        Stalled: on_stalled,
        LoopLost: on_loop_lost,
    }
