"""Closing of the mailboxes of children that stay down: asks to them fail at once, and tells are dead letters.

A supervisor that is stopped does not know by itself whether it comes back. If it does, its children keep their
messages. If not, each child refuses them from the moment at which it is down, while its siblings still stop. Otherwise
a worker that asks a younger sibling in its last handler, or in on_stop, would wait for a reply that nobody gives.

* The root never comes back. Whatever ends it, its children are down for good.
* Of any other supervisor, the procedure of its parent that stops it knows (``Procedure.refusal_after``), and tells it
  (``StaysDown``). One that is stopping already, in order to come back, may be told later that it does not: then what
  is down by then is closed at once.
* One that gives up by itself waits for what its parent decides: its children keep their messages until then.

A worker that lets the error of such an ask leave it while its tree ends has heard of that end: its exit is
``shutdown``, and nothing follows from it. Otherwise a body that asks in a loop would be restarted until its supervisor
gives up, in the middle of a stop in order. The same holds for the error of ``actors.supervision.dead_ends``, where it
is this worker that is to stop; but it comes back with its supervisor, and its messages wait for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.messaging.envelope import leaves
from actors.messaging.mailbox import Refusal
from actors.messaging.message_errors import ActorStoppedError, TreeDownError
from actors.model.raised import is_a
from actors.model.spec import Reason
from actors.supervision.child_table import mailboxes_below
from actors.supervision.dead_ends import refuse_dead_ends

if TYPE_CHECKING:
    from actors.execution.incarnation import Exit
    from actors.supervision.child import Child
    from actors.supervision.supervisor import Supervisor
    from actors.supervision.supervisor_incarnation import StaysDown


def begin_to_close(supervisor: Supervisor) -> None:
    """Note, as it begins to stop, if it was told that it does not come back, and if the tree ends with it."""
    supervisor.refusal_after = supervisor.refusal_after or supervisor.incarnation.stays_down
    supervisor.system.is_ending = supervisor.system.is_ending or supervisor.refusal_after is Refusal.DOWN


def on_stays_down(supervisor: Supervisor, told: StaysDown) -> None:
    """Close what is down already; what goes down from now on is closed by the shutdown."""
    if told.incarnation is not supervisor.incarnation:
        return
    supervisor.refusal_after = told.refusal
    if supervisor.shutdown is not None:
        for child in supervisor.table:
            if child.is_down:
                close_child(supervisor, child, told.refusal)


def close_child(supervisor: Supervisor, child: Child, refusal: Refusal) -> None:
    """A child stays down: answer all that waits in its mailbox, and in those of its subtree.

    Of a pool perhaps only members are left now that are down for a while, in a group that restarts.
    """
    system, boxes = supervisor.system, [child.mailbox]
    if child.spec.is_supervisor:
        below = system.supervisors.get(child.path)
        if below is None:
            boxes = [*mailboxes_below(system, child), child.mailbox]
        else:
            _close_all(below, refusal)
    for box in boxes:
        system.leftovers.answer(box, box.close(refusal), refusal)
        if refusal is Refusal.DOWN and box.waits is not None:
            for wait in box.waits.copy():
                if wait.waiters or not wait.outlives_target:
                    wait.fail(system.stopped_error(box.path, refusal))
    if child.pool is not None and supervisor.restarts.group is not None:
        refuse_dead_ends(supervisor, child)


def _close_all(supervisor: Supervisor, refusal: Refusal) -> None:
    """Close the subtree: its own supervisor does not start it again, for now or for good."""
    for child in list(supervisor.table):
        if refusal is Refusal.FORGOTTEN:
            supervisor.table.remove(child)
        close_child(supervisor, child, refusal)
    if refusal is Refusal.FORGOTTEN:
        del supervisor.system.supervisors[supervisor.path]


def as_ordered(supervisor: Supervisor, child: Child, exit_: Exit) -> Exit:
    """Return what an exit is where the worker has died of hearing that it is to stop: with its tree, or its group.

    A group of nothing but such errors says the same. Who has only asked one that is to stop has heard of no stop of
    his own.
    """
    error = exit_.error
    if error is None or not all(_tells_of_a_stop(supervisor, child, each) for each in leaves(error)):
        return exit_
    return replace(exit_, reason=Reason.SHUTDOWN, error=None, frames=None, is_last=True)


def _tells_of_a_stop(supervisor: Supervisor, child: Child, error: BaseException) -> bool:
    if is_a(error, TreeDownError):
        return supervisor.system.is_ending
    return is_a(error, ActorStoppedError) and child.path in error.stop_first
