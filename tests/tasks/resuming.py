"""A process that ends at a chosen change to the store, and the next one that goes on: without processes.

A scenario runs once undisturbed, on a store that notes every change to it, over all streams, in order. Then for each
number of changes a new store is made that has so many of them and no more, as a file would have them, and a fresh tree
is started on it: the same declaration, workers that know nothing. What workers did outside is in ``Books``, which a
crash does not undo: each entry knows how many changes there were when it was made.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import trees as task_events
from actors import Event
from actors.tasks.journal.fold import fold
from actors.tasks.journal.store import Store, decode, encode
from actors.tasks.journal.subtask_state import SubtaskState
from actors.tasks.journal.task_state import TaskState
from actors.testing import settle
from tests.faults.cut_points import LONG_S, essence, require_whole, twice
from trees import Report, SupervisorSpec, Task, TaskCancelledError, TaskFailedError, Tree, start
from trees.store import MemoryStore


class Change(NamedTuple):
    """One change to a store."""

    what: str
    stream: str
    owner: str
    record: tuple[str, str] | None

    def __str__(self) -> str:
        return f"{self.what} {self.stream} {self.record[0] if self.record else ''}"

    def make(self, store: MemoryStore) -> None:
        """The same in another store."""
        if self.record is None:
            store.finish(self.stream)
            return
        record = decode(*self.record)
        if self.what == "create":
            store.create(self.stream, self.owner, record)
        else:
            store.append(self.stream, record)


class NotingStore(MemoryStore):
    """A store that notes every change."""

    def __init__(self, changes: Sequence[Change] = ()) -> None:
        super().__init__()
        self.changes: list[Change] = []
        self._news = threading.Condition()
        for change in changes:
            change.make(self)

    def _note(self, what: str, stream: str, owner: str, record: Event | None) -> None:
        with self._news:
            self.changes.append(Change(what, stream, owner, None if record is None else encode(record)))
            self._news.notify_all()

    def changes_when(self, kind: type[Event], stream: str, subtask: str | None = None) -> list[Change]:
        """Wait for a record; the changes up to it."""

        def found() -> int | None:
            for number, change in enumerate(self.changes, start=1):
                record = decode(*change.record) if change.stream == stream and change.record is not None else None
                if isinstance(record, kind) and subtask in {None, getattr(record, "subtask", None)}:
                    return number
            return None

        with self._news:
            assert self._news.wait_for(found, LONG_S), (kind, stream, subtask)
            return self.changes[: found()]

    def create(self, stream: str, owner: str, record: Event) -> bool:
        created = super().create(stream, owner, record)
        if created:
            self._note("create", stream, owner, record)
        return created

    def append(self, stream: str, record: Event) -> None:
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
        return {stream: list(records) for stream, records in self._streams.items()}


class Books:
    """What was done outside of the tree, in the order in which it was; it outlives every process."""

    def __init__(self, before: Sequence[tuple[Any, ...]] = ()) -> None:
        self.store = NotingStore()
        self.entries: list[tuple[int, tuple[Any, ...]]] = [(0, entry) for entry in before]
        self.heard: dict[str, Callable[[], object]] = {}
        """What is to happen when something of this kind is noted: by the first word of the entry."""
        self._lock = threading.Condition()

    def note(self, *entry: Any) -> None:
        with self._lock:
            self.entries.append((len(self.store.changes), entry))
            self._lock.notify_all()
        hear = self.heard.get(entry[0])
        if hear is not None:
            hear()

    def work(self, context: Any, *more: Any) -> None:
        """Some worker works: the entry is what the world outside can tell one effect from another by."""
        self.note("work", context.idempotency_key, context.attempt, *more)

    def undo(self, context: Any, result: Any) -> None:
        self.note("undo", context.idempotency_key, context.attempt, result)

    @property
    def counts(self) -> Counter[tuple[Any, ...]]:
        with self._lock:
            return Counter(entry for _, entry in self.entries)

    def wait_for(self, *entry: Any) -> None:
        """Return when something was done that begins like this."""

        def is_there() -> bool:
            return any(each[: len(entry)] == entry for _, each in self.entries)

        with self._lock:
            assert self._lock.wait_for(is_there, LONG_S), (entry, self.entries)

    def by(self, changes: int) -> list[tuple[Any, ...]]:
        """What was done when there were so many changes."""
        return [entry for at, entry in self.entries if at <= changes]


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
    for path in list(tree._system.services["tasks"].ports):
        assert tree._system.children[f"{path}/orchestrator"].mailbox.when_quiet().wait(LONG_S)


def resumed_where_it_hung(spec: Callable[[threading.Event | None], SupervisorSpec], task: Task) -> Report:
    """Cut a process off where a task hangs, and let a new one end the task.

    Args:
        spec: the declaration; with an event, its code sets that and hangs. With None it goes on.
        task: it is submitted to the first process only.
    """
    store, hangs = NotingStore(), threading.Event()
    with start(spec(hangs), store=store) as tree:
        id_ = tree.submit(task).id
        assert hangs.wait(LONG_S)
        settle_orchestrators(tree)
        cut = list(store.changes)
    with start(spec(None), store=NotingStore(cut)) as tree:
        return tree.task(id_).result(LONG_S)


def records(store: Store, stream: str, *kinds: type[Any]) -> list[Any]:
    """Of a journal, those of these kinds."""
    return [record for record in store.read(stream) if isinstance(record, kinds)]


class Scenario:
    """A tree, the tasks that it gets, and what people do meanwhile. To be filled in."""

    tasks: tuple[Task, ...] = (Task("the goal", id="t"),)
    later: tuple[str, ...] = ()
    """Ids of tasks that somebody submits meanwhile."""
    varying: frozenset[str] = frozenset()
    """What may be begun more or less often, because it gives way to something: by idempotency key."""

    def options(self, _: Sequence[Change]) -> dict[str, Any]:
        """Of ``start``; after these changes."""
        return {}

    def spec(self, books: Books) -> SupervisorSpec:
        """The declaration, with new workers."""
        raise NotImplementedError

    def meanwhile(self, tree: Tree, books: Books) -> None:
        """What people do while it runs; the same in every process."""

    # -- running it ----------------------------------------------------------------------------------------

    def run(self, store: NotingStore | None = None) -> tuple[Books, dict[str, Any]]:
        """Undisturbed."""
        books = Books()
        books.store = store if store is not None else books.store
        with start(self.spec(books), store=books.store, **self.options(())) as tree:
            self.meanwhile(tree, books)
            for task in self.tasks:
                tree.submit(task)
            reports = self.reports(tree)
        return books, reports

    def resume(self, store: NotingStore, done: Sequence[tuple[Any, ...]]) -> tuple[Books, dict[str, Any]]:
        """In a new process, on a store that has changes already, after what was done."""
        books, changes = Books(done), list(store.changes)
        books.store = store
        with start(self.spec(books), store=books.store, **self.options(changes)) as tree:
            assert tree._system.services["tasks"].resumed().wait(LONG_S)
            self.meanwhile(tree, books)
            for task in self.tasks:
                tree.submit(task)  # whoever is not sure that it was taken gives it once more
            reports = self.reports(tree)
            settle(tree)
            require_whole(tree)
        return books, reports

    def reports(self, tree: Tree) -> dict[str, Any]:
        ids = [*(task.id or "" for task in self.tasks), *self.later]
        found = {id_: report_of(tree, id_) for id_ in ids}
        return {id_: {**essence(report), "compensated": report.compensated} for id_, report in found.items()}


def report_of(tree: Tree, id_: str) -> Report:
    """How a task ends, well or not."""
    handle = tree.task(id_)
    with suppress(TaskFailedError, TaskCancelledError):
        handle.result(LONG_S)
    report = handle.report
    assert report is not None, id_
    return report


# -- what has to hold ----------------------------------------------------------------------------------------


def same_from_every_change(
    scenario: Scenario,
    *,
    every: int = 1,
    most: int = 12,
    store: Callable[[Sequence[Change]], NotingStore] = NotingStore,
) -> int:
    """Run it, then go on from each change, or every so many, each in such a store; how many there were.

    A sample is one in three of them, and of long runs about ``most`` changes, spread evenly.
    """
    wanted, reports = scenario.run(store(()))
    changes = list(wanted.store.changes)
    assert twice(wanted.store) == []  # type: ignore[arg-type]
    for at in range(1, len(changes) + 1, every * -(-max(3, len(changes) // most) // every)):
        where = f"change {at} of {len(changes)}: {changes[at - 1]}"
        done = wanted.by(at)

        books, found = scenario.resume(store(changes[:at]), done)

        doubts = unclear(books.store, reports) - unclear(wanted.store, reports)
        other = differences(but_undos(found, doubts), but_undos(reports, doubts))
        assert other == {}, f"{where}: {other}"
        new, old = _steady(books.counts, scenario), _steady(wanted.counts, scenario)
        missing, more = old - new, new - old
        assert missing == {}, f"{where}: not done: {missing}"
        again = in_flight(changes[:at]) | {("undo", f"{task}/{id_}/{act}/undo") for task, id_, act in doubts}
        twice_done = {entry for entry in more if not is_in(entry, again)}
        assert twice_done == set(), f"{where}: done again: {twice_done}"
        assert set(more.values()) <= {1}, where
        assert twice(books.store) == [], where  # type: ignore[arg-type]
        left = books.store.owners()
        assert left == {}, where
    return len(changes)


def _steady(counts: Counter[tuple[Any, ...]], scenario: Scenario) -> Counter[tuple[Any, ...]]:
    return Counter({entry: 1 if entry[1] in scenario.varying else count for entry, count in counts.items()})


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Of reports: what there is, and what there should be."""
    return {
        f"{id_}.{name}": (found[id_][name], value)
        for id_, report in wanted.items()
        for name, value in report.items()
        if found[id_][name] != value
    }


