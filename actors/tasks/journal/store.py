"""Where the state of tasks lives: journals, each the ordered events of one task, behind a small ``Store``.

The orchestrator keeps nothing that it could not fold again from here. A store knows nothing of tasks: it keeps records
in *streams* (a task's id), and which streams of which *owner* (the path of a supervisor) are not
finished. ``trees.store`` has the stores; the one in memory lives as long as its tree.

A store whose records outlive the process is a ``DurableStore``, and says so by being derived from it: it has a fencing
token and a clock of its own, tells a listener what happens to it, and hands over the commands of other processes. What
every store does is tested by one suite (``tests``: "store_conformance"), which a new store passes before it is used.

How a record is written down is a matter of ``actors.tasks.journal.codec``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from actors.messaging.reply import Reply
from actors.model.events import Event
from actors.tasks.model import StoreError


class StreamState(NamedTuple):
    """State of a stream that a store knows without reading it."""

    owner: str
    """Empty where it is damaged."""
    is_: Literal["unfinished", "finished", "damaged"]


class Store(Protocol):
    """Interface that an orchestrator needs of a store.

    Every method may be called from any thread, an event loop's too: none waits for a disk or a network, but ``read``,
    ``firsts``, ``last`` and ``append`` of what is finished, which may take short queries.
    """

    @abstractmethod
    def create(self, stream: str, owner: str, record: Event) -> bool:
        """Begin a stream with its first record; False, and nothing is changed, where it exists already."""

    @abstractmethod
    def create_all(self, firsts: Iterable[tuple[str, str, Event]]) -> list[str]:
        """Begin many streams, each given with its owner and its first record; returns those that did not exist.

        A store that outlives its process keeps all of them or none.
        """

    @abstractmethod
    def withdraw_all(self, streams: Collection[str]) -> bool:
        """Take back streams that were created together and have one record each.

        False, and nothing is changed, where they may be kept already.
        """

    @abstractmethod
    def append(self, stream: str, *records: Event) -> None:
        """Add records to the end of a stream. They count as kept only after ``flush``."""

    @abstractmethod
    def flush(self) -> Reply | None:
        """None: all that was appended is kept. Else it is being written: completed when it is kept.

        A reply that fails says that it is not kept, and that this store will not keep it: nothing may follow from it.
        """

    @abstractmethod
    def read(self, stream: str, start: int = 0) -> Sequence[Event]:
        """The records of a stream from the ``start``-th on, oldest first; empty where there is none."""

    @abstractmethod
    def firsts(self, streams: Iterable[str]) -> dict[str, Event]:
        """The first record of each of these streams, in this order; of one that is gone or damaged there is none.

        Of those that are finished it may take a short query for some hundreds of them.
        """

    @abstractmethod
    def last(self, stream: str) -> Event | None:
        """The last record of a stream, also of one that is finished; None: there is none."""

    def streams(self, owner: str) -> list[str]:
        """The streams of an owner that are not finished, oldest first."""
        return [stream for stream, of in self.owners().items() if of == owner]

    @abstractmethod
    def owners(self) -> dict[str, str]:
        """The streams that are not finished, of all owners, each with its owner, oldest first."""

    @abstractmethod
    def finished(self, owner: str) -> list[str]:
        """Return finished streams that are still there; the first that finished first."""

    @abstractmethod
    def standing(self, stream: str) -> StreamState | None:
        """How a task's stream stands: at hand, without a query. None: there is none."""

    @abstractmethod
    def remove(self, stream: str) -> None:
        """Forget a stream, whatever is in it. It counts as gone after ``flush``."""

    @abstractmethod
    def finish(self, stream: str) -> None:
        """Nothing will be appended any more; the store may forget it in the end."""


# -- stores that outlive the process -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RemoteCommand:
    """Order about a task, which another process, or one before this, has left in the store."""

    id: int
    """The later one has the larger one."""
    task: str
    kind: str
    """cancel, priority, respond, retry or remove."""
    body: dict[str, Any] = field(repr=False)
    """Arguments.

    Of a cancel ``reason``; of a priority ``priority``; of a respond ``escalation``, ``answer`` and ``value``.
    """
    at: float
    """Seconds since 1970, by the store's clock."""


class StoreListener(Protocol):
    """Listener of a durable store: called by a thread of the store, and must not wait."""

    def publish(self, event: Event) -> None:
        """Something has happened to the store."""

    def lost(self, error: StoreError) -> None:
        """Nothing more is ever written: another process has taken over (``LeaseLostError``), or the writer has died."""

    def committed(self, seconds: float) -> None:
        """A transaction was committed: how long that took."""

    def order(self, order: RemoteCommand) -> None:
        """Another process wants this; call ``DurableStore.order_done`` when it is done."""


class DurableStore(Store):
    """Store whose records outlive the process. Derive from it: a store is durable if it says so."""

    listener: StoreListener | None = None
    """Set by the tree, before it is started."""

    @property
    def paused_s(self) -> float | None:
        """Seconds for which it could write nothing so far (``StorePaused``); None: it writes. From any thread."""
        return None

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in errors, without a password."""

    @property
    @abstractmethod
    def token(self) -> int:
        """The fencing token: larger than that of every process that had this root open before."""

    @abstractmethod
    def time(self) -> float:
        """Seconds since 1970, by the store's clock: it goes on evenly, and never says less than journals were told."""

    @abstractmethod
    def heard_orders(self) -> Reply:
        """Completed when the listener was given every command that had been posted before this call."""

    @abstractmethod
    def order_done(self, order: RemoteCommand) -> None:
        """Forget a command of another process: it is done, or cannot be done."""

    def leave_order(self, task: str, kind: str, body: dict[str, Any], at: float) -> bool:
        """Keep an order about a task that this tree has ended without carrying out, for the process that goes on.

        Its listener is given it there, as a ``RemoteCommand``. It is kept by the end of ``close``, which is called soon
        after. By default none can be kept.

        Args:
            task: id of the task.
            kind: cancel, priority, respond or retry.
            body: arguments, as ``RemoteCommand.body`` has them.
            at: when it was ordered, in seconds since 1970 by the store's clock.

        Returns:
            False: it is not kept.
        """
        del task, kind, body, at
        return False

    @abstractmethod
    def close(self) -> None:
        """Write what is not written yet, and let go of what is open. Called where the tree has opened it."""
