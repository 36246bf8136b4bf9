"""Plans: what a supervisor is doing with some of its children, by one mechanism for every case.

A plan is: stop these children (batch by batch, newest first), then wait until a time, then start those (one after the
other, in order). The first start of a supervisor, a restart of one child or of a group, a shutdown and the child calls
are all plans; they differ in what a failure and the end of the plan mean. ``advance`` is a loop, not a recursion, and
gives way every ``STEPS`` steps, so that a supervisor of 100,000 children answers while it starts or stops them.

Every child belongs to at most one plan, which has claimed it when the plan began; see
``actors.supervision.child_ownership``.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from actors.messaging.mailbox import Refusal
from actors.model import strategy
from actors.model.errors import StartError
from actors.model.spec import Restart
from actors.supervision.child import Child, ChildState
from actors.supervision.child_ownership import claim, wait_for_owner
from actors.supervision.closing import close_child
from actors.supervision.dead_ends import refuse_dead_ends
from actors.supervision.start_errors import start_error

if TYPE_CHECKING:
    from actors.execution.incarnation import Exit
    from actors.messaging.ports import Timer
    from actors.messaging.reply import Reply
    from actors.supervision.supervisor import Supervisor

STEPS = 512
"""Children handled in one go, before other messages get their turn."""


class Procedure:
    """Stop, wait, start."""

    only_waits = False
    """True where it is content when another plan brings its child down."""
    exclusive = False
    """True where the restart of a group leaves its children alone."""
    stops_first = False
    """True where it starts a child again only after the last of those that it stops is down."""
    counts = False
    """True where a child that it starts has been restarted, and that is counted."""

    def __init__(
        self, stops: Iterable[list[Child]] = (), starts: Iterable[Child] = (), due: float | None = None
    ) -> None:
        self.stops = list(stops)
        """Batches to stop, the next one last."""
        self.batch: list[Child] = []
        """The batch that is being ordered to stop now."""
        self.turn: Child | None = None
        """Child of these that is being ordered to stop at this moment."""
        self.starts = deque(starts)
        self.due = due
        self.kill = False
        self.busy: set[Child] = set()
        """Children that are being stopped or started just now."""
        self.over = False
        self.timer: Timer | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} stops={len(self.stops)} starts={len(self.starts)} busy={len(self.busy)}>"

    @property
    def has_more_to_stop(self) -> bool:
        """True while any of those that it stops is not down yet."""
        return bool(self.stops or self.batch or self.busy)

    def is_to_stop(self, child: Child) -> bool:
        """Return True where its turn to be stopped is still to come, or is now. On any thread.

        A child goes from ``stops`` to ``batch``, and to ``turn``, and is in the next before it has left the one before;
        they are read in this order. In the end it is STOPPING, before it has left ``turn``.
        """
        return any(child in batch for batch in self.stops.copy()) or child in self.batch.copy() or child is self.turn

    def begin_batch(self) -> None:
        """Go on with the next batch to stop."""
        self.batch = self.stops[-1]
        self.stops.pop()

    def take_next(self) -> Child:
        """Return the next of the batch, whose turn it is until ``turn`` is changed."""
        self.turn = self.batch[-1]
        return self.batch.pop()

    def cancel(self) -> None:
        """Cancel the plan: it does nothing more."""
        self.over = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def members(self) -> Iterator[Child]:
        """All that stand in its lists, some of them twice; to be claimed when it begins."""
        return itertools.chain(self.starts, *self.stops, self.batch, self.busy)

    def owned(self) -> list[Child]:
        """Children that it has something to do with still."""
        return [child for child in dict.fromkeys(self.members()) if child.plan is self]

    # -- what the kinds differ in --------------------------------------------------------------------------

    def starts_again(self, child: Child) -> bool:
        """True where it will start this child of it once that is down; where not, that is then down for good."""
        return False

    def refusal_after(self, supervisor: Supervisor, child: Child) -> Refusal | None:
        """Why what is below this child refuses messages, once this has stopped it; None: they wait for its return."""
        return None if self.starts_again(child) else Refusal.STOPPED

    def stopped(self, supervisor: Supervisor, child: Child) -> None:
        """A child of ``stops`` is down; or one that it does not start again, also before its turn."""

    def start_failed(self, supervisor: Supervisor, child: Child, exit_: Exit) -> None:
        """A child of ``starts`` did not come up: an exit like any other, from which its restart type says what follows.

        In a restart that is one more attempt, which counts, and the culprit is now this child.
        """
        supervisor.ended_by_itself(child, exit_)

    def on_child_taken(self, supervisor: Supervisor, child: Child) -> None:
        """Another plan has taken the child over."""

    def done(self, supervisor: Supervisor) -> None:
        """Nothing is left to do."""


class InitialStart(Procedure):
    """The first start of a supervisor: all children in order; the first required one that fails fails all.

    A child that has to be restarted, because it was up already or is not required, is put off until all are up.
    Meanwhile it belongs to the first pass, so whoever stops it takes it from there, and its restart with it.
    """

    def __init__(self, children: Iterable[Child]) -> None:
        super().__init__(starts=children)
        self.late: dict[Child, Exit] = {}
        """Children to be restarted when all are up, and how they ended."""
        self.significant_ended = False
        """True once a significant child has ended by itself: what follows from that is decided when all are up."""

    def starts_again(self, child: Child) -> bool:
        """True for all: each is started at its turn, or again when all are up."""
        return True

    def put_off(self, supervisor: Supervisor, child: Child, exit_: Exit) -> None:
        """Restart it when all are up."""
        self.late[child] = exit_
        claim(supervisor, self, [child])

    def on_child_taken(self, supervisor: Supervisor, child: Child) -> None:
        """Forget the restart that was put off."""
        self.late.pop(child, None)

    def start_failed(self, supervisor: Supervisor, child: Child, exit_: Exit) -> None:
        """Roll back: no retry, nothing counted. Go on without a child that is not required: it has ended by itself."""
        if child.spec.required:
            supervisor.roll_back(start_error(child, exit_))
        else:
            supervisor.ended_by_itself(child, exit_)

    def done(self, supervisor: Supervisor) -> None:
        """The supervisor is up."""
        supervisor.all_up(self)


class RestartProcedure(Procedure):
    """A restart: of one child, or of a group around it."""

    counts = stops_first = True

    def __init__(
        self, stops: Iterable[list[Child]], starts: Iterable[Child], due: float, starting: Iterable[Child] = ()
    ) -> None:
        super().__init__(stops, starts, due)
        self.busy.update(starting)
        """A restart that it replaces has begun to start these."""

    def starts_again(self, child: Child) -> bool:
        """True for all but temporary siblings."""
        return child.spec.restart is not Restart.TEMPORARY

    def stopped(self, supervisor: Supervisor, child: Child) -> None:
        """A temporary sibling is forgotten; of the others, nobody is to wait for one that waits for him."""
        if not self.starts_again(child):
            supervisor.forget(child)
        elif self.has_more_to_stop:
            refuse_dead_ends(supervisor, child)

    def on_child_taken(self, supervisor: Supervisor, child: Child) -> None:
        """The rest goes on at once: also without the backoff, if that was the child's own."""
        if child.due is None:
            return
        child.due = None
        self.due = max((other.due for other in self.owned() if other.due is not None), default=None)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def done(self, supervisor: Supervisor) -> None:
        """All are up again."""
        supervisor.restarts.done(self)


