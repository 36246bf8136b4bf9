"""Ctrl-C, or the SIGTERM of ``regrow run``, at any moment of a start: it ends, and nothing of it is left."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from actors import Reply, Worker
from actors.execution.timers import Timers
from actors.runtime.system import System
from actors.supervision.supervisor_incarnation import SupervisorIncarnation
from actors.tasks.journal.store import Store
from tests.support.hardening import LONG_S, Gate
from trees import SupervisorSpec, WorkerSpec, start, start_async
from trees.host import start as start_module

SPEC = SupervisorSpec(id="shop", children=[WorkerSpec(id="w", handle=str)])


@pytest.fixture(autouse=True)
def _ctrl_c() -> Iterator[None]:
    """SIGINT is a KeyboardInterrupt of the main thread; a test that hangs fails."""

    def hangs(*_: object) -> None:
        raise AssertionError("the start does not end")

    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, LONG_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGALRM, before[1])


def press() -> None:
    """Press Ctrl-C: the main thread is interrupted, wherever it is."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


@contextmanager
def pressed_in(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool = False) -> Iterator[list[str]]:
    """Have Ctrl-C pressed at a call, the first time; gives the names of the calls that were made."""
    real, made = getattr(owner, name), list[str]()

    def call(*args: Any, **words: Any) -> Any:
        made.append(name)
        if not after and len(made) == 1:
            press()
        found = real(*args, **words)
        if after and len(made) == 1:
            press()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, call)
        yield made


MOMENTS: dict[str, tuple[Any, str, bool]] = {
    "before it begins": (System, "start", False),
    "when half of it has begun": (Timers, "open", True),
    "before its root is woken": (SupervisorIncarnation, "start", False),
    "once it has begun": (System, "start", True),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_start_that_is_interrupted_ends_and_leaves_nothing_behind(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, after = MOMENTS[moment]
    with pressed_in(monkeypatch, owner, name, after=after) as made, pytest.raises(KeyboardInterrupt):
        start(SPEC)
    assert made
    with start(SPEC) as tree:
        assert tree.ref("shop/w").ask(7, timeout=LONG_S) == "7"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_start_that_is_interrupted_while_its_store_opens_leaves_that_free(number: int, tmp_path: Path) -> None:
    """A connection that is interrupted between a statement and what comes of it keeps the database locked."""
    url, made = f"sqlite:///{tmp_path}/shop.db", list[object]()
    start(SPEC, store=url).stop()  # from now on it is opened, and not made

    def press_once(*_: object) -> None:
        made.append(None)
        if len(made) == number:
            press()

    event.listen(Engine, "after_cursor_execute", press_once)
    try:
        with pytest.raises(KeyboardInterrupt):
            start(SPEC, store=url)
    finally:
        event.remove(Engine, "after_cursor_execute", press_once)
    with start(SPEC, store=url) as tree:
        assert tree.ref("shop/w").ask(7, timeout=LONG_S) == "7"


def end_of_next_tree(monkeypatch: pytest.MonkeyPatch) -> Reply:
    """Completed when the tree that is started next has ended: whoever starts it in vain has no handle to wait for."""
    ended = Reply()

    def build(*args: Any, **words: Any) -> System:
        system = System(*args, **words)
        system.ended.when_done(ended.complete)
        return system

    monkeypatch.setattr(start_module, "System", build)
    return ended


def test_a_start_that_is_interrupted_does_not_wait_long_for_a_store_which_is_closed_when_it_has_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, real, gate = f"sqlite:///{tmp_path}/shop.db", start_module.open_store, Gate()

    def slow(*args: Any, **words: Any) -> Store:
        press()
        gate()
        return real(*args, **words)

    with monkeypatch.context() as patched:
        patched.setattr(start_module, "OPEN_S", 0.0)
        patched.setattr(start_module, "open_store", slow)
        ended = end_of_next_tree(patched)
        with pytest.raises(KeyboardInterrupt):
            start(SPEC, store=url)
        assert not ended.done
        gate.open.set()
        assert ended.wait(LONG_S)
    with start(SPEC, store=url) as tree:
        assert tree.ref("shop/w").ask(7, timeout=LONG_S) == "7"


def test_a_start_that_is_interrupted_before_its_thread_runs_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the other order: who undoes it is first."""
    waiting: list[Callable[[], object]] = []

    def later(_: str, function: Callable[[], object]) -> None:
        waiting.append(function)
        raise KeyboardInterrupt

    begun: list[System] = []

    def begin(system: System) -> Reply:
        begun.append(system)
        return system.started

    with monkeypatch.context() as patched:
        patched.setattr(start_module, "in_background", later)
        patched.setattr(System, "start", begin)
        with pytest.raises(KeyboardInterrupt):
            start(SPEC)
        for function in waiting:
            function()
    assert (len(waiting), begun) == (1, [])


STOPPING: dict[str, tuple[int, bool]] = {
    "once: it ends when what was up has ended": (1, True),
    "twice: nobody waits, and the stop goes on": (2, False),
}


@pytest.mark.parametrize("cancelled", STOPPING)
def test_an_async_start_that_is_cancelled_stops_what_is_up(cancelled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``asyncio.run`` cancels it at a Ctrl-C and ends the program, so whatever was not waited for is cut off."""
    starting, stopping, stopped, ended = asyncio.Event(), Gate(), threading.Event(), end_of_next_tree(monkeypatch)
    times, waits = STOPPING[cancelled]

    class First(Worker):
        def on_stop(self) -> None:
            stopping()
            stopped.set()

    async def main() -> None:
        loop = asyncio.get_running_loop()

        class Second(Worker):
            async def on_start(self) -> None:
                loop.call_soon_threadsafe(starting.set)
                await asyncio.Event().wait()

        second = WorkerSpec(id="b", actor=Second, shutdown=0.0)
        shop = SupervisorSpec(id="shop", children=[WorkerSpec(id="a", actor=First), second])

        async def begin() -> None:
            async with start_async(shop):
                raise AssertionError("it is not up")

        host = asyncio.create_task(begin())
        await starting.wait()
        host.cancel()
        await asyncio.to_thread(stopping.wait_reached)
        assert not host.done()  # its first worker is being stopped
        if times == 2:
            host.cancel()
        else:
            stopping.open.set()
        with pytest.raises(asyncio.CancelledError):
            await host
        assert stopped.is_set() is waits
        stopping.open.set()

    asyncio.run(main())
    assert stopped.wait(LONG_S)
    assert ended.wait(LONG_S)
