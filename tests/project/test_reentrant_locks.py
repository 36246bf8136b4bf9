"""Locks are free for the thread that holds them: a finalizer or a signal handler calls the library at any step.

A collection of garbage may run a finalizer at every allocation, also under a lock of this library. One that needs the
same lock would wait for its own thread for ever. So a lock is re-entrant, and each step under it leaves a state that
such a call can meet; what is not, stands below with its reason.
"""

from __future__ import annotations

import ast
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any, ClassVar

import pytest

from actors.concurrency import change_lock, in_turn, shared_fields, thread_state
from actors.concurrency.change_lock import ChangeLock
from actors.concurrency.in_turn import InTurn
from actors.concurrency.thread_state import HERE
from actors.dispatch.remote import Frame, FrameReader, Kind, frame, parts_of
from actors.dispatch.worker import worker_main
from actors.dispatch.worker.worker_main import Link
from actors.execution import stall_watch, timers
from actors.execution.stall_watch import StallWatch
from actors.execution.timers import Timers
from actors.messaging.blocking import require_thread
from actors.messaging.reply import Reply
from actors.model.errors import BlockingAskError
from actors.tasks.execution import attempt, attempt_steps, attempt_stream
from actors.tasks.execution.attempt import Attempt
from actors.tasks.execution.attempt_steps import NO_STEPS, AttemptSteps
from actors.tasks.execution.attempt_stream import AttemptStream, Piece
from actors.tasks.execution.fingerprint import fingerprint
from actors.tasks.journal import local_lease
from actors.tasks.journal.local_lease import LocalLease
from actors.tasks.journal.store import Store
from actors.tasks.model.task_errors import StoreError
from actors.tasks.model.usage import Usage
from actors.tasks.orchestration import stream_relay, unkept_events
from actors.tasks.orchestration.stream_relay import StreamRelay
from actors.testing import ManualClock
from tests.support.sizes import size
from tests.support.steps import at_step
from tests.support.stores import OWNER, submitted
from tests.support.syntax import TOGETHER, Source, library
from trees.observe import metrics
from trees.store import journal_index, lanes, memory, sql, value_reader, writer
from trees.store.batches import Batch, Change, ChangeKind
from trees.store.memory import MemoryStore
from trees.store.sql import SqlStore
from trees.store.value_reader import ValueReader
from trees.store.writer import Writer

LONG_S = 60.0

NO_GUARD = "a gate that a thread sleeps at, and no guard: no code runs between its take and its release"
OWN = "threads of this library's own take it, and no call that a finalizer or a signal handler of users could make"
STARTS = "taken where a process is started or has ended, by threads of this library: calls of users only send signals"
PLAIN = {
    "actors/concurrency/disposal.py": (1, "an event of its own, that one thread waits at and nobody raises"),
    "actors/concurrency/wakeup.py": (1, NO_GUARD),
    "actors/messaging/reply.py": (2, NO_GUARD),
    "actors/dispatch/host/fork_server.py": (3, STARTS),
    "actors/dispatch/groups/process_group.py": (1, STARTS),
    "actors/dispatch/groups/process_reader.py": (1, STARTS),
    "actors/dispatch/ray.py": (1, "an event of its own, that one thread waits at and nobody raises"),
    "actors/dispatch/worker/worker_runner.py": (1, "an event of its own, that nobody sets: its thread pauses"),
    "actors/tasks/execution/attempt.py": (
        1,
        "taken by a worker's boundary and the orchestrator, which nobody calls in between",
    ),
    "actors/testing/faulty_workers.py": (1, "a double for tests"),
    "actors/testing/scripted_executable.py": (1, "a condition makes a re-entrant lock of its own; a double for tests"),
    "trees/host/console/server.py": (2, OWN),
    "trees/host/console/session.py": (1, OWN),
    "trees/host/console/stream.py": (1, OWN),
    "trees/observe/child_history.py": (1, OWN),
    "trees/observe/web/event_feed.py": (1, OWN),
    "trees/store/sql_lease.py": (1, OWN),
    "trees/store/value_reader.py": (1, "a condition makes a re-entrant lock of its own"),
}
"""Calls that make a lock that is not re-entrant, by file, and why that may be. An event has such a lock in it."""
MAKERS = {"Lock", "allocate_lock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier"}


