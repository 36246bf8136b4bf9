"""A nested supervisor with ``tasks=`` is, to the orchestrator above, one more worker."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors import Event, Failed, Worker
from actors.testing import ManualClock, settle
from tests.support.crew import faulty
from tests.tasks.teams import AT_ONCE, LONG_S, Stuck, above, does, fails, run, team
from trees import (
    Breaker,
    Budget,
    Failover,
    Plan,
    PlanError,
    Reject,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskRetrying,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskDeadlineError,
    TaskError,
    TaskFailedError,
    Tasks,
    TaskStatus,
    WorkerSpec,
    start,
)

# -- who it is -----------------------------------------------------------------------------------------------


def test_a_team_is_listed_as_one_worker_with_what_its_members_can_do() -> None:
    members = [
        WorkerSpec(id="x", execute=does, capabilities={"read"}),
        WorkerSpec(id="y", execute=does, capabilities={"write", "read"}),
    ]
    with start(above(team(*members, description="Reads and writes"))) as tree:
        (row,) = tree.registry()

    assert (row.id, row.path, row.type, row.description) == ("team", "p/team", "team", "Reads and writes")
    assert row.capabilities == {"read", "write"}


def test_what_a_team_says_that_it_can_do_goes_before_what_its_members_can() -> None:
    member = WorkerSpec(id="x", execute=does, capabilities={"read"})
    with start(above(team(member, capabilities={"edit"}))) as tree:
        (row,) = tree.registry()

    assert row.capabilities == {"edit"}


def test_a_team_is_chosen_for_what_its_members_can_do() -> None:
    member = WorkerSpec(id="x", execute=does, capabilities={"read"})

    report = run(above(team(member), plan=[Subtask("only", "read it", capability="read")]))

    assert report.results == {"only": {"x": "did read it"}}
    assert report.graph[0].worker == "team"


def test_a_team_sees_what_it_is_to_do_its_inputs_and_the_results_that_its_part_depends_on() -> None:
    seen: list[Any] = []

    def looks(task: Any, context: Any) -> None:
        seen.append((str(task), context.goal, context.part, context.inputs, context.results))

    plan = [Subtask("first", "begin", worker="w"), Subtask("only", "go on", worker="team", depends_on=["first"])]
    spec = above(team(WorkerSpec(id="x", execute=looks)), WorkerSpec(id="w", execute=does), plan=plan)

    run(spec, Task("the goal", inputs={"of": 1}))

    assert seen == [("go on", "the goal", "go on", {"of": 1}, {"first": "did begin"})]


# -- what it uses --------------------------------------------------------------------------------------------


def test_what_a_team_uses_counts_for_the_task_above_also_where_it_fails() -> None:
    def uses(_: Any, context: Any) -> None:
        context.use(tokens=10, cost=0.5)

    def uses_and_fails(_: Any, context: Any) -> None:
        context.use(tokens=5)
        raise Failed

    done = run(above(team(WorkerSpec(id="x", execute=uses), WorkerSpec(id="y", execute=uses))))
    failed = run(above(team(WorkerSpec(id="x", execute=uses), WorkerSpec(id="y", execute=uses_and_fails))))

    assert (done.usage.tokens, done.usage.cost) == (20, 1.0)
    assert failed.usage.tokens == 15


def test_a_team_that_uses_too_much_ends_the_task_above() -> None:
    def uses(_: Any, context: Any) -> str:
        context.use(tokens=10)
        return "done"

    plan = [Subtask("only", worker="team"), Subtask("after", worker="team", depends_on=["only"])]

    report = run(above(team(WorkerSpec(id="x", execute=uses)), plan=plan), Task("the goal", budget=Budget(tokens=5)))

    assert report.status is TaskStatus.FAILED
    assert "tokens 10 of 5" in str(report.error)
    assert list(report.skipped) == ["only", "after"]  # the team was still to say what it has made of it


def test_a_plan_is_refused_where_a_team_would_use_too_much() -> None:
    spec = above(team(WorkerSpec(id="x", execute=does), estimate=Budget(tokens=100)), max_plan_attempts=1)
    with start(spec) as tree, pytest.raises(PlanError, match="100"):
        tree.run(Task("the goal", budget=Budget(tokens=50)), timeout=LONG_S)


# -- when it fails -------------------------------------------------------------------------------------------


class Second:
    """Fails when it is called for the first time."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __call__(self, task: Any, context: Any) -> str:
        self.keys.append(context.idempotency_key)
        if len(self.keys) == 1:
            raise Failed("not yet", retryable=True)
        return does(task, context)


def test_another_attempt_of_a_team_goes_on_with_the_same_task_of_it_and_the_same_keys() -> None:
    second = Second()
    spec = above(team(WorkerSpec(id="x", execute=second), on_failure=[AT_ONCE]))
    with start(spec) as tree:
        report = tree.run(Task("the goal", id="t"), timeout=LONG_S)

    assert report.results == {"only": {"x": "did the part of the team"}}
    assert (len(second.keys), len(set(second.keys))) == (2, 1)


