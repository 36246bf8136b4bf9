"""Every place where user code can run (the table in ``SEMANTICS.md``), and what it may do there: anything.

For each place of the table a probe raises, blocks, and calls back into the tree. A place without a probe fails.
"""

import asyncio
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

import actors
from actors import DeadLetter, Event, Worker
from actors.model.clock import monotonic
from actors.model.errors import ActorsError
from actors.testing import settle
from tests.support.hardening import eventually
from tests.support.load import beside_others
from trees import Command, SupervisorSpec, Tree, WorkerSpec, start

TABLE = Path(actors.__file__).parent.joinpath("supervision/SEMANTICS.md").read_text(encoding="utf-8")
LONG_S = 60.0
BLOCKED_S = 1.0
"""Limit of what blocks."""


def places() -> list[str]:
    section = TABLE.partition("## Where user code can run")[2]
    rows = re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)
    return [row.strip() for row in rows if row.strip() not in {"place", "---"}]


def prompt_s() -> float:
    """Far more than an idle machine takes for a round trip, and less than any limit in these trees."""
    return beside_others(4.0)


class Probe:
    """What the user's code does in the place where it runs."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.reached = threading.Event()
        self.gate = threading.Event()
        self.done = threading.Event()
        self.failures: list[BaseException] = []
        self.tree: Tree | None = None
        self.thread = ""
        self.armed = True

    def __call__(self, *_: object) -> None:
        """Runs once: later incarnations behave."""
        if not self.armed:
            return
        self.armed = False
        self.thread = threading.current_thread().name
        self.reached.set()
        try:
            self._act()
        finally:
            self.done.set()

    def _act(self) -> None:
        if self.mode == "raises":
            raise RuntimeError("from a probe")
        if self.mode == "exits":
            raise SystemExit("from a probe")
        if self.mode == "blocks":
            assert self.gate.wait(LONG_S)
        elif self.mode == "calls":
            self._calls()
        elif self.mode == "stops":
            self._stops()

    def _calls(self) -> None:
        if self.tree is None:
            return  # the tree is not up yet: the next incarnation shows nothing either
        try:
            self.tree.ref("t/other").tell("from a probe")
            assert self.tree.ref("t/other").ask("asked", timeout=prompt_s()) == "asked"
            self.tree.ref("t/victim").tell("ignore")
            self.tree.ref("t/quiet").stop(block=False)
        except BaseException as error:  # noqa: BLE001 - judged by the test
            self.failures.append(error)

    def _stops(self) -> None:
        if self.tree is None:
            return
        with suppress(ActorsError):  # refused in a handler, which would wait for itself
            self.tree.stop(prompt_s())
        self.tree._system.stop()

    async def act_async(self) -> None:
        """On the event loop: what blocks there is awaited, and what waits is refused."""
        if not self.armed or self.mode not in {"blocks", "calls", "stops"}:
            self()
            return
        self.armed = False
        self.reached.set()
        if self.mode == "blocks":
            await asyncio.get_running_loop().create_future()
        assert self.tree is not None
        if self.mode == "calls":
            assert await self.tree.ref("t/other").ask_async("asked", timeout=prompt_s()) == "asked"
        else:
            self.tree._system.stop()
        self.done.set()


class Place:
    """One place: a victim whose code runs there, and what sets it off."""

    modes = ("raises", "exits", "blocks", "calls", "stops")
    answers = True
    """The victim answers afterwards, unless its code blocks."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    def victim(self) -> WorkerSpec:
        return WorkerSpec(id="victim", handle=self.handle, shutdown=0.3)

    def handle(self, message: Any) -> Any:
        return message

    def set_off(self, tree: Tree) -> None:
        raise NotImplementedError

    def restart(self, tree: Tree) -> None:
        tree.ref("t/victim").tell("crash")


def crashing(kind: type[Any]) -> type[Any]:
    """An actor that crashes when it is told to."""

    def on_receive(_: object, message: Any) -> Any:
        if message == "crash":
            raise ValueError("as told")
        return message

    if "on_receive" not in vars(kind):
        kind.on_receive = on_receive  # type: ignore[attr-defined]
    return kind


class OfActor(Place):
    """A place in a hook of an actor; it runs in the second incarnation, when the tree is up."""

    def kind(self) -> type[Any]:
        raise NotImplementedError

    def victim(self) -> WorkerSpec:
        self.probe.armed = False
        limit_s = BLOCKED_S if self.probe.mode == "blocks" else LONG_S
        return WorkerSpec(id="victim", actor=crashing(self.kind()), shutdown=limit_s, start_timeout_s=limit_s)

    def set_off(self, tree: Tree) -> None:
        assert tree.ref("t/victim").ask("up") == "up"
        self.probe.armed = True
        self.restart(tree)


