"""What a worker's class may look like, what it leaves at its end, and that nothing makes a zombie of it."""

import asyncio
import dataclasses
import gc
import threading
import weakref
from time import monotonic
from typing import Any

import pykka
import pytest

from actors import CallbackRaised, InternalError, Worker, ref
from tests.support.hardening import BOTH, LONG_S, Gate, Witness, crash, eventually, tree_of, worker
from tests.support.programs import ran

# -- names and shapes of a user's class --------------------------------------------------------------------

OURS_ONCE = ["_life", "_handler", "_receive", "_body", "_call", "_function", "_stop", "_handle_receive", "_loop"]


@pytest.mark.parametrize("name", OURS_ONCE)
@BOTH
def test_a_private_name_of_a_user_means_nothing_to_the_library(kind: type[Any], name: str) -> None:
    def take(self: Any) -> None:
        kind.__init__(self)
        setattr(self, name, "the user's own")

    named = type("Named", (kind,), {"__init__": take})
    with tree_of(worker("w", named)) as tree:
        for message in ("one", "two"):
            assert tree.ref("t/w").ask(message, timeout=5) == message
        assert tree.ref("t/w").ask(lambda self: getattr(self, name), timeout=5) == "the user's own"
        assert tree.ref("t/w").proxy().total().get(timeout=5) == 42
        assert tree.ref("t/w").stop(timeout=5)
        assert tree.ref("t/w").ask("again", timeout=5) == "again"


def test_a_worker_may_keep_a_ref_of_another_under_the_name_that_pykka_uses() -> None:
    class Keeps(Worker):
        def on_start(self) -> None:
            self._actor_ref = ref("t/other")

        def on_receive(self, message: Any) -> Any:
            return str(self._actor_ref), str(self.actor_ref)

    with tree_of(worker("other"), worker("w", Keeps)) as tree:
        assert tree.ref("t/w").ask(1, timeout=5) == ("t/other", "t/w")


@dataclasses.dataclass(frozen=True)
class Frozen(Worker):
    rate: float = 2.0

    def on_receive(self, message: Any) -> Any:
        return message * self.rate


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots(Worker):
    rate: float = 2.0

    def on_receive(self, message: Any) -> Any:
        return message * self.rate


class Slots(Worker):
    __slots__ = ("rate",)

    def __init__(self) -> None:
        self.rate = 2.0

    def on_receive(self, message: Any) -> Any:
        return message * self.rate


class Guarded(Worker):
    """Its ``__setattr__`` wants what its ``__init__`` makes."""

    def __init__(self) -> None:
        object.__setattr__(self, "allowed", {"rate"})
        self.rate = 2.0

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self.allowed:  # type: ignore[attr-defined]
            raise AttributeError(name)
        object.__setattr__(self, name, value)

    def on_receive(self, message: Any) -> Any:
        return message * self.rate


class GuardedStock(pykka.ThreadingActor):
    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith(("actor_", "_actor_", "rate")):
            raise AttributeError(name)
        object.__setattr__(self, name, value)

    def on_receive(self, message: Any) -> Any:
        return message * 2.0


class NeverEqual(Worker):
    """Compared, tested or hashed, it raises."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    def __bool__(self) -> bool:
        raise AssertionError

    def on_receive(self, message: Any) -> Any:
        return message * 2.0


@pytest.mark.parametrize("kind", [Frozen, FrozenSlots, Slots, Guarded, GuardedStock, NeverEqual])
def test_a_class_of_any_shape_can_be_a_worker(kind: type[Any]) -> None:
    with tree_of(worker("w", kind)) as tree:
        assert tree.ref("t/w").ask(2, timeout=5) == 4.0
        with pytest.raises(TypeError):
            tree.ref("t/w").ask(None, timeout=5)
        assert tree.ref("t/w").ask(3, timeout=5) == 6.0
        assert tree.child("t/w").incarnation == 2


def test_a_class_that_was_made_for_one_worker_is_freed_with_it() -> None:
    alive: list[weakref.ref[type[Any]]] = []
    with tree_of() as tree:
        for _ in range(20):
            kind: Any = type("Local", (pykka.ThreadingActor,), {})
            alive.append(weakref.ref(kind))
            tree.start_child("t", worker("w", kind))
            tree.terminate_child("t/w")
            tree.delete_child("t/w")
            del kind

        def freed() -> bool:
            gc.collect()
            return sum(each() is not None for each in alive) <= 2

        eventually(freed)


# -- nothing makes a zombie --------------------------------------------------------------------------------


@pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])
def test_a_callback_that_raises_is_an_event_and_hurts_nobody(dispatch: str) -> None:
    gate = Gate()

    async def waits_async(message: Any) -> Any:
        await asyncio.to_thread(gate)
        return message

    def waits(message: Any) -> Any:
        gate()
        return message

    with tree_of(worker("w", waits_async if dispatch == "loop" else waits, dispatch=dispatch)) as tree:
        seen, order = Witness(tree), []
        reply = tree.ref("t/w").ask("one", block=False)
        reply.add_done_callback(crash)
        reply.add_done_callback(lambda: order.append("second"))
        gate.wait_reached()
        gate.open.set()

        assert reply.get(timeout=5) == "one"
        assert isinstance(seen.wait(CallbackRaised, path="t/w").error, ValueError)
        eventually(lambda: order == ["second"])
        reply.add_done_callback(lambda: order.append("late"))
        eventually(lambda: order == ["second", "late"])
        assert tree.child("t/w").incarnation == 1


# -- what it leaves ----------------------------------------------------------------------------------------


class Traced:
    """Notes the thread on which it is finalized."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def __del__(self) -> None:
        self.notes.append(threading.current_thread().name)


