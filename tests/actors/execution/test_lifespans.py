"""A worker can own a resource: its lifespan is entered and left in one task or thread, at every end of the worker."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import random
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from time import monotonic
from typing import Any

import pytest

import actors
from actors import (
    ChildExited,
    ChildStopAbnormal,
    ConfigError,
    Ignore,
    InternalError,
    StartError,
    Worker,
)
from tests.actors.execution.owning import PLACES, Books, async_lifespan, here, owner, sync_lifespan
from tests.support.hardening import LONG_S, Gate, Witness, crash, eventually, tree_of, worker
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

EVERYWHERE = pytest.mark.parametrize("place", PLACES)
MAY_HANG = [place for place in PLACES if place != "loop, sync lifespan"]
"""Where a lifespan that hangs holds up nobody else."""
ON_A_LOOP = [place for place in PLACES if place.startswith("loop")]
HAS_A_TASK = [place for place in PLACES if place != "thread"]
"""Where a lifespan may hold a scope of asyncio's."""


def fail() -> None:
    raise OSError("no such resource")


async def hang() -> None:
    await asyncio.Event().wait()


# -- what it is ---------------------------------------------------------------------------------------------


@EVERYWHERE
def test_a_worker_can_own_a_resource_that_is_entered_and_left_in_one_task_or_thread(place: str) -> None:
    books = Books()
    with tree_of(owner(place, books)) as tree:
        for _ in range(3):
            assert tree.ref("t/w").ask(actors.resource) == "the resource"
            tree.ref("t/w").ask(lambda: books.note("handled"))
        assert books.lines == ["entered", "handled", "handled", "handled"]
    assert books.lines[-1] == "left"
    assert len(books.places_of("entered", "left")) == 1
    if place != "thread, async lifespan":  # that has a task of its own on the loop
        assert len(set(books.places)) == 1, "and so are all messages"


class OnLoop(Worker):
    def __init__(self, books: Books) -> None:
        self.books = books
        books.note("init")

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[str]:
        self.books.note("entered")
        yield "its own"
        self.books.note("left")

    async def on_start(self) -> None:
        self.books.note(f"on_start with {actors.resource()}")

    async def on_receive(self, message: Any) -> Any:
        self.books.note("message")
        if message == "boom":
            raise ValueError("boom")
        return actors.resource()

    async def on_stop(self) -> None:
        self.books.note(f"on_stop with {actors.resource()}")

    async def on_failure(self, *_: Any) -> None:
        self.books.note(f"on_failure with {actors.resource()}")


class OnThread(Worker):
    def __init__(self, books: Books) -> None:
        self.books = books
        books.note("init")

    @contextmanager
    def lifespan(self) -> Iterator[str]:
        self.books.note("entered")
        yield "its own"
        self.books.note("left")

    def on_start(self) -> None:
        self.books.note(f"on_start with {actors.resource()}")

    def on_receive(self, message: Any) -> Any:
        self.books.note("message")
        if message == "boom":
            raise ValueError("boom")
        return actors.resource()

    def on_stop(self) -> None:
        self.books.note(f"on_stop with {actors.resource()}")

    def on_failure(self, *_: Any) -> None:
        self.books.note(f"on_failure with {actors.resource()}")


@pytest.mark.parametrize("kind", [OnLoop, OnThread])
def test_a_method_lifespan_lies_around_on_start_and_on_stop_and_all_run_in_one_task_or_thread(kind: Any) -> None:
    books = Books()
    with tree_of(worker("w", kind, args=(books,))) as tree:
        assert tree.ref("t/w").ask(1) == "its own"
    expected = ["init", "entered", "on_start with its own", "message", "on_stop with its own", "left"]
    assert books.lines == expected
    assert len(set(books.places)) == 1


@pytest.mark.parametrize("kind", [OnLoop, OnThread])
def test_the_lifespan_of_the_spec_lies_around_the_object_and_its_own(kind: Any) -> None:
    inner, outer = Books(), Books()
    make = async_lifespan if kind is OnLoop else sync_lifespan
    order = inner.lines
    outer.lines = order  # type: ignore[assignment]
    with tree_of(WorkerSpec(id="w", actor=kind, args=(inner,), lifespan=make(outer))) as tree:
        assert tree.ref("t/w").ask(1) == "its own"
    assert order[:3] == ["entered", "init", "entered"]
    assert order[-3:] == ["on_stop with its own", "left", "left"]


@pytest.mark.skipif(importlib.util.find_spec("anyio") is None, reason="anyio is not installed")
def test_a_task_group_of_anyio_is_held_open_by_hooks_and_its_failure_ends_the_worker() -> None:
    anyio: Any = importlib.import_module("anyio")
    stopped = threading.Event()

    class Holder(Worker):
        async def on_start(self) -> None:
            self.group = anyio.create_task_group()
            await self.group.__aenter__()

        async def on_receive(self, message: Any) -> Any:
            self.group.start_soon(anyio.sleep, 0 if message == "short" else 1000)
            return message

        async def on_stop(self) -> None:
            self.group.cancel_scope.cancel()
            await self.group.__aexit__(None, None, None)
            stopped.set()

    with tree_of(worker("w", Holder)) as tree:
        seen = Witness(tree)
        assert tree.ref("t/w").ask("short") == "short"
        assert tree.ref("t/w").ask("long") == "long"
    assert stopped.is_set()
    assert seen.of(ChildStopAbnormal) == []


