"""Children that hang: what their supervisor does when it is told of one. See ``actors.execution.stall_watch``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from actors.model.errors import StalledError
from actors.model.raised import is_a
from actors.model.spec import Reason
from actors.model.worker_events import ChildStalled
from actors.supervision.child import Child, ChildState
from actors.supervision.child_control import GRACE_S
from actors.supervision.procedures import Procedure, RenewProcedure

if TYPE_CHECKING:
    from actors.execution.incarnation import Exit, Incarnation
    from actors.execution.incarnation_orders import ControlledIncarnation
    from actors.execution.stall_watch import Stalled
    from actors.supervision.supervisor import Supervisor


def on_stalled(supervisor: Supervisor, stalled: Stalled) -> None:
    """End a child that hangs, as crashed; unless it has given a sign of life since, or somebody sees to its end."""
    incarnation = cast("ControlledIncarnation", stalled.incarnation)
    child = supervisor.table.of(incarnation)
    if child is None or child.standing is not ChildState.UP or child.plan is not None:
        return
    if not incarnation.condemn(StalledError(child.path, stalled.silent_s), stalled.since):
        return
    supervisor.system.publish(ChildStalled(child.path, stalled.silent_s))
    ended = incarnation.kill()
    if ended is not None:
        supervisor.ended(child, ended)
    elif not incarnation.is_over:
        supervisor.control.limits.set(child, GRACE_S)


@dataclass(frozen=True, slots=True)
class LoopLost:
    """To each supervisor: this event loop was given up, because the code of ``culprit`` blocks it."""

    loop: object
    culprit: Incarnation | None
    """Incarnation whose code blocks it; None: that cannot be told."""
    silent_s: float


def on_loop_lost(supervisor: Supervisor, lost: LoopLost) -> None:
    """End all children that ran on a loop, and start them anew: the culprit has crashed, the others count nowhere."""
    innocent: list[Child] = []
    culprit: tuple[Child, Exit] | None = None
    for child in list(supervisor.table):
        incarnation = child.incarnation
        if incarnation is None or getattr(incarnation, "place", None) is not lost.loop:
            continue
        error = StalledError(child.path, lost.silent_s) if incarnation is lost.culprit else None
        if error is not None:
            supervisor.system.publish(ChildStalled(child.path, lost.silent_s))
        ended = cast("ControlledIncarnation", incarnation).lose_place(error)
        if ended is None:
            continue  # it has just ended by itself: its report is on the way
        if error is not None:
            culprit = (child, ended)
        elif ended.reason is Reason.KILLED and child.standing is ChildState.UP and child.plan is None:
            supervisor.control.is_down(child, ended)
            innocent.append(child)
        elif child.standing is ChildState.STARTING and child.plan is not None and child.plan.starts_again(child):
            _start_over(supervisor, child, child.plan, ended)
        else:
            supervisor.ended(child, ended)
    if culprit is not None:
        supervisor.ended(*culprit)
    _start_anew(supervisor, innocent)


def _start_anew(supervisor: Supervisor, innocent: list[Child]) -> None:
    missing = [child for child in innocent if child.plan is None and child.is_down]
    if missing and supervisor.shutdown is None:
        supervisor.carry_out(RenewProcedure(starts=missing))
    if supervisor.observer is not None:
        for child in innocent:
            supervisor.observer.changed(child)  # now that all is decided about it


def _start_over(supervisor: Supervisor, child: Child, plan: Procedure, exit_: Exit) -> None:
    """Have the plan that was starting the child do so once more: it has not failed by itself."""
    supervisor.control.is_down(child, exit_)
    if supervisor.observer is not None:
        supervisor.observer.changed(child)
    plan.busy.discard(child)
    plan.starts.appendleft(child)
    supervisor.advance(plan)


def is_given_up_too_often(supervisor: Supervisor, child: Child, exit_: Exit) -> bool:
    """True where it has just hung, and more of its threads are left to themselves than may be."""
    if not is_a(exit_.error, StalledError):
        return False
    return abandoned(supervisor, child) > supervisor.recipe.max_abandoned


def abandoned(supervisor: Supervisor, child: Child) -> int:
    """Count the threads of a child, or of its pool, that are left to themselves and still run."""
    members = supervisor.table.find(child.spec.id) if child.pool else [child]
    return sum(member.mailbox.abandoned for member in members)
