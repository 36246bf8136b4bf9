"""A mailbox that is full and was declared with overflow="drop_oldest" keeps what came last."""

from __future__ import annotations

import threading

from actors.testing import settle
from trees import Mailbox, SupervisorSpec, WorkerSpec, start


def test_drop_oldest_drops_what_waits_longest_and_the_rest_keeps_its_order() -> None:
    began, go_on, heard = threading.Event(), threading.Event(), []

    def hear(message: int) -> None:
        heard.append(message)
        began.set()
        go_on.wait(60.0)

    mailbox = Mailbox(capacity=3, overflow="drop_oldest")
    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="w", handle=hear, mailbox=mailbox)])) as tree:
        tree.ref("t/w").tell(0)
        assert began.wait(60.0)
        for message in range(1, 8):
            tree.ref("t/w").tell(message)
        go_on.set()
        settle(tree)

    assert heard == [0, 5, 6, 7]
