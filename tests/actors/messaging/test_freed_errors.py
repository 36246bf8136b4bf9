"""An error that nobody keeps is freed at once: its traceback leads to no frame that leads back to it.

A cycle would keep it, with the values of all its frames, until the collector comes. It has to only where an ask was a
crash, from Python 3.12 on.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

import pytest

import actors
from actors import Worker
from tests.support.hardening import LONG_S, eventually, tree_of, worker
from trees import Tree


class KeptError(Exception):
    """An error of which it is known how many there are."""

    alive: ClassVar[weakref.WeakSet[KeptError]] = weakref.WeakSet()

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        KeptError.alive.add(self)


def fail(_: object) -> None:
    raise KeptError


async def fail_async(_: object) -> None:
    raise KeptError


def pass_on(path: str) -> Any:
    return actors.ref(path).ask("m", timeout=LONG_S)


async def pass_on_async(path: str) -> Any:
    return await actors.ref(path).ask_async("m", timeout=LONG_S)


class Failing(Worker):
    """A worker with methods that fail."""

    def act(self) -> None:
        raise KeptError

    async def act_async(self) -> None:
        raise KeptError


def asked(path: str, message: object = "m") -> Callable[[Tree], Any]:
    return lambda tree: tree.ref(path).ask(message, timeout=LONG_S)


EXPECTED = {"expected": (KeptError,)}
WORKERS = [
    worker("pool", fail, **EXPECTED),
    worker("loop", fail_async, **EXPECTED),
    worker("thread", fail, dispatch="thread", **EXPECTED),
    worker("crash", fail),
    worker("crash_loop", fail_async),
    worker("through", pass_on),
    worker("through_loop", pass_on_async),
    worker("methods", Failing, **EXPECTED),
]
HOW: dict[str, Callable[[Tree], Any]] = {
    "a failed request on the pool": asked("t/pool"),
    "on the loop": asked("t/loop"),
    "on a thread": asked("t/thread"),
    "by a reply": lambda tree: tree.ref("t/pool").ask("m", timeout=LONG_S, block=False).get(),
    "by a method": lambda tree: tree.ref("t/methods").proxy().act().get(),
    "by an async method": lambda tree: tree.ref("t/methods").proxy().act_async().get(),
    "a told one": lambda tree: tree.ref("t/pool").tell("m"),
    "a crash on the pool": asked("t/crash"),
    "a crash on the loop": asked("t/crash_loop"),
    "a crash by a tell": lambda tree: tree.ref("t/crash").tell("m"),
    "an error passed on": asked("t/through", "t/pool"),
    "one passed on by the loop": asked("t/through_loop", "t/loop"),
    "a crash passed on": asked("t/through", "t/crash"),
}


LATER = {how for how in HOW if "crash" in how} if sys.version_info >= (3, 12) else set[str]()
"""A crash's traceback also keeps the frames that called the handler's, and they keep what they were given."""


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("how", [each for each in HOW if each not in LATER])
def test_an_error_that_nobody_keeps_is_freed_without_the_collector(how: str) -> None:
    before = len(KeptError.alive)
    with tree_of(*WORKERS, max_restarts=10**6) as tree:
        for _ in range(5):
            with suppress(Exception):
                HOW[how](tree)

        eventually(lambda: len(KeptError.alive) == before, f"the end of {len(KeptError.alive) - before} errors")
