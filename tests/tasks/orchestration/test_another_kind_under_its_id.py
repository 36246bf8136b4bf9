"""A team whose id a worker has by now, and the other way round, while the orchestrator above was down."""

from __future__ import annotations

import pytest

from actors.testing import settle
from tests.support.asking import LONG_S, Stuck, assert_nothing_left, does, shop, team
from tests.tasks.dispatching import until
from trees import Reject, Retry, Subtask, SupervisorSpec, TaskCancelledError, Tree, WorkerSpec, start

AT_ONCE = [Retry(max_attempts=2, initial_s=0.0, max_s=0.0, jitter=0.0)]


def swap(tree: Tree, spec: WorkerSpec | SupervisorSpec, *, restarted: bool = True) -> None:
    """Have another child take its place; while the orchestrator is down, which then sees only who is there at last."""
    if restarted:
        tree.terminate_child("p/orchestrator")
    tree.terminate_child(f"p/{spec.id}")
    tree.delete_child(f"p/{spec.id}")
    tree.start_child("p", spec)
    if restarted:
        tree.restart_child("p/orchestrator")


def test_a_team_has_the_id_of_the_worker_that_was_at_work() -> None:
    stuck = Stuck()
    with start(shop(WorkerSpec(id="team", execute=stuck), on_failure=AT_ONCE)) as tree:
        handle = tree.submit("the goal")
        assert stuck.begun.wait(LONG_S)

        swap(tree, team(WorkerSpec(id="m", execute=does)))

        report = handle.result(LONG_S)
        assert report.results == {"only": {"part": "did a part of it"}}
        settle(tree)
        assert_nothing_left(tree)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_team_did_is_not_undone_by_the_worker_that_has_its_id(restarted: bool) -> None:
    stuck, undone = Stuck(), []
    members = team(WorkerSpec(id="m", execute=does, undo=lambda *_: undone.append("by the member")))
    plan = [Subtask("first", worker="team"), Subtask("second", worker="w", depends_on=["first"])]
    with start(shop(members, WorkerSpec(id="w", execute=stuck), plan=plan)) as tree:
        handle = tree.submit("the goal")
        assert stuck.begun.wait(LONG_S)
        swap(
            tree,
            WorkerSpec(id="team", execute=does, undo=lambda *_: undone.append("by the worker")),
            restarted=restarted,
        )

        handle.cancel()
        until(lambda: handle.escalations)
        said = "'the undo of first'. The team 'team', whose members knew how to undo it, is gone; when it is"
        assert said in handle.escalations[0].error
        handle.respond(handle.escalations[0].id, Reject())

        with pytest.raises(TaskCancelledError) as raised:
            handle.result(LONG_S)
        assert list(raised.value.report.undo_errors) == ["first"]
    assert undone == []
