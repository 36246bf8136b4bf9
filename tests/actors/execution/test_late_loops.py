"""A loop that was given up and wakes begins nothing more, and lets nobody go on beside his successor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import actors
from actors import ChildRestarting
from tests.actors.execution.test_blocked_loops import Blocker, blocked
from tests.support.hardening import (
    LONG_S,
    Gate,
    eventually,
    obey_async,
    worker,
)


def asks(path: str, done: list[str]) -> Callable[[], Coroutine[Any, Any, None]]:
    """A message: ask a colleague, and note if that is over."""

    async def act() -> None:
        try:
            await actors.ref(path).ask_async(int, timeout=None)
            done.append("went on")
        finally:
            await asyncio.sleep(0)
            done.append("cleaned up")

    return act


def test_whoever_gets_his_answer_while_another_blocks_the_loop_does_not_go_on_with_it() -> None:
    """The block ends in the turn of the loop in which answers come down: before that all is cancelled."""
    blocker, answers, done = Blocker(), Gate(), list[str]()
    three = [worker("a", obey_async), worker("b", obey_async), worker("colleague", lambda _: answers())]
    with blocked(*three, blocker=blocker) as (tree, witness):
        tree.ref("t/a").tell(asks("t/colleague", done))
        answers.wait_reached()
        tree.ref("t/b").tell(blocker.once)
        blocker.wait_reached()
        answers.open.set()
        witness.wait(ChildRestarting, path="t/b")
        assert tree.ref("t/a").ask(lambda: 1, timeout=LONG_S) == 1
        assert tree.ref("t/colleague").ask("after the answer", timeout=LONG_S) == "through"
        assert done == []
        blocker.open.set()
        eventually(lambda: not blocker.thread.is_alive())
    assert done == ["cleaned up"]