def plain_locks(file: Source) -> int:
    """How many locks that are not re-entrant this code makes, under whatever name the module stands there."""
    if not any(word in file.text for word in MAKERS):  # most of the files: parsing takes long
        return 0
    names, modules = set(), set()
    for node in file.of(ast.ImportFrom):
        if node.module in {"threading", "_thread"}:
            names |= {each.asname or each.name for each in node.names if each.name in MAKERS}
    for module in file.of(ast.Import):
        modules |= {each.asname or each.name for each in module.names if each.name in {"threading", "_thread"}}
    return sum(
        (isinstance(made, ast.Name) and made.id in names)
        or (isinstance(made, ast.Attribute) and made.attr in MAKERS and ast.unparse(made.value) in modules)
        for made in (call.func for call in file.of(ast.Call))
    )


@TOGETHER
def test_every_lock_that_is_not_reentrant_is_listed_with_its_reason() -> None:
    found = {file.name: plain_locks(file) for file in library()}

    assert {name: count for name, count in found.items() if count} == {name: n for name, (n, _) in PLAIN.items()}


@pytest.mark.parametrize(
    "text",
    [
        "import threading\nthreading.Lock()",
        "import threading as t\nt.Condition(t.RLock())",
        "from threading import Lock as L\nL()",
        "import _thread\n_thread.allocate_lock()",
        "import threading\nthreading.Event()",
    ],
)
def test_a_lock_is_found_under_any_name(text: str) -> None:
    assert plain_locks(Source("a.py", text)) == 1


class Case:
    """Something that is done, and what the code that comes in between does with the same object."""

    files: ClassVar[set[str]]

    def do(self) -> None:
        """Call each method that takes the lock."""
        raise NotImplementedError

    def between(self) -> None:
        """Call them in between."""
        raise NotImplementedError

    def check(self, *, reached: bool) -> None:
        """What was done by both is there."""
        raise NotImplementedError


class InMemory(Case):
    """The store of a tree that has no other, with room for few."""

    files: ClassVar = {memory.__file__}

    def __init__(self) -> None:
        self.store = MemoryStore(keep=2)
        for name in ("old", "older", "gone"):
            self.store.create(name, OWNER, submitted(name))
        self.store.finish("older")
        self.store.finish("old")
        self.seen: list[Any] = []

    def do(self) -> None:
        store = self.store
        store.create("own", OWNER, submitted("own"))
        store.replace("own", OWNER, submitted("own"))
        with suppress(KeyError):  # there is room for two that are finished
            store.append("old", submitted("old"))
        store.finish("own")
        store.finish("old")
        store.remove("gone")
        self.look()

    def between(self) -> None:
        store = self.store
        store.create("other", OWNER, submitted("other"))
        store.create("own", OWNER, submitted("own"))
        for name in ("ended", "ended too"):
            store.create(name, OWNER, submitted(name))
            store.finish(name)
        store.remove("ended")
        store.remove("gone")
        self.look()

    def look(self) -> None:
        store = self.store
        self.seen = [store.streams(OWNER), store.finished(OWNER), store.owners(), store.standing("own"), repr(store)]

    def check(self, *, reached: bool) -> None:
        store = self.store
        assert len(store._finished) <= 2
        assert not set(store._finished) & set(store._owners)
        assert set(store._streams) == {*store._finished, *store._owners}
        assert store.standing("gone") is None
        assert store.streams(OWNER) == (["other"] if reached else [])


class Timed(Case):
    """Timers of which many were cancelled."""

    files: ClassVar = {timers.__file__}

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers("timers", self.clock, failed=self.failed)
        self.timers._purge_at = 4
        self.fired: list[str] = []
        self.errors: list[BaseException] = []
        for _ in range(3):
            self.timers.call_at(5.0, self.clock.now).cancel()
        self.timers.call_at(1.0, lambda: self.fired.append("first"))

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)

    def do(self) -> None:
        self.timers.call_at(2.0, lambda: self.fired.append("own"))
        self.clock.advance(1.5)
        self.timers.fire_due()

    def between(self) -> None:
        self.timers.call_at(0.5, lambda: self.fired.append("other"))
        self.timers.call_at(9.0, lambda: self.fired.append("last"))

    def check(self, *, reached: bool) -> None:
        self.clock.advance(10.0)
        self.timers.close(0.0)
        assert sorted(self.fired) == sorted(["first", "own", *(["other", "last"] if reached else [])])
        assert not self.errors


