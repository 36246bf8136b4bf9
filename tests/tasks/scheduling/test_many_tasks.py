"""Many at once: what one more costs does not depend on how many there are, and older tasks finish first."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from actors import Escalated
from actors.testing import Hang, ManualClock
from tests.support.crew import LONG_S
from tests.support.operations import counted_here, counted_on_loop
from tests.tasks.dispatching import one, shop, submitted, until
from trees import (
    Escalate,
    Respond,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    TaskHandle,
    Tasks,
    WorkerSpec,
    start,
)

FEW, MANY = 20, 160
MOST_GROWTH = 1.1
"""Of the operations that one more subtask costs: heaps and dicts of eight times as many may cost a little more."""
MOST_GROWTH_OF_AN_ANSWER = 1.3


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


def join(number: int) -> list[Subtask]:
    return [*apart(number), one("last", worker="w", depends_on=[f"n{n}" for n in range(number)])]


def undone(number: int) -> list[Subtask]:
    return [*apart(number), one("last", worker="bad", depends_on=[f"n{n}" for n in range(number)])]


@pytest.mark.slow
@pytest.mark.parametrize("plan", [apart, hub, chain, join, undone], ids=lambda plan: plan.__name__)
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


@pytest.mark.slow
def test_a_plan_of_2000_subtasks_costs_no_more_per_subtask_than_one_of_100() -> None:
    """All work is counted, which takes long: of 400 and of 50 in a sample."""

    def each(number: int) -> float:
        tasks = Tasks(planner=StaticPlan(apart(number)), max_subtasks=number, on_failure=[])
        tree_of = SupervisorSpec(id="shop", tasks=tasks, children=[WorkerSpec(id="w", execute=work, pool=10)])
        with start(tree_of) as tree, counted_on_loop(tree) as operations:
            tree.run("go", timeout=4 * LONG_S)
        return operations.count / number

    assert each(400) <= 1.05 * each(50)


@pytest.mark.slow
def test_an_ask_costs_the_same_among_eight_times_as_many_of_the_same_attempt() -> None:
    def each(number: int) -> float:
        async def ask(_: Any, context: Any) -> int:
            return len(await asyncio.gather(*(context.ask("w", f"part {n}") for n in range(number))))

        workers = [WorkerSpec(id="w", execute=work, pool=4), WorkerSpec(id="asker", execute=ask)]
        spec = shop(*workers, plans={"go": [one("a", worker="asker")]}, max_subtasks=number + 1)
        with start(spec) as tree, counted_on_loop(tree) as operations:
            assert tree.run("go", timeout=4 * LONG_S).results["a"] == number
        return operations.count / number

    assert each(MANY) <= 1.05 * each(FEW)


def test_an_answer_costs_the_same_among_eight_times_as_many_open_questions() -> None:
    async def ask(_: Any, context: Any) -> str:
        if context.feedback:
            return str(context.feedback)
        raise Escalated("?")

    def each(number: int, by: str) -> float:
        worker = WorkerSpec(id="w", execute=ask, pool=20)
        spec = shop(worker, plans={"go": [one("w")]}, on_failure=[Escalate()], max_parallel=20)
        with start(spec) as tree:
            handles = [tree.submit("go") for _ in range(number)]
            heard_of_all(handles)
            questions = [(handle, handle.escalations[0].id) for handle in handles]
            with counted_here() as operations:
                for handle, question in questions:
                    (tree if by == "tree" else handle).respond(question, Respond("yes"))
            assert {handle.result(LONG_S).results["w"] for handle in handles} == {"yes"}
        return operations.count / number

    for by in ("tree", "handle"):
        assert each(MANY // 4, by) <= MOST_GROWTH_OF_AN_ANSWER * each(FEW // 4, by)


def heard_of_all(handles: list[TaskHandle]) -> None:
    until(lambda: all(handle.status == "waiting" for handle in handles))


@pytest.mark.parametrize("chained", [2, 3])
def test_with_a_backlog_an_older_task_is_done_before_a_younger_one_goes_on(chained: int) -> None:
    order: list[str] = []

    async def note(_: Any, context: Any) -> None:
        order.append(context.goal)

    with Hang() as hang:

        async def hold(_: Any, __: Any) -> None:
            await hang.hold_async()

        plans = {"hold": [one("hold")], **{f"t{n}": chain(chained) for n in range(5)}}
        workers = [WorkerSpec(id="hold", execute=hold), WorkerSpec(id="w", execute=note)]
        with start(shop(*workers, plans=plans, max_parallel=1), clock=ManualClock()) as tree:
            tree.submit("hold")
            hang.wait_until_entered()
            handles = [submitted(tree, f"t{n}") for n in range(5)]
            hang.release()
            for handle in handles:
                handle.result(LONG_S)

    assert order == [f"t{n}" for n in range(5) for _ in range(chained)]


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


def test_selection_counts_attempts_from_the_moment_they_are_given_over_all_lanes_and_tasks() -> None:
    used: Counter[str] = Counter()

    with Hang() as hang:

        def member(name: str) -> Callable[..., Any]:
            async def execute(_: Any, __: Any) -> None:
                used[name] += 1
                await hang.hold_async()

            return execute

        plans = {"by name": [one(f"n{n}", worker="x") for n in range(3)], "able": [one("m", capability="c")]}
        pools = [WorkerSpec(id=id_, execute=member(id_), capabilities={"c"}, pool=4) for id_ in ("x", "y")]
        with start(shop(*pools, plans=plans)) as tree:
            handles = [tree.submit("by name")]
            for _ in range(3):
                hang.wait_until_entered()
            for _ in range(3):
                handles.append(tree.submit("able"))
                hang.wait_until_entered()
            hang.release()
            for handle in handles:
                handle.result(LONG_S)

    assert used == {"x": 3, "y": 3}
