"""The traps that the trial of this library fell into, each forced again: the pool, its threads, and wake-ups."""

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from actors import ChildExited, ChildStarted
from actors.execution.pool import BASE, Pool
from actors.testing import settle
from tests.support.hardening import (
    LONG_S,
    Gate,
    Witness,
    counted,
    crash,
    eventually,
    in_thread,
    obey_async,
    switching_fast,
    threads_named,
    tree_of,
    worker,
)


@pytest.mark.slow
def test_a_storm_of_crashes_is_weathered_on_few_threads() -> None:
    """Trap 1: growth while the queue makes no progress made 8,086 threads."""
    most = 0

    def crash_and_count() -> None:
        nonlocal most
        most = max(most, threading.active_count())
        raise ValueError

    with tree_of(worker("w", pool=5000)) as tree:
        tree._system.bus.silence()
        before = threading.active_count()
        for n in range(5000):
            tree.ref(f"t/w#{n}").tell(crash_and_count)
        counted(lambda: tree.child("t/w").restarts, 5000, "restarts")

        assert tree.child("t/w").restarts == 5000
        assert tree.count_children("t").active == 5000
        assert most - before < 500  # about twenty, where the machine does nothing else


def test_workers_that_block_unseen_are_compensated_until_all_run() -> None:
    """Trap 1: sixty wait for each other in something that the pool knows nothing of."""
    barrier = threading.Barrier(60)
    with tree_of(worker("w", pool=60)) as tree:
        replies = [
            tree.ref(f"t/w#{n}").ask(lambda: barrier.wait(LONG_S), timeout=LONG_S, block=False) for n in range(60)
        ]

        assert sorted(reply.get() for reply in replies) == list(range(60))


def test_blocking_asks_are_compensated_at_once() -> None:
    """Trap 1: a chain of a hundred asks, each of which holds a thread of the pool."""

    def chain(n: int) -> int:
        return 0 if n == 100 else 1 + tree.ref(f"t/x{n + 1}").ask(lambda: chain(n + 1), timeout=None)

    with tree_of(*(worker(f"x{n}") for n in range(101))) as tree:
        assert tree.ref("t/x0").ask(lambda: chain(0), timeout=LONG_S) == 100


def test_a_pool_full_of_stuck_threads_still_has_one_for_the_supervisor() -> None:
    """Trap 1: the reserve."""
    gate = Gate()
    with tree_of(worker("w", pool=BASE, shutdown=0), max_restarts=3) as tree:
        tree._system.pool.max_threads = BASE
        for n in range(BASE):
            tree.ref(f"t/w#{n}").tell(gate)
        eventually(lambda: sum(thread.in_user_code for thread in tree._system.pool._threads) == BASE)
        tree.terminate_child("t/w")
        states = {child.state for child in tree.which_children("t")}
        gate.open.set()
        eventually(lambda: not tree._system.abandoned_by_path)

    assert states == {"stopped"}


class Step:
    """A job that runs a function once."""

    urgent = False

    def __init__(self, function: object) -> None:
        self._function = function

    def run(self) -> bool:
        self._function()
        return False


@pytest.fixture
def pool() -> Iterator[Pool]:
    failures = []
    pool = Pool("p", 4096, near_cap=lambda *_: None, failed=failures.append)
    yield pool
    pool.close(LONG_S)
    assert failures == []


def test_no_job_relies_on_a_thread_that_is_not_there(pool: Pool) -> None:
    """Trap 2: an idle thread is counted once, also where it was woken twice; each job has a thread of its own."""
    for size in (1, 2, 3, BASE - 1) * 5:
        barrier, done = threading.Barrier(size + 1), threading.Semaphore(0)
        for _ in range(size):
            pool.submit(Step(lambda barrier=barrier, done=done: (barrier.wait(LONG_S), done.release())))
        barrier.wait(LONG_S)

        assert all(done.acquire(timeout=LONG_S) for _ in range(size))
        assert len(set(pool._parked)) == len(pool._parked)


