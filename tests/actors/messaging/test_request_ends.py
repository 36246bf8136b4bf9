"""When requests end: with their handler, and before anybody is told; and what is part of one, wherever it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pykka
import pytest

import actors
from actors import ActorsError, ActorStoppedError, Failed, RecursionDetectedError, Worker
from tests.actors.dispatch.process_workers import answer_that_asks
from tests.support.hardening import LONG_S, obey, tree_of, worker

# -- what a crash, or the end of a body, leaves -----------------------------------------------------------------


# -- calls off the loop -----------------------------------------------------------------------------------------


# -- lifespans --------------------------------------------------------------------------------------------------


def _spans(at: str, target: str, raised: list[type[BaseException]]) -> tuple[Any, Any]:
    """Return a sync and an async lifespan that ask, where they are entered or left."""

    def asks(place: str) -> None:
        if place == at:
            try:
                actors.ref(target).ask("x", timeout=LONG_S)
            except ActorsError as error:
                raised.append(type(error))

    async def asks_on_loop(place: str) -> None:
        if place == at:
            try:
                await actors.ref(target).ask_async("x", timeout=LONG_S)
            except ActorsError as error:
                raised.append(type(error))

    @contextmanager
    def sync() -> Iterator[None]:
        asks("enter")
        yield
        asks("leave")

    @asynccontextmanager
    async def on_loop() -> AsyncIterator[None]:
        await asks_on_loop("enter")
        yield
        await asks_on_loop("leave")

    return sync, on_loop


@pytest.mark.parametrize("kind", ["sync", "async", "sync worker, async lifespan"])
@pytest.mark.parametrize(
    ("at", "target", "error"),
    [
        ("enter", "t/later", ActorStoppedError),
        ("enter", "t/w", RecursionDetectedError),
        ("leave", "t/w", RecursionDetectedError),
    ],
)
def test_a_lifespan_that_asks_whom_nobody_can_bring_to_answer_is_told_at_once(
    kind: str, at: str, target: str, error: type[BaseException]
) -> None:
    raised: list[type[BaseException]] = []
    sync, on_loop = _spans(at, target, raised)

    async def obey_on_loop(message: Any) -> Any:
        return message

    handle = obey_on_loop if kind == "async" else obey
    with tree_of(worker("w", handle, lifespan=sync if kind == "sync" else on_loop), worker("later")):
        pass

    assert raised == [error]


# -- processes --------------------------------------------------------------------------------------------------


def test_what_pickles_the_answer_of_a_process_is_part_of_the_request() -> None:
    """What that asks for is in the wait graph: it would hang until its time is up."""

    def back(_: Any) -> Any:
        return actors.ref("t/w").ask("anything", timeout=LONG_S)

    with tree_of(worker("w", answer_that_asks, dispatch="process"), worker("b", back)) as tree:
        answer = tree.ref("t/w").ask("t/b", timeout=LONG_S)

    assert answer.startswith("RecursionDetectedError")


# -- through a stock ref ----------------------------------------------------------------------------------------


def test_an_ask_through_a_stock_ref_is_an_ask_for_what_handles_it() -> None:
    class Deaf(Worker):
        """It handles nothing."""

    with tree_of(worker("w", Deaf)) as tree:
        [actor] = tree.ref("t/w").living_actors()
        with pytest.raises(Failed, match="on_receive"):
            pykka.ActorRef(actor).ask("x", timeout=LONG_S)