class InInit(OfActor):
    def kind(self) -> type[Any]:
        probe = self.probe

        class Victim(Worker):
            def __init__(self) -> None:
                probe()

        return Victim


class InSetattr(OfActor):
    def kind(self) -> type[Any]:
        probe = self.probe

        class Victim(Worker):
            def __init__(self) -> None:
                self.value = 1

            def __setattr__(self, name: str, value: object) -> None:
                probe()
                object.__setattr__(self, name, value)

        return Victim


class InOnStart(OfActor):
    def kind(self) -> type[Any]:
        probe = self.probe

        class Victim(Worker):
            def on_start(self) -> None:
                probe()

        return Victim


class InEntering(OfActor):
    def kind(self) -> type[Any]:
        probe = self.probe

        class Victim(Worker):
            @contextmanager
            def lifespan(self) -> Iterator[None]:
                probe()
                yield

        return Victim


class InLeaving(OfActor):
    def kind(self) -> type[Any]:
        probe = self.probe

        class Victim(Worker):
            @contextmanager
            def lifespan(self) -> Iterator[None]:
                try:
                    yield
                finally:
                    probe()

        return Victim

    def restart(self, tree: Tree) -> None:
        tree.ref("t/victim").stop(block=False)


class InHandler(Place):
    def handle(self, message: Any) -> Any:
        if message == "go":
            self.probe()
        return message

    def set_off(self, tree: Tree) -> None:
        tree.ref("t/victim").tell("go")


class InAsyncHandler(InHandler):
    def victim(self) -> WorkerSpec:
        async def handle(message: Any) -> Any:
            if message == "go":
                await self.probe.act_async()
            return message

        return WorkerSpec(id="victim", handle=handle, shutdown=0.3)


class InLeftTask(InHandler):
    """A task, and a callback, that a handler has left on the loop."""

    def victim(self) -> WorkerSpec:
        left: list[object] = []

        async def handle(message: Any) -> Any:
            if message == "go":
                task = asyncio.create_task(self.probe.act_async())
                task.add_done_callback(lambda task: task.cancelled() or task.exception())
                left.append(task)
            return message

        return WorkerSpec(id="victim", handle=handle, shutdown=0.3)


class InToThread(InHandler):
    def victim(self) -> WorkerSpec:
        async def handle(message: Any) -> Any:
            if message == "go":
                await asyncio.to_thread(self.probe)
            return message

        return WorkerSpec(id="victim", handle=handle, shutdown=0.3)


class InBody(Place):
    answers = False

    def victim(self) -> WorkerSpec:
        self.probe.armed = False

        def body() -> None:
            while not actors.sleep(0.01):
                self.probe()

        return WorkerSpec(id="victim", run=body, shutdown=0.3)

    def set_off(self, tree: Tree) -> None:
        self.probe.armed = True


class InOnStop(OfActor):
    def kind(self) -> type[Any]:
        probe = self.probe

        class Victim(Worker):
            def on_stop(self) -> None:
                probe()

        return Victim

    def restart(self, tree: Tree) -> None:
        tree.ref("t/victim").stop(block=False)


class InOnFailure(OfActor):
    def kind(self) -> type[Any]:
        probe = self.probe

        class Victim(Worker):
            def on_failure(self, *_: object) -> None:
                probe()

        return Victim