def test_a_thread_that_blocks_after_taking_on_a_job_for_itself_is_made_up_for(pool: Pool) -> None:
    """Trap 2: a job that its submitter kept for itself is not lost behind the submitter's next wait."""

    class Urgent(Step):
        urgent = True

    gate = Gate()
    second = threading.Event()
    pool.submit(Urgent(lambda: (pool.submit(Step(gate)), pool.submit(Step(second.set)))))
    gate.wait_reached()

    assert second.wait(LONG_S)
    gate.open.set()


@pytest.mark.parametrize("handler", [lambda message: message, obey_async])
def test_no_wake_up_is_lost_when_a_worker_goes_idle(handler: Any) -> None:
    """Trap 3: each message finds the worker just going idle."""
    with tree_of(worker("w", handler)) as tree, switching_fast():
        ref = tree.ref("t/w")

        assert [ref.ask(n, timeout=LONG_S) for n in range(1500)] == list(range(1500))


def test_no_wake_up_is_lost_when_a_worker_comes_up() -> None:
    """Trap 3: messages are sent while it restarts."""
    count, most = 0, 400

    def handle(message: object) -> object:
        if message == "crash":
            raise ValueError
        return message

    with tree_of(worker("w", handle)) as tree, switching_fast():
        ref = tree.ref("t/w")
        for n in range(most):
            ref.tell("crash")
            count += ref.ask(n, timeout=LONG_S) == n

    assert count == most


def test_a_put_and_a_handled_message_take_the_lock_once_a_batch_not_once_a_message() -> None:
    """Trap 4: a lock on both sides of each message convoys under the GIL."""
    gate, taken = Gate(), 0

    class Counting:
        def __init__(self, lock: threading.Lock) -> None:
            self._lock = lock

        def __enter__(self) -> None:
            nonlocal taken
            taken += threading.current_thread() in consumers
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    with tree_of(worker("w")) as tree:
        ref, consumers = tree.ref("t/w"), set()
        ref.tell(gate)
        gate.wait_reached()
        for _ in range(200):
            ref.tell("m")
        box = tree._system.boxes["t/w"]
        box.lock = Counting(box.lock)
        consumers.update(threads_named("t-"))
        gate.open.set()
        settle(tree)
        box.lock = box.lock._lock

    assert taken < 20


def test_an_idle_thread_of_the_pool_keeps_nothing_of_its_last_job_alive(pool: Pool) -> None:
    """Trap 10."""

    class Payload:
        pass

    def use(payload: Payload) -> None:
        ran.set()

    ran = threading.Event()
    payload = Payload()
    kept = weakref.ref(payload)
    pool.submit(Step(lambda payload=payload: use(payload)))
    assert ran.wait(LONG_S)
    del payload

    def gone() -> bool:
        gc.collect()
        return kept() is None

    eventually(gone, "the end of the payload")


def test_stops_of_many_blocked_members_do_not_each_take_a_thread() -> None:
    """Trap 9: a pool of ten thousand idle members is stopped all at once, on no more threads than before."""
    with tree_of(worker("w", pool=10_000)) as tree:
        seen = Witness(tree)
        before = threading.active_count()
        most = 0

        def look(event: object) -> None:
            nonlocal most
            most = max(most, threading.active_count())

        tree.subscribe(look)
        stopped = in_thread(lambda: tree.terminate_child("t/w"))
        stopped()
        settle(tree)

        assert len(seen.of(ChildExited)) == 10_000
        assert most - before < 20


def test_a_crash_takes_no_new_thread_per_incarnation() -> None:
    """Trap 1, in small: a thousand restarts of one worker."""
    with tree_of(worker("w")) as tree:
        seen = Witness(tree)
        for _ in range(1000):
            tree.ref("t/w").tell(crash)
        seen.wait(ChildStarted, count=1000)

        assert tree._system.pool.size <= BASE + 1
