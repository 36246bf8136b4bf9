"""An ask that a handler makes for another ask has no more time than that one has left."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from actors import ReplyTimeoutError
from trees import SupervisorSpec, WorkerSpec, start


def test_an_ask_within_an_ask_ends_with_the_time_of_the_first() -> None:
    go_on, told, limits = threading.Event(), threading.Event(), list[float]()

    def ask_on(colleague: Any) -> None:
        try:
            colleague.ask("anything", timeout=60.0)
        except ReplyTimeoutError as error:
            limits.append(error.timeout_s)
            told.set()

    workers = [
        WorkerSpec(id="first", handle=ask_on),
        WorkerSpec(id="second", handle=lambda _: go_on.wait(60.0) and None),
    ]
    with start(SupervisorSpec(id="t", children=workers)) as tree:
        with suppress(ReplyTimeoutError):  # else the one who waited for the other was quicker to say so
            tree.ref("t/first").ask(tree.ref("t/second"), timeout=0.5)
        in_time = told.wait(20.0)
        go_on.set()

    assert in_time
    assert limits[0] <= 0.5