def test_a_connection_that_belongs_to_its_thread_may_be_opened_and_used() -> None:
    @contextmanager
    def connected() -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(":memory:")
        try:
            yield connection
        finally:
            connection.close()

    def add(message: int) -> int:
        connection = actors.resource()
        connection.execute("create table if not exists n (n)")
        connection.execute("insert into n values (?)", (message,))
        return int(connection.execute("select sum(n) from n").fetchone()[0])

    with tree_of(WorkerSpec(id="w", handle=add, lifespan=connected)) as tree:
        assert [tree.ref("t/w").ask(n) for n in (1, 2, 3)] == [1, 3, 6]


@EVERYWHERE
def test_each_member_of_a_pool_owns_one(place: str) -> None:
    books = Books()
    with tree_of(owner(place, books, pool=3)):
        assert books.lines == ["entered"] * 3
    assert books.lines == ["entered"] * 3 + ["left"] * 3
    assert len(books.places_of("entered")) == 3


def test_a_body_and_an_executable_own_one_too() -> None:
    books = Books()

    async def body() -> None:
        books.note(f"body with {actors.resource()}")

    with tree_of(WorkerSpec(id="w", run=body, lifespan=async_lifespan(books), restart="temporary")) as tree:
        books.wait("left")
        eventually(lambda: not tree.which_children("t"), "the end of the body")
    assert books.lines == ["entered", "body with the resource", "left"]

    works = WorkerSpec(id="a", execute=lambda *_: actors.resource(), lifespan=sync_lifespan(books))
    spec = SupervisorSpec(id="r", tasks=Tasks(planner=StaticPlan([Subtask("a")])), children=[works])
    with start(spec) as tree:
        assert tree.run(Task("x")).results == {"a": "the resource"}


def iter_once(value: str) -> Iterator[str]:
    yield value


async def coroutine() -> None:
    """No context manager: it has no yield."""


def made_of_coroutine() -> Any:
    """A factory of which nobody can tell before it is called."""
    return coroutine()


