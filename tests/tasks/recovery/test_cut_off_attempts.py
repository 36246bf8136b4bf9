"""An attempt whose worker is restarted with its group, and that hears so from a helper, was broken off: no failure."""

from __future__ import annotations

from typing import Any

import actors
from actors.testing import Hang
from tests.support.crew import LONG_S, faulty, running
from tests.support.hardening import eventually
from trees import SupervisorSpec, Tasks, WorkerSpec


def test_an_attempt_that_fails_of_a_helper_which_the_restart_of_its_group_has_stopped_first_runs_again() -> None:
    tries: list[int] = []
    with Hang(deaf=True) as gate:

        def work(_: Any, context: Any) -> Any:
            tries.append(context.attempt)
            gate.hold()
            return actors.ref("shop/helper").ask("hello", timeout=None)

        worker = WorkerSpec(id="work", execute=work, shutdown="infinity")
        helper = WorkerSpec(id="helper", handle=lambda message: message)
        children = [faulty("bad"), worker, helper]
        spec = SupervisorSpec(id="shop", strategy="rest_for_one", tasks=Tasks(on_failure=[]), children=children)
        with running(spec) as tree:
            handle = tree.submit("work")
            gate.wait_until_entered()
            tree.ref("shop/bad").tell("raise ValueError")
            eventually(lambda: tree.child("shop/helper").state != "running", "the end of the helper")
            gate.release()

            assert handle.result(timeout=LONG_S).results == {"work": "hello"}
    assert tries == [1, 1]
