"""Two workers of one function have what each of them was declared with."""

from __future__ import annotations

import threading

import pytest

from trees import Mailbox, SupervisorSpec, WorkerSpec, start


@pytest.mark.parametrize("first", ["small", "large"])
def test_each_has_a_mailbox_of_its_own_size(first: str) -> None:
    began, go_on = {"small": threading.Event(), "large": threading.Event()}, threading.Event()

    def handle(message: str) -> None:
        if message in began:
            began[message].set()
            go_on.wait(60.0)

    sizes = {"small": Mailbox(capacity=1, overflow="reject"), "large": Mailbox(capacity=50, overflow="reject")}
    ids = sorted(sizes, reverse=first == "small")
    children = [WorkerSpec(id=id_, handle=handle, mailbox=sizes[id_]) for id_ in ids]
    with start(SupervisorSpec(id="t", children=children)) as tree:
        for id_ in ids:
            tree.ref(f"t/{id_}").tell(id_)
            assert began[id_].wait(60.0)
            for _ in range(10):
                tree.ref(f"t/{id_}").tell("more")
        waiting = {id_: tree.ref(f"t/{id_}").depth for id_ in ids}
        go_on.set()

    assert waiting == {"small": 1, "large": 10}