@pytest.mark.parametrize(
    ("lifespan", "says"),
    [
        (3, "expected a factory"),
        ("no_such_module:x", "not found"),
        (lambda app: None, "without arguments"),
        (coroutine, "got a coroutine"),
        (int, "expected a context manager"),
        (contextmanager(iter_once)("made"), "expected a factory"),
    ],
)
def test_what_can_be_known_of_a_wrong_lifespan_is_a_problem_of_the_declaration(lifespan: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught, tree_of(WorkerSpec(id="w", handle=crash, lifespan=lifespan)):
        pass
    assert caught.value.problems[0].path.endswith("w.lifespan")


@EVERYWHERE
@pytest.mark.parametrize("made", [3, "coroutine"])
def test_what_is_no_context_manager_is_a_failed_start(place: str, made: Any) -> None:
    handle, _ = PLACES[place]
    factory = made_of_coroutine if made == "coroutine" else (lambda: made)
    with (
        pytest.raises(StartError, match="t/w") as caught,
        tree_of(WorkerSpec(id="w", handle=handle, lifespan=factory)),
    ):
        pass
    assert "expected a context manager" in str(caught.value.__cause__)


# -- how each end leaves it ---------------------------------------------------------------------------------


@EVERYWHERE
def test_a_crash_leaves_it_with_the_error_and_the_next_incarnation_begins_after_that(place: str) -> None:
    books = Books()
    with tree_of(owner(place, books)) as tree:
        with pytest.raises(ValueError, match="boom"):
            tree.ref("t/w").ask(crash)
        assert tree.ref("t/w").ask(actors.resource) == "the resource"
        assert books.lines == ["entered", "left with ValueError", "entered"]
        assert tree.child("t/w").incarnation == 2


@EVERYWHERE
def test_a_resource_that_cannot_be_entered_is_a_failed_start_and_nothing_is_left(place: str) -> None:
    books = Books()
    with pytest.raises(StartError) as caught, tree_of(owner(place, books, lifespan={"entering": fail})):
        pass
    assert isinstance(caught.value.__cause__, OSError)
    assert books.lines == []


@EVERYWHERE
def test_a_failed_entry_of_a_restart_counts_and_is_tried_again(place: str) -> None:
    books, times = Books(), iter(range(100))

    def entering() -> None:
        if next(times) in {1, 2}:
            fail()

    with tree_of(owner(place, books, lifespan={"entering": entering})) as tree:
        with suppress(ValueError):
            tree.ref("t/w").ask(crash)
        assert tree.ref("t/w").ask(actors.resource) == "the resource"
        seen = [each.reason for each in Witness(tree).of(ChildExited)]
        assert seen == []
    assert books.lines == ["entered", "left with ValueError", "entered", "left"]
    assert next(times) == 4


class FailsToStart(Worker):
    def __init__(self, how: BaseException) -> None:
        self.how = how

    async def on_start(self) -> None:
        raise self.how


@pytest.mark.parametrize("how", [OSError("no"), Ignore()])
def test_a_start_that_fails_later_leaves_what_was_entered(how: BaseException) -> None:
    books = Books()
    spec = WorkerSpec(id="w", actor=FailsToStart, args=(how,), lifespan=async_lifespan(books))
    with suppress(StartError), tree_of(spec):
        assert isinstance(how, Ignore)
    assert books.lines == ["entered", "left with OSError" if isinstance(how, OSError) else "left"]


@EVERYWHERE
def test_what_it_raises_when_it_is_left_in_order_is_an_abnormal_stop(place: str) -> None:
    books = Books()
    with tree_of(owner(place, books, lifespan={"leaving": fail})) as tree:
        seen = Witness(tree)
        tree.terminate_child("t/w")
        (exited,) = seen.of(ChildExited, path="t/w")
        assert (exited.reason, type(exited.error), exited.detail) == ("crashed", OSError, "lifespan raised")
        assert len(seen.of(ChildStopAbnormal, path="t/w")) == 1
        assert seen.of(InternalError) == []


@pytest.mark.parametrize("place", MAY_HANG)
def test_a_stop_that_leaves_nothing_in_time_is_a_kill(place: str) -> None:
    books, gate = Books(), Gate()
    is_async = "async" in place or place == "loop"
    leaving = hang if is_async else gate
    with tree_of(owner(place, books, shutdown=0.05, lifespan={"leaving": leaving})) as tree:
        seen = Witness(tree)
        began = monotonic()
        tree.terminate_child("t/w")
        assert monotonic() - began < LONG_S / 2
        assert seen.wait(ChildExited, path="t/w").reason == "killed"
        gate.open.set()
        eventually(lambda: not tree.snapshot().abandoned, "the end of the thread")


@pytest.mark.parametrize("place", MAY_HANG)
def test_a_start_that_does_not_enter_in_time_is_a_failed_start(place: str) -> None:
    books, gate = Books(), Gate()
    entering = hang if place != "thread" else gate
    spec = owner(place, books, start_timeout_s=1.0, lifespan={"entering": entering})
    with pytest.raises(StartError, match=r"did not start within 1 s"), tree_of(spec):
        pass
    gate.open.set()
    if place == "thread":
        books.wait("left with ActorStoppedError")
        assert books.lines == ["entered", "left with ActorStoppedError"], "the thread that comes back leaves it"
    else:
        assert books.lines == []


@pytest.mark.parametrize("place", HAS_A_TASK)
def test_a_scope_that_is_cancelled_ends_the_worker_with_the_error_of_its_lifespan(place: str) -> None:
    """The child of a task group fails: its host task is cancelled wherever it stands, and the worker may be idle."""
    books, loops = Books(), list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()

    async def child() -> None:
        loops.append((asyncio.get_running_loop(), go := asyncio.Event()))
        await go.wait()
        raise LookupError("the child of the group")

    @asynccontextmanager
    async def grouped() -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            books.note("entered")
            yield

    handle, _ = PLACES[place]
    with tree_of(WorkerSpec(id="w", handle=handle, lifespan=grouped, restart="temporary")) as tree:
        seen = Witness(tree)
        tree.ref("t/w").ask(1)
        eventually(lambda: bool(loops), "the child of the group")
        loop, go = loops[0]
        loop.call_soon_threadsafe(go.set)
        exited = seen.wait(ChildExited, path="t/w")
        assert exited.reason == "crashed"
        assert isinstance(exited.error, ExceptionGroup)
        assert isinstance(exited.error.exceptions[0], LookupError)
        assert seen.of(InternalError) == []


# -- the task in which a worker on the loop lives -----------------------------------------------------------


@pytest.mark.slow
@EVERYWHERE
@pytest.mark.parametrize("seed", range(2))
def test_in_a_storm_of_crashes_kills_and_stops_it_is_open_once_at_a_time_and_left_as_often_as_entered(
    place: str, seed: int
) -> None:
    books, chance = Books(), random.Random(seed)  # noqa: S311 - for the order of a test
    # A thread that is killed in the middle of something is abandoned, and may overlap with its successor.
    brutal = seed % 2 == 1 and place in ON_A_LOOP
    with tree_of(owner(place, books, shutdown="brutal_kill" if brutal else LONG_S)) as tree:
        ref = tree.ref("t/w")
        for _ in range(150):
            match chance.randrange(5):
                case 0:
                    ref.tell(crash)
                    with suppress(ValueError, actors.ActorsError):
                        ref.ask(crash)
                case 1:
                    ref.stop(block=False)
                case 2:
                    with suppress(actors.ActorsError):
                        tree.terminate_child("t/w")
                        tree.restart_child("t/w")
                case _:
                    ref.tell(here)
        assert eventually(lambda: ref.is_alive() and ref.ask(actors.resource, timeout=LONG_S)) == "the resource"
    steps = ["in" if line == "entered" else "out" for line in books.lines]
    assert steps == ["in", "out"] * (len(steps) // 2)
    assert len(steps) > 60, "it was a storm"
