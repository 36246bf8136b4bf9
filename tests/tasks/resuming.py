"""A process that ends at a chosen moment, and the next one that goes on: without processes.

A store notes every change to it, over all streams, in order. A new store is made that has so many of them and no more,
as a file would have them, and a fresh tree is started on it: the same declaration, workers that know nothing. What
workers did outside is in ``Books``, which a crash does not undo.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import trees as task_events
from actors import Event
from actors.testing import settle
from trees import Report, SupervisorSpec, Task, TaskCancelledError, TaskFailedError, Tree, start
from trees.store import MemoryStore

LONG_S = 20.0


class Change(NamedTuple):
    """One change to a store."""

    what: str
    stream: str
    owner: str
    record: Event | None

    def make(self, store: MemoryStore) -> None:
        """The same in another store."""
        if self.record is None:
            store.finish(self.stream)
        elif self.what == "create":
            store.create(self.stream, self.owner, self.record)
        else:
            store.append(self.stream, self.record)


class NotingStore(MemoryStore):
    """A store that notes every change."""

    def __init__(self, changes: Sequence[Change] = ()) -> None:
        super().__init__()
        self.changes: list[Change] = []
        self._news = threading.Condition()
        for change in changes:
            change.make(self)

    def _note(self, *change: Any) -> None:
        with self._news:
            self.changes.append(Change(*change))
            self._news.notify_all()

    def wait_for(self, kind: type[Event], stream: str) -> None:
        """Return when there is such a record."""

        def is_there() -> bool:
            return any(each.stream == stream and isinstance(each.record, kind) for each in self.changes)

        with self._news:
            assert self._news.wait_for(is_there, LONG_S), (kind, stream)

    def create(self, stream: str, owner: str, record: Event) -> bool:
        created = super().create(stream, owner, record)
        if created:
            self._note("create", stream, owner, record)
        return created

    def append(self, stream: str, *records: Event) -> None:
        for record in records:
            super().append(stream, record)
            self._note("append", stream, "", record)

    def finish(self, stream: str) -> None:
        super().finish(stream)
        self._note("finish", stream, "", None)

    def changes_of_all(self) -> list[Change]:
        """What makes a store with the same records."""
        owners, copy = self.owners(), NotingStore()
        for stream, journal in self.journals.items():
            copy.create(stream, journal[0].path, journal[0])
            for record in journal[1:]:
                copy.append(stream, record)
            if stream not in owners:
                copy.finish(stream)
        return copy.changes

    @property
    def journals(self) -> dict[str, list[Event]]:
        """All records there are, by stream."""
        streams = dict.fromkeys(each.stream for each in self.changes)
        return {stream: list(records) for stream in streams if (records := self.read(stream))}


class Books:
    """What was done outside of the tree, in the order in which it was; it outlives every process."""

    def __init__(self) -> None:
        self.store = NotingStore()
        self.entries: list[tuple[Any, ...]] = []
        self._lock = threading.Condition()

    def note(self, *entry: Any) -> None:
        with self._lock:
            self.entries.append(entry)
            self._lock.notify_all()

    def work(self, context: Any, *more: Any) -> None:
        """Some worker works: the entry is what the world outside can tell one effect from another by."""
        self.note("work", context.idempotency_key, context.attempt, *more)

    def undo(self, context: Any, result: Any) -> None:
        self.note("undo", context.idempotency_key, context.attempt, result)

    @property
    def counts(self) -> Counter[tuple[Any, ...]]:
        with self._lock:
            return Counter(self.entries)

    def wait_for(self, *entry: Any) -> None:
        """Return when something was done that begins like this."""

        def is_there() -> bool:
            return any(each[: len(entry)] == entry for each in self.entries)

        with self._lock:
            assert self._lock.wait_for(is_there, LONG_S), (entry, self.entries)


def crashed(
    spec: SupervisorSpec, books: Books, task: Task, *begun: Any, has_ended: bool = False, **options: Any
) -> list[Change]:
    """The changes that a process has made that ends when something was begun: an entry of the books.

    With ``has_ended`` it ends when what was begun has ended as well, and is recorded; by default that may go on.
    """
    with start(spec, store=books.store, **options) as tree:
        tree.submit(task)
        books.wait_for(*begun)
        (settle if has_ended else settle_orchestrators)(tree)
        return list(books.store.changes)


def settle_orchestrators(tree: Tree) -> None:
    """Return when the orchestrators have handled all that they were told, though workers go on."""
    for path in list(tree._system.services["tasks"].engines):
        assert tree._system.children[f"{path}/orchestrator"].mailbox.when_quiet().wait(LONG_S)


def records(store: Any, stream: str, *kinds: type[Any]) -> list[Any]:
    """Of a journal, those of these kinds."""
    return [record for record in store.read(stream) if isinstance(record, kinds)]


def report_of(tree: Tree, id_: str) -> Report:
    """How a task ends, well or not."""
    handle = tree.task(id_)
    with suppress(TaskFailedError, TaskCancelledError):
        handle.result(LONG_S)
    report = handle.report
    assert report is not None, id_
    return report


def people(tree: Tree, answer: Callable[[Any], Any]) -> None:
    """Somebody answers every question that is in a journal, those too that are open already."""
    lock, answered, store = threading.Lock(), set[str](), tree._system.services["tasks"].store

    def look(_: object = None) -> None:
        with lock:
            for question in tree.escalations():
                raised = {record.escalation for record in records(store, question.task, task_events.EscalationRaised)}
                if question.id in raised - answered:
                    answered.add(question.id)
                    tree.respond(question.id, answer(question))

    tree.subscribe(lambda event: look() if isinstance(event, task_events.EscalationRaised) else None)
    look()
