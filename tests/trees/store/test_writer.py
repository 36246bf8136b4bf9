"""The thread that writes: what it groups, whom it tells and when, and what it does when it cannot write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors import InternalError, Reply
from tests.trees.store.stores import PATIENCE_S, Heard, queued, settled, submitted, succeeded
from trees import LeaseLostError, StoreError, StorePaused, StoreResumed
from trees.store import writer as module
from trees.store.batches import Batch, Change, ChangeKind
from trees.store.database_errors import UnwritableError
from trees.store.writer import Writer

BROKEN = StoreError("fake", "is broken")


class FakeSession:
    """Takes what it is given, or does what it is told to do instead."""

    def __init__(self) -> None:
        self.in_doubt = False
        self.batches: list[int] = []
        self.closed = False
        self.gate = threading.Semaphore(0)
        self.is_gated = False
        self.at_work = threading.Semaphore(0)
        """Released at the begin of each write."""
        self.faults: list[Callable[[], None]] = []
        self.poison = ""
        """A stream that never can be written."""
        self.written: list[str] = []
        self.reserved: set[str] = set()

    def write(self, batch: Batch) -> None:
        self.at_work.release()
        if self.is_gated:
            assert self.gate.acquire(timeout=PATIENCE_S)
        if self.faults:
            self.faults.pop(0)()
        self.in_doubt = False
        names = [f"{stream} {number}" for stream, number in batch._records]
        if f"{self.poison} 0" in names:
            raise UnwritableError("fake", "never")
        self.batches.append(batch.size)
        self.written += names

    def close(self) -> None:
        self.closed = True


class FakeOwner(Heard):
    def __init__(self) -> None:
        super().__init__()
        self.kept_sizes: list[int] = []
        self.spare = threading.Semaphore(0)
        self.faults: list[Callable[[], None]] = []
        self.kept_faults: list[Callable[[], None]] = []
        self.unwritten: list[tuple[str, Exception]] = []
        self.deaf = False

    def kept(self, batch: Batch) -> None:
        self.kept_sizes.append(batch.size)
        if self.kept_faults:
            self.kept_faults.pop(0)()

    def unwritable(self, change: Change, error: Exception) -> None:
        self.unwritten.append((change.stream, error))

    def lost(self, error: StoreError) -> None:
        super().lost(error)
        if self.deaf:
            raise ValueError("deaf")

    def spare_time(self, *, idle: bool) -> None:
        self.spare.release()
        if self.faults:
            self.faults.pop(0)()


def raises(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def created(name: str) -> Change:
    return Change(ChangeKind.CREATED, name, number=1, owner="p", record=submitted(name))


def added(number: int) -> Change:
    return Change(ChangeKind.ADDED, "t", number=number, record=queued("t", number))


def awaited(writer: Writer) -> Reply:
    reply = writer.flush()
    assert reply is not None
    return reply


def wait_until_kept(writer: Writer) -> None:
    """Wait until all is kept that was put: that may be so already."""
    reply = writer.flush()
    if reply is not None:
        reply.get(timeout=PATIENCE_S)


class Running:
    """A writer that runs, with its fakes."""

    def __init__(self) -> None:
        self.session = FakeSession()
        self.owner = FakeOwner()
        self.writer = Writer(self.session, "p", "fake", self.owner)  # type: ignore[arg-type]

    @contextmanager
    def held(self) -> Iterator[None]:
        """While it is in the middle of a write."""
        self.session.is_gated = True
        self.writer.put(added(0))
        self.writer.flush()
        assert self.session.at_work.acquire(timeout=PATIENCE_S)
        yield
        self.session.is_gated = False
        self.session.gate.release()

    def wait_written(self, number: int) -> None:
        """Wait for the begin of so many writes."""
        for _ in range(number):
            assert self.session.at_work.acquire(timeout=PATIENCE_S)


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    made.writer.start()
    yield made
    made.session.is_gated = False
    made.session.gate.release()
    made.writer.close()


def test_what_gathers_during_a_write_is_written_together_and_everybody_hears_in_order(running: Running) -> None:
    heard: list[int] = []
    with running.held():
        for number in range(1, 101):
            running.writer.put(added(number))
            awaited(running.writer).when_done(lambda number=number: heard.append(number))  # type: ignore[misc]
        last = awaited(running.writer)
        assert heard == []
    last.get(timeout=PATIENCE_S)
    settled(running.writer)

    assert running.session.batches == [1, 100]
    assert running.owner.kept_sizes == [1, 100]
    assert heard == list(range(1, 101))


def test_no_transaction_is_larger_than_the_limit(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHANGES", 7)
    with running.held():
        for number in range(1, 21):
            running.writer.put(added(number))
        last = awaited(running.writer)
    last.get(timeout=PATIENCE_S)

    assert running.session.batches == [1, 7, 7, 6]


def test_who_asks_twice_for_the_same_waits_for_the_same(running: Running) -> None:
    with running.held():
        first, second = awaited(running.writer), awaited(running.writer)
        running.writer.put(added(1))
        third = awaited(running.writer)

    assert first is second
    assert third is not first
    third.get(timeout=PATIENCE_S)
    assert first.succeeded
    settled(running.writer)


def test_what_nobody_waits_for_is_written_all_the_same(running: Running) -> None:
    running.writer.put(added(0))

    running.wait_written(1)


def test_a_flush_never_overtakes_one_that_is_being_told(running: Running) -> None:
    order: list[str] = []
    told, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        told.set()
        go_on.wait(PATIENCE_S)
        order.append("first")

    with running.held():
        awaited(running.writer).when_done(slow)
    assert told.wait(PATIENCE_S)
    second = awaited(running.writer)  # all is kept, and yet not everybody has heard of it
    second.when_done(lambda: order.append("second"))
    go_on.set()
    second.get(timeout=PATIENCE_S)
    settled(running.writer)

    assert order == ["first", "second"]


def test_what_somebody_does_when_it_is_kept_cannot_end_the_writer(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda raised: told.append(raised.exc_value))
    with running.held():
        awaited(running.writer).when_done(raises(SystemExit("from a callback")))
    running.writer.put(added(1))
    wait_until_kept(running.writer)

    assert [type(error) for error in told] == [SystemExit]


# -- when it cannot write --------------------------------------------------------------------------------------


def test_a_write_that_fails_is_tried_again_until_it_succeeds_and_that_is_told_once(running: Running) -> None:
    running.session.faults = [raises(BROKEN)] * 3
    running.writer.put(added(0))
    reply = awaited(running.writer)
    reply.get(timeout=PATIENCE_S)

    assert running.owner.wait_for(StorePaused).error is BROKEN
    assert running.owner.wait_for(StoreResumed).after_s > 0.05 + 0.1 + 0.2 - 0.01
    assert [type(event) for event in running.owner.events] == [StorePaused, StoreResumed]
    assert running.session.batches == [1]


def test_it_is_told_that_it_goes_on_before_those_who_wait_are(running: Running) -> None:
    running.session.faults = [raises(BROKEN)]
    seen: list[int] = []
    running.writer.put(added(0))
    reply = awaited(running.writer)
    reply.when_done(lambda: seen.append(len(running.owner.events)))
    reply.get(timeout=PATIENCE_S)
    settled(running.writer)

    assert seen == [2]


def test_what_is_put_while_it_waits_is_written_with_the_rest(running: Running) -> None:
    ready = threading.Event()

    def until_ready() -> None:
        if not ready.is_set():
            running.session.faults.append(until_ready)
            raise BROKEN

    running.session.faults = [until_ready]
    running.writer.put(added(0))
    awaited(running.writer)
    running.owner.wait_for(StorePaused)
    running.writer.put(added(1))
    ready.set()
    wait_until_kept(running.writer)

    assert running.session.batches == [2]


def test_what_fails_in_spare_time_pauses_it_too(running: Running) -> None:
    running.owner.faults = [raises(BROKEN)]

    running.owner.wait_for(StorePaused)
    running.owner.wait_for(StoreResumed)


def test_what_keeps_failing_in_spare_time_holds_no_write_up_and_is_told_once(running: Running) -> None:
    running.owner.faults = [raises(BROKEN)] * 10_000
    running.owner.wait_for(StorePaused)
    for number in range(20):
        running.writer.put(added(number))
        wait_until_kept(running.writer)

    assert [type(event) for event in running.owner.events] == [StorePaused]
    running.owner.faults.clear()
    running.owner.wait_for(StoreResumed)


def test_once_another_process_leads_nothing_is_written_and_everybody_hears_that(running: Running) -> None:
    lost = LeaseLostError("fake", "p", "somebody")
    running.session.faults = [raises(lost)]
    with running.held():
        before = awaited(running.writer)
    running.owner.wait(lambda: running.owner.losses == [lost])
    running.writer.put(added(1))

    for reply in (before, awaited(running.writer)):
        with pytest.raises(LeaseLostError):
            reply.get(timeout=PATIENCE_S)
    assert running.session.batches == []
    running.writer.close()
    assert running.session.closed


def test_a_bug_of_ours_leaves_nobody_waiting(running: Running) -> None:
    running.session.faults = [raises(ZeroDivisionError("a bug"))]
    running.writer.put(added(0))

    with pytest.raises(StoreError, match="ZeroDivisionError"):
        awaited(running.writer).get(timeout=PATIENCE_S)
    assert isinstance(running.owner.wait_for(InternalError).error, ZeroDivisionError)


# -- taking back ------------------------------------------------------------------------------------------------


def test_what_is_not_being_written_can_be_taken_back(running: Running) -> None:
    with running.held():
        running.writer.put(created("t1"))
        running.writer.put(created("t2"))
        reply = awaited(running.writer)
        assert running.writer.withdraw("t1")
        assert not running.writer.withdraw("t1")
        assert not running.writer.withdraw("ghost")
    reply.get(timeout=PATIENCE_S)

    assert not running.writer.withdraw("t2")


def test_what_is_being_written_cannot_be_taken_back_until_that_has_failed_for_sure(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_S", 1000.0)
    monkeypatch.setattr(module, "FIRST_S", 1000.0)
    running.session.faults = [raises(BROKEN)]
    running.session.is_gated = True
    running.writer.put(created("t"))
    running.writer.flush()
    running.wait_written(1)
    assert not running.writer.withdraw("t")
    running.session.gate.release()
    running.owner.wait_for(StorePaused)

    assert running.writer.withdraw("t")


def test_what_may_be_written_already_cannot_be_taken_back(running: Running) -> None:
    def in_doubt() -> None:
        running.session.in_doubt = True
        raise BROKEN

    running.session.faults = [in_doubt, in_doubt]
    running.session.is_gated = True
    running.writer.put(created("t"))
    running.writer.flush()
    running.wait_written(1)
    running.session.gate.release()
    running.owner.wait_for(StorePaused)
    running.writer.put(created("t2"))

    assert not running.writer.withdraw("t")
    assert running.writer.withdraw("t2")


# -- the end ----------------------------------------------------------------------------------------------------


def test_its_end_writes_what_is_there(running: Running) -> None:
    for number in range(10):
        running.writer.put(added(number))
    running.writer.close()
    running.writer.close()

    assert sum(running.session.batches) == 10
    assert running.session.closed


def test_its_end_gives_up_what_cannot_be_written_and_says_so(running: Running) -> None:
    running.session.faults = [raises(BROKEN)] * 1000
    running.writer.put(added(0))
    before = awaited(running.writer)
    running.owner.wait_for(StorePaused)
    running.writer.close()

    assert running.session.batches == []
    for reply in (before, awaited(running.writer)):
        with pytest.raises(StoreError, match="is closed"):
            reply.get(timeout=PATIENCE_S)


def test_its_end_may_come_from_its_own_thread(running: Running) -> None:
    with running.held():
        awaited(running.writer).when_done(running.writer.close)
    running.writer.close()

    assert running.session.closed


def test_the_record_that_cannot_be_written_ends_its_own_journal_and_the_rest_is_written(running: Running) -> None:
    value: Any = object()
    with running.held():
        running.writer.put(Change(ChangeKind.ADDED, "t", number=1, record=succeeded("t", value)))
        running.writer.put(added(2))
        running.writer.put(created("other"))
        last = awaited(running.writer)
    last.get(timeout=PATIENCE_S)

    ((stream, error),) = running.owner.unwritten
    assert (stream, type(error)) == ("t", TypeError)
    assert running.session.batches == [1, 1, 2]
    assert running.session.written == ["t 0", "other 0"]  # a record after one that is missing would be damage


@pytest.mark.parametrize("number", [1, 2, 3, 16, 100])
@pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
def test_a_batch_that_holds_what_never_can_be_written_is_cut_until_that_is_found(
    running: Running, number: int, at: float
) -> None:
    poison = f"t{round(at * (number - 1))}"
    running.session.poison = poison
    with running.held():
        for n in range(number):
            running.writer.put(created(f"t{n}"))
        last = awaited(running.writer)
    last.get(timeout=PATIENCE_S)
    running.session.poison = ""
    running.writer.put(Change(ChangeKind.ADDED, poison, number=1, record=queued(poison, 1)))
    running.writer.put(created("after"))
    wait_until_kept(running.writer)

    assert [stream for stream, _ in running.owner.unwritten] == [poison]
    assert running.session.written == [
        "t 0",
        *(f"t{n} 0" for n in range(number) if f"t{n}" != poison),
        "after 0",
    ]
    assert running.owner.losses == []
    assert not [event for event in running.owner.events if isinstance(event, StorePaused)]


class Death(BaseException):
    """What nobody has thought of."""


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), Death(), SystemExit(3), KeyboardInterrupt(), OSError()])
@pytest.mark.parametrize("where", ["write", "spare time", "kept"])
def test_whatever_ends_the_writer_is_the_end_of_the_store_and_all_who_wait_hear_it(
    running: Running, error: BaseException, where: str
) -> None:
    {
        "write": running.session.faults,
        "spare time": running.owner.faults,
        "kept": running.owner.kept_faults,
    }[where].append(raises(error))
    with running.held():
        replies = [awaited(running.writer)]
        for n in range(5):
            running.writer.put(created(f"t{n}"))
            replies.append(awaited(running.writer))
    running.owner.wait(lambda: bool(running.owner.losses))

    (lost,) = running.owner.losses
    assert "its writer has died" in str(lost)
    assert lost.__cause__ is error
    assert isinstance(running.owner.wait_for(InternalError).error, type(error))
    for reply in [*replies, awaited(running.writer)]:
        reply.wait(PATIENCE_S)
        assert reply.done
    running.writer.close()
    assert running.session.closed


def test_whoever_hears_of_the_end_and_raises_leaves_nobody_waiting(running: Running) -> None:
    running.owner.deaf = True
    running.session.faults.append(raises(ZeroDivisionError()))
    running.writer.put(added(0))
    reply = awaited(running.writer)

    with pytest.raises(StoreError, match="its writer has died"):
        reply.get(timeout=PATIENCE_S)
    running.owner.wait_for(InternalError, 2)
    running.writer.close()
    assert running.session.closed