@pytest.mark.parametrize(("dispatch", "expected"), [("pool", "t-"), ("loop", "t-loop"), ("thread", "t/w-")])
@pytest.mark.parametrize("end", ["crash", "stop"])
def test_an_object_is_finalized_where_it_ran(dispatch: str, expected: str, end: str) -> None:
    notes: list[str] = []

    class Holds(Worker):
        def __init__(self) -> None:
            self.held = Traced(notes)

        def on_receive(self, message: Any) -> Any:
            if message == "crash":
                raise ValueError
            return message

    with tree_of(worker("w", Holds, dispatch=dispatch, restart="temporary")) as tree:
        assert tree.ref("t/w").ask("up", timeout=5) == "up"
        if end == "crash":
            tree.ref("t/w").tell("crash")
        else:
            tree.terminate_child("t/w")
        eventually(lambda: len(notes) == 1)

        assert notes[0].startswith(expected), notes
        assert "reserve" not in notes[0]


@BOTH
def test_a_locals_finalizer_does_not_hold_up_the_restart(kind: type[Any]) -> None:
    gate = Gate()

    class Slow:
        def __del__(self) -> None:
            gate()

    def die(_: object) -> None:
        local = Slow()
        raise ValueError(type(local).__name__)

    with tree_of(worker("w", kind)) as tree:
        try:
            tree.ref("t/w").tell(die)
            assert tree.ref("t/w").ask("again", timeout=5) == "again"
            gate.wait_reached()
            began = monotonic()
            assert tree.ref("t/w").ask("again", timeout=5) == "again"
            tree.terminate_child("t/w")
            assert monotonic() - began < LONG_S / 2
        finally:
            gate.open.set()


# -- the interpreter ---------------------------------------------------------------------------------------


def test_a_thread_of_an_abandoned_async_worker_keeps_no_interpreter() -> None:
    program = """
import asyncio, time
from loguru import logger
from trees import SupervisorSpec, WorkerSpec, start
logger.disable("actors")
async def hangs(_):
    await asyncio.to_thread(time.sleep, 60)
tree = start(SupervisorSpec(id="t", children=[WorkerSpec(id="w", handle=hangs, shutdown=0.1)]))
tree.ref("t/w").tell(1)
time.sleep(0.3)
tree.stop()
print("stopped", flush=True)
"""
    done = ran("-c", program, timeout=40)

    assert done.stdout == "stopped\n"
    assert done.returncode == 0


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_task_that_raises_out_of_the_loop_does_not_end_it(error: type[BaseException]) -> None:
    left: list[asyncio.Task[None]] = []

    async def leaves() -> None:
        raise error("from a task that was left behind")

    async def handle(message: Any) -> Any:
        if message == "leave":
            left.append(asyncio.create_task(leaves()))
        return message

    with tree_of(worker("w", handle)) as tree:
        seen = Witness(tree)
        tree.ref("t/w").tell("leave")
        seen.wait(InternalError)

        assert tree.ref("t/w").ask("again", timeout=5) == "again"
    assert [type(task.exception()) for task in left] == [error]  # looked at, so that Python does not complain of it


def test_more_calls_to_thread_than_threads_are_all_carried_out() -> None:
    gate, ran = threading.Event(), []

    def call(number: int) -> int:
        gate.wait(LONG_S)
        ran.append(threading.current_thread().daemon)
        return number

    async def handle(_: Any) -> Any:
        return await asyncio.gather(*(asyncio.to_thread(call, number) for number in range(100)))

    with tree_of(worker("w", handle)) as tree:
        reply = tree.ref("t/w").ask("go", timeout=LONG_S, block=False)
        gate.set()
        assert reply.get() == list(range(100))
        assert all(ran)