class Streamed(Case):
    """Pieces and progress, recalled in between: each is recalled or told after that, and none is both."""

    files: ClassVar = {in_turn.__file__, stream_relay.__file__, unkept_events.__file__}

    def __init__(self) -> None:
        attempts: dict[str, Any] = {}
        self.relay = StreamRelay(attempts)
        self.told: list[Any] = []
        owner = Made(path="p", time=lambda: 1.0, latest_number=lambda _: 0, system=Made(publish=self.told.append))
        spec = Made(task="t", worker="w", values=Made(number=1, metadata={}))
        self.attempt: Any = Made(spec=spec, owner=owner, subtask=Made(id="s"), task="t", done=False, progress=None)
        attempts["key"] = self.attempt
        self.looks: list[tuple[list[str], int, int]] = []

    def tell(self, *texts: str) -> None:
        self.relay.tell(self.attempt, [Piece("text", text) for text in texts])

    def recall(self) -> tuple[list[str], int, int]:
        told = len(self.told)
        held, number = self.relay.recall("t")
        return [event.text for event in held], number, told

    def do(self) -> None:
        self.tell("a", "b")
        self.note(*self.recall())
        self.relay.tell_progress(self.attempt, 0.5, "half")

    def between(self) -> None:
        self.note(*self.recall())
        self.tell("c")
        self.note(*self.recall())
        self.relay.forget("of another")

    def note(self, held: list[str], number: int, told: int) -> None:
        self.looks.append((held, number, told))

    def check(self, *, reached: bool) -> None:
        assert [event.number for event in self.told] == list(range(1, len(self.told) + 1))
        assert sorted(event.text for event in self.told) == ["a", "b", *(["c"] if reached else []), "half"]
        for held, number, told in self.looks:
            assert held == [event.text for event in self.told if event.number <= number]
            assert number >= told  # what was told before is recalled


class Gathered(Case):
    """Texts of an attempt that are gathered, looked at and told; nothing is lost, and no word is there twice."""

    files: ClassVar = {in_turn.__file__, attempt_stream.__file__}

    def __init__(self) -> None:
        self.told: list[Piece] = []
        self.lines: list[str] = []
        timers = Made(call_at=lambda *_: Made(cancel=lambda: None))
        streams = Made(tell=lambda _, pieces: self.told.extend(pieces))
        attempt: Any = Made(owner=Made(system=Made(timers=timers, now=lambda: 1.0), streams=streams))
        self.stream = AttemptStream(attempt)

    def do(self) -> None:
        for part in ("a", "b"):
            self.stream.add("text", part)
        self.stream.flush()
        self.stream.add("text", "c")
        self.lines.append(self.stream.last_line)

    def between(self) -> None:
        self.lines.append(self.stream.last_line)
        self.stream.add("text", "x")
        self.stream.flush()
        self.lines.append(self.stream.last_line)

    def check(self, *, reached: bool) -> None:
        self.stream.close()
        text = "".join(piece.text for piece in self.told)
        assert text.replace("x", "") == "abc"
        assert text.count("x") == reached
        assert all(line.count(each) <= 1 for line in self.lines for each in "abcx")


class Used(Case):
    """What an attempt uses up: all of it is counted once, and whoever is to record it is told."""

    files: ClassVar = {in_turn.__file__, shared_fields.__file__, attempt.__file__}

    def __init__(self) -> None:
        owner = Made(about_to_record=lambda *_: None, system=Made(timers=Made(), now=lambda: 1.0), streams=Made())
        spec: Any = Made(key="k", owner=owner, task="t", subtask="s", deadline=None, priority=0)
        self.attempt = Attempt(spec)
        self.told: list[bool] = []
        self.taken = 0
        self.streams: list[object] = []

    def use(self, tokens: int) -> None:
        self.told.append(self.attempt.use(Usage(tokens=tokens)))
        self.streams.append(self.attempt.open_stream())

    def do(self) -> None:
        self.use(1)
        used = self.attempt.take_used()
        self.attempt.take_back(used)
        self.taken += self.attempt.take_used().tokens
        self.use(10)

    def between(self) -> None:
        self.use(100)

    def check(self, *, reached: bool) -> None:
        total = 11 + 100 * reached
        assert self.attempt.used.tokens == total
        assert self.taken + self.attempt.take_used().tokens == total
        assert True in self.told
        assert len(set(map(id, self.streams))) == 1


