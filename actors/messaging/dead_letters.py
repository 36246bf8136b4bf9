"""Messages that nobody takes: their asker is told why, or they are dead letters, counted by reason.

Whatever refuses or drops a message comes here with the envelope and the reason, and nowhere else: so none is lost
without a trace.

Locking: ``_lock`` guards the counters. CPython looks for signals at calls, at backward jumps and where a function
begins, and for garbage where a container is made. None of these stands inside the ``with``: no code comes in between
while this thread has the lock, and could wait there for a worker that needs it. A test reads the bytecode.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from actors.messaging.envelope import SystemMessage, message_type
from actors.messaging.mailbox import Mailbox, Refusal
from actors.messaging.message_errors import ActorStoppedError, ParkedError, TreeDownError
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.model.errors import ActorsError, MailboxFullError, RestartLimitError
from actors.model.events import DeadLetter, Event

if TYPE_CHECKING:
    from actors.messaging.envelope import Envelope

_WHY: dict[Refusal, str] = {
    Refusal.STOPPED: "is stopped. restart_child starts it again",
    Refusal.PARKED: "is parked: it crashed more often than its own limit allows. restart_child revives it",
    Refusal.FORGOTTEN: "is no longer listed: it was deleted, or was temporary and ended",
    Refusal.BODY: "is a run= body or a command and has no mailbox. Messages need handle= or actor=",
    Refusal.NOT_RUNNING: "is not running: it is being stopped, or waits until its own supervisor starts it",
    Refusal.SUPERVISOR: "is a supervisor and takes no messages. Send to one of its workers",
    Refusal.DOWN: "its tree is down",
    Refusal.HOPS: "would be told after too many tells. Use detached=True where a new chain begins",
}


_FOR_GOOD = (Refusal.STOPPED, Refusal.PARKED)
"""Refusals of one that stays down until it is restarted."""


class Standing(Protocol):
    """A supervisor, as far as it matters to whoever is asked below it."""

    @property
    def state(self) -> str:
        """Where it stands."""


_NOBODY: Mapping[str, Standing] = MappingProxyType({})


class Sender(Protocol):
    """A tree, as its undeliverable messages see it."""

    def publish(self, event: Event) -> None:
        """Something happened."""

    def stopped_error(self, path: str, refusal: Refusal) -> ActorStoppedError:
        """Why an ask to this path fails at once."""


class DeadLetterOffice:
    """Part of a tree that deals with undeliverable messages."""

    def __init__(self, tree: Sender) -> None:
        self._tree = tree
        self._lock = threading.RLock()
        self._counts: dict[Refusal, list[int]] = {reason: [0] for reason in Refusal}

    @property
    def counts(self) -> Counter[str]:
        """Dead letters so far, by reason."""
        return Counter({reason: count[0] for reason, count in self._counts.items() if count[0]})

    def forked(self) -> None:
        """Take a new lock in the child of a fork: a thread that is not here may have held the old one."""
        self._lock = threading.RLock()

    def dead_letter(self, box: Mailbox | None, body: Any, reason: Refusal, sender: str | None, path: str = "") -> None:
        """Count a message that no worker will handle, and publish that it was sent to ``path``, or to the mailbox."""
        count = self._counts[reason]
        with self._lock:
            count[0] += 1
            if box is not None:
                box.dead += 1
        where = path or (box.path if box is not None else "")  # of a pool: its own path, not that of a member
        self._tree.publish(DeadLetter(where, str(reason), message_type(body), sender))

    def expired(self, box: Mailbox, envelope: Envelope) -> None:
        """Drop a message whose asker waits no longer."""
        body, reply, origin = envelope
        if reply is not None:
            reply.expire()
        self.dead_letter(box, body, Refusal.EXPIRED, origin.sender if origin is not None else None)

    def overflowed(self, path: str, box: Mailbox | None, envelope: Envelope) -> None:
        """A message to this path had to go for a newer one."""
        self.refused(path, box, envelope, Refusal.FULL)

    def refused(self, path: str, box: Mailbox | None, envelope: Envelope, refusal: Refusal) -> None:
        """A message was not taken: its asker is told why, or it is a dead letter."""
        body, reply, origin = envelope
        if reply is not None:
            capacity = box.bounds.capacity if box is not None else None
            full = refusal is Refusal.FULL and capacity is not None
            reply.fail(MailboxFullError(path, capacity or 0) if full else self._tree.stopped_error(path, refusal))
        elif not issubclass(type(body), SystemMessage) and (
            not isinstance(box, SupervisorMailbox) or refusal is Refusal.SUPERVISOR
        ):
            self.dead_letter(box, body, refusal, origin.sender if origin is not None else None, path)


def stopped_error(path: str, refusal: Refusal, listed: Mapping[str, Standing] = _NOBODY) -> ActorStoppedError:
    """Why an ask to a path of a tree that is up fails at once.

    Args:
        path: who was asked.
        refusal: of its mailbox.
        listed: children by their paths. A supervisor that is down for good is what has to be restarted.
    """
    kind = ParkedError if refusal is Refusal.PARKED else ActorStoppedError
    above = path.rpartition("/")[0]
    supervisor = listed.get(above) if "/" in above and refusal in _FOR_GOOD else None
    if supervisor is not None and supervisor.state in {"parked", "stopped"}:
        return kind(path, f"its supervisor {above!r} is {supervisor.state}. restart_child({above!r}) starts both")
    return kind(path, _WHY.get(refusal, str(refusal)))


def down_error(path: str, cause: ActorsError | None) -> TreeDownError:
    """The whole tree is down; with the reason, where nobody had asked for that."""
    why = "" if cause is None else ": its root gave up" if isinstance(cause, RestartLimitError) else f": {cause}"
    error = TreeDownError(path, (_WHY[Refusal.DOWN] + why).removesuffix("."))
    error.__cause__ = cause
    return error
