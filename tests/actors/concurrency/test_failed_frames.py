"""Which frames of a failed handler are cleared: those that can never run again, and no others (``failed_frames``)."""

import asyncio
import gc
import inspect
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from actors import Worker, ref
from actors.concurrency.failed_frames import clear_own
from tests.support.hardening import LONG_S, tree_of, worker


class Thing:
    """Something that a frame holds in a local variable."""


class Held:
    """The things that the frames of a test hold, by name."""

    def __init__(self) -> None:
        self.refs: dict[str, weakref.ref[Thing]] = {}

    def new(self, name: str) -> Thing:
        thing = Thing()
        self.refs[name] = weakref.ref(thing)
        return thing

    @property
    def alive(self) -> set[str]:
        gc.collect()
        return {name for name, ref in self.refs.items() if ref() is not None}


def plain(held: Held) -> None:
    local = held.new("plain")
    raise ValueError(local.__class__.__name__)


def through_builtin(held: Held) -> int:
    local = held.new("builtin")
    return sum(generator(held)) + hash(local)


def generator(held: Held) -> Iterator[int]:
    local = held.new("generator")
    yield 1
    plain(held)
    yield hash(local)


def delegating(held: Held) -> Generator[int, None, None]:
    local = held.new("delegating")
    yield from generator(held)  # type: ignore[misc]
    yield hash(local)


async def coroutine(held: Held) -> None:
    local = held.new("coroutine")
    await asyncio.sleep(0)
    plain(held)
    del local


async def nested(held: Held) -> None:
    local = held.new("nested")
    await coroutine(held)
    del local


async def async_generator(held: Held) -> AsyncIterator[int]:
    local = held.new("async_generator")
    yield 1
    await coroutine(held)
    yield hash(local)


async def over_async_generator(held: Held) -> None:
    local = held.new("over")
    async for _ in async_generator(held):
        pass
    del local


async def with_finally(held: Held) -> None:
    local = held.new("finally")
    try:
        await coroutine(held)
    finally:
        await asyncio.sleep(0)
        del local


async def cancelled(held: Held) -> None:
    local = held.new("cancelled")
    async with asyncio.timeout(0.01):
        await asyncio.sleep(60)
    del local


FAIL: list[Callable[[Held], Any]] = [
    plain,
    through_builtin,
    lambda held: list(delegating(held)),
    coroutine,
    nested,
    over_async_generator,
    with_finally,
    cancelled,
]


async def caught(call: Callable[[Held], Any], held: Held) -> BaseException:
    """Run as a worker runs a handler: the first entry of the traceback is this frame."""
    try:
        result = call(held)
        if inspect.iscoroutine(result):
            await result
    except BaseException as error:  # noqa: BLE001 - as the boundary does
        return error
    raise AssertionError


@pytest.mark.parametrize("call", FAIL)
def test_every_frame_that_a_failed_handler_ran_in_lets_go_of_its_locals(call: Callable[[Held], Any]) -> None:
    held = Held()
    error = asyncio.run(caught(call, held))
    while error.__cause__ is not None or error.__context__ is not None:  # as for the TimeoutError of a cancel
        clear_own(error.__traceback__)
        error.__traceback__ = None
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    assert held.refs
    clear_own(error.__traceback__)

    assert not held.alive


async def keeper(held: Held, waiter: asyncio.Future[None], log: list[str], go_on: asyncio.Event) -> None:
    """Catches an error, hands it to a waiter, and goes on."""
    local = held.new("keeper")
    try:
        await coroutine(held)
    except ValueError as error:
        waiter.set_exception(error)
        try:
            await go_on.wait()
        except BaseException as cut:
            log.append(repr(cut))
            raise
    log.append(f"went on with {type(local).__name__}")


def test_a_coroutine_that_is_suspended_with_the_error_in_hand_goes_on() -> None:
    async def main() -> tuple[list[str], set[str]]:
        held, log, go_on = Held(), [], asyncio.Event()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(keeper(held, waiter, log, go_on))

        async def waits(held: Held) -> None:
            local = held.new("waits")
            await waiter
            del local

        error = await caught(waits, held)
        clear_own(error.__traceback__)
        left = held.alive
        go_on.set()
        await task
        return log, left

    log, left = asyncio.run(main())

    assert log == ["went on with Thing"]
    assert "keeper" in left
    assert "waits" not in left


def test_a_generator_that_is_suspended_with_the_error_in_hand_goes_on() -> None:
    held = Held()
    errors: list[ValueError] = []

    def keeps() -> Iterator[str]:
        local = held.new("keeps")
        try:
            plain(held)
        except ValueError as error:
            errors.append(error)
            yield "caught"
        yield f"went on with {type(local).__name__}"

    suspended = keeps()
    assert next(suspended) == "caught"

    async def main() -> BaseException:
        def raises(_: Held) -> None:
            raise errors[0]

        return await caught(raises, held)

    clear_own(asyncio.run(main()).__traceback__)

    assert next(suspended) == "went on with Thing"


def test_a_coroutine_that_runs_is_left_alone() -> None:
    held, log = Held(), []

    async def runs() -> None:
        local = held.new("runs")
        try:
            await coroutine(held)
        except ValueError as error:
            clear_own(error.__traceback__)
            entry = error.__traceback__
            clear_own(type("Head", (), {"tb_next": entry})())  # as if its own frame were somebody else's
        log.append(type(local).__name__)

    asyncio.run(runs())

    assert log == ["Thing"]


# -- frames belong to whoever runs in them ------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["t/leaf", "t/middle"])
def test_frames_belong_to_whoever_runs_in_them_so_on_failure_of_a_crashed_worker_goes_on(asked: str) -> None:
    """Whoever asks for the other fails with the same error, and its frames are cleared while on_failure waits."""
    ended: list[str] = []

    class Leaf(Worker):
        async def on_receive(self, message: Any) -> Any:
            if message == "boom":
                raise ValueError("boom")
            return message

        async def on_failure(self, *_: Any) -> None:
            try:
                await asyncio.sleep(0.05)
            except BaseException as error:
                ended.append(repr(error))
                raise
            ended.append("cleaned up")

    async def middle(message: Any) -> Any:
        return await ref("t/leaf").ask_async(message)

    with tree_of(worker("leaf", Leaf), worker("middle", middle)) as tree:
        with pytest.raises(ValueError, match="boom"):
            tree.ref(asked).ask("boom")
        assert tree.ref("t/leaf").ask("hello", timeout=LONG_S) == "hello"
    assert ended == ["cleaned up"]


def test_frames_belong_to_whoever_runs_in_them_so_a_task_that_hands_its_error_over_by_a_future_goes_on() -> None:
    """As client libraries do: the connection is lost, all who wait are told, and the task connects again."""
    again, waiters, tasks = threading.Event(), list[asyncio.Future[None]](), list[asyncio.Task[None]]()

    def read() -> None:
        raise ConnectionError("lost")

    async def connection() -> None:
        try:
            read()
        except ConnectionError as error:
            for each in waiters:
                each.set_exception(error)
            await asyncio.sleep(0.05)
            again.set()

    async def use(_: Any) -> None:
        waiters.append(asyncio.get_running_loop().create_future())
        tasks.append(asyncio.create_task(connection()))
        await waiters[0]

    with tree_of(worker("use", use)) as tree:
        with pytest.raises(ConnectionError):
            tree.ref("t/use").ask(1)
        assert again.wait(LONG_S)
