"""What the tests of stores share: records, and somebody who hears what a store tells."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeVar

import psycopg
import pytest

from actors import Event
from actors.tasks.journal.store import RemoteCommand
from actors.tasks.model import task_events
from trees import StoreError, Task, TaskHandle, TaskStatus, Tree
from trees.store import SqlStore, open_store

PATIENCE_S = 60.0
OWNER = "p"
E = TypeVar("E", bound=Event)


def submitted(task: str, **fields: Any) -> task_events.TaskSubmitted:
    """The first record of a task."""
    return task_events.TaskSubmitted(OWNER, task, 1.5, Task(goal="do it", **fields), None)


def queued(task: str, number: int = 0) -> task_events.SubtaskQueued:
    """A small record."""
    return task_events.SubtaskQueued(OWNER, task, 2.5, f"s{number}")


def succeeded(task: str, value: Any) -> task_events.SubtaskSucceeded:
    """A record that holds something of a user's."""
    return task_events.SubtaskSucceeded(OWNER, task, 3.5, "s", "w", 1, value)


def ended(task: str) -> task_events.TaskFinished:
    """The last record of a task."""
    return task_events.TaskFinished(OWNER, task, 4.5, TaskStatus.SUCCEEDED)


def kept(store: Any) -> None:
    """Wait until all that the store was told is kept."""
    reply = store.flush()
    if reply is not None:
        reply.get(timeout=PATIENCE_S)


def asked(handle: TaskHandle, tree: Tree) -> str:
    """The id of the first question that a task asks, once it is kept: who looks from outside sees what is written."""
    next(event for event in handle.events() if type(event).__name__ == "EscalationRaised")
    kept(tree._system.services["tasks"].store)
    return handle.escalations[0].id


def settled(store: Any) -> None:
    """Wait until everybody has heard that all is kept: a reply wakes those who wait before it calls back the others."""
    for _ in range(1000):
        reply = store.flush()
        if reply is None:
            return
        reply.get(timeout=PATIENCE_S)
    raise AssertionError("there is no end of it")


def opened(url: str, root: str = OWNER, **options: Any) -> Any:
    """A durable store; the caller closes it."""
    return open_store(url, root=root, **options)


def all_tasks(url: str, root: str = OWNER) -> list[Any]:
    """The tasks of a store, as another process sees them."""
    with closing(SqlStore.look(url)) as reader:
        return list(reader.all_tasks(root))


def opened_and_closed(url: str, root: str = OWNER) -> list[Any]:
    """The tasks of a store that nobody has open."""
    opened(url, root).close()
    return all_tasks(url, root)


def refusal(url: str, **options: Any) -> str:
    """What is said to whoever tries to open it."""
    with pytest.raises(StoreError) as caught:
        opened(url, **options)
    return str(caught.value)


Opens = Callable[..., SqlStore]


@pytest.fixture
def opens(store_url: str) -> Iterator[Opens]:
    """Opens stores on one new database; all of them are closed at the end."""
    stores: list[SqlStore] = []

    def make(root: str = OWNER) -> SqlStore:
        stores.append(opened(store_url, root))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


class Heard:
    """A store's listener that remembers, and can be waited on."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.events: list[Event] = []
        self.orders: list[RemoteCommand] = []
        self.losses: list[StoreError] = []

    def _note(self, books: list[Any], what: Any) -> None:
        with self._changed:
            books.append(what)
            self._changed.notify_all()

    def publish(self, event: Event) -> None:
        self._note(self.events, event)

    def lost(self, error: StoreError) -> None:
        self._note(self.losses, error)

    def committed(self, seconds: float) -> None:
        assert seconds >= 0

    def order(self, order: RemoteCommand) -> None:
        self._note(self.orders, order)

    def wait(self, found: Callable[[], bool]) -> None:
        """Wait until something is as it should be, as far as this has heard of it."""
        with self._changed:
            assert self._changed.wait_for(found, PATIENCE_S), (self.events, self.orders, self.losses)

    def wait_for(self, kind: type[E], number: int = 1) -> E:
        """Wait for the ``number``-th event of a kind."""

        def all_of() -> list[E]:
            return [event for event in self.events if isinstance(event, kind)]

        self.wait(lambda: len(all_of()) >= number)
        return all_of()[number - 1]


def execute(url: str, statement: str) -> None:
    """Run a statement on either kind of database."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute(statement)
            connection.commit()
        return
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(statement.encode())
