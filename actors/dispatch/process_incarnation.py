"""The host's half of a worker in a process, as its supervisor sees it: see ``actors.dispatch.process``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from actors.execution.crash_boundary import WorkerIncarnation
from actors.model.errors import ProcessDiedError
from actors.model.spec import Reason

if TYPE_CHECKING:
    from actors.dispatch.process import ProcessWorker
    from actors.execution.incarnation import Exit
    from actors.messaging.envelope import CurrentMessage
    from actors.messaging.reply import Reply


class NotBegunError(BaseException):
    """The worker's half has ended, of ``cause``, and has not begun with the message that was handed over last."""

    def __init__(self, cause: BaseException | None) -> None:
        super().__init__(cause)
        self.cause = cause


class ProcessIncarnation(WorkerIncarnation):
    """One incarnation, which is a process."""

    __slots__ = ()

    is_elsewhere = True

    async def _survives(self, error: BaseException, reply: Reply | None, current: CurrentMessage) -> bool:
        """As ever, but what nobody has begun to handle waits for the next incarnation, first in line."""
        if not isinstance(error, NotBegunError) or self.current is None or self.order is Reason.KILLED:
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

    async def _finish(self, exit_: Exit) -> None:
        """End; where it was killed for work that took too long, that counts in no restart window."""
        is_excused = self.actor is not None and cast("ProcessWorker", self.actor).is_excused
        await super()._finish(replace(exit_, excused=True) if is_excused else exit_)

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

    def is_failure(self, error: BaseException) -> bool:
        """True for a failure of the request: the end of the process never is one, whatever is ``expected``."""
        return not isinstance(error, ProcessDiedError) and super().is_failure(error)
