"""One turn of the loop of a tree: lives set off each other, and everybody else has a turn soon."""

import asyncio
import contextvars
import threading
from typing import Any

import pytest

import actors
from actors import Failed, Worker
from actors.execution.loop_scheduler import begin
from tests.support.hardening import LONG_S, eventually, tree_of, worker
from trees import WorkerSpec

ROUNDS = 300


class Turns:
    """Counts the turns of the loop that runs here."""

    def __init__(self) -> None:
        self.number = 0
        self._on = True
        asyncio.get_running_loop().call_soon(self._count)

    def _count(self) -> None:
        self.number += 1
        if self._on:
            asyncio.get_running_loop().call_soon(self._count)

    def end(self) -> int:
        self._on = False
        return self.number


async def echo(message: Any) -> Any:
    return message


def test_an_ask_between_two_async_workers_needs_no_turn_of_its_own() -> None:
    async def asks(_: Any) -> int:
        turns, target = Turns(), actors.ref("t/target")
        for number in range(ROUNDS):
            assert await target.ask_async(number, timeout=LONG_S) == number
        return turns.end()

    with tree_of(worker("target", echo), worker("asker", asks)) as tree:
        assert tree.ref("t/asker").ask(None, timeout=LONG_S) < ROUNDS


def test_lives_that_set_off_each_other_for_ever_leave_the_loop_to_others() -> None:
    stop = threading.Event()

    class Player(Worker):
        async def on_receive(self, other: str) -> None:
            if not stop.is_set():
                actors.ref(other).tell("t/a" if other == "t/b" else "t/b")

    class Sleeper(Worker):
        async def on_receive(self, _: Any) -> int:
            loop = asyncio.get_running_loop()
            for _round in range(20):
                await asyncio.sleep(0.001)  # a timer
                await loop.run_in_executor(None, int)  # an answer through the loop's pipe
            return ROUNDS

    with tree_of(
        WorkerSpec(id="a", actor=Player), WorkerSpec(id="b", actor=Player), WorkerSpec(id="sleeper", actor=Sleeper)
    ) as tree:
        try:
            tree.ref("t/a").tell("t/b")
            assert tree.ref("t/sleeper").ask(None, timeout=LONG_S) == ROUNDS
        finally:
            stop.set()


def test_a_life_that_always_has_more_leaves_the_loop_to_others_and_can_be_stopped() -> None:
    class Busy(Worker):
        async def on_receive(self, message: Any) -> None:
            actors.ref("t/busy").tell(message)

    with tree_of(WorkerSpec(id="busy", actor=Busy, restart="temporary"), worker("target", echo)) as tree:
        busy = tree.ref("t/busy")
        for number in range(10):
            busy.tell(number)
        assert tree.ref("t/target").ask("heard", timeout=LONG_S) == "heard"
        assert busy.stop(timeout=LONG_S)
        eventually(lambda: not busy.is_alive())


def test_the_first_line_of_a_handler_is_in_its_own_task_and_context() -> None:
    mine: contextvars.ContextVar[str] = contextvars.ContextVar("mine", default="")

    class Sees(Worker):
        async def on_receive(self, message: str) -> tuple[str, str]:
            task = asyncio.current_task()
            assert task is self._regrow_incarnation.task  # type: ignore[union-attr]
            before = mine.get()
            mine.set(message)
            async with asyncio.timeout(LONG_S):  # needs the task
                await asyncio.sleep(0)
            return before, task.get_name() if task is not None else ""

    with tree_of(WorkerSpec(id="a", actor=Sees), WorkerSpec(id="b", actor=Sees)) as tree:
        for before, path in (("", "t/a"), ("", "t/b"), ("set in t/a", "t/a"), ("set in t/b", "t/b")):
            assert tree.ref(path).ask(f"set in {path}", timeout=LONG_S) == (before, path)


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_a_finalizer_has_called_while_a_task_is_made_is_called(when: str, monkeypatch: Any) -> None:
    called: list[str] = []

    class Task(asyncio.Task[Any]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            loop = asyncio.get_running_loop()
            if when == "before":
                loop.call_soon(called.append, "foreign")
            super().__init__(*args, **kwargs)
            if when == "after":
                loop.call_soon(called.append, "foreign")

    async def coroutine() -> bool:
        called.append("own")
        return True

    def act() -> None:
        context = contextvars.copy_context()
        monkeypatch.setattr(asyncio, "Task", Task)
        task, step = begin(coroutine(), "name", context)
        monkeypatch.undo()
        assert called == []
        context.run(step)
        assert called == ["own"]
        assert task.done()
        assert task.result() is True

    async def main() -> None:
        acted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def between_two_tasks() -> None:
            try:
                act()
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                acted.set_exception(error)
            else:
                acted.set_result(None)

        asyncio.get_running_loop().call_soon(between_two_tasks)
        await acted
        await asyncio.sleep(0)
        assert called == ["own", "foreign"]

    asyncio.run(main())


class Held:
    """A worker on the loop that holds it until others have their messages."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    async def __call__(self, _: Any) -> None:
        self.reached.set()
        assert self.open.wait(LONG_S)


@pytest.mark.parametrize("kind", ["plain", "with a hook", "of requests that fail"])
def test_a_backlog_that_waits_for_nothing_leaves_the_loop_to_others(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages are short, and no block of the loop: only all of them together take long."""
    handled: list[Any] = []

    async def note(message: Any) -> None:
        handled.append(message)
        if kind == "of requests that fail":
            raise Failed("no")

    class Noting(Worker):
        async def on_start(self) -> None: ...

        async def on_receive(self, message: Any) -> None:
            handled.append(message)

    monkeypatch.setattr("actors.execution.crash_boundary.SLICE_S", -1.0)  # each message takes longer than a slice
    held, busy = Held(), WorkerSpec(id="busy", actor=Noting) if kind == "with a hook" else worker("busy", note)
    with tree_of(busy, worker("other", note), worker("held", held)) as tree:
        tree.ref("t/held").tell("hold")
        assert held.reached.wait(LONG_S)
        for number in range(5):
            tree.ref("t/busy").tell(number)
        tree.ref("t/other").tell("other")
        held.open.set()
        eventually(lambda: len(handled) == 6)
    assert handled == [0, "other", 1, 2, 3, 4]


def test_many_that_have_each_a_little_to_do_leave_the_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []

    async def note(message: Any) -> None:
        done.append(message)
        asyncio.get_running_loop().call_soon(done.append, "a turn")

    monkeypatch.setattr("actors.execution.loop_scheduler.SLICE_S", -1.0)
    monkeypatch.setattr("actors.execution.loop_scheduler.TURN_S", -1.0)
    held = Held()
    with tree_of(worker("held", held), *(worker(f"w{number}", note) for number in range(4))) as tree:
        tree.ref("t/held").tell("hold")
        assert held.reached.wait(LONG_S)
        for number in range(4):
            tree.ref(f"t/w{number}").tell(number)
        held.open.set()
        eventually(lambda: len(done) == 8)
    assert done == [0, "a turn", 1, "a turn", 2, "a turn", 3, "a turn"]
