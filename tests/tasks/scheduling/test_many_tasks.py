"""Many at once: what one more costs does not depend on how many there are, and older tasks finish first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from actors.testing import Hang, ManualClock
from tests.support.crew import LONG_S
from tests.support.operations import counted_on_loop
from tests.tasks.dispatching import one, shop, submitted
from trees import (
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)

FEW, MANY = 20, 160
MOST_GROWTH = 1.1
"""Of the operations that one more subtask costs: heaps and dicts of eight times as many may cost a little more."""


@pytest.fixture(autouse=True)
def _somebody_acts_on_all_that_is_open() -> None:
    """Not looked at here: a look after each message costs as much as the plan is long, and would be counted."""


async def work(_: Any, __: Any) -> int:
    return 1


async def undo(_: Any, __: Any, ___: Any) -> None:
    return None


async def fail(_: Any, __: Any) -> None:
    raise OSError


def hub(number: int) -> list[Subtask]:
    return [one("hub", worker="w"), *(one(f"n{n}", worker="w", depends_on=["hub"]) for n in range(number))]


def apart(number: int) -> list[Subtask]:
    return [one(f"n{n}", worker="w") for n in range(number)]


def chain(number: int) -> list[Subtask]:
    return [one(f"n{n}", worker="w", depends_on=[f"n{n - 1}"] if n else []) for n in range(number)]


def undone(number: int) -> list[Subtask]:
    return [*apart(number), one("last", worker="bad", depends_on=[f"n{n}" for n in range(number)])]


@pytest.mark.slow
@pytest.mark.parametrize("plan", [hub, chain, undone], ids=lambda plan: plan.__name__)
def test_a_subtask_costs_the_same_in_a_plan_of_eight_times_as_many(plan: Callable[[int], list[Subtask]]) -> None:
    """What a task costs by itself is taken away: one more subtask is looked at, in a short plan and in a long one."""

    def all_of(number: int) -> int:
        tasks = Tasks(planner=StaticPlan(plan(number)), max_subtasks=number + 1, on_failure=[], max_parallel=20)
        workers = [WorkerSpec(id="w", execute=work, pool=20, undo=undo), WorkerSpec(id="bad", execute=fail)]
        with (
            start(SupervisorSpec(id="shop", tasks=tasks, children=workers)) as tree,
            counted_on_loop(tree) as operations,
        ):
            handle = tree.submit("go")
            if plan is undone:
                with pytest.raises(TaskFailedError):
                    handle.result(4 * LONG_S)
                assert handle.report is not None
                assert len(handle.report.compensated) == number
            else:
                handle.result(4 * LONG_S)
        return operations.count

    all_of(1)  # what is made once in a process
    one, few, many = all_of(1), all_of(FEW), all_of(MANY)
    assert (many - few) / (MANY - FEW) <= MOST_GROWTH * (few - one) / (FEW - 1)


def test_a_younger_task_that_is_more_urgent_still_goes_first() -> None:
    order: list[str] = []

    async def note(_: Any, context: Any) -> None:
        order.append(context.goal)

    with Hang() as hang:

        async def hold(_: Any, __: Any) -> None:
            await hang.hold_async()

        plans = {"hold": [one("hold")], "old": chain(2), "urgent": chain(2)}
        workers = [WorkerSpec(id="hold", execute=hold), WorkerSpec(id="w", execute=note)]
        with start(shop(*workers, plans=plans, max_parallel=1, max_preemptions=0), clock=ManualClock()) as tree:
            tree.submit(Task("hold", priority=-9))
            hang.wait_until_entered()
            handles = [submitted(tree, "old", priority=2), submitted(tree, "urgent", priority=1)]
            hang.release()
            for handle in handles:
                handle.result(LONG_S)

    assert order == ["urgent", "urgent", "old", "old"]


@pytest.mark.parametrize("round_", range(10))
def test_two_pools_of_four_with_one_capability_get_two_each_of_four_ready_subtasks(round_: int) -> None:
    """Each pool could take all of it: the first one that is heard of must not."""
    used: Counter[str] = Counter()

    with Hang() as hang:

        def member(name: str) -> Callable[..., Any]:
            async def execute(_: Any, __: Any) -> None:
                used[name] += 1
                await hang.hold_async()

            return execute

        plan = [Subtask(f"n{n}", capability="c") for n in range(4)]
        pools = [WorkerSpec(id=id_, execute=member(id_), capabilities={"c"}, pool=4) for id_ in ("x", "y")]
        with start(shop(*pools, plans={"go": plan})) as tree:
            handle = tree.submit("go")
            for _ in range(4):
                hang.wait_until_entered()
            hang.release()
            handle.result(LONG_S)

    assert used == {"x": 2, "y": 2}, round_
