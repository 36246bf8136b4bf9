"""Where the state of tasks lives: journals, each the ordered events of one task, behind a small ``Store``.

The orchestrator keeps nothing that it could not fold again from here. A store knows nothing of tasks: it keeps records
in *streams* (a task's id, or ``breakers:PATH``), and which streams of which *owner* (the path of a supervisor) are not
finished. ``trees.store`` has the stores; the one in memory lives as long as its tree.

How a record is written down, for stores that write: ``encode`` and ``decode``. Nothing is ever pickled.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Protocol

from pydantic import TypeAdapter

from actors.events import Event
from actors.reply import Reply
from actors.tasks import events
from actors.tasks.errors import StoreError


class Store(Protocol):
    """What an orchestrator needs of a store. Every method may be called from any thread."""

    def create(self, stream: str, owner: str, record: Event) -> bool:
        """Begin a stream with its first record; False, and nothing is changed, where it exists already."""

    def append(self, stream: str, record: Event) -> None:
        """Add a record to the end of a stream. It counts as kept only after ``flush``."""

    def flush(self) -> Reply | None:
        """None: all that was appended is kept. Else it is being written: completed when it is kept."""

    def read(self, stream: str, start: int = 0) -> Sequence[Event]:
        """The records of a stream from the ``start``-th on, oldest first; empty where there is none."""

    def replace(self, stream: str, owner: str, record: Event) -> None:
        """Have a stream hold this record only."""

    def streams(self, owner: str, prefix: str = "") -> list[str]:
        """The streams of an owner that are not finished, oldest first."""

    def finish(self, stream: str) -> None:
        """Nothing will be appended any more; the store may forget it in the end."""


@functools.cache
def _kinds() -> dict[str, type[Event]]:
    found = [vars(events)[name] for name in vars(events)]
    return {each.__name__: each for each in found if isinstance(each, type) and issubclass(each, Event)}


@functools.cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(_kinds()[kind])


def encode(record: Event) -> tuple[str, bytes]:
    """A record as the name of its kind and JSON."""
    kind = type(record).__name__
    return kind, _adapter(kind).dump_json(record, exclude_unset=True)


def decode(kind: str, text: bytes | str) -> Event:
    """The record that was encoded.

    Raises:
        StoreError: it is none of ours.
    """
    if kind not in _kinds():
        raise StoreError("journal", f"holds a record of the unknown kind {kind!r}. It was written by a newer version")
    record: Event = _adapter(kind).validate_json(text)
    return record


def is_kept(event: Event) -> bool:
    """Whether an event belongs into a journal."""
    return not isinstance(event, events.SubtaskProgressed)
