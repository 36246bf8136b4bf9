"""A pool thread that is woken for nothing: it must not be counted on twice."""

import threading
from typing import Any

from trees import SupervisorSpec, WorkerSpec, start

WAIT_S = 10.0
PROMPT_S = 2.0


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
