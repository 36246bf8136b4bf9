"""Errors of an ask that are also Pykka's own, so that code written for Pykka (``except pykka.Timeout``) keeps working.

They belong to the tree of errors in ``actors.model.errors``.
"""

from __future__ import annotations

import pykka

from actors.model.errors import MessageError


class ReplyTimeoutError(MessageError, pykka.Timeout):
    """No reply in time. The worker may still be at it; its late reply is dropped.

    You get this for a target that is up or restarting. For one that is down you get ``ActorStoppedError`` at once.
    """

    hint = "The worker may still finish; give the ask a longer timeout, or the worker a pool."
    """Advice of the text: what to do about it. Of an item of a batch it is another."""

    def __init__(self, path: str, asker: str | None, timeout_s: float, waiting: int) -> None:
        super().__init__(path, asker, timeout_s, waiting)
        self.path = path
        self.asker = asker
        self.timeout_s = timeout_s
        self.waiting = waiting

    def __str__(self) -> str:
        who = f" from {self.asker!r}" if self.asker else ""
        return (
            f"{self.path}: no reply to ask{who} in {self.timeout_s:.3g} s; {self.waiting} messages waiting in its "
            f"mailbox. {self.hint}"
        )


class ActorStoppedError(MessageError, pykka.ActorDeadError):
    """The target is not running and will not come back by itself, or it ended while it had the message."""

    stop_first: tuple[str, ...] = ()
    """Paths of those who wait for the reply and have to stop before the target comes back: its asker, or his askers."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    @property
    def asker_stops_first(self) -> bool:
        """True where the target comes back, but not before one who waits for it has stopped, as that is to."""
        return bool(self.stop_first)

    def __str__(self) -> str:
        return f"{self.path}: {self.why}."


class ParkedError(ActorStoppedError):
    """The target crashed more often than its own limit allows and was parked. restart_child revives it."""


class TreeDownError(ActorStoppedError):
    """The whole tree is down. ``__cause__`` says why, where nobody had asked for that (``RestartLimitError`` ...)."""
