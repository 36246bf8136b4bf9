"""A pool thread that is woken for nothing: it must not be counted on twice."""

import threading
from collections import deque
from typing import Any

from actors.testing import settle
from tests.support.hardening import eventually, in_thread, switching_fast
from trees import SupervisorSpec, WorkerSpec, start

WAIT_S = 60.0
PROMPT_S = WAIT_S / 2


def test_a_message_never_waits_behind_a_handler_of_another_worker_because_a_thread_was_woken_for_nothing() -> None:
    go_on, inside = threading.Event(), threading.Event()

    def handle(message: Any) -> Any:
        if message == "wait":
            inside.set()
            assert go_on.wait(WAIT_S)
        return message

    children = [WorkerSpec(id="slow", handle=handle), WorkerSpec(id="quick", handle=handle)]
    with start(SupervisorSpec(id="t", children=children)) as tree:
        slow, quick = tree.ref("t/slow"), tree.ref("t/quick")
        pool = tree._system.pool
        for _ in range(3):
            for thread in list(pool._threads):
                thread.wakeup.give()
            slow.ask("message", timeout=WAIT_S)
        slow.tell("wait")
        assert inside.wait(WAIT_S)

        answers = [quick.ask(n, timeout=PROMPT_S) for n in range(20)]
        parked = list(pool._parked)
        go_on.set()

    assert answers == list(range(20))
    assert len(parked) == len(set(parked))


class _OneStepAtATime(deque[Any]):
    """Threads park and leave at any moment: whoever looks at them must do it in one step."""

    def __iter__(self) -> Any:
        raise AssertionError("an iterator over the parked threads outlives a step")

    __reversed__ = __iter__


def test_the_thread_that_parked_last_is_looked_up_in_one_step() -> None:
    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="w", handle=str)])) as tree:
        pool, steps = tree._system.pool, _OneStepAtATime()
        settle(tree)
        steps.extend(pool._parked)
        pool._parked = steps

        assert [tree.ref("t/w").ask(n, timeout=WAIT_S) for n in range(20)] == [str(n) for n in range(20)]


def test_threads_that_park_and_leave_while_others_look_stand_on_the_list_once() -> None:
    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="w", handle=str, pool=8)])) as tree, switching_fast():
        ref = tree.ref("t/w")

        def send() -> None:
            for n in range(200):
                ref.ask(n, timeout=WAIT_S)

        senders = [in_thread(send) for _ in range(4)]
        for sender in senders:
            sender()
        settle(tree)
        pool = tree._system.pool
        eventually(lambda: len(pool._parked) == len(pool._threads))

        assert set(pool._parked) == pool._threads