def test_a_backup_takes_over_from_a_team() -> None:
    spec = above(
        team(WorkerSpec(id="x", execute=fails), backup="w", on_failure=[Failover()]), WorkerSpec(id="w", execute=does)
    )

    assert run(spec).results == {"only": "did the part of the team"}


def test_the_breaker_of_a_team_opens() -> None:
    def breaks(_: Any, __: Any) -> None:
        raise ValueError("down")

    spec = above(team(WorkerSpec(id="x", execute=breaks, breaker=None), breaker=Breaker(failure_threshold=2)))
    with start(spec, clock=ManualClock()) as tree:
        errors = []
        for _ in range(2):
            with pytest.raises(TaskFailedError) as info:
                tree.run("the goal", timeout=LONG_S)
            errors.append(str(info.value))
        (row,) = tree.registry()
        handle = tree.submit("the goal")
        settle(tree)
        waits = handle.dump()
        handle.cancel()

    assert row.breaker == "open"
    assert not any("breaker" in error for error in errors)
    assert f"breaker of {row.id} open, probe in 30 s" in waits


# -- its end -------------------------------------------------------------------------------------------------


def test_a_cancel_reaches_what_a_team_has_running() -> None:
    stuck = Stuck()
    with start(above(team(WorkerSpec(id="x", execute=stuck)))) as tree:
        handle = tree.submit("the goal")
        assert stuck.begun.wait(LONG_S)

        handle.cancel()

        with pytest.raises(TaskCancelledError):
            handle.result(LONG_S)
        settle(tree)
        assert stuck.ended == ["cancelled"]


def test_a_team_has_no_more_time_than_the_task_above() -> None:
    stuck, clock = Stuck(), ManualClock()
    with start(above(team(WorkerSpec(id="x", execute=stuck))), clock=clock) as tree:
        handle = tree.submit(Task("the goal", deadline_s=60))
        assert stuck.begun.wait(LONG_S)
        clock.advance(61)

        with pytest.raises(TaskDeadlineError):
            handle.result(LONG_S)
        assert stuck.remaining_s == pytest.approx(60)
        assert stuck.ended == ["cancelled"]


def test_a_team_that_takes_too_long_is_ended_and_tried_again() -> None:
    stuck, clock = Stuck(), ManualClock()
    with start(above(team(WorkerSpec(id="x", execute=stuck), timeout_s=30, on_failure=[AT_ONCE])), clock=clock) as tree:
        handle = tree.submit(Task("the goal", id="t"))
        assert stuck.begun.wait(LONG_S)
        clock.advance(31)

        report = handle.result(LONG_S)

        assert report.results == {"only": {"x": "did the part of the team at last"}}
        assert (stuck.remaining_s, stuck.ended) == (pytest.approx(30), ["cancelled"])


@pytest.mark.parametrize(
    ("limit", "said"),
    [({"timeout_s": 30.0}, "ran longer than 30 s"), ({"idle_timeout_s": 30.0}, "gave no sign of life for 30 s")],
    ids=["timeout", "idle"],
)
def test_a_team_that_takes_too_long_is_told_which_limit_that_was(limit: dict[str, float], said: str) -> None:
    stuck, clock = Stuck(), ManualClock()
    with start(above(team(WorkerSpec(id="x", execute=stuck), on_failure=[], **limit)), clock=clock) as tree:
        handle = tree.submit(Task("the goal"))
        assert stuck.begun.wait(LONG_S)
        clock.advance(31)

        with pytest.raises(TaskFailedError, match=said):
            handle.result(LONG_S)


def test_a_team_without_members_has_nobody_to_do_it_and_can_be_given_some() -> None:
    with start(above(SupervisorSpec(id="team", tasks=Tasks(), children=[]))) as tree:
        with pytest.raises(TaskFailedError, match="no worker can do"):
            tree.run("the goal", timeout=LONG_S)
        with pytest.raises(PlanError, match="no worker can do"):
            tree.submit("the goal", "p/team").result(LONG_S)

        tree.start_child("p/team", WorkerSpec(id="x", execute=lambda _: "done"))

        assert tree.run("the goal", timeout=LONG_S).results == {"only": {"x": "done"}}


@pytest.mark.parametrize("dispatch", ["loop", "pool"])
def test_a_team_that_crashes_is_replaced_and_goes_on_with_what_it_had(dispatch: str) -> None:
    crashes: list[str] = []
    calls: list[str] = []

    def first(task: Any, context: Any) -> str:
        calls.append("first")
        return does(task, context)

    def crashing(task: Any, context: Any) -> str:
        if not crashes:
            crashes.append(context.idempotency_key)
            raise SystemExit
        crashes.append(context.idempotency_key)
        return does(task, context)

    async def crashing_async(task: Any, context: Any) -> str:
        return crashing(task, context)

    member = WorkerSpec(
        id="y",
        execute=crashing if dispatch == "pool" else crashing_async,
        on_exhausted="escalate",
        on_failure=[AT_ONCE],
    )
    with start(above(team(WorkerSpec(id="x", execute=first), member, max_restarts=0))) as tree:
        report = tree.run(Task("the goal", id="t"), timeout=LONG_S)
        settle(tree)

        assert report.results == {"only": {"x": "did the part of the team", "y": "did the part of the team"}}
        assert calls == ["first"]
        assert len(set(crashes)) == 1
        assert {child.id: child.incarnation for child in tree.which_children("p")} == {"orchestrator": 1, "team": 2}