class Numbered(Case):
    """Steps of an attempt: no two have one number, and none is left out."""

    files: ClassVar = {attempt_steps.__file__}

    def __init__(self) -> None:
        host: Any = Made(known=NO_STEPS, subtask="s")
        self.steps = AttemptSteps(host, "key")
        self.numbers: list[int] = []

    def begin(self) -> Any:
        return self.steps._numbered("name", fingerprint((1,), {}), "attempt", self.steps._given_back)

    def do(self) -> None:
        self.numbers.append(self.begin().call.number)
        self.steps.give_back(self.begin())
        self.numbers += [self.begin().call.number, self.begin().call.number]

    def between(self) -> None:
        self.numbers.append(self.begin().call.number)

    def check(self, *, reached: bool) -> None:
        assert sorted(self.numbers) == list(range(1, 4 + reached))


class Turns(Case):
    """Things that are done in turn, each to its end, in the order in which they came."""

    files: ClassVar = {in_turn.__file__}

    def __init__(self) -> None:
        self.turns = InTurn()
        self.done: list[str] = []

    def one(self, name: str) -> Callable[[], None]:
        def act() -> None:
            self.done.append(f"{name} begins")
            self.turns.do(lambda: self.done.append(f"after {name}"))
            self.done.append(f"{name} ends")

        return act

    def do(self) -> None:
        for name in ("first", "second"):
            self.turns.do(self.one(name))

    def between(self) -> None:
        self.turns.do(self.one("other"))

    def check(self, *, reached: bool) -> None:
        names = ["first", "second", *(["other"] if reached else [])]
        assert sorted(self.done) == sorted(text for n in names for text in (f"{n} begins", f"{n} ends", f"after {n}"))
        for name in names:
            assert self.done.index(f"{name} ends") == self.done.index(f"{name} begins") + 1


class Life:
    """An incarnation that gives no sign of life."""

    def __init__(self, stall_s: float, post: Callable[[Any], object]) -> None:
        self.pulse = self.owner = Made(post=post)
        self.recipe = Made(stall_s=stall_s)
        self.is_over, self.silent_since = False, 0.0


class Written(Case):
    """Changes that a writer takes, writes and tells of; its thread is this one. Each is written once, and told of."""

    files: ClassVar = {in_turn.__file__, lanes.__file__, writer.__file__}

    def __init__(self) -> None:
        self.written: list[str] = []
        self.errors: list[object] = []
        self.waits: list[tuple[Reply, list[str], list[bool]]] = []

        def nothing(*_: object, **__: object) -> None:
            """Hear it."""

        session: Any = Made(in_doubt=False, reserved=set(), write=self.write, close=nothing)
        owner: Any = Made(kept=nothing, committed=nothing, spare_time=nothing, publish=self.errors.append, lost=nothing)
        self.writer = Writer(session, "p", "fake", owner)
        self.withdrawn: list[str] = []

    def write(self, batch: Batch) -> None:
        self.written += [stream for stream, _ in batch._records]

    def put(self, *names: str) -> None:
        record = submitted(names[0])
        self.writer.put(*(Change(ChangeKind.CREATED, each, owner=OWNER, record=record, lane=each) for each in names))

    def flush(self, *names: str) -> None:
        """Have it noted what was written when the reply came."""
        reply, kept = self.writer.flush(names or None), list[bool]()
        if reply is not None:
            reply.when_done(lambda: kept.append(reply.succeeded and set(names) <= set(self.written)))
            self.waits.append((reply, list(names), kept))
        else:
            assert set(names) <= set(self.written)

    def withdraw(self, name: str) -> None:
        if self.writer.withdraw(name):
            self.withdrawn.append(name)

    def do(self) -> None:
        self.put("a", "b")
        self.flush("a", "b")
        self.put("back")
        self.withdraw("back")
        self.writer._work()
        self.put("c")
        self.flush()
        self.flush("a")
        self.writer._work()

    def between(self) -> None:
        self.put("x", "y")
        self.flush("x", "y")
        self.flush("x")
        self.put("z")
        self.withdraw("z")
        self.flush()
        self.writer.wake()

    def check(self, *, reached: bool) -> None:
        self.writer._work()
        names = ["a", "b", "back", "c", *(["x", "y", "z"] if reached else [])]
        assert sorted(self.written + self.withdrawn) == names
        assert [each for each in self.written if each in "abc"] == ["a", "b", "c"]
        assert all(kept == [True] for _, _, kept in self.waits), self.waits
        assert len(self.waits) > 1 + reached
        assert not self.writer._lanes._newest
        assert not self.errors


