"""When requests end: with their handler, and before anybody is told; and what is part of one, wherever it runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import pykka
import pytest

import actors
from actors import ActorsError, ActorStoppedError, Failed, RecursionDetectedError, Worker, carry
from actors.messaging import wait_graph
from actors.messaging.envelope import CURRENT
from actors.tasks.execution.off_loop import off_loop
from tests.actors.dispatch.process_workers import answer_that_asks
from tests.support.hardening import LONG_S, Gate, crash, obey, tree_of, worker
from trees import WorkerSpec


def under_way() -> bool:
    """Tell whether the request is under way in whose name this code runs."""
    current = CURRENT.get()
    return current is not None and current.in_request


# -- what a crash, or the end of a body, leaves -----------------------------------------------------------------


@pytest.mark.parametrize("how", ["tell", "ask"])
@pytest.mark.parametrize("place", ["pool", "loop"])
def test_a_request_that_has_crashed_its_worker_is_over_while_the_last_hook_runs(place: str, how: str) -> None:
    left: list[Callable[[], bool]] = []
    hook, gate = threading.Event(), Gate()

    class Sync(Worker):
        def on_receive(self, _: Any) -> Any:
            left.append(carry(under_way))
            crash()

        def on_failure(self, *_: Any) -> Any:
            hook.set()
            gate()

    class Async(Sync):
        async def on_receive(self, message: Any) -> None:
            Sync.on_receive(self, message)

        async def on_failure(self, *_: Any) -> None:
            hook.set()
            await asyncio.to_thread(gate)

    with tree_of(worker("w", Sync if place == "pool" else Async, restart="temporary")) as tree:
        ref = tree.ref("t/w")
        ref.tell("go") if how == "tell" else ref.ask("go", block=False)
        assert hook.wait(LONG_S)
        found = left[0]()
        gate.open.set()

    assert not found


def test_a_body_that_has_returned_is_over_while_its_lifespan_is_left() -> None:
    left: list[Callable[[], bool]] = []
    leaving, gate = threading.Event(), Gate()

    @contextmanager
    def span() -> Iterator[None]:
        yield
        leaving.set()
        gate()

    def body() -> None:
        left.append(carry(under_way))
        assert left[0]()

    with tree_of(WorkerSpec(id="b", run=body, lifespan=span, restart="temporary")):
        assert leaving.wait(LONG_S)
        found = left[0]()
        gate.open.set()

    assert not found


# -- calls off the loop -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["a result", "an error"])
def test_a_call_off_the_loop_is_over_before_its_caller_goes_on(outcome: str) -> None:
    found: list[bool] = []

    def call() -> None:
        request = CURRENT.get()
        assert request is not None
        assert request.reply is not None
        found.append(request.in_request)
        request.reply.when_done(lambda: found.append(request.in_request))  # called where it is answered
        if outcome == "an error":
            raise ValueError(outcome)

    async def handle(_: Any) -> None:
        with suppress(ValueError):
            await off_loop(call)

    with tree_of(worker("w", handle)) as tree:
        tree.ref("t/w").ask("go", timeout=LONG_S)

    assert found == [True, False]


def test_it_is_known_that_a_call_off_the_loop_is_waited_for_before_that_begins() -> None:
    """The other order: what it asks for at once was not refused, where that waits for its caller."""
    found: list[bool] = []

    def call() -> None:
        request = CURRENT.get()
        assert request is not None
        assert request.reply is not None
        found.append(bool(request.reply.above()))

    async def handle(_: Any) -> None:
        for _ in range(50):
            await off_loop(call)

    with tree_of(worker("w", handle)) as tree:
        tree.ref("t/w").ask("go", timeout=LONG_S)

    assert found == [True] * 50


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


class Crossing:
    """Has whoever asks enter its wait, then whoever waits for that begin to, and then the asker look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asker = 0
        """Thread of the code that asks."""
        self._asks, self._waits = threading.Event(), threading.Event()
        find_circle, enter = wait_graph.find_circle, wait_graph.enter

        def looks(current: Any, asked: Any) -> Any:
            if threading.get_ident() == self.asker:
                self._asks.set()
                assert self._waits.wait(LONG_S)
            return find_circle(current, asked)

        def enters(awaited: Any) -> Any:
            if threading.get_ident() == self.asker or CURRENT.get() not in awaited.waiters:
                return enter(awaited)
            assert self._asks.wait(LONG_S)
            try:
                return enter(awaited)
            finally:
                self._waits.set()

        monkeypatch.setattr(wait_graph, "find_circle", looks)
        monkeypatch.setattr("actors.messaging.reply.enter", enters)


def test_a_lifespan_is_refused_what_it_asks_and_never_the_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other order: it asks before its worker begins to wait for it. The worker did not come up then."""
    crossing, raised = Crossing(monkeypatch), list[type[BaseException]]()

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        crossing.asker = threading.get_ident()
        try:
            await actors.ref("t/w").ask_async("x", timeout=LONG_S)
        except ActorsError as error:
            raised.append(type(error))
        yield

    with tree_of(worker("w", obey, lifespan=lifespan)) as tree:
        assert tree.ref("t/w").ask(lambda: "up", timeout=LONG_S) == "up"

    assert raised == [RecursionDetectedError]


def test_a_call_off_the_loop_is_refused_what_it_asks_and_never_the_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same order of a call off the loop."""
    crossing, raised = Crossing(monkeypatch), list[type[BaseException]]()

    def call() -> str:
        crossing.asker = threading.get_ident()
        try:
            actors.ref("t/w").ask("x", timeout=LONG_S)
        except ActorsError as error:
            raised.append(type(error))
        return "done"

    async def handle(_: Any) -> str:
        return await off_loop(call)

    with tree_of(worker("w", handle)) as tree:
        assert tree.ref("t/w").ask("go", timeout=LONG_S) == "done"

    assert raised == [RecursionDetectedError]


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
