"""Where the state of tasks lives: journals, each the ordered events of one task, behind a small ``Store``.

The orchestrator keeps nothing that it could not fold again from here. A store knows nothing of tasks: it keeps records
in *streams* (a task's id, or ``@breaker:PATH``), and which streams of which *owner* (the path of a supervisor) are not
finished. ``trees.store`` has the stores; the one in memory lives as long as its tree.

How a record is written down is a matter of ``actors.tasks.journal.codec``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from actors.messaging.reply import Reply
from actors.model.events import Event
from actors.tasks.journal.codec import decode, encode

__all__ = ["Store", "StreamState", "decode", "encode"]


class StreamState(NamedTuple):
    """What a store knows of a stream without reading it."""

    owner: str
    """Empty where it is damaged."""
    is_: Literal["unfinished", "finished", "damaged"]


class Store(Protocol):
    """What an orchestrator needs of a store.

    Every method may be called from any thread, an event loop's too: none waits for a disk or a network, but ``read`` of
    a stream that is finished, which may take one short query.
    """

    def create(self, stream: str, owner: str, record: Event) -> bool:
        """Begin a stream with its first record; False, and nothing is changed, where it exists already."""

    def withdraw(self, stream: str) -> bool:
        """Take back a stream that was created and has one record; False where that may be kept already."""

    def append(self, stream: str, record: Event) -> None:
        """Add a record to the end of a stream. It counts as kept only after ``flush``."""

    def flush(self) -> Reply | None:
        """None: all that was appended is kept. Else it is being written: completed when it is kept.

        A reply that fails says that it is not kept, and that this store will not keep it: nothing may follow from it.
        """

    def read(self, stream: str, start: int = 0) -> Sequence[Event]:
        """The records of a stream from the ``start``-th on, oldest first; empty where there is none."""

    def last(self, stream: str) -> Event | None:
        """The last record of a stream, also of one that is finished: at hand, without a query. None: there is none."""

    def replace(self, stream: str, owner: str, record: Event) -> None:
        """Have a stream hold this record only."""

    def streams(self, owner: str, prefix: str = "") -> list[str]:
        """The streams of an owner that are not finished, oldest first."""

    def owners(self) -> dict[str, str]:
        """The streams that are not finished, of all owners, each with its owner."""

    def finished(self, owner: str) -> list[str]:
        """Those that are, as far as they are still there; the first that finished first."""

    def standing(self, stream: str) -> StreamState | None:
        """How a task's stream stands: at hand, without a query. None: there is none."""

    def remove(self, stream: str) -> None:
        """Forget a stream, whatever is in it, and those that are parts of it. It counts as gone after ``flush``."""

    def finish(self, stream: str) -> None:
        """Nothing will be appended any more; the store may forget it in the end."""
