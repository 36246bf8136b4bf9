"""Dispatch: dataflow, slots, workers that take one at a time, the order of the queue (points 9, 10)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import (
    AsyncScriptedExecutable,
    Hang,
    InTurn,
    ManualClock,
    ScriptedExecutable,
)
from tests.tasks.dispatching import LONG_S, heard, one, shop, submitted
from trees import Report, SupervisorSpec, WorkerSpec, start

BOTH = pytest.mark.parametrize("kind", [ScriptedExecutable, AsyncScriptedExecutable], ids=["sync", "async"])

# -- dataflow ----------------------------------------------------------------------------------------------


@BOTH
def test_a_subtask_starts_when_its_own_dependencies_are_done_and_waits_for_no_slow_sibling(kind: type[Any]) -> None:
    plan = [one("fast"), one("slow"), one("after", depends_on=["fast"])]
    with Hang() as hang:
        slow, after = kind(hang), kind("after")
        tree_of = shop(
            WorkerSpec(id="fast", execute=kind("fast")),
            WorkerSpec(id="slow", execute=slow),
            WorkerSpec(id="after", execute=after),
            plans={"go": plan},
        )
        with start(tree_of, clock=ManualClock()) as tree:
            handle = tree.submit("go")
            hang.wait_until_entered()
            after.wait_for_calls(1)
            slow_had_ended = slow.calls[0].ended
            hang.release()
            report = handle.result(timeout=LONG_S)

    assert slow_had_ended == ""
    assert set(report.results) == {"fast", "slow", "after"}


@BOTH
def test_a_subtask_waits_for_every_dependency_and_sees_the_results_of_all(kind: type[Any]) -> None:
    last = kind()
    plan = [one("a"), one("b"), one("last", depends_on=["a", "b"])]
    with Hang() as hang:
        tree_of = shop(
            WorkerSpec(id="a", execute=kind("A")),
            WorkerSpec(id="b", execute=kind(InTurn(hang, "B"))),
            WorkerSpec(id="last", execute=last),
            plans={"go": plan},
        )
        with start(tree_of, clock=ManualClock()) as tree:
            handle = submitted(tree, "go")
            hang.wait_until_entered()
            heard(tree)
            before = len(last.calls)
            hang.release()
            handle.result(timeout=LONG_S)

    assert before == 0
    assert last.calls[0].results == {"a": "A", "b": "B"}


# -- slots -------------------------------------------------------------------------------------------------


@BOTH
def test_never_more_attempts_than_max_parallel_run_at_once_over_all_tasks(kind: type[Any]) -> None:
    plan = [one(f"s{n}", "w") for n in range(6)]
    with Hang() as hang:
        script = kind(hang)
        tree_of = shop(WorkerSpec(id="w", execute=script, pool=8), plans={"go": plan}, max_parallel=3)
        with start(tree_of, clock=ManualClock()) as tree:
            handles = [submitted(tree, "go") for _ in range(2)]
            script.wait_for_calls(3)
            heard(tree)
            before = len(script.calls)
            hang.release()
            for handle in handles:
                handle.result(timeout=LONG_S)

    assert before == 3
    assert script.most_at_once == 3
    assert len(script.calls) == 12


def test_whoever_waits_in_an_ask_gives_its_slot_to_what_it_asked_for() -> None:
    async def asker(_task: object, context: Any) -> str:
        return f"{await context.ask('helper', 'help')}!"

    tree_of = shop(
        WorkerSpec(id="asker", execute=asker),
        WorkerSpec(id="helper", execute=AsyncScriptedExecutable("helped")),
        plans={"go": [one("asker")]},
        max_parallel=1,
    )

    with start(tree_of, clock=ManualClock()) as tree:
        report = tree.run("go", timeout=LONG_S)

    assert report.results == {"asker": "helped!"}


# -- workers -----------------------------------------------------------------------------------------------


@BOTH
def test_a_worker_has_one_attempt_at_a_time(kind: type[Any]) -> None:
    plan = [one(f"s{n}", "w") for n in range(5)]
    with Hang() as hang:
        script = kind(hang)
        with start(shop(WorkerSpec(id="w", execute=script), plans={"go": plan}), clock=ManualClock()) as tree:
            handle = submitted(tree, "go")
            hang.wait_until_entered()
            heard(tree)
            before = len(script.calls)
            hang.release()
            handle.result(timeout=LONG_S)

    assert before == 1
    assert script.most_at_once == 1


@BOTH
def test_each_member_of_a_pool_has_one_attempt_at_a_time(kind: type[Any]) -> None:
    plan = [one(f"s{n}", "w") for n in range(7)]
    with Hang() as hang:
        script = kind(hang)
        with start(shop(WorkerSpec(id="w", execute=script, pool=3), plans={"go": plan}), clock=ManualClock()) as tree:
            handle = submitted(tree, "go")
            script.wait_for_calls(3)
            heard(tree)
            load = tree.registry()[0].load
            hang.release()
            handle.result(timeout=LONG_S)

    assert load == 3
    assert script.most_at_once == 3


# -- the queue ---------------------------------------------------------------------------------------------


def test_what_is_ready_is_started_by_priority_then_deadline_then_age_whatever_task_it_is_of() -> None:
    tasks = {
        "late": {"priority": 5},
        "first": {"priority": 0},
        "second": {"priority": 0},
        "by ten": {"priority": 0, "deadline_s": 10.0},
        "by five": {"priority": 0, "deadline_s": 5.0},
        "urgent": {"priority": -1},
    }
    plans = {goal: [one("w", instruction=goal)] for goal in [*tasks, "gate"]}
    with Hang() as hang:
        script = ScriptedExecutable(hang, by="call", then="done")
        with start(shop(WorkerSpec(id="w", execute=script), plans=plans), clock=ManualClock()) as tree:
            gate = tree.submit("gate")
            hang.wait_until_entered()
            handles = [submitted(tree, goal, **fields) for goal, fields in tasks.items()]
            hang.release()
            for handle in [gate, *handles]:
                handle.result(timeout=LONG_S)

    order = ["gate", "urgent", "by five", "by ten", "first", "second", "late"]
    assert [call.instruction for call in script.calls] == order


def test_a_lane_whose_workers_are_busy_holds_up_no_other() -> None:
    plans = {"a": [one("a")], "b": [one("b")]}
    with Hang() as hang:
        tree_of = shop(
            WorkerSpec(id="a", execute=ScriptedExecutable(hang)),
            WorkerSpec(id="b", execute=ScriptedExecutable("b")),
            plans=plans,
        )
        with start(tree_of, clock=ManualClock()) as tree:
            busy = [submitted(tree, "a", priority=-1) for _ in range(2)]
            report = tree.run("b", timeout=LONG_S)
            hang.release()
            for handle in busy:
                handle.result(timeout=LONG_S)

    assert report.results == {"b": "b"}


# -- teams -------------------------------------------------------------------------------------------------


def test_a_team_is_given_as_many_attempts_at_once_as_its_own_slots() -> None:
    with Hang() as hang:
        script = AsyncScriptedExecutable(hang)
        member = WorkerSpec(id="member", execute=script, pool=8)
        team_plan = shop(member, plans={"work": [one("m", "member")]}, max_parallel=2).tasks
        team = SupervisorSpec(id="team", tasks=team_plan, children=[member])
        plan = [one(f"t{n}", "team", instruction="work") for n in range(4)]
        with start(shop(team, plans={"go": plan}), clock=ManualClock()) as tree:
            handle = submitted(tree, "go")
            script.wait_for_calls(2)
            heard(tree)
            before = len(script.calls)
            hang.release()
            report: Report = handle.result(timeout=LONG_S)

    assert before == 2
    assert script.most_at_once == 2
    assert len(report.results) == 4
