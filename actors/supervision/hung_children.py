"""Children that hang: what their supervisor does when it is told of one. See ``actors.execution.stall_watch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from actors.model.errors import StalledError
from actors.model.stall_events import ChildStalled
from actors.supervision.child import ChildState
from actors.supervision.child_control import GRACE_S

if TYPE_CHECKING:
    from actors.execution.incarnation import Exit
    from actors.execution.incarnation_orders import ControlledIncarnation
    from actors.execution.stall_watch import Stalled
    from actors.supervision.child import Child
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
        supervisor.control.limit(child, GRACE_S)


def is_given_up_too_often(supervisor: Supervisor, child: Child, exit_: Exit) -> bool:
    """True where it has just hung, and more of its threads are left to themselves than may be."""
    if not isinstance(exit_.error, StalledError):
        return False
    return abandoned(supervisor, child) > supervisor.recipe.max_abandoned


def abandoned(supervisor: Supervisor, child: Child) -> int:
    """Count the threads of a child, or of its pool, that are left to themselves and still run."""
    members = supervisor.table.find(child.spec.id) if child.pool else [child]
    return sum(member.mailbox.abandoned for member in members)
