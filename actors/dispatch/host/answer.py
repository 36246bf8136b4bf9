"""Answer of a worker elsewhere to the message that it was given, as the host's half awaits it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from actors.concurrency.arrival import Arrival

if TYPE_CHECKING:
    from actors.dispatch.remote import Frame


class Answer(Arrival):
    """Wait for one answer. Its task goes on where the answer is read: a turn of the loop costs as much as a handler."""

    def __init__(self) -> None:
        super().__init__()
        self.frame: Frame | None = None
        """The answer; None: none has come, or none will."""

    def come(self, frame: Frame | None, *, at_once: bool) -> None:
        """Take the answer, or note that none will come; only what comes first counts. On the thread of the loop.

        Args:
            frame: the answer.
            at_once: True where its task may go on now, before anything that the loop is to do already. It does, unless
                another task runs just now.
        """
        if self.done():
            return
        self.frame = frame
        resume, context = self._go_on, self._in
        if at_once and resume is not None and asyncio.current_task() is None:
            self.go_on()
            return
        self._go_on = self._in = None
        self.set_result(None)
        if resume is not None:
            self.get_loop().call_soon(resume, self, context=context)