class Roused(Written):
    """A flush that comes in between wakes the thread; what came before it does not."""

    def do(self) -> None:
        self.put("a")

    def between(self) -> None:
        self.put("x")
        self.flush("x")

    def check(self, *, reached: bool) -> None:
        assert self.writer._wakeup.sleep(0) is reached
        self.writer._work()
        assert self.written == (["a", "x"] if "a" in self.written[:1] else ["x", "a"])[: 1 + reached]
        assert all(kept == [True] for _, _, kept in self.waits), self.waits


class Refused(Written):
    """The end of a writer: whoever has put something before, or does so at any step, is not left waiting."""

    def do(self) -> None:
        self.put("a")
        self.flush("a")
        self.writer._end(StoreError("fake", "is closed"))
        self.flush("a")

    def flush(self, *names: str) -> None:
        reply = self.writer.flush(names or None)
        assert reply is not None
        self.waits.append((reply, list(names), []))

    def between(self) -> None:
        self.put("x")
        self.flush("x")

    def check(self, *, reached: bool) -> None:
        assert len(self.waits) == 2 + reached
        assert all(reply.done and not reply.succeeded for reply, _, _ in self.waits)
        assert not self.written
        assert not self.errors


class Fetched(Case):
    """Records that are read back: whoever asks is answered, or a thread is there that will do it."""

    files: ClassVar = {value_reader.__file__}

    def __init__(self) -> None:
        self.reader = ValueReader("p", lambda stream, _: {0: submitted(stream)})
        self.reader._changed.wait = lambda _=None: True  # type: ignore[method-assign]
        self.started: list[threading.Thread] = []
        self.reader._start = self.started.append  # type: ignore[method-assign]
        self.replies: list[Reply] = []

    def fetch(self, name: str) -> None:
        self.replies.append(self.reader.fetch(name, (0,)))

    def do(self) -> None:
        self.fetch("own")
        assert self.reader._serve()
        while self.reader._serve():
            continue

    def between(self) -> None:
        self.fetch("other")

    def check(self, *, reached: bool) -> None:
        assert len(self.replies) == 1 + reached
        assert self.reader._thread is None or len(self.started) > 1
        if not all(reply.done for reply in self.replies):
            assert len(self.started) > 1
            self.reader._serve()
        assert all(reply.succeeded for reply in self.replies)


class Up:
    """A tree that is up, as far as it is counted."""

    def __init__(self, subscribe: Callable[..., object]) -> None:
        self.ended = Made(done=False)
        self.bus = Made(subscribe=subscribe)
        self.reports = Made(measures=Made(label=str, worker_label=str, on=False))
        self.services = {"tasks": Made(commits={})}


class Registry:
    """A registry of Prometheus."""

    def __init__(self) -> None:
        self.registered: list[object] = []

    def register(self, collector: object) -> None:
        self.registered.append(collector)