class RenewProcedure(Procedure):
    """Children that ended for no fault of theirs (a lost loop, a process of age): start them anew; counted nowhere."""

    def starts_again(self, child: Child) -> bool:
        """True for every restart type: they have not ended by themselves."""
        return True


class ReplaceProcedure(RenewProcedure):
    """A child that hangs: give it up, start it anew. Not a restart: nothing of the child's own doing is counted."""

    def __init__(self, child: Child) -> None:
        super().__init__([[child]], [child])
        self.kill = True


class ParkProcedure(Procedure):
    """A child of which too much was given up: kill it, and leave it down until somebody restarts it."""

    exclusive = True

    def __init__(self, child: Child) -> None:
        super().__init__([[child]])
        self.kill = True

    def stopped(self, supervisor: Supervisor, child: Child) -> None:
        """Park the child."""
        supervisor.restarts.park(child, child.restarts)


class ShutdownProcedure(Procedure):
    """The end of the supervisor: all children, newest first.

    Those that are down come before: one that still stops may wait for a child that is not started again now.
    """

    def __init__(self, supervisor: Supervisor, exit_: Exit, *, kill: bool) -> None:
        down = [child for child in supervisor.table if child.is_down]
        others = [child for child in supervisor.table if not child.is_down]
        batches = strategy.stop_batches(others, parallel=kill or supervisor.recipe.parallel_stop)
        super().__init__([*batches, down] if down else batches)
        self.exit = exit_
        self.kill = kill

    def refusal_after(self, supervisor: Supervisor, child: Child) -> Refusal | None:
        """None where the supervisor itself may come back, and its children with it."""
        return supervisor.refusal_after

    def stopped(self, supervisor: Supervisor, child: Child) -> None:
        """Close it at once where it stays down: a sibling that still stops may ask it."""
        refusal = supervisor.refusal_after
        if refusal is not None:
            close_child(supervisor, child, refusal)
        elif self.has_more_to_stop:
            refuse_dead_ends(supervisor, child)

    def done(self, supervisor: Supervisor) -> None:
        """The supervisor's own end."""
        supervisor.finish(self.exit)


