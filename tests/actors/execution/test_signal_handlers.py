"""A signal handler runs between two steps of whatever the main thread does: also in the middle of a tell or an ask."""

import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors import ActorsError
from trees import Mailbox, SupervisorSpec, Tree, WorkerSpec, start

ROUNDS = 40
LIMIT_S = 60.0


@pytest.fixture
def _nobody_sleeps_while_a_message_waits() -> None:
    """Not looked at here: a handler stops the tree in the middle of a tell, between its message and its wake-up."""


@pytest.fixture
def alarm() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Have a function called by a signal handler, a moment from now."""
    before = signal.getsignal(signal.SIGALRM)
    dice = random.Random(1)  # noqa: S311 - for moments, not for secrets

    def arm(act: Callable[[], object]) -> None:
        signal.signal(signal.SIGALRM, lambda *_: act())
        signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.001, 0.004))

    yield arm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def a_tree(**fields: Any) -> Tree:
    worker = WorkerSpec(id="w", handle=lambda message: message, **fields)
    return start(SupervisorSpec(id="t", children=[worker]))


USES: dict[str, tuple[dict[str, Any], Callable[[Any], object]]] = {
    "tell": ({}, lambda ref: ref.tell(1)),
    "tell to a bounded mailbox": ({"mailbox": Mailbox(capacity=10**6)}, lambda ref: ref.tell(1)),
    "tell to a full mailbox that rejects": (
        {"mailbox": Mailbox(capacity=1, overflow="reject")},
        lambda ref: ref.tell(1),
    ),
    "tell to a full mailbox that drops": (
        {"mailbox": Mailbox(capacity=1, overflow="drop_oldest")},
        lambda ref: ref.tell(1),
    ),
    "ask": ({}, lambda ref: ref.ask(1)),
    "ask without waiting": ({}, lambda ref: ref.ask(1, block=False).get()),
}


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
def test_a_tree_may_be_stopped_by_a_signal_handler_that_interrupts_its_use(
    alarm: Callable[[Callable[[], object]], None], use: str
) -> None:
    fields, act = USES[use]
    for number in range(ROUNDS):
        tree, stopped = a_tree(**fields), []
        ref = tree.ref("t/w")
        alarm(lambda tree=tree, stopped=stopped: stopped.append(tree.stop(LIMIT_S)))  # type: ignore[misc]
        while not stopped:
            try:
                act(ref)
            except ActorsError:
                assert stopped  # it is down, and says so
        assert stopped == [True], f"round {number}"


def test_a_signal_handler_may_tell_a_worker_that_the_main_thread_is_just_telling(
    alarm: Callable[[Callable[[], object]], None],
) -> None:
    with a_tree(mailbox=Mailbox(capacity=10**6)) as tree:
        ref, told = tree.ref("t/w"), []

        def again() -> None:
            ref.tell("from the handler")
            told.append(1)
            if len(told) < 10 * ROUNDS:
                signal.setitimer(signal.ITIMER_REAL, 0.0005)

        alarm(again)
        while len(told) < 10 * ROUNDS:
            ref.tell(1)

        assert ref.ask("again", timeout=LIMIT_S) == "again"


@pytest.mark.parametrize("timeout_s", [None, LIMIT_S])
def test_a_signal_that_does_not_wake_the_main_thread_is_handled_soon_while_it_waits(timeout_s: float | None) -> None:
    """One that comes to another thread, or just before the main thread falls asleep: Python only notes it."""
    main = threading.main_thread().ident
    assert main is not None

    def cut(*_: object) -> None:
        raise InterruptedError

    def send() -> None:
        while sys._current_frames()[main].f_code.co_name != "pass_gate":
            pass
        signal.raise_signal(signal.SIGUSR2)  # on this thread

    before = signal.signal(signal.SIGUSR2, cut)
    try:
        with a_tree() as tree:
            threading.Thread(target=send).start()
            with pytest.raises(InterruptedError):
                tree.wait(timeout_s)
    finally:
        signal.signal(signal.SIGUSR2, before)
