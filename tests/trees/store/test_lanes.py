"""Order of what a store writes: a large value holds up its own task and nothing else, and nothing is lost by that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from actors import Reply
from tests.trees.store.stores import (
    OWNER,
    PATIENCE_S,
    Heard,
    Opens,
    counted,
    kept,
    opens,
    queued,
    settled,
    submitted,
    succeeded,
)
from trees import LeaseLostError, StoreError, StorePaused, StoreResumed
from trees.store import SqlStore, large_values
from trees.store.batches import Batch, Change, ChangeKind
from trees.store.database_errors import UnwritableError
from trees.store.lanes import Lanes
from trees.store.large_values import LargeValue
from trees.store.writer import Writer

__all__ = ["opens"]
LARGE = "x" * 100
"""A value of several pieces, where a piece is small."""


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_values, "PIECE", 20)


def added(stream: str, number: int, value: Any = None, lane: str | None = None) -> Change:
    record = queued(stream, number) if value is None else succeeded(stream, value)
    return Change(ChangeKind.ADDED, stream, number=number, record=record, lane=stream if lane is None else lane)


def breaker(number: int) -> Change:
    return Change(ChangeKind.REPLACED, "@breaker:p/w", number=number, owner=OWNER, record=counted(number))


# -- the lanes by themselves ---------------------------------------------------------------------------------


class Model:
    """Lanes whose changes are written by hand, and a list of what must come of that."""

    def __init__(self, seed: int) -> None:
        self.random, self.lanes = Random(seed), Lanes()  # noqa: S311 - a course of events that can be had again
        self.put: list[Change] = []
        self.large: set[int] = set()
        self.written: list[Change] = []
        self.waits: list[tuple[Reply, list[Change]]] = []
        self.told: list[Reply] = []

    def add(self) -> None:
        lane = self.random.choice(["a", "b", "c", ""])
        change = added(lane or "@breaker", len(self.put), lane=lane)
        self.lanes.put(change)
        self.put.append(change)
        if lane and self.random.random() < 0.3:
            self.large.add(change.place)

    def wait(self) -> None:
        chosen = self.random.choice([None, {"a"}, {"b", "c"}, {""}])
        wanted = [each for each in self.put if chosen is None or each.lane in chosen]
        reply = self.lanes.flush(chosen)
        if reply is None:
            assert set(map(id, wanted)) <= set(map(id, self.written))
        else:
            self.waits.append((reply, wanted))

    def write(self) -> None:
        batch = Batch("p", (), self.lanes.held())
        changes = self.lanes.take(self.random.randint(1, 6), again=False)
        for change in changes:  # as Batch.fill does
            batch.size += 1
            if batch._must_wait(change):
                batch.put_off.append(change)
            elif change.place in self.large:
                batch._held[change.lane] = change.place
                batch.put_off.append(change)
            else:
                self.written.append(change)
        self.lanes.remove(batch.size, batch.put_off)
        while (reply := self.lanes.next_told()) is not None:
            self.told.append(reply)
        self.check()

    def release(self) -> None:
        change = self.lanes.first_large()
        if change is not None:
            self.large.discard(change.place)
            self.lanes.release(change.lane)

    def check(self) -> None:
        done = {each.place for each in self.written}
        for reply, wanted in self.waits:
            assert (reply in self.told) == ({each.place for each in wanted} <= done)
        for lane in ("a", "b", "c", ""):
            places = [each.place for each in self.written if each.lane == lane]
            assert places == [each.place for each in self.put if each.lane == lane][: len(places)]
        for at, change in enumerate(self.written):
            if not change.lane:  # all that came before it was written before it
                assert {each.place for each in self.written[:at]} >= set(range(1, change.place))


@pytest.mark.parametrize("seed", range(200))
def test_any_course_of_events_keeps_the_order_of_each_lane_and_tells_who_waits_once_it_is_true(seed: int) -> None:
    model = Model(seed)
    acts = [model.add, model.add, model.wait, model.write, model.release]
    for _ in range(80):
        model.random.choice(acts)()
    while len(model.lanes):
        model.write()
        model.release()
    model.write()

    assert len(model.written) == len(model.put)
    assert all(reply in model.told for reply, _ in model.waits)
    assert len(set(map(id, model.told))) == len(model.told)
    assert model.lanes.flush(None) is None
    assert (model.lanes._newest, model.lanes._behind) == ({}, {})


@pytest.mark.parametrize("lanes", [None, {"a"}, {"a", "b"}])
def test_who_waits_when_it_ends_is_found_wherever_the_change_is(lanes: set[str] | None) -> None:
    known = Lanes()
    for change in (added("a", 1), added("b", 2)):
        known.put(change)
    batch = [known.flush(lanes)]
    known.remove(1, known.take(1, again=False))  # put off
    batch.append(known.flush(lanes))
    known.remove(1, [])  # written, and nobody was told
    batch.append(known.flush(lanes))

    assert {id(reply) for reply in batch if reply is not None} == {id(reply) for reply in known.clear()}


# -- the writer ----------------------------------------------------------------------------------------------


class Session:
    """Writes down what it is given, and stops before each piece until it is let."""

    def __init__(self) -> None:
        self.in_doubt = False
        self.reserved: set[str] = set()
        self.log: list[str] = []
        self.faults: list[BaseException] = []
        self.at_piece, self.go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.reserved_then: list[bool] = []

    def write(self, batch: Batch) -> None:
        self.log += [f"{stream} {number}" for stream, number in batch._records]
        self.log += [f"end {stream}" for stream in batch.ends]
        self.log += [f"gone {batch.removed}"] if batch.removed is not None else []

    def write_piece(self, digest: str, number: int, body: str) -> None:
        self.at_piece.release()
        assert self.go_on.acquire(timeout=PATIENCE_S)
        if self.faults:
            raise self.faults.pop(0)
        self.reserved_then.append(digest in self.reserved)
        self.log.append(f"piece {number} {len(body)}")

    def close(self) -> None:
        pass


class Owner(Heard):
    def __init__(self) -> None:
        super().__init__()
        self.unwritten: list[tuple[str, str]] = []

    def kept(self, batch: Batch) -> None:
        pass

    def unwritable(self, change: Change, error: Exception) -> None:
        self.unwritten.append((change.stream, type(error).__name__))

    def spare_time(self, *, idle: bool) -> None:
        pass


class Scene:
    def __init__(self) -> None:
        self.session, self.owner = Session(), Owner()
        self.writer = Writer(self.session, "p", "fake", self.owner)  # type: ignore[arg-type]

    def put(self, *changes: Change) -> None:
        for change in changes:
            self.writer.put(change)

    def flushed(self, *lanes: str) -> Reply:
        reply = self.writer.flush(lanes or None)
        assert reply is not None
        return reply

    def keep(self, *lanes: str) -> None:
        reply = self.writer.flush(lanes or None)
        if reply is not None:
            reply.get(timeout=PATIENCE_S)

    def let(self, pieces: int = 1) -> None:
        for _ in range(pieces):
            self.session.go_on.release()

    def at_piece(self) -> None:
        assert self.session.at_piece.acquire(timeout=PATIENCE_S)


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    made.writer.start()
    yield made
    made.let(1000)
    made.writer.close()


PIECES = ["piece 0 20", "piece 1 20", "piece 2 20", "piece 3 20", "piece 4 20", "piece 5 2"]


def test_what_is_small_is_written_between_the_pieces_of_what_is_large(scene: Scene) -> None:
    scene.put(added("big", 1, LARGE))
    big = scene.flushed("big")
    scene.at_piece()
    for number in (1, 2):
        scene.put(added("small", number))
        small = scene.flushed("small")
        scene.let()
        small.get(timeout=PATIENCE_S)
        assert not big.done
        scene.at_piece()
    scene.let(10)
    big.get(timeout=PATIENCE_S)

    assert [each for each in scene.session.log if each.startswith("piece")] == PIECES
    assert scene.session.log.index("small 1") < scene.session.log.index("piece 1 20")
    assert scene.session.log.index("small 2") < scene.session.log.index("piece 2 20")
    assert scene.session.log[-1] == "big 1"
    assert all(scene.session.reserved_then)
    assert scene.session.reserved == set()


@pytest.mark.parametrize(
    ("after", "overtakes"),
    [
        (added("small", 1), True),
        (added("big", 2), False),
        (added("big@s:1.1", 1, lane="big"), False),
        (Change(ChangeKind.CREATED, "big@s:1.1", owner=OWNER, record=submitted("big@s:1.1"), lane="big"), False),
        (Change(ChangeKind.FINISHED, "big", record=queued("big"), lane="big"), False),
        (Change(ChangeKind.REMOVED, "big", lane="big"), False),
        (Change(ChangeKind.REMOVED, "small", lane="small"), True),
        (breaker(0), False),
    ],
    ids=[
        "another task",
        "its next record",
        "its part",
        "its part begins",
        "its end",
        "gone",
        "another gone",
        "breaker",
    ],
)
def test_what_may_overtake_a_large_value(scene: Scene, after: Change, *, overtakes: bool) -> None:
    scene.put(added("big", 1, LARGE))
    scene.flushed()
    scene.at_piece()
    scene.put(after)
    others = scene.flushed(after.lane)
    scene.put(added("other", 1))
    scene.let()
    scene.keep("other")

    assert others.done == overtakes
    scene.let(10)
    scene.keep()
    settled(scene.writer)
    first, second = scene.session.log.index(PIECES[-1]), scene.session.log.index(_named(after))
    assert (second < first) == overtakes


def _named(change: Change) -> str:
    known = {ChangeKind.FINISHED: "end ", ChangeKind.REMOVED: "gone "}
    return f"{known[change.what]}{change.stream}" if change.what in known else f"{change.stream} {_number(change)}"


def _number(change: Change) -> int:
    return change.number if change.what is ChangeKind.ADDED else 0


def test_large_values_are_written_one_after_the_other_the_oldest_first(scene: Scene) -> None:
    scene.put(added("a", 1, LARGE), added("b", 1, LARGE), added("a", 2, LARGE), added("b", 2), breaker(1))
    scene.let(100)
    scene.keep()

    order = [each for each in scene.session.log if not each.startswith("piece")]
    assert order.index("a 1") < order.index("a 2") < order.index("@breaker:p/w 0")
    assert order.index("b 1") < order.index("b 2") < order.index("@breaker:p/w 0")
    assert [each for each in scene.session.log if each.startswith("piece")] == PIECES * 3


def test_a_piece_that_cannot_be_written_now_is_written_again_and_none_twice(scene: Scene) -> None:
    scene.session.faults = [StoreError("fake", "is broken")] * 2
    scene.put(added("big", 1, LARGE), added("small", 1))
    scene.let(100)
    scene.keep()

    assert [each for each in scene.session.log if each.startswith("piece")] == PIECES
    scene.owner.wait_for(StorePaused)
    scene.owner.wait_for(StoreResumed)


class Half:
    """Nothing that JSON can be made of."""


@pytest.mark.parametrize(
    ("value", "faults", "why"),
    [
        ([LARGE, LARGE, Half()], [], "TypeError"),
        (LARGE, [UnwritableError("fake", "never")], "UnwritableError"),
    ],
    ids=["no text in its last piece", "a piece that is too large"],
)
def test_a_large_value_that_never_can_be_written_ends_its_own_journal_and_the_rest_goes_on(
    scene: Scene, value: Any, faults: list[BaseException], why: str
) -> None:
    scene.session.faults = faults
    scene.put(added("big", 1, value), added("big", 2), added("big@s:1.1", 1, lane="big"), added("small", 1))
    scene.let(100)
    scene.keep()

    assert scene.owner.unwritten == [("big", why)]
    assert {"big 1", "big 2"}.isdisjoint(scene.session.log)
    assert {"big@s:1.1 1", "small 1"} <= set(scene.session.log)


def test_who_has_lost_its_root_writes_no_further_piece_and_everybody_hears_that(scene: Scene) -> None:
    scene.session.faults = [LeaseLostError("fake", "p", "somebody")]
    scene.put(added("big", 1, LARGE), added("big", 2))
    waits = [scene.flushed("big"), scene.flushed()]
    scene.let(1)

    for reply in waits:
        with pytest.raises(LeaseLostError):
            reply.get(timeout=PATIENCE_S)
    scene.owner.wait(lambda: bool(scene.owner.losses))


def test_its_end_writes_large_values_too(scene: Scene) -> None:
    scene.put(added("big", 1, LARGE), added("big", 2), breaker(1))
    scene.let(100)
    scene.writer.close()

    assert scene.session.log[-3:] == ["big 1", "big 2", "@breaker:p/w 0"]


def test_what_waits_behind_a_large_value_can_be_taken_back_and_what_is_under_way_cannot(scene: Scene) -> None:
    def begun(name: str) -> Change:
        return Change(
            ChangeKind.CREATED, name, number=1, owner=OWNER, record=submitted(name, inputs={"x": LARGE}), lane=name
        )

    scene.put(added("big", 1, LARGE), begun("second"), begun("third"))
    scene.flushed()
    scene.at_piece()
    assert scene.writer.withdraw("third")
    assert not scene.writer.withdraw("third")
    scene.let(5)
    for _ in range(5):  # the other pieces of the first
        scene.at_piece()
    scene.let(1)
    scene.at_piece()  # the first of the second
    assert not scene.writer.withdraw("second")
    scene.let(100)
    scene.keep()

    assert "second 0" in scene.session.log
    assert "third 0" not in scene.session.log


def test_a_value_that_somebody_changes_while_it_is_made_text_is_begun_anew(scene: Scene) -> None:
    value: dict[str, Any] = {f"k{n}": "x" * 10 for n in range(4)}
    change, grown = added("big", 1, value), list[int]()
    make = change.make_more

    def changing() -> bool:
        if not grown:
            grown.append(1)
            value["more"] = 1  # its own iterator has begun
        return make()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Change, "make_more", lambda _: changing())
        scene.put(change)
        scene.let(100)
        scene.keep()

    assert scene.owner.unwritten == []
    assert scene.session.log[-1] == "big 1"


# -- databases -----------------------------------------------------------------------------------------------


def test_large_values_of_many_tasks_are_read_as_they_were_written(opens: Opens) -> None:
    store = opens()
    for name in "abc":
        store.create(name, OWNER, submitted(name))
        store.append(name, succeeded(name, [name * 500, *"xyz"]))
        store.append(name, queued(name))
        store.create(f"{name}@s:1.1", OWNER, submitted(f"{name}@s:1.1"))
    store.replace("@breaker:p/w", OWNER, counted(1))
    kept(store)
    store.close()

    after = opens()
    for name in "abc":
        assert list(after.read(name)) == [submitted(name), succeeded(name, [name * 500, *"xyz"]), queued(name)]
    assert list(after.read("@breaker:p/w")) == [counted(1)]


@pytest.mark.parametrize("how", ["removed", "pruned"])
def test_a_value_whose_twin_goes_while_its_pieces_are_written_keeps_them(
    opens: Opens, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opens()
    for name in ("old", "new"):
        store.create(name, OWNER, submitted(name))
    store.append("old", succeeded("old", LARGE * 5))
    store.finish("old")
    settled(store)
    session, write, gone = store._session, store._session.write_piece, list[str]()

    def stopping(digest: str, number: int, body: str) -> None:
        write(digest, number, body)
        if number == 2 and not gone:
            gone.append(how)
            _take_away(store, how)

    monkeypatch.setattr(session, "write_piece", stopping)
    store.append("new", succeeded("new", LARGE * 5))
    kept(store)
    settled(store)
    store.close()

    after = opens()
    assert gone == [how]
    assert after.standing("old") is None
    assert list(after.read("new"))[-1] == succeeded("new", LARGE * 5)


def _take_away(store: SqlStore, how: str) -> None:
    """In the writer's own thread: between two of its steps."""
    if how == "removed":
        store.remove("old")
    else:
        store._session.prune(["old"])
        with store._lock.looking:
            store._index.forget(["old"])


def test_a_store_tells_of_each_task_by_itself(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    store, go_on = opens(), threading.Event()
    for name in ("big", "small"):
        store.create(name, OWNER, submitted(name))
    settled(store)
    write = LargeValue.write

    def slow(value: LargeValue, session: Any) -> bool:
        return write(value, session) if go_on.is_set() else True

    monkeypatch.setattr(LargeValue, "write", slow)
    store.append("big", succeeded("big", LARGE))
    store.create("big@s:1.1", OWNER, submitted("big@s:1.1"))
    replies = {name: store.flush_streams({name}) for name in ("big", "big@s:1.1")}
    everything = store.flush()
    store.append("small", queued("small"))
    while (small := store.flush_streams({"small"})) is not None:
        small.get(timeout=PATIENCE_S)

    assert all(reply is not None and not reply.done for reply in [*replies.values(), everything])
    go_on.set()
    for reply in [*replies.values(), everything]:
        assert reply is not None
        reply.get(timeout=PATIENCE_S)