class TerminateCall(Procedure):
    """terminate_child."""

    only_waits = exclusive = True

    def __init__(self, children: list[Child], reply: Reply) -> None:
        super().__init__([children])
        self.reply = reply

    def stopped(self, supervisor: Supervisor, child: Child) -> None:
        """Leave the child down; a temporary one is forgotten."""
        supervisor.stay_down(child)

    def done(self, supervisor: Supervisor) -> None:
        """Answer the caller."""
        self.reply.complete()


class StartCall(Procedure):
    """start_child and restart_child: a failing start raises in the caller, and is not tried again.

    When one member of a pool fails, all members are taken back from wherever they are by then, also from a restart:
    the caller hears of the failure when nothing of them runs any more.
    """

    exclusive = True

    def __init__(self, children: list[Child], reply: Reply, *, keep: bool) -> None:
        super().__init__(starts=children)
        self.reply = reply
        self.children = children
        self.failure: StartError | None = None
        if not keep:
            for child in children:
                child.added_by = self

    def starts_again(self, child: Child) -> bool:
        """True until it has failed; then it stops what it has started."""
        return self.failure is None

    @property
    def only_waits(self) -> bool:  # type: ignore[override]
        """Once it has failed its children have only to go down."""
        return self.failure is not None

    def start_failed(self, supervisor: Supervisor, child: Child, exit_: Exit) -> None:
        """Stop the members that are up already, and give up."""
        self._fail(supervisor, start_error(child, exit_))

    def on_child_taken(self, supervisor: Supervisor, child: Child) -> None:
        """Fail the call: the child was stopped while it started."""
        self._fail(supervisor, StartError(child.path, "was stopped while it started"))

    def stopped(self, supervisor: Supervisor, child: Child) -> None:
        """Undo a failed call: what start_child had added is forgotten, what restart_child was to start stays down."""
        supervisor.stay_down(child)

    def done(self, supervisor: Supervisor) -> None:
        """Answer the caller."""
        supervisor.starting.discard(self)
        for child in self.children:
            if child.added_by is self:
                child.added_by = None
        if self.failure is None:
            self.reply.complete()
        else:
            self.reply.fail(self.failure)

    def _fail(self, supervisor: Supervisor, failure: StartError) -> None:
        if self.failure is not None:
            return
        self.failure = failure
        self.starts.clear()
        taken = []
        for child in self.children:
            if child.plan is not None and child.plan is not self and child.plan.only_waits:
                wait_for_owner(self, child)  # its owner brings it down
            elif child.standing is not ChildState.GONE:
                taken.append(child)
        self.stops = [taken]
        claim(supervisor, self, taken)
