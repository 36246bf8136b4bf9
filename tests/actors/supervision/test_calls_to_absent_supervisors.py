"""Child calls to a supervisor that is not running are refused at once, as OTP's ``noproc``; messages to workers wait.

A call that waited for the next incarnation could wait for itself: the handler that makes it may stand in the group that
has to be stopped first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors import ActorStoppedError
from actors.testing import ManualClock, settle
from tests.support.hardening import LONG_S, Gate, crash, eventually, root, tree_of, worker
from trees import Backoff, SupervisorSpec, Tree, start

WAITING = Backoff(initial_s=60.0, factor=1.0, max_s=60.0, jitter=0.0)
CALLS: dict[str, Callable[[Tree], object]] = {
    "start_child": lambda tree: tree.start_child("t/team", worker("new")),
    "terminate_child": lambda tree: tree.terminate_child("t/team/w"),
    "restart_child": lambda tree: tree.restart_child("t/team/w"),
    "delete_child": lambda tree: tree.delete_child("t/team/w"),
}


def team(**fields: Any) -> SupervisorSpec:
    """A supervisor that gives up at the first crash of its only worker."""
    return SupervisorSpec(id="team", children=[worker("w")], max_restarts=0, **fields)


@pytest.mark.parametrize("call", CALLS)
def test_a_handler_without_a_limit_that_calls_a_supervisor_of_its_stopping_group_is_no_deadlock(call: str) -> None:
    """``w`` has to end before the team is started again; OTP's call exits with noproc there."""
    gate, outcome = Gate(), list[Exception]()
    with tree_of(worker("w", shutdown="infinity"), team(), worker("last"), strategy="one_for_all") as tree:

        def handle() -> None:
            gate()
            try:
                CALLS[call](tree)
            except ActorStoppedError as error:
                outcome.append(error)

        tree.ref("t/w").tell(handle)
        gate.wait_reached()
        tree.ref("t/last").tell(crash)
        eventually(lambda: tree.child("t/team").state == "restarting")
        gate.open.set()

        eventually(lambda: tree.child("t/team").incarnation == 2)
        assert len(outcome) == 1
        assert tree.ref("t/team/w").ask("again", timeout=LONG_S) == "again"


def test_a_message_to_a_worker_below_a_supervisor_that_waits_to_be_restarted_waits() -> None:
    clock = ManualClock()
    with start(root(team(backoff=WAITING)), clock=clock) as tree:
        tree.ref("t/team/w").tell(crash)
        settle(tree)
        reply = tree.ref("t/team/w").ask("later", timeout=None, block=False)
        settle(tree)
        assert not reply.done

        clock.advance(61)
        assert reply.get(timeout=LONG_S) == "later"


# -- a call against the end of the incarnation, in both orders ----------------------------------------------
