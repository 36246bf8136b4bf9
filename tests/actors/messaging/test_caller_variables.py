"""Contextvars of the caller reach the handler of an ask, and end with it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

import actors
from actors import Worker
from tests.support.crew import LONG_S
from tests.support.setting import setting
from trees import SupervisorSpec, WorkerSpec, start

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST", default="none")


def seen(_: Any) -> str:
    return REQUEST.get()


async def seen_async(_: Any) -> str:
    await asyncio.sleep(0)
    return REQUEST.get()


class Seeing(Worker):
    def on_receive(self, _: Any) -> str:
        return REQUEST.get()

    def look(self) -> str:
        return REQUEST.get()


PLACES = {
    "pool": WorkerSpec(id="see", handle=seen),
    "loop": WorkerSpec(id="see", handle=seen_async),
    "thread": WorkerSpec(id="see", handle=seen, dispatch="thread"),
    "actor": WorkerSpec(id="see", actor=Seeing),
    "members": WorkerSpec(id="see", handle=seen, pool=2),
}


def tree_of(*workers: WorkerSpec) -> SupervisorSpec:
    return SupervisorSpec(id="r", children=workers)


@pytest.mark.parametrize("place", PLACES)
def test_contextvars_of_the_caller_reach_the_handler_of_an_ask_and_a_tell_carries_none(place: str) -> None:
    told: list[str] = []
    with start(tree_of(PLACES[place], WorkerSpec(id="hear", handle=lambda _: told.append(REQUEST.get())))) as tree:
        see = tree.ref("r/see")
        with setting(REQUEST, "mine"):
            assert see.ask(1) == "mine"
            assert see.ask(1, block=False).get(timeout=LONG_S) == "mine"
            tree.ref("r/hear").tell(1)
        assert see.ask(1) == "none", "nothing of a caller stays behind"
        tree.ref("r/hear").ask(1)
    assert told == ["none", "none"]


def test_each_of_two_callers_at_once_has_its_own() -> None:
    both, found = threading.Barrier(2), dict[str, list[str]]()

    async def wait(_: Any) -> list[str]:
        before = REQUEST.get()
        await asyncio.sleep(0.001)
        return [before, REQUEST.get()]

    with start(tree_of(WorkerSpec(id="see", handle=wait, pool=2))) as tree:

        def call(name: str) -> None:
            REQUEST.set(name)
            both.wait(LONG_S)
            found[name] = [each for _ in range(50) for each in tree.ref("r/see").ask(1)]

        threads = [threading.Thread(target=call, args=(name,)) for name in ("a", "b")]
        for each in threads:
            each.start()
        for each in threads:
            each.join(LONG_S)
    assert found == {"a": ["a"] * 100, "b": ["b"] * 100}


def test_they_go_along_a_chain_of_asks_and_into_what_the_handler_starts() -> None:
    async def outer(_: Any) -> tuple[str, str, str]:
        task = asyncio.create_task(seen_async(1))
        return await actors.ref("r/see").ask_async(1), await task, await asyncio.to_thread(seen, 1)

    workers = WorkerSpec(id="see", handle=seen), WorkerSpec(id="outer", handle=outer)
    with start(tree_of(*workers)) as tree, setting(REQUEST, "mine"):
        assert tree.ref("r/outer").ask(1) == ("mine", "mine", "mine")


def test_a_call_of_a_proxy_is_an_ask() -> None:
    with start(tree_of(PLACES["actor"])) as tree, setting(REQUEST, "mine"):
        assert tree.ref("r/see").proxy().look().get() == "mine"
