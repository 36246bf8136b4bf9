"""Interface of the listener that the writer of a store tells what it has done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from actors.model.events import Event
    from actors.tasks.model.task_errors import StoreError
    from trees.store.batches import Batch, Change


class WriterOwner(Protocol):
    """Listener of a writer, called in its thread and under no lock."""

    def kept(self, batch: Batch) -> None:
        """Note that this is written."""

    def committed(self, seconds: float) -> None:
        """Note that a transaction was committed, and how long that took."""

    def spare_time(self, *, idle: bool) -> None:
        """After each transaction, and every ``POLL_S``: what else is to be done with the session. May raise."""

    def unwritable(self, change: Change, error: Exception) -> None:
        """The record of this change never can be written, and nothing more of its stream is."""

    def publish(self, event: Event) -> None:
        """Something has happened."""

    def lost(self, error: StoreError) -> None:
        """Nothing more will be written."""
