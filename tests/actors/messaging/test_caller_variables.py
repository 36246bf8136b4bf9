"""Contextvars of the caller reach the handler of an ask, and end with it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import actors
from actors import Worker
from actors.testing import settle
from tests.support.crew import LONG_S
from tests.support.hardening import eventually
from tests.support.setting import setting
from trees import SupervisorSpec, WorkerSpec, start

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST", default="none")
OWN: contextvars.ContextVar[str] = contextvars.ContextVar("OWN", default="none")


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


class Owning(Worker):
    """Has a variable of its own, and is asked to do things to both."""

    def on_start(self) -> None:
        OWN.set("the worker's")
        REQUEST.set("the worker's")

    def on_receive(self, message: Any) -> tuple[str, str]:
        seen_now = OWN.get(), REQUEST.get()
        if message == "fail":
            raise actors.Failed("as asked")
        if isinstance(message, str):
            REQUEST.set(message)
            OWN.set(message)
        return seen_now


@pytest.mark.parametrize("dispatch", ["pool", "thread", "loop"])
def test_the_workers_own_variables_stay_its_own_and_a_callers_go_before_them(dispatch: Any) -> None:
    with start(tree_of(WorkerSpec(id="own", actor=Owning, dispatch=dispatch))) as tree:
        own = tree.ref("r/own")
        assert own.ask(1) == ("the worker's", "the worker's")
        with setting(REQUEST, "mine"):
            assert own.ask(1) == ("the worker's", "mine")
            with pytest.raises(actors.Failed):
                own.ask("fail")
            assert own.ask("changed") == ("the worker's", "mine")
        assert own.ask(1) == ("changed", "the worker's"), "what was borrowed is given back as it was"


def test_a_crash_gives_back_what_was_borrowed_and_the_next_incarnation_has_nothing_of_it() -> None:
    def crash(message: Any) -> str:
        if message == "boom":
            raise ValueError("boom")
        return REQUEST.get()

    with start(tree_of(WorkerSpec(id="see", handle=crash))) as tree:
        with setting(REQUEST, "mine"), pytest.raises(ValueError, match="boom"):
            tree.ref("r/see").ask("boom")
        assert tree.ref("r/see").ask(1) == "none"


def test_nothing_of_a_callers_variables_is_held_once_it_has_its_answer() -> None:
    class Heavy:
        """Something a variable holds."""

    holds: contextvars.ContextVar[Heavy] = contextvars.ContextVar("holds")

    def call(ref: Any) -> weakref.ref[Heavy]:
        heavy = Heavy()
        holds.set(heavy)
        ref.ask(1)
        return weakref.ref(heavy)

    with start(tree_of(WorkerSpec(id="see", handle=seen))) as tree:
        left = contextvars.copy_context().run(call, tree.ref("r/see"))
        tree.ref("r/see").ask(1)
        gc.collect()
        assert left() is None


@pytest.mark.parametrize("place", ["pool", "loop"])
@pytest.mark.parametrize("end", ["crash", "kill"])
def test_variables_of_a_caller_reach_no_hook_and_no_lifespan_of_the_worker_that_its_message_ends(
    place: str, end: str
) -> None:
    told, handling = dict[str, str](), threading.Event()

    def handle() -> None:
        told["handler"] = REQUEST.get()
        handling.set()
        if end == "crash":
            raise ValueError("no")

    class Sync(Worker):
        def on_receive(self, _: Any) -> None:
            handle()
            actors.sleep(LONG_S)

        def on_failure(self, *_: Any) -> None:
            told["on_failure"] = REQUEST.get()

        @contextmanager
        def lifespan(self) -> Iterator[None]:
            try:
                yield
            finally:
                told["lifespan"] = REQUEST.get()

    class Async(Sync):
        async def on_receive(self, _: Any) -> None:  # type: ignore[override]
            handle()
            await asyncio.sleep(LONG_S)

    kind = Sync if place == "pool" else Async
    with start(tree_of(WorkerSpec(id="w", actor=kind, shutdown="brutal_kill"))) as tree:
        with setting(REQUEST, "mine"):
            reply = tree.ref("r/w").ask(1, block=False)
        assert handling.wait(LONG_S)
        if end == "crash":
            with pytest.raises(ValueError, match="no"):
                reply.get(timeout=LONG_S)
            settle(tree)  # its asker is told before its last hook has run
        else:
            tree.terminate_child("r/w")
            assert eventually(lambda: "lifespan" in told), "a thread that was left to itself leaves it later"
    assert told == {"handler": "mine", "lifespan": "none"} | ({"on_failure": "none"} if end == "crash" else {})
