"""A plan for work that only workers with an open breaker could do: the work waits, as it does where it was planned."""

from typing import Any

import pytest

from actors.tasks.planning.planners import CapabilityPlanner, KeywordPlanner
from actors.testing import settle
from tests.support.attempts import no, shop
from tests.tasks.planning.test_goal_evidence import waits
from tests.tasks.planning.test_planners import row
from tests.tasks.scheduling.test_breakers import states, submit, worker
from trees import NoCapableWorkerError, Plan, Subtask, SupervisorSpec, Task, TaskFailedError, Tasks, WorkerSpec, start


def seeing_none(task: Task, catalogue: Any, feedback: str) -> Plan:
    """Plan for whoever sells, as a planner of a user does."""
    if not any("sell" in each.capabilities for each in catalogue):
        raise NoCapableWorkerError("sell")
    return Plan([Subtask("x", capability="sell")])


async def seeing_none_async(task: Task, catalogue: Any, feedback: str) -> Plan:
    return seeing_none(task, catalogue, feedback)


@pytest.mark.parametrize(
    "planner",
    [KeywordPlanner(), CapabilityPlanner(), CapabilityPlanner(lambda task: ["sell"]), seeing_none, seeing_none_async],
    ids=["words", "capabilities", "needs", "user", "user async"],
)
def test_a_task_for_a_worker_with_an_open_breaker_waits_for_it_whoever_plans(planner: Any) -> None:
    script, a = worker("a", no, no, "done", capabilities={"sell"})
    _, other = worker("other", "done", description="Paints fences")
    with shop((), a, other, planner=planner, on_failure=[]) as it:
        submit(it, 2)
        assert states(it)["a"] == "open"
        handle = it.submit()
        shown, calls = handle.dump(), len(script.calls)
        it.advance(30.0)
        report = it.report()

    assert "breaker of a open, probe in 30 s" in shown
    assert calls == 2
    assert list(report.results.values()) == ["done"]


def test_an_open_breaker_does_not_give_a_workers_share_of_a_goal_to_somebody_else() -> None:
    catalogue = (
        row("x", description="Charges cards", breaker="open"),
        row("y", description="Prints cards and receipts"),
    )
    plan = KeywordPlanner().plan(Task("charge the card, then print the receipt"), catalogue, "")

    assert waits(plan) == {"x": [], "y": ["x"]}


def test_of_two_who_are_nearly_as_good_the_one_whose_breaker_is_closed_has_it() -> None:
    catalogue = (row("x", description="Writes code", breaker="open"), row("y", description="Writes code"))

    assert [one.worker for one in KeywordPlanner().plan(Task("write a parser"), catalogue, "").subtasks] == ["y"]


def test_where_all_workers_are_parked_the_error_says_so_and_how_they_come_back() -> None:
    def crash() -> None:
        raise ValueError("down")

    class Clerk:
        def __init__(self) -> None:
            if self.broken:
                crash()

        broken = False

        def execute(self, task: Subtask, context: Any) -> str:
            Clerk.broken = True
            raise ValueError("down")

    spec = SupervisorSpec(id="p", tasks=Tasks(on_failure=[]), children=[WorkerSpec(id="clerk", execute=Clerk)])
    with start(spec) as tree:
        with pytest.raises(TaskFailedError):
            tree.run("clerk", timeout=60)
        settle(tree)
        assert tree.child("p/clerk").state == "parked"

        with pytest.raises(NoCapableWorkerError) as caught:
            tree.run("clerk", timeout=60)

    assert "clerk (parked)" in str(caught.value)
    assert "tree.restart_child('p/clerk') brings it back." in str(caught.value)