class Counted(Case):
    """Trees that are watched, and the collector of a registry: each once, whoever comes first."""

    files: ClassVar = {metrics.__file__}

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.system: Any = Up(lambda hear, **_: self.heard.append(hear))
        self.collectors: list[object] = []
        self.registry = Registry()

    def watch(self) -> None:
        collector = metrics._collector_of(self.registry)
        self.collectors.append(collector)
        collector.watch(self.system)

    def do(self) -> None:
        self.watch()

    def between(self) -> None:
        self.watch()

    def check(self, *, reached: bool) -> None:
        assert len(set(map(id, self.collectors))) == 1
        assert len(self.registry.registered) == 1
        assert len(self.heard) == 1
        assert len(self.system.services["tasks"].commits) == 1


class Wired(Case):
    """A worker's end of the wire: each frame is written whole and once, and one thread reads."""

    files: ClassVar = {in_turn.__file__, thread_state.__file__, worker_main.__file__}

    def __init__(self) -> None:
        self.host, self.end = socket.socketpair()
        self.link = Link(self.end)
        self.taken: list[Frame] = []
        self.refused = 0
        self.started: list[None] = []
        self.link._unstarted = [Made(start=lambda: self.started.append(None))]  # type: ignore[list-item]
        self.link.take = self.take
        for piece in frame(Kind.MESSAGE, 1, [b"in"]):
            self.host.sendall(piece)
        self.link.wake()

    def take(self, taken: Frame) -> None:
        assert not self.started, "two threads read"
        self.taken.append(taken)

    def do(self) -> None:
        self.link.send(Kind.CALL, 1, [b"own", b"more"])
        self.link.read()
        self.link.listen_aside()
        self.link.send(Kind.RESULT, 1, [b"own"])

    def between(self) -> None:
        self.link.send(Kind.CALL, 2, [b"other", b"of it"])
        self.link.listen_aside()
        try:
            require_thread("p")
        except BlockingAskError:
            self.refused += 1

    def check(self, *, reached: bool) -> None:
        reader = FrameReader(self.host)
        self.host.settimeout(LONG_S)
        while len(reader.frames) < 2 + reached:
            assert reader.receive()
        found = [(each.kind, each.number, *map(bytes, parts_of(each))) for each in reader.frames]
        assert sorted(found) == sorted(
            [
                (Kind.CALL, 1, b"own", b"more"),
                (Kind.RESULT, 1, b"own"),
                *([(Kind.CALL, 2, b"other", b"of it")] if reached else []),
            ]
        )
        assert len(self.started) == 1
        assert self.refused <= 1
        assert not self.link._reads_here
        assert not HERE.never_blocks
        self.host.close()
        self.end.close()


class Watched(Case):
    """Workers that hang: each is told of, once and in time."""

    files: ClassVar = {stall_watch.__file__}

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.watch = StallWatch(self.clock, Timers("timers", self.clock, failed=self.failed))
        self.told: list[tuple[float, float]] = []
        self.errors: list[BaseException] = []

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)

    def add(self, stall_s: float) -> None:
        life: Any = Life(stall_s, lambda told: self.told.append((stall_s, told.silent_s)))
        self.watch.watch(life)

    def do(self) -> None:
        self.add(4.0)
        self.clock.advance(0.5)

    def between(self) -> None:
        self.add(2.0)

    def check(self, *, reached: bool) -> None:
        for _ in range(60):
            self.clock.advance(0.1)
        assert sorted(stall_s for stall_s, _ in self.told) == [*([2.0] if reached else []), 4.0]
        assert all(silent_s < stall_s + 1.0 for stall_s, silent_s in self.told)
        assert not self.errors


class Leased(Case):
    """A lease that is renewed, and is found to be over at any step."""

    files: ClassVar = {local_lease.__file__}

    def __init__(self) -> None:
        self.now = 0.0
        self.lapsed: list[None] = []
        self.lease = LocalLease(lambda: self.now, "store", "root", lambda: self.lapsed.append(None))
        self.lease.extend(1, 5.0)

    def do(self) -> None:
        self.lease.extend(1, 7.0)
        self.now = 6.0
        self.lease.holds()
        self.lease.extend(1, 9.0)

    def between(self) -> None:
        self.now = 20.0
        self.lease.holds()
        self.lease.end()

    def check(self, *, reached: bool) -> None:
        assert self.lease.holds() is not reached
        assert len(self.lapsed) <= 1


