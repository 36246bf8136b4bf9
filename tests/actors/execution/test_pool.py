"""The pool by itself: it runs every job, again where it asks for that, and ends."""

import threading
from collections.abc import Iterator

import pytest

from actors.concurrency.thread_state import blocking
from actors.execution import pool as pool_module
from actors.execution.pool import BASE, Pool
from tests.support.hardening import LONG_S, Gate, eventually, threads_named


class Job:
    """Runs a function ``times`` times."""

    def __init__(self, function: object, *, times: int = 1, urgent: bool = False) -> None:
        self.urgent = urgent
        self._function = function
        self._left = times

    def run(self) -> bool:
        self._left -= 1
        self._function()
        return self._left > 0


@pytest.fixture
def failures() -> list[BaseException]:
    return []


@pytest.fixture
def near() -> list[tuple[int, int]]:
    return []


@pytest.fixture
def pool(failures: list[BaseException], near: list[tuple[int, int]]) -> Iterator[Pool]:
    pool = Pool("p", 30, near_cap=lambda *facts: near.append(facts), failed=failures.append)
    pool.open()
    yield pool
    pool.close(LONG_S)


def test_a_job_that_has_more_to_do_is_run_again(pool: Pool) -> None:
    runs = threading.Semaphore(0)
    pool.submit(Job(runs.release, times=5))

    assert all(runs.acquire(timeout=LONG_S) for _ in range(5))


def test_a_job_that_raises_is_reported_and_costs_no_thread(pool: Pool, failures: list[BaseException]) -> None:
    done = threading.Event()
    pool.submit(Job(lambda: 1 // 0))
    pool.submit(Job(done.set))

    assert done.wait(LONG_S)
    eventually(lambda: [type(error) for error in failures] == [ZeroDivisionError])


def test_a_wait_that_is_marked_is_compensated_at_once_beyond_the_base(pool: Pool) -> None:
    gate, more = Gate(), threading.Event()
    arrived = threading.Semaphore(0)

    def wait() -> None:
        arrived.release()
        with blocking(), blocking():
            gate()

    for _ in range(2 * BASE):
        pool.submit(Job(wait))
    for _ in range(2 * BASE):
        assert arrived.acquire(timeout=LONG_S)
    pool.submit(Job(more.set))

    assert more.wait(LONG_S)
    gate.open.set()
    eventually(lambda: not pool._blocked)


def test_it_grows_to_its_cap_says_so_and_no_further(pool: Pool, near: list[tuple[int, int]]) -> None:
    gate, last = Gate(), threading.Event()
    for _ in range(30):
        pool.submit(Job(gate))
    pool.submit(Job(last.set))
    eventually(lambda: len(pool._threads) == 30)
    at_cap = last.is_set()
    gate.open.set()

    assert last.wait(LONG_S)
    assert not at_cap
    assert near[0][1] == 30
    assert len(pool._threads) <= 30


def test_urgent_jobs_are_run_while_every_other_thread_is_stuck(pool: Pool) -> None:
    gate, urgent = Gate(), threading.Event()
    for _ in range(30):
        pool.submit(Job(gate))
    eventually(lambda: len(pool._threads) == 30)
    pool.submit(Job(urgent.set, urgent=True))

    assert urgent.wait(LONG_S)
    gate.open.set()


def test_threads_that_have_nothing_to_do_end(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "IDLE_S", 0.01)
    done = threading.Semaphore(0)
    for _ in range(BASE):
        pool.submit(Job(done.release))
    for _ in range(BASE):
        assert done.acquire(timeout=LONG_S)

    eventually(lambda: pool.size <= 1, "the end of every thread but the reserve")


def test_a_close_ends_every_thread_that_is_not_stuck(failures: list[BaseException]) -> None:
    pool, gate = Pool("q", 30, near_cap=lambda *_: None, failed=failures.append), Gate()
    pool.open()
    pool.submit(Job(gate))
    gate.wait_reached()
    pool.close(LONG_S)
    left = len(threads_named("q-"))
    gate.open.set()
    eventually(lambda: not threads_named("q-"))

    assert left == 1
    assert failures == []


def test_a_close_meets_a_thread_that_is_just_being_started(failures: list[BaseException]) -> None:
    """``Thread.start`` has a moment in which the new thread has an ident and cannot be joined yet."""
    pool, ran = Pool("q", 30, near_cap=lambda *_: None, failed=failures.append), threading.Event()
    begun, goes_on = threading.Event(), threading.Event()

    class Held(threading.Event):
        def set(self) -> None:
            begun.set()
            goes_on.wait(LONG_S)
            super().set()

    def begin(thread: threading.Thread) -> None:
        if thread.name.startswith("q-") and not begun.is_set():
            thread._started = Held()  # type: ignore[attr-defined]
        real(thread)

    real = threading.Thread.start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", begin)
        submitting = threading.Thread(target=pool.submit, args=(Job(ran.set),))
        real(submitting)
        assert begun.wait(LONG_S)
        pool.close(LONG_S)
        goes_on.set()
        submitting.join(LONG_S)
    eventually(lambda: not threads_named("q-"))
    assert failures == []