class Finalized:
    """An object whose finalizer is the probe."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    def __del__(self) -> None:
        self.probe()


class InFinalizerOfActor(OfActor):
    dispatch = "pool"

    def kind(self) -> type[Any]:
        probe = self.probe

        class Victim(Worker):
            def __del__(self) -> None:
                probe()

        return Victim


class InFinalizerOfLocal(Place):
    def handle(self, message: Any) -> Any:
        if message == "go":
            local = Finalized(self.probe)
            raise ValueError(type(local).__name__)
        return message

    def set_off(self, tree: Tree) -> None:
        tree.ref("t/victim").tell("go")


class InFinalizerOfMessage(Place):
    """Messages wait for a handler that holds on, and their worker is stopped for good."""

    answers = False

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self.hold = threading.Event()

    def handle(self, message: Any) -> Any:
        if message == "hold":
            self.hold.wait(LONG_S)
        return "handled"

    def set_off(self, tree: Tree) -> None:
        ref = tree.ref("t/victim")
        ref.tell("hold")
        ref.tell(Finalized(self.probe))
        tree.terminate_child("t/victim")
        self.hold.set()


class InDoneCallback(Place):
    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self.hold = threading.Event()

    def handle(self, message: Any) -> Any:
        if message == "hold":
            assert self.hold.wait(LONG_S)
        return message

    def set_off(self, tree: Tree) -> None:
        reply = tree.ref("t/victim").ask("hold", block=False)
        reply.add_done_callback(self.probe)
        self.hold.set()


class OfCommand(Place):
    """A place beside a command; the probe is armed for the second process, when the tree is up."""

    answers = False

    def victim(self) -> WorkerSpec:
        self.probe.armed = False
        says = ["sh", "-c", "echo up; exec sleep 600"]
        limit_s = 3.0 if self.probe.mode == "blocks" else LONG_S
        return WorkerSpec(id="victim", command=Command(says, **self.given()), shutdown=0.3, start_timeout_s=limit_s)

    def given(self) -> dict[str, Any]:
        raise NotImplementedError

    def set_off(self, tree: Tree) -> None:
        self.probe.armed = True
        pid = tree.child("t/victim").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)


class InReady(OfCommand):
    def given(self) -> dict[str, Any]:
        return {"ready": self.ready}

    def ready(self) -> bool:
        self.probe()
        return True


class InOnLine(OfCommand):
    def given(self) -> dict[str, Any]:
        return {"on_line": self.hear, "ready": "up"}

    def hear(self, _: str) -> None:
        self.probe()


class InSubscriber(Place):
    def set_off(self, tree: Tree) -> None:
        tree.subscribe(self._hear)
        tree.ref("t/plain").tell("nobody handles this")

    def _hear(self, event: Event) -> None:
        if isinstance(event, DeadLetter):
            self.probe()


class InSink(Place):
    def set_off(self, tree: Tree) -> None:
        number = logger.add(self.probe, level="TRACE", catch=False)
        try:
            tree.ref("t/plain").tell("nobody handles this")
            assert self.probe.reached.wait(LONG_S)
        finally:
            self.undo = lambda: logger.remove(number)

    def undo(self) -> None:
        """Called at the end."""


class InText(Place):
    def handle(self, message: Any) -> Any:
        probe = self.probe

        class Hostile(Exception):  # noqa: N818 - its text is the probe
            def __str__(self) -> str:
                probe()
                return "text"

        if message == "go":
            raise Hostile
        return message

    def set_off(self, tree: Tree) -> None:
        number = logger.add(lambda _: None, level="DEBUG")  # whatever sinks there are: without one there is no line
        self.undo = lambda: logger.remove(number)
        tree.ref("t/victim").tell("go")


class InSignal(Place):
    def set_off(self, tree: Tree) -> None:
        before = signal.signal(signal.SIGUSR2, self.probe)
        try:
            with suppress(RuntimeError, SystemExit):
                signal.raise_signal(signal.SIGUSR2)
        finally:
            signal.signal(signal.SIGUSR2, before)


class InCollector(Place):
    """Garbage in a circle: the collector finds it in a handler, which allocates."""

    modes = (
        "raises",
        "exits",
        "calls",
        "stops",
    )

    def handle(self, message: Any) -> Any:
        if message == "go":
            circle: list[Any] = [Finalized(self.probe)]
            circle.append(circle)
            del circle
            gc.collect()
        return message

    def set_off(self, tree: Tree) -> None:
        tree.ref("t/victim").tell("go")


PROBES: dict[str, type[Place]] = {
    "`__init__` of an actor": InInit,
    "`__setattr__` of an actor": InSetattr,
    "`on_start`": InOnStart,
    "`lifespan`, entered": InEntering,
    "`lifespan`, left": InLeaving,
    "handler": InHandler,
    "`async` handler": InAsyncHandler,
    "task on the loop that a handler has left behind": InLeftTask,
    "`asyncio.to_thread` in a handler": InToThread,
    "`run=` body": InBody,
    "`ready` of a command": InReady,
    "`on_stop`": InOnStop,
    "`on_failure`": InOnFailure,
    "finalizer of an actor that has ended": InFinalizerOfActor,
    "finalizer of what a handler had in hand when it crashed": InFinalizerOfLocal,
    "finalizer of a message that nobody took": InFinalizerOfMessage,
    "done callback of a reply": InDoneCallback,
    "`on_line` of a command": InOnLine,
    "subscriber": InSubscriber,
    "sink of the log": InSink,
    "text of an error in a log line": InText,
    "signal handler": InSignal,
    "finalizer that the garbage collector runs": InCollector,
}


def test_every_place_of_the_table_has_a_probe_and_every_probe_a_place() -> None:
    assert places() == list(PROBES)


CASES = [(place, mode) for place, probe in PROBES.items() for mode in probe.modes]


@pytest.fixture
def _printed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a finalizer or a left task raises is printed by Python; pytest would make a warning of it."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    yield
    gc.collect()


@pytest.mark.slow
@pytest.mark.usefixtures("_printed")
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_user_code_may_raise_block_and_call_back_wherever_it_runs(name: str, mode: str) -> None:
    probe = Probe(mode)
    place = PROBES[name](probe)
    quiet = WorkerSpec(id="quiet", handle=lambda message: message)
    other = WorkerSpec(id="other", handle=lambda message: message)
    plain = WorkerSpec(id="plain", actor=Worker)
    tree = start(SupervisorSpec(id="t", max_restarts=1000, children=[place.victim(), other, quiet, plain]))
    probe.tree = tree
    judge = Judge(tree, probe, answers=place.answers)
    try:
        judging = threading.Thread(target=judge.run)
        judging.start()
        place.set_off(tree)  # on the main thread: a signal handler runs here
        judging.join(LONG_S)
        assert not judging.is_alive()
        assert judge.wrong is None, judge.wrong
    finally:
        probe.gate.set()
        getattr(place, "undo", lambda: None)()
        tree.stop(prompt_s())


class Judge:
    """Looks, from a thread of its own, whether anybody else suffers."""

    def __init__(self, tree: Tree, probe: Probe, *, answers: bool) -> None:
        self.tree = tree
        self.probe = probe
        self.answers = answers
        self.wrong: BaseException | None = None

    def run(self) -> None:
        """Judge; then let go whatever blocks."""
        try:
            self._judge()
        except BaseException as error:  # noqa: BLE001 - raised by the test
            self.wrong = error
        finally:
            self.probe.gate.set()

    def _judge(self) -> None:
        tree, probe = self.tree, self.probe
        assert probe.reached.wait(LONG_S), "the probe was not reached"
        if probe.mode == "stops":
            assert tree.wait(LONG_S)
            return
        if probe.mode == "calls":
            assert probe.done.wait(LONG_S)
            assert not probe.failures, probe.failures
        began = monotonic()
        assert tree.ref("t/other").ask("asked", timeout=prompt_s()) == "asked"
        tree.start_child("t", WorkerSpec(id="new", handle=lambda message: message))
        tree.terminate_child("t/new")
        assert monotonic() - began < prompt_s()
        if probe.mode != "blocks" and self.answers:
            assert tree.ref("t/victim").ask("again", timeout=prompt_s()) == "again"
        eventually(lambda: tree.child("t/other").incarnation == 1)
        if probe.mode == "blocks":
            began = monotonic()
            tree.stop(LONG_S)
            assert monotonic() - began < LONG_S / 2


class Hostile:
    """Raises wherever anybody looks at it."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(name)

    def __eq__(self, other: object) -> bool:
        raise SystemExit("eq")

    def __bool__(self) -> bool:
        raise SystemExit("bool")

    def __hash__(self) -> int:
        raise SystemExit("hash")

    def __str__(self) -> str:
        raise SystemExit("str")

    __repr__ = __str__


@pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])
def test_nobody_looks_at_what_is_sent_replied_or_raised(dispatch: str) -> None:
    hostile = Hostile()

    class HostileError(Exception):
        def __eq__(self, other: object) -> bool:
            raise SystemExit("eq")

        def __bool__(self) -> bool:
            raise SystemExit("bool")

        def __hash__(self) -> int:
            raise SystemExit("hash")

        def __str__(self) -> str:
            raise SystemExit("str")

        __repr__ = __str__

    def handle(message: Any) -> Any:
        if message is hostile:
            return hostile
        if type(message) is str and message == "crash":
            raise HostileError
        return message

    async def handle_async(message: Any) -> Any:
        return handle(message)

    call = handle_async if dispatch == "loop" else handle
    victim = WorkerSpec(id="victim", handle=call, dispatch=dispatch)
    plain = WorkerSpec(id="plain", actor=Worker)
    with start(SupervisorSpec(id="t", max_restarts=1000, children=[victim, plain])) as tree:
        assert tree.ref("t/victim").ask(hostile, timeout=prompt_s()) is hostile
        tree.ref("t/plain").tell(hostile)
        for _ in range(3):
            with pytest.raises(HostileError):
                tree.ref("t/victim").ask("crash", timeout=prompt_s())
        assert tree.ref("t/victim").ask("again", timeout=prompt_s()) == "again"
        assert "last exit: crashed HostileError" in tree.dump()
        tree.terminate_child("t/victim")
        tree.ref("t/victim").tell(hostile)
        settle(tree)
        assert tree._system.dead_letters == {"unhandled": 1, "stopped": 1}
