"""Which plan has a child, how a child passes from one plan to another, and who waits until a child is dealt with.

``Child.plan`` is the owner: the only plan that may start or stop the child. A plan takes its children once, when it
begins (``claim``). Its own lists say only in which order it comes to them: an entry whose child has another owner by
then means nothing, and is passed over. So a plan never acts on a child because of its id, its place in a list, or what
it was when the plan was made. A child that is no longer listed is ``GONE``: it has no owner, and nothing can claim it.

How a child stands, and what that means with and without an owner ("starts": ``Procedure.starts_again`` of this child)::

    standing   no owner            owner that starts it            owner that only stops it
    ---------  ------------------  ------------------------------  -------------------------------------
    DOWN       stopped; its        restarting: waits its turn; its  was down when it was claimed
               mailbox refuses     mailbox is open
    STARTING   never               the owner started it             it waits its turn to be stopped
    UP         running             it waits its turn to be stopped, or to be started again
    STOPPING   never               the owner stops it, or will join the stop under way at its turn
    PARKED     its mailbox refuses never                            left as it is
    GONE       not listed          never                            never

A plan is acting on a child while the child is in its ``busy``: only then is the child's ``Started`` or end an answer to
the plan. An end before its turn means: where its owner starts it again, that there is nothing left to stop when the
turn comes; where not, that it is down for good and dealt with at once. So a restart never has a child that is down and
that it does not start: a restart that replaces it would not know of it, and it would wait for its turn for ever.

Who takes a child from whom (row from column)::

                       first pass  restart     replace  park   start call       stop call, failed start call
    first pass         -           never: starts that fail during it are put off
    restart of a group never       takes over  takes    no     no               no
    stop call          takes       takes       takes    takes  takes: it fails  takes: the old one waits for it
    failed start call  takes       takes       takes    takes  takes: it fails  stop call: waits for it
    shutdown           takes       takes       takes    takes  takes: it fails  takes: the old one waits for it

"No": a call about one child that is under way goes on by itself, and a group restart goes on without that child.
The plan that loses a child is told (``Procedure.on_child_taken``) and goes on without it; one that wanted the child
down anyway (``Procedure.only_waits``) waits until the new owner has dealt with it (``wait_for_owner``).

Everything here happens in the supervisor's own message handling, so there is no lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.supervision.child import Child
    from actors.supervision.procedures import Procedure
    from actors.supervision.supervisor import Supervisor


def claim(supervisor: Supervisor, plan: Procedure, children: Iterable[Child]) -> None:
    """Make this plan the owner of these children; the plans that lose one go on without it.

    First all get their new owner, and only then are the others told: so none of them acts on a child that is about to
    be claimed as well.
    """
    lost: list[tuple[Procedure, Child]] = []
    for child in children:
        old = child.plan
        child.plan = plan
        if old is not None and old is not plan and not old.over:
            lost.append((old, child))
    if not lost:
        return
    for old, child in lost:
        old.busy.discard(child)
        if old.only_waits:
            wait_for_owner(old, child)
        else:
            old.on_child_taken(supervisor, child)
    for old in dict.fromkeys(old for old, _ in lost):
        supervisor.advance(old)


def wait_for_owner(plan: Procedure, child: Child) -> None:
    """The plan waits until the owner of the child has dealt with it."""
    plan.busy.add(child)
    child.waiters = [*(child.waiters or ()), plan]


def dealt_with(child: Child) -> list[Procedure]:
    """Return the plans that waited until the owner of this child had brought it down and decided what becomes of it."""
    plans, child.waiters = child.waiters or [], None
    for plan in plans:
        plan.busy.discard(child)
    return plans
