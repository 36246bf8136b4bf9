"""One turn of the loop of a tree: lives set off each other, and everybody else has a turn soon."""

import asyncio
import contextvars
import threading
from typing import Any

import actors
from actors import Worker
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
