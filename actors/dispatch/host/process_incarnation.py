"""The host's half of a worker in a process, as its supervisor sees it: see ``actors.dispatch.process``."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from actors.execution.crash_boundary import WorkerIncarnation
from actors.execution.incarnation import Exit, Stopping
from actors.model.process_errors import ProcessDiedError
from actors.model.raised import is_a
from actors.model.spec import Reason

if TYPE_CHECKING:
    from actors.dispatch.process import ProcessWorker
    from actors.execution.incarnation_ports import IncarnationHost, IncarnationOwner
    from actors.messaging.envelope import CurrentMessage
    from actors.messaging.mailbox import Mailbox
    from actors.messaging.reply import Reply
    from actors.model.spec import ChildSpec

RECYCLED: Final = "recycled"
"""Description of the end of a process that has handled as many messages as it may."""


class InnerExit(NamedTuple):
    """End of the worker's half."""

    reason: Reason
    error: BaseException | None = None
    ignored: bool = False
    handled: int = sys.maxsize
    """Number of the last message that it has handled."""


class NotBegunError(BaseException):
    """The worker's half has ended, of ``cause``, and has not begun with the message that was handed over last."""

    def __init__(self, cause: BaseException | None) -> None:
        super().__init__(cause)
        self.cause = cause


class CarriedError(BaseException):
    """Error that a handler there has raised and no coroutine here can: a ``StopIteration``."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class ProcessIncarnation(WorkerIncarnation):
    """One incarnation, which is a process."""

    __slots__ = ("is_given_up", "is_recycled")

    is_elsewhere = True

    def __init__(self, system: IncarnationHost, spec: ChildSpec, mailbox: Mailbox, owner: IncarnationOwner) -> None:
        super().__init__(system, spec, mailbox, owner)
        self.is_recycled = False
        """True where it was told to end because it has handled as many messages as it may. The mailbox's."""
        self.is_given_up = False
        """True where it is killed because work of it took too long. The mailbox's."""

    def recycle(self) -> None:
        """Have it end before the next message, unless it ends anyway: a fresh process goes on in its place."""
        with self.mailbox.lock:
            if self.order is None:
                self.order, self.is_recycled = Reason.SHUTDOWN, True

    def give_up(self) -> bool:
        """Have it killed as soon as its own task comes to its end; False where it was told to end before.

        *Its supervisor orders its end just now*: both look under the mailbox's lock, and the first order holds. Where
        this one does, its supervisor waits for the end, and finds that it was killed.
        """
        with self.mailbox.lock:
            if self.order is not None:
                return False
            self.order, self.is_given_up = Reason.KILLED, True
        self.owner.post(Stopping(self))  # so its end has the limit of a stop
        return True

    async def _survives(self, error: BaseException, reply: Reply | None, current: CurrentMessage) -> bool:
        """As ever, but what nobody has begun to handle waits for the next incarnation, first in line."""
        if is_a(error, CarriedError):
            error = error.error
        if not is_a(error, NotBegunError) or self.current is None or self.order is Reason.KILLED:
            return await super()._survives(error, reply, current)
        current.end()
        envelope = self.current
        refusal = self.mailbox.give_back(self, envelope)
        if refusal is not None:
            self.system.letters.refused(self.mailbox.path, self.mailbox, envelope, refusal)
        if error.cause is None:  # it had stopped itself before
            self.request_stop(Reason.NORMAL)
            return True
        await self._crash(error.cause)
        return False

    def abandon(self, what: str = "") -> Exit | None:
        """Wait no longer for the end of its process: that means what it would have meant."""
        return self._end(self._meant(Exit(Reason.KILLED, what=what)), abandon=True)

    async def _finish(self, exit_: Exit) -> None:
        """End."""
        await super()._finish(self._meant(exit_))

    def _meant(self, exit_: Exit) -> Exit:
        """Return its exit as it is meant: where it was given up, or is to be replaced, it alone comes back.

        That is so whatever its restart type says. A worker that has ended itself in the very last message that it may
        handle is not replaced: its half knows.
        """
        actor = cast("ProcessWorker | None", self.actor)
        if self.is_given_up:
            exit_ = replace(exit_, renews=True)
        if actor is not None and not self.came_up and self.order is Reason.KILLED:
            exit_ = replace(exit_, what=actor.waits_for)
        if self.is_recycled and exit_.reason is Reason.SHUTDOWN:
            by_itself = actor is not None and actor.has_ended_itself
            exit_ = replace(exit_, reason=Reason.NORMAL) if by_itself else replace(exit_, what=RECYCLED, renews=True)
        return exit_

    def _order(self, reason: Reason) -> bool:
        """Give the order to end; its process hears of it at once, whatever it is doing."""
        is_idle = super()._order(reason)
        actor = self.actor
        if actor is not None and self.order is not None:
            self._event_loop.call(cast("ProcessWorker", actor).tell_to_stop)
        return is_idle

    @property
    def pid(self) -> int | None:
        """Number of the process; None: there is none now."""
        actor = self.actor
        return None if actor is None or self.is_over else cast("ProcessWorker", actor).pid

    @property
    def node(self) -> str | None:
        """Node of a cluster that it runs on; None: it runs on this host, or has not begun."""
        actor = self.actor
        return None if actor is None or self.is_over else cast("ProcessWorker", actor).node

    def is_failure(self, error: BaseException) -> bool:
        """True for a failure of the request: the end of the process never is one, whatever is ``expected``."""
        return not is_a(error, ProcessDiedError) and super().is_failure(error)
