"""No call of the library holds up the event loop of a tree: each one that could block is refused there at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actors
from actors import BlockingAskError
from tests.support.hardening import LONG_S, obey_async, tree_of, worker


def test_it_says_what_to_write_and_is_a_failed_request_that_names_its_target() -> None:
    async def ask() -> Any:
        return tree.ref("t/b").ask("m")

    with tree_of(worker("a", obey_async), worker("b")) as tree:
        with pytest.raises(BlockingAskError, match=r"t/b: .* Write 'await ref.ask_async"):
            tree.ref("t/a").ask(ask)

        assert tree.child("t/a").incarnation == 1


def test_what_need_not_wait_is_not_refused() -> None:
    async def handle() -> Any:
        done = tree.ref("t/b").ask("m", block=False)
        await done
        return done.get(), done.get(timeout=0), tree.ref("t/b").stop(block=False) is not None, actors.stopping()

    with tree_of(worker("a", obey_async), worker("b", obey_async)) as tree:
        assert tree.ref("t/a").ask(handle, timeout=LONG_S) == ("m", "m", True, False)


def test_a_host_may_block_its_own_loop() -> None:
    async def host() -> Any:
        return tree.ref("t/a").ask("m"), tree.ref("t/a").ask("m", block=False).get(), tree.ref("t/a").stop()

    with tree_of(worker("a", obey_async)) as tree:
        assert asyncio.run(host()) == ("m", "m", True)


def test_a_thread_that_the_loop_waits_for_may_block() -> None:
    async def handle() -> Any:
        return await asyncio.to_thread(lambda: tree.ref("t/b").ask("m"))

    with tree_of(worker("a", obey_async), worker("b", obey_async)) as tree:
        assert tree.ref("t/a").ask(handle, timeout=LONG_S) == "m"