def within_limit(run: Callable[[], None], limit_s: float = LONG_S) -> None:
    """Run it on a thread that may wait for itself for ever; whatever it raises is raised here."""
    ended: list[BaseException | None] = []

    def go() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - raised again below
            ended.append(error)
        else:
            ended.append(None)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(limit_s)
    assert ended, "it waits for itself"
    if ended[0] is not None:
        raise ended[0]


FEW = 1000
"""What has no more steps than this is tried at each of them; else a sample takes one step in seven."""


def each_step(kind: type[Case]) -> Iterator[int]:
    number, steps = 0, [1]
    while steps[0] > number:
        number += 1 if steps[0] <= FEW else size(1, 7, 7)
        case = kind()
        with at_step(number, case.between, case.files) as steps:
            case.do()
        case.check(reached=steps[0] >= number)
        yield number


@pytest.mark.parametrize(
    "kind",
    [
        InMemory,
        Timed,
        Streamed,
        Gathered,
        Used,
        Numbered,
        Turns,
        Written,
        Roused,
        Refused,
        Fetched,
        Counted,
        Wired,
        Watched,
        Leased,
    ],
)
def test_whoever_calls_the_same_object_at_any_step_waits_for_nobody(kind: type[Case]) -> None:
    steps: list[int] = []

    within_limit(lambda: steps.extend(each_step(kind)))

    assert len(steps) > 50


class Knocked:
    """A lock that says when somebody comes to it."""

    def __init__(self, knocked: threading.Event) -> None:
        self._lock, self._knocked = threading.RLock(), knocked

    def __enter__(self) -> None:
        self._knocked.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("comes", ["before the end of the other's act", "after it"])
def test_each_thread_does_its_own_acts_and_returns_when_they_are_done(comes: str) -> None:
    """Taken by the other thread, an act would still be under way when its owner went on, and raise at the other."""
    turns, knocked, ended = InTurn(), threading.Event(), threading.Event()
    done_by: list[int | None] = []

    def second() -> None:
        if comes == "after it":
            assert ended.wait(LONG_S)
        turns.do(lambda: done_by.append(threading.get_ident()))
        assert done_by == [thread.ident]

    def first() -> None:
        knocked.clear()
        thread.start()
        assert comes == "after it" or knocked.wait(LONG_S)

    turns._lock = Knocked(knocked)  # type: ignore[assignment]
    thread = threading.Thread(target=second, daemon=True)
    turns.do(first)
    ended.set()
    thread.join(LONG_S)

    assert not thread.is_alive()
    assert done_by == [thread.ident]


def test_what_is_asked_for_in_between_is_not_done() -> None:
    turns, found = InTurn(), list[str]()

    turns.do(lambda: found.append(turns.get(lambda: "done", "in between")))
    found.append(turns.get(lambda: "done", "in between"))

    assert found == ["in between", "done"]


class OnDisk(Case):
    """The store on disk: what looks in between sees it, what changes is done as a whole, or refused as a whole."""

    files: ClassVar = {change_lock.__file__, thread_state.__file__, sql.__file__, journal_index.__file__}
    stores: ClassVar[list[SqlStore]] = []
    """The one that is tried, opened once: each case has names of its own."""

    def __init__(self) -> None:
        (self.store,) = self.stores
        self.names = [f"{each}{id(self)}" for each in ("own", "gone", "back")]
        self.seen: list[Any] = []
        self.begun: dict[str, bool] = {}
        self.refused: list[BaseException] = []

    def do(self) -> None:
        store, (own, gone, back) = self.store, self.names
        for name in self.names:
            store.create(name, OWNER, submitted(name))
        store.append(own, submitted(own))
        store.withdraw(back)
        store.finish(own)
        store.append(own, submitted(own))
        store.finish(own)
        store.remove(gone)
        assert store.standing(own)
        assert store.last(own)

    def between(self) -> None:
        store, own = self.store, self.names[0]
        self.seen = [store.streams(OWNER), store.finished(OWNER), store.owners(), store.standing(own), store.last(own)]
        try:
            for name in (f"other{id(self)}", self.names[1]):
                self.begun[name] = self.store.create(name, OWNER, submitted(name))
            self.store.remove(self.names[2])
        except BlockingAskError as error:
            self.refused.append(error)

    def check(self, *, reached: bool) -> None:
        store, (own, gone, _) = self.store, self.names
        assert bool(self.begun or self.refused) is reached
        assert not (self.begun and self.refused)
        stands = [None if (found := store.standing(name)) is None else found.is_ for name in (own, f"other{id(self)}")]
        assert stands == ["finished", "unfinished" if self.begun else None]
        assert store.standing(gone) is None or self.begun[gone]
        assert len(store.read(own)) == 3
        assert not HERE.never_blocks


