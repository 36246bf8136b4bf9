"""Hung, not crashed: workers that give no sign of life for ``stall_s``, on a pool, a thread and a loop.

Time is moved by hand, and whatever hangs hangs at a ``Gate``: no test waits for a period to pass.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import actors
from actors import (
    ActorsError,
    ActorStoppedError,
    ChildExited,
    ChildParked,
    StalledError,
)
from actors.testing import ManualClock, settle
from tests.support.hardening import (
    LONG_S,
    Gate,
    Ours,
    Witness,
    eventually,
    obey,
    obey_async,
    root,
    worker,
)
from trees import Retry, SupervisorSpec, Tasks, WorkerSpec, start

STALL_S = 10.0
WATCHED: dict[str, dict[str, Any]] = {
    "pool": {"target": obey},
    "thread": {"target": obey, "dispatch": "thread"},
    "actor": {"target": Ours},
    "loop": {"target": obey_async},
}


@contextmanager
def watched(*children: WorkerSpec | SupervisorSpec, **fields: Any) -> Iterator[tuple[Any, ManualClock, Witness]]:
    clock = ManualClock()
    with start(root(*children, **fields), clock=clock) as tree:
        yield tree, clock, Witness(tree)


def stuck(kind: str, gate: Gate) -> Any:
    """A message whose handler gets nowhere."""
    if kind != "loop":
        return (lambda _: gate()) if kind == "actor" else gate

    async def never() -> None:
        gate.reached.set()
        await asyncio.Event().wait()

    return never


def ok(kind: str) -> Any:
    return (lambda _: 1) if kind == "actor" else (lambda: 1)


def exits(witness: Witness) -> list[ChildExited]:
    return [each for each in witness.events if isinstance(each, ChildExited) and isinstance(each.error, StalledError)]


# -- a handler ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WATCHED)
def test_a_handler_without_a_sign_of_life_for_stall_s_has_crashed(kind: str) -> None:
    gate = Gate()
    with watched(worker("w", stall_s=STALL_S, **WATCHED[kind])) as (tree, clock, witness):
        reply = tree.ref("t/w").ask(stuck(kind, gate), block=False, timeout=1000.0)
        gate.wait_reached()
        clock.advance(STALL_S - 2)
        assert not reply.done
        clock.advance(3)
        with pytest.raises(StalledError) as caught:
            reply.get(timeout=LONG_S)
        answer = tree.ref("t/w").ask(ok(kind), timeout=1000.0)
        exited = witness.wait(ChildExited, path="t/w")
        child = tree.child("t/w")
        gate.open.set()
        eventually(lambda: not tree.snapshot().abandoned)

    assert caught.value.path == "t/w"
    assert STALL_S <= caught.value.silent_s < STALL_S + 2
    assert answer == 1
    assert exited.reason == "crashed"
    assert exited.error is caught.value
    assert exited.lost == 1
    assert (child.restarts, child.incarnation) == (1, 2)


@pytest.mark.parametrize("kind", WATCHED)
def test_an_idle_worker_does_not_hang(kind: str) -> None:
    with watched(worker("w", stall_s=STALL_S, **WATCHED[kind])) as (tree, clock, witness):
        for _ in range(5):
            tree.ref("t/w").ask(ok(kind))
            clock.advance(10 * STALL_S)
            settle(tree)
        assert tree.child("t/w").restarts == 0
    assert not exits(witness)


# -- signs of life -----------------------------------------------------------------------------------------

SIGNS: dict[str, Callable[[], object]] = {
    "heartbeat": actors.heartbeat,
    "stopping": actors.stopping,
    "ask": lambda: actors.ref("t/other").ask(lambda: None, timeout=1e9),
}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("form", ["run", "handle"])
def test_a_sign_of_life_counts_from_its_own_time(form: str, sign: str) -> None:
    signed, gates = threading.Event(), [Gate() for _ in range(4)]

    def work() -> None:
        for gate in gates:
            gate()
            SIGNS[sign]()
        signed.set()
        if form == "run":
            actors.sleep(1e9)

    spec = WorkerSpec(id="w", run=work, stall_s=STALL_S) if form == "run" else worker("w", stall_s=STALL_S)
    with watched(worker("other"), spec) as (tree, clock, witness):
        if form == "handle":
            tree.ref("t/w").tell(work)
        for gate in gates:
            gate.wait_reached()
            clock.advance(STALL_S - 2)
            gate.open.set()
        assert signed.wait(LONG_S)
        settle(tree)
    assert not exits(witness)


def test_a_sign_of_an_async_body_counts_as_well() -> None:
    ticks: asyncio.Queue[None] | None = None
    beats, loops = [], []

    async def work() -> None:
        nonlocal ticks
        ticks = asyncio.Queue()
        loops.append(asyncio.get_running_loop())
        while True:
            await ticks.get()
            actors.heartbeat()
            beats.append(1)

    with watched(WorkerSpec(id="w", run=work, stall_s=STALL_S)) as (tree, clock, witness):
        eventually(lambda: loops)
        for n in range(3):
            clock.advance(STALL_S - 2)
            loops[-1].call_soon_threadsafe(ticks.put_nowait, None)
            eventually(lambda n=n: len(beats) > n)
        assert not exits(witness)
        clock.advance(STALL_S + 2)
        exited = witness.wait(ChildExited, path="t/w")
        eventually(lambda: len(loops) == 2)
        assert tree.child("t/w").restarts == 1
    assert isinstance(exited.error, StalledError)


def test_who_waits_for_a_colleague_does_not_hang_the_colleague_does() -> None:
    gate = Gate()
    waiting = threading.Event()

    def work() -> object:
        try:
            waiting.set()
            return actors.ref("t/hung").ask(gate, timeout=1e9)
        except StalledError as error:
            return error.path

    with watched(worker("w", stall_s=STALL_S), worker("hung", stall_s=2 * STALL_S)) as (tree, clock, witness):
        reply = tree.ref("t/w").ask(work, block=False, timeout=1e9)
        gate.wait_reached()
        clock.advance(2 * STALL_S - 2)
        assert not exits(witness)
        clock.advance(4)
        assert reply.get(timeout=LONG_S) == "t/hung"
        gate.open.set()
    assert [each.path for each in exits(witness)] == ["t/hung"]


@pytest.mark.parametrize("how", ["asks", "sleeps"])
def test_a_wait_that_a_handler_has_left_behind_is_no_sign_of_life_of_its_worker(how: str) -> None:
    gate, asleep = Gate(), Gate()

    def leave() -> None:
        def wait() -> None:
            if how == "sleeps":
                asleep.reached.set()
                actors.sleep(1000.0)
                return
            with suppress(ActorsError):
                actors.ref("t/other").ask(asleep, timeout=1000.0)

        threading.Thread(target=actors.carry(wait), daemon=True).start()
        asleep.wait_reached()

    with watched(worker("w", stall_s=STALL_S), worker("other", shutdown=0)) as (tree, clock, witness):
        tree.ref("t/w").ask(leave, timeout=1000.0)
        reply = tree.ref("t/w").ask(gate, block=False, timeout=1000.0)
        gate.wait_reached()
        clock.advance(STALL_S + 2)
        with pytest.raises(StalledError):
            reply.get(timeout=LONG_S)
        gate.open.set()
        asleep.open.set()
        settle(tree)

    assert len(exits(witness)) == 1


def test_a_body_that_was_given_up_ends_at_its_next_sign() -> None:
    gate, ended = Gate(), threading.Event()

    def work() -> None:
        try:
            gate()
            actors.heartbeat()
        except BaseException:
            ended.set()
            raise

    with watched(WorkerSpec(id="w", run=work, stall_s=STALL_S, restart="temporary")) as (tree, clock, witness):
        gate.wait_reached()
        clock.advance(STALL_S + 2)
        witness.wait(ChildExited, path="t/w")
        assert tree.snapshot().abandoned["t/w"] == 1
        gate.open.set()
        assert ended.wait(LONG_S)
        eventually(lambda: not tree.snapshot().abandoned)


SENDS: dict[str, Callable[[Any], Any]] = {
    "tell": lambda ref: ref.tell("late"),
    "detached tell": lambda ref: ref.tell("late", detached=True),
    "ask": lambda ref: ref.ask("late"),
    "ask without a wait": lambda ref: ref.ask("late", block=False),
    "tell_async": lambda ref: ref.tell_async("late").send(None),
}


@pytest.mark.parametrize("how", SENDS)
def test_code_that_was_given_up_can_send_nothing_when_it_comes_back_and_its_successor_can(how: str) -> None:
    gate, ended, heard = Gate(), threading.Event(), []

    def work() -> None:
        if gate.reached.is_set():
            actors.ref("t/other").tell("of the successor")
            return
        other = actors.ref("t/other")
        try:
            gate()
            SENDS[how](other)
        except BaseException:
            ended.set()
            raise

    body = WorkerSpec(id="w", run=work, stall_s=STALL_S, restart="transient")
    with watched(worker("other", heard.append), body) as (tree, clock, witness):
        gate.wait_reached()
        clock.advance(STALL_S + 2)
        witness.wait(ChildExited, path="t/w")
        eventually(lambda: heard == ["of the successor"])
        gate.open.set()
        assert ended.wait(LONG_S)
        eventually(lambda: not tree.snapshot().abandoned)
        tree.ref("t/other").ask("last", timeout=1000.0)
    assert heard == ["of the successor", "last"]


# -- what follows: as after any crash ----------------------------------------------------------------------


@pytest.mark.parametrize("pool", [1, 2])
def test_more_than_max_abandoned_threads_park_it(pool: int) -> None:
    gates = [Gate() for _ in range(3)]
    spec = worker("w", stall_s=STALL_S, pool=pool)
    clock = ManualClock()
    with start(root(spec, tasks=Tasks(max_abandoned=2)), clock=clock) as tree:
        witness = Witness(tree)
        for number, gate in enumerate(gates, 1):
            tree.ref("t/w").tell(gate)
            gate.wait_reached()
            clock.advance(STALL_S + 2)
            eventually(lambda number=number: len(exits(witness)) == number)
            settle(tree)
        parked = witness.wait(ChildParked)
        for gate in gates:
            gate.open.set()
    assert isinstance(parked.error, StalledError)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_attempt_that_hangs_has_failed_as_one_that_crashed(is_async: bool) -> None:
    gate, calls = Gate(), []

    def execute(task: Any, context: Any) -> str:
        calls.append(1)
        if len(calls) == 1:
            gate()
        return "done"

    async def execute_async(task: Any, context: Any) -> str:
        calls.append(1)
        if len(calls) == 1:
            gate.reached.set()
            await asyncio.Event().wait()
        return "done"

    clock = ManualClock()
    code = execute_async if is_async else execute
    tasks = Tasks(on_failure=[Retry()])
    with start(root(WorkerSpec(id="w", execute=code, stall_s=STALL_S), tasks=tasks), clock=clock) as tree:
        handle = tree.submit("go")
        gate.wait_reached()
        clock.advance(STALL_S + 2)
        eventually(lambda: tree.child("t/w").restarts == 1)
        for _ in range(20):
            clock.advance(5)
            settle(tree)
        report = handle.result(timeout=LONG_S)
        gate.open.set()
    assert list(report.results.values()) == ["done"]
    assert len(calls) == 2


@pytest.mark.parametrize("sign", ["heartbeat", "progress"])
def test_what_an_attempt_tells_its_context_is_a_sign_of_life(sign: str) -> None:
    gates = [Gate() for _ in range(3)]

    def execute(task: Any, context: Any) -> str:
        for gate in gates:
            gate()
            context.heartbeat() if sign == "heartbeat" else context.progress(0.5, "half")
        return "done"

    clock = ManualClock()
    with start(root(WorkerSpec(id="w", execute=execute, stall_s=STALL_S), tasks=Tasks()), clock=clock) as tree:
        handle = tree.submit("go")
        for gate in gates:
            gate.wait_reached()
            clock.advance(STALL_S - 2)
            gate.open.set()
        assert list(handle.result(timeout=LONG_S).results.values()) == ["done"]
        assert tree.child("t/w").restarts == 0


# -- races, both orders of each ----------------------------------------------------------------------------


# -- time that the host has not run ------------------------------------------------------------------------


# -- declared ----------------------------------------------------------------------------------------------


def test_without_stall_s_nothing_is_watched() -> None:
    gate = Gate()
    with watched(worker("w")) as (tree, clock, witness):
        reply = tree.ref("t/w").ask(gate, block=False, timeout=1e9)
        gate.wait_reached()
        clock.advance(10_000)
        gate.open.set()
        assert reply.get(timeout=LONG_S) == "through"
    assert not exits(witness)
    assert ActorStoppedError not in {type(each.error) for each in witness.events if isinstance(each, ChildExited)}