def unclear(store: Any, tasks: Iterable[str]) -> set[tuple[str, str, int]]:
    """Acts that were broken off, and then failed: nobody knows what they had done, so they are undone."""
    states = [fold(task, store.read(task)) for task in tasks]
    nodes = [(state.id, node) for state in states for node in state.nodes.values()]
    return {(task, node.id, act.number) for task, node in nodes for act in node.acts or () if act.unknown}


def but_undos(reports: dict[str, Any], acts: set[tuple[str, str, int]]) -> dict[str, Any]:
    """Reports without what they say of the undos of these."""
    found = {}
    for task, report in reports.items():
        ids = {id_ for whose, id_, _ in acts if whose == task}
        kept = [id_ for id_ in report["compensated"] if id_ not in ids]
        graph = [(id_, None if id_ in ids else status, *rest) for id_, status, *rest in report["graph"]]
        found[task] = {**report, "compensated": kept, "graph": graph}
    return found


def is_in(entry: tuple[Any, ...], begun: set[tuple[Any, ...]]) -> bool:
    """Whether an entry of the books is of something that had begun."""
    return entry[:3] in begun or entry[:2] in begun or entry[:1] in begun


def in_flight(changes: Sequence[Change]) -> set[tuple[Any, ...]]:
    """What had begun by then, and nothing is recorded of its end: the beginning of its entry in the books."""
    found: set[tuple[Any, ...]] = set()
    store = NotingStore(changes)
    for stream in store.owners():
        state = fold(stream, store.read(stream))
        found |= {entry for node in state.nodes.values() for entry in _begun(state, node)}
        found |= _steps(state)
    return found


def _begun(state: TaskState, node: SubtaskState) -> set[tuple[Any, ...]]:
    key, found = f"{state.id}/{node.id}", set()
    if node.has_begun:
        found.add(("work", f"{key}/{node.act}", node.attempt))
    act = node.compensating
    if act is not None and node.due is None and node.escalation is None:
        found.add(("undo", f"{key}/{act.number}/undo", node.undo_attempt))
    return found


def _steps(state: TaskState) -> set[tuple[Any, ...]]:
    if state.ending is not None:
        return set()
    if state.phase in {"new", "planning", "replanning"}:
        return {("plan", state.id)}
    found: set[tuple[Any, ...]] = {("review", state.id)} if state.review.waiting else set()
    if not state.open:
        found |= {("review", state.id, state.iterations + 1), ("combine", state.id)}
    return found


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