@pytest.mark.timeout(900)  # for all steps
def test_a_store_on_disk_is_looked_at_and_changed_at_any_step_of_a_change_on_the_same_thread(tmp_path: Path) -> None:
    """What is refused can be done a moment later; and what the store says is what stands in the database.

    A sample takes one step in thirteen.
    """
    store = SqlStore(f"sqlite:///{tmp_path / 'x.db'}", root="p")
    store.open()
    OnDisk.stores = [store]
    cases: list[OnDisk] = []
    every = size(1, 13, 13)

    def all_steps() -> None:
        number, steps = 0, [1]
        while steps[0] > number:
            number += every
            cases.append(case := OnDisk())
            with at_step(number, case.between, case.files) as steps:
                case.do()
            case.check(reached=steps[0] >= number)

    with closing(store):
        within_limit(all_steps, 12 * LONG_S)  # thousands of changes on disk
        said = {name: len(store.read(name)) for name in (*store.streams(OWNER), *store.finished(OWNER))}
    again = SqlStore(f"sqlite:///{tmp_path / 'x.db'}", root="p")
    again.open()
    with closing(again):
        found = {name: len(again.read(name)) for name in (*again.streams(OWNER), *again.finished(OWNER))}

    assert found == said
    assert len([case for case in cases if case.refused]) > 300 // every
    assert len([case for case in cases if case.begun]) > 30 // every


def _looks_of(store: Store) -> Callable[[], object]:
    store.create("t", OWNER, submitted("t"))
    return lambda: [
        store.streams(OWNER), store.finished(OWNER), store.owners(), store.standing("t"), store.read("t")
    ]  # fmt: skip


def _changes_of(store: MemoryStore) -> Callable[[], object]:
    def change() -> None:
        store.create("t", OWNER, submitted("t"))
        store.replace("t", OWNER, submitted("t"))
        store.finish("t")
        store.append("t", submitted("t"))
        store.remove("t")

    return change


@pytest.mark.parametrize("what", ["lock.look", "lock.change", "looks in memory", "changes in memory", "looks on disk"])
def test_nobody_waits_for_a_reply_at_any_step_at_which_this_thread_has_the_lock_of_a_store(
    what: str, tmp_path: Path
) -> None:
    """In a look, too: whoever is to reply may be about to change something, and would wait for the one who waits."""
    lock, refused, files = ChangeLock("p"), list[bool](), {change_lock.__file__, thread_state.__file__, memory.__file__}
    memory_store, disk = MemoryStore(), SqlStore(f"sqlite:///{tmp_path / 'x.db'}", root="p")
    disk.open()
    changed = MemoryStore()
    locks = (lock.looking, memory_store._lock.looking, changed._lock.looking, disk._lock.looking)

    def between() -> None:
        if any(each._is_owned() for each in locks):  # type: ignore[attr-defined]
            refused.append(_raises(BlockingAskError, lambda: Reply().wait(0.001)))

    doings: dict[str, Callable[[], object]] = {
        "lock.look": lambda: lock.look(list),
        "lock.change": lambda: lock.change(list),
        "looks in memory": _looks_of(memory_store),
        "changes in memory": _changes_of(changed),
        "looks on disk": _looks_of(disk),
    }
    with closing(disk):
        number, steps = 0, [1]
        while steps[0] > number:
            number += 1
            with at_step(number, between, files) as steps:
                doings[what]()
    assert not HERE.never_blocks
    assert len(refused) > 4
    assert all(refused)


def _raises(kind: type[BaseException], act: Callable[[], object]) -> bool:
    """True where it raises that."""
    try:
        act()
    except kind:
        return True
    return False
