"""Incarnation of a supervisor, and the orders that it receives.

A supervisor's incarnation keeps the contract of a worker's incarnation towards its own supervisor (start, stop, kill,
one report of the end), but user code never runs in it: orders are messages that overtake the others, and it is up, or
over, when the supervisor says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.execution.incarnation import Exit, Incarnation, Started
from actors.messaging.mailbox import NOTHING
from actors.messaging.reply import Reply
from actors.model.spec import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.execution.incarnation_ports import IncarnationOwner
    from actors.messaging.envelope import Envelope
    from actors.messaging.inbox import Refusal
    from actors.messaging.mailbox import Mailbox
    from actors.messaging.supervisor_mailbox import SupervisorMailbox
    from actors.model.spec import ChildSpec
    from actors.supervision.procedures import Procedure
    from actors.supervision.registry import Registry
    from actors.supervision.supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class StopOrder:
    """Stop your children, then end. An order to one incarnation says nothing to the next one."""

    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class StaysDown:
    """To one that is ordered to stop: it will not be started again."""

    incarnation: Incarnation
    refusal: Refusal
    """Why its children refuse messages, each as soon as it is down."""


@dataclass(frozen=True, slots=True)
class KillOrder:
    """Kill your children, then end."""

    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class ReplaceChild:
    """From whoever gave it work: this incarnation hangs in that. Replace it; that counts in no window."""

    incarnation: Incarnation
    max_abandoned: int
    """With more abandoned threads than these it is parked instead."""
    request: Reply | None = None
    """Request that it hangs in: where it handles another one by now, nothing is to be done. None: whatever it does."""

    @property
    def is_outdated(self) -> bool:
        """True where it hangs no longer in what it was reported for."""
        if self.request is None:
            return False
        handled = self.incarnation.current
        return handled is None or handled[1] is not self.request


@dataclass(frozen=True, slots=True)
class Continue:
    """To itself: a plan's time has come, or its next steps."""

    plan: Procedure


class Ping:
    """A call that changes nothing: its reply shows that all before was handled."""

    def carry_out(self, supervisor: Supervisor, reply: Reply) -> None:  # noqa: ARG002 - as the child calls
        """Answer."""
        reply.complete()


class SupervisorIncarnation(Incarnation):
    """One incarnation of a supervisor, as its own supervisor sees it."""

    __slots__ = ("stays_down", "unheard")

    urgent = True
    mailbox: SupervisorMailbox
    system: Registry

    def __init__(self, system: Registry, spec: ChildSpec, mailbox: Mailbox, owner: IncarnationOwner) -> None:
        super().__init__(system, spec, mailbox, owner)
        self.stays_down: Refusal | None = None
        """Why its children refuse messages once they are down; None: nobody has told it that it does not come back."""
        self.unheard: list[Envelope] = []
        """Messages that its mailbox still held when it ended."""

    # -- its supervisor ------------------------------------------------------------------------------------

    def start(self) -> bool:
        """Begin; ``Started`` will be told when the whole subtree is up."""
        self.actor = self.system.supervise(self)
        self.mailbox.attach(self, idle=False)
        self.wake()
        return False

    def stay_down(self, refusal: Refusal) -> None:
        """Tell it that it does not come back: before an order to stop, or after it. See ``actors.supervision.closing``.

        The order overtakes the message, so whoever receives that looks here; who has received it gets the message.
        """
        self.stays_down = refusal
        self.mailbox.post_first(StaysDown(self, refusal))

    def stop(self) -> None:
        """Order it to stop its subtree."""
        self.mailbox.post_first(StopOrder(self))

    def kill(self, what: str = "") -> None:  # noqa: ARG002 - its children tell what happened
        """Order it to kill its subtree. It is never abandoned: it always answers."""
        self.mailbox.post_first(KillOrder(self))

    def abandon(self, what: str = "") -> None:
        """Do nothing: a supervisor always answers, and ends when the last of its children has."""

    def _order(self, reason: Reason) -> bool:  # noqa: ARG002 - a supervisor ends with shutdown, whoever asked
        self.stop()
        return False

    # -- running -------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Have it run on the pool, in the urgent lane."""
        self.system.pool.submit(self)

    def run(self) -> bool:
        """Hear all that waits."""
        actor = self.actor
        batch: Iterator[Envelope] | None
        if actor is not None and actor.begun:
            batch = self.mailbox.take(self, begins=True)
        else:
            batch = NOTHING if self.mailbox.hold(self) else None
        if batch is None:
            return False
        try:
            if not actor.begun:
                actor.begin()
            while batch is not None:
                for message, reply, _ in batch:
                    actor.receive(message, reply)
                    if self.is_over:
                        return False  # the rest of the batch is the next incarnation's
                batch = self.mailbox.take(self)
        except BaseException as error:
            # A bug of ours. The subtree is in an unknown state: kill it, and let the next level up start it anew.
            self.system.reports.internal_error(error)
            more = self._fail_internally(error)
            if more:
                self.mailbox.release(self)
            return more
        return False

    def _fail_internally(self, error: BaseException) -> bool:
        try:
            self.actor.fail_internally(error)
        except BaseException as second:
            self.system.reports.internal_error(second)
            self.finish(Exit(Reason.CRASHED, second))
            return False
        return True

    # -- the supervisor itself -----------------------------------------------------------------------------

    def is_up(self) -> None:
        """The whole subtree is up."""
        with self.mailbox.lock:
            self._comes_up()
        self.owner.post(Started(self))

    def finish(self, exit_: Exit) -> None:
        """The last child is down: the end. Calls that were not heard are refused, and do not wait for a successor."""
        if self._end(exit_, tell=True) is not None:
            self.system.leftovers.answer(self.mailbox, self.unheard, self.mailbox.absent)