def test_a_team_that_comes_up_later_than_the_rest_of_its_group_is_planned() -> None:
    clock, is_retrying, is_coming_up, may_come_up = ManualClock(), *[threading.Event() for _ in range(3)]
    calls, starts = list[str](), list[str]()

    def plan(*_: Any) -> list[Subtask]:
        calls.append("call")
        if len(calls) == 1:
            raise ConnectionError("no route")
        return [Subtask("member")]

    class Member(Worker):
        def on_start(self) -> None:
            starts.append("start")
            if len(starts) > 1:
                is_coming_up.set()
                assert may_come_up.wait(LONG_S)

        def execute(self, _: Any, __: Any) -> str:
            return "done"

    def hear(event: Event) -> None:
        if isinstance(event, SubtaskRetrying) and event.role == "plan":
            is_retrying.set()

    again = Retry(max_attempts=3, initial_s=0.1, jitter=0.0)
    nested = SupervisorSpec(
        id="team", tasks=Tasks(planner=plan, step_retry=again), children=[WorkerSpec(id="member", actor=Member)]
    )
    spec = SupervisorSpec(
        id="shop",
        strategy="one_for_all",
        tasks=Tasks(planner=StaticPlan([Subtask("team")])),
        children=[WorkerSpec(id="other", execute=does), faulty("culprit"), nested],
    )

    with start(spec, clock=clock) as tree:
        tree.subscribe(hear)
        handle = tree.submit(Task("go"))
        assert is_retrying.wait(LONG_S)
        tree.ref("shop/culprit").tell("raise ValueError")
        assert is_coming_up.wait(LONG_S)
        clock.advance(0.2)  # the planner is to be called again while its team is not up
        tree.run(Task("look", plan=Plan([Subtask("other")])), timeout=LONG_S)  # so the engine has come by that
        may_come_up.set()
        report = handle.result(timeout=LONG_S)

    assert report.results == {"team": {"member": "done"}}


# -- a team that the next process does not have --------------------------------------------------------------


def _without_team(*teams: SupervisorSpec) -> SupervisorSpec:
    tasks = Tasks(planner=lambda *_: [Subtask("team", worker="team")])
    return SupervisorSpec(id="shop", tasks=tasks, children=[WorkerSpec(id="other", execute=does), *teams])


def _left_behind(url: str) -> None:
    """A process ends in the middle of the work of a team."""
    begun = threading.Event()

    async def works(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    tree = start(_without_team(team(WorkerSpec(id="x", execute=works, undo=lambda *_: None))), store=url)
    tree.submit(Task("go", id="t"))
    assert begun.wait(LONG_S)
    tree.stop(timeout=0)


def test_a_task_can_be_cancelled_whose_team_is_not_in_the_tree_any_more(sqlite_url: str) -> None:
    _left_behind(sqlite_url)
    with start(_without_team(), store=sqlite_url) as tree:
        handle = tree.task("t")
        handle.cancel().get(timeout=LONG_S)
        for question in handle.questions():  # its undo is gone with it
            handle.respond(question.id, Reject())

        with pytest.raises(TaskCancelledError):
            handle.result(timeout=LONG_S)


def test_a_cancel_is_refused_where_the_supervisor_of_the_task_is_not_in_the_tree(sqlite_url: str) -> None:
    stays = SupervisorSpec(id="b", tasks=Tasks(), children=[WorkerSpec(id="x", execute=does)])
    leaves = SupervisorSpec(id="a", tasks=Tasks(), children=[WorkerSpec(id="x", execute=Stuck())])
    tree = start(SupervisorSpec(id="root", children=[stays, leaves]), store=sqlite_url)
    tree.submit(Task("go", id="t"), "root/a")
    tree.stop(timeout=0)

    refused = pytest.raises(TaskError, match="root/a, which has it, is not in this tree")
    with start(SupervisorSpec(id="root", children=[stays]), store=sqlite_url) as tree, refused:
        tree.task("t").cancel()


def test_a_task_goes_on_when_its_team_is_added(sqlite_url: str) -> None:
    _left_behind(sqlite_url)
    with start(_without_team(), store=sqlite_url) as tree:
        tree.start_child("shop", team(WorkerSpec(id="x", execute=does)))

        assert tree.task("t").result(timeout=LONG_S).status == "succeeded"
