"""What a worker's class may look like, what it leaves at its end, and that nothing makes a zombie of it."""

import asyncio
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


def test_a_worker_may_keep_a_ref_of_another_under_the_name_that_pykka_uses() -> None:
    class Keeps(Worker):
        def on_start(self) -> None:
            self._actor_ref = ref("t/other")

        def on_receive(self, message: Any) -> Any:
            return str(self._actor_ref), str(self.actor_ref)

    with tree_of(worker("other"), worker("w", Keeps)) as tree:
        assert tree.ref("t/w").ask(1, timeout=5) == ("t/other", "t/w")


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
