"""Who waits in ``context.ask``: while the orchestrator is gone, and for each other."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import pytest

from actors import RecursionDetectedError
from actors.tasks.model.task_events import SubtaskStarted
from actors.tasks.orchestration.messages import TimerFired
from actors.testing import ManualClock, settle
from tests.support.asking import LONG_S, Stuck, asking, asking_sync, assert_nothing_left, does, run, shop, team
from tests.tasks.dispatching import until
from trees import (
    Subtask,
    TaskCancelledError,
    TaskFailedError,
    Tree,
    WorkerSpec,
    start,
)

BOTH = pytest.mark.parametrize("ask", [asking, asking_sync], ids=["async", "sync"])


# -- when the orchestrator is gone ---------------------------------------------------------------------------


@BOTH
def test_an_answer_finds_who_asked_although_the_orchestrator_was_replaced_meanwhile(ask: Any) -> None:
    begun, release = threading.Event(), threading.Event()
    calls: list[str] = []

    def slow(task: Any, _: Any) -> str:
        calls.append(str(task))
        begun.set()
        release.wait(LONG_S)
        return "at last"

    def asks(task: Any, context: Any) -> Any:
        calls.append(str(task))
        return inner(task, context)

    async def asks_async(task: Any, context: Any) -> Any:
        calls.append(str(task))
        return await inner(task, context)

    inner = ask("b")
    asker = WorkerSpec(id="a", execute=asks_async if ask is asking else asks)
    with start(shop(asker, WorkerSpec(id="b", execute=slow), max_parallel=1)) as tree:
        handle = tree.submit("the goal")
        assert begun.wait(LONG_S)
        tree.terminate_child("p/orchestrator")
        tree.restart_child("p/orchestrator")
        release.set()

        report = handle.result(LONG_S)

        assert report.results == {"only": "at last"}
        assert calls == ["the first thing", "the next thing"]
        settle(tree)
        assert_nothing_left(tree)


def test_an_ask_that_is_made_while_there_is_no_orchestrator_is_heard_by_the_next_one() -> None:
    down, up, begun = threading.Event(), threading.Event(), threading.Event()

    def asks(_: Any, context: Any) -> Any:
        begun.set()
        down.wait(LONG_S)
        up.set()
        return context.ask_sync("b", "the next thing")

    with start(shop(WorkerSpec(id="a", execute=asks), WorkerSpec(id="b", execute=does))) as tree:
        handle = tree.submit("the goal")
        assert begun.wait(LONG_S)
        tree.terminate_child("p/orchestrator")
        down.set()
        assert up.wait(LONG_S)
        tree.restart_child("p/orchestrator")

        assert handle.result(LONG_S).results == {"only": "did the next thing"}


# -- waiting for each other ----------------------------------------------------------------------------------


def asked_or_refused(context: Any, to: str, errors: list[RecursionDetectedError]) -> Any:
    """What it answers; a refusal is noted."""
    try:
        return context.ask_sync(to, f"something of {to}")
    except RecursionDetectedError as error:
        errors.append(error)
        return "refused"


def test_workers_that_wait_for_each_others_capacity_are_refused_with_their_chain() -> None:
    both = threading.Barrier(2)
    errors: list[RecursionDetectedError] = []

    def crosses(to: str) -> Any:
        def execute(_: Any, context: Any) -> Any:
            both.wait(LONG_S)
            return asked_or_refused(context, to, errors)

        def serve(task: Any, context: Any) -> Any:
            return does(task, context) if "something" in str(task) else execute(task, context)

        return serve

    plan = [Subtask("one", "first", worker="a"), Subtask("two", "second", worker="b")]
    workers = [WorkerSpec(id="a", execute=crosses("b")), WorkerSpec(id="b", execute=crosses("a"))]

    report = run(shop(*workers, plan=plan))

    assert len(errors) == 1
    assert {"p/a", "p/b"} <= set(errors[0].chain)
    assert sorted(value.partition(" of ")[0] for value in report.results.values()) == ["did something", "refused"]


def crossing(members: int, last: str) -> tuple[list[RecursionDetectedError], Any]:
    """A worker asks a team whose member asks that worker; ``last`` asks when the other one waits already."""
    gates = {"worker": threading.Event(), "member": threading.Event()}
    begun, errors, calls = threading.Barrier(3), list[RecursionDetectedError](), itertools.count()

    def crosses(who: str, to: str, context: Any) -> Any:
        begun.wait(LONG_S)
        gates[who].wait(LONG_S)
        return asked_or_refused(context, to, errors)

    def worker(task: Any, context: Any) -> Any:
        return does(task, context) if "something" in str(task) else crosses("worker", "team", context)

    def member(task: Any, context: Any) -> Any:
        return does(task, context) if next(calls) else crosses("member", "a", context)

    plan = [Subtask("one", "first", worker="team"), Subtask("two", "second", worker="a")]
    spec = shop(WorkerSpec(id="a", execute=worker), team(WorkerSpec(id="m", execute=member, pool=members)), plan=plan)
    with start(spec) as tree:
        handle = tree.submit("the goal")
        begun.wait(LONG_S)
        runtime: Any = tree._system.services["tasks"]
        gates["worker" if last == "member" else "member"].set()
        if last == "worker":
            until(lambda: "one.1" in {name for each in states(runtime, "p") for name in each.nodes})
        elif members == 1:
            until(lambda: any(each.nodes["part"].status == "queued" for each in states(runtime, "p/team")))
        gates[last].set()
        report = handle.result(timeout=LONG_S)
        settle(tree)
        assert_nothing_left(tree)
    return errors, report


def states(runtime: Any, path: str) -> list[Any]:
    """The tasks, or parts, that an orchestrator has, and has planned."""
    return [state for state in runtime.ports[path].states.copy().values() if state.nodes]


LAST = pytest.mark.parametrize("last", ["member", "worker"])


@LAST
def test_a_worker_and_the_member_of_a_team_that_wait_for_each_other_are_refused_with_their_chain(last: str) -> None:
    errors, report = crossing(1, last)

    assert len(errors) == 1
    assert {"p/a", "p/team/m"} <= set(errors[0].chain)
    assert report.status == "succeeded"


@LAST
def test_a_team_with_another_member_that_has_room_serves_who_waits(last: str) -> None:
    errors, report = crossing(2, last)

    assert errors == []
    assert report.status == "succeeded"


def test_those_who_could_be_served_by_another_member_of_a_pool_only_wait() -> None:
    both = threading.Barrier(2)

    def crosses(to: str) -> Any:
        def serve(task: Any, context: Any) -> Any:
            if "something" in str(task):
                return does(task, context)
            both.wait(LONG_S)
            return context.ask_sync(to, f"something of {to}")

        return serve

    plan = [Subtask("one", "first", worker="a"), Subtask("two", "second", worker="b")]
    workers = [WorkerSpec(id="a", execute=crosses("b"), pool=2), WorkerSpec(id="b", execute=crosses("a"))]

    report = run(shop(*workers, plan=plan))

    assert report.results == {"one": "did something of b", "two": "did something of a"}


def test_what_is_asked_for_is_begun_once_however_many_records_there_are() -> None:
    with start(shop(WorkerSpec(id="a", execute=asking("b")), WorkerSpec(id="b", execute=does))) as tree:
        report = tree.run("the goal", timeout=LONG_S)
        started = [each for each in tree.task(report.task_id).events() if isinstance(each, SubtaskStarted)]

    assert [each.worker for each in started] == ["a", "b"]


def test_an_ask_that_is_open_while_the_orchestrator_is_replaced_still_ends_when_its_time_is_up() -> None:
    stuck, clock = Stuck(), ManualClock()
    workers = [WorkerSpec(id="a", execute=asking("b", timeout=30)), WorkerSpec(id="b", execute=stuck)]
    with start(shop(*workers), clock=clock) as tree:
        handle = tree.submit("the goal")
        assert stuck.begun.wait(LONG_S)
        tree.terminate_child("p/orchestrator")
        tree.restart_child("p/orchestrator")
        settle_orders(tree)
        clock.advance(31)

        with pytest.raises(TaskFailedError):
            handle.result(LONG_S)
        assert stuck.cancelled.wait(LONG_S)


def test_a_cancel_that_comes_while_there_is_no_orchestrator_is_carried_out_by_the_next_one() -> None:
    stuck = Stuck()
    with start(shop(WorkerSpec(id="b", execute=stuck))) as tree:
        handle = tree.submit("the goal")
        assert stuck.begun.wait(LONG_S)
        tree.terminate_child("p/orchestrator")
        handle.cancel()
        tree.restart_child("p/orchestrator")

        with pytest.raises(TaskCancelledError):
            handle.result(LONG_S)
        assert stuck.cancelled.wait(LONG_S)


def test_a_task_that_is_submitted_while_there_is_no_orchestrator_is_done_by_the_next_one() -> None:
    with start(shop(WorkerSpec(id="b", execute=does))) as tree:
        tree.terminate_child("p/orchestrator")
        handle = tree.submit("the goal")
        tree.restart_child("p/orchestrator")

        assert handle.result(LONG_S).results == {"only": "did the first thing"}


def test_a_slot_that_a_waiting_attempt_gave_up_is_counted_once_by_a_new_orchestrator() -> None:
    """The order that says that it waits may be heard by the new one, which has found the open ask by itself."""
    stuck, clock = Stuck(), ManualClock()
    workers = [WorkerSpec(id="a", execute=asking("b", timeout=30)), WorkerSpec(id="b", execute=stuck)]
    with start(shop(*workers, max_parallel=1), clock=clock) as tree:
        handle = tree.submit("the goal")
        assert stuck.begun.wait(LONG_S)
        tree.terminate_child("p/orchestrator")
        tree.restart_child("p/orchestrator")
        settle_orders(tree)
        clock.advance(31)
        with pytest.raises(TaskFailedError):
            handle.result(LONG_S)

        orchestrator = tree._system.children["p/orchestrator"].incarnation.actor  # type: ignore[union-attr]
        settle_orders(tree)
        assert (orchestrator.core.attempts.waiting, orchestrator.core.attempts.running) == (0, {})


# -- teams whose members wait for what is above ----------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("parts", [1, 3])
def test_what_a_member_asks_for_above_is_begun_though_teams_have_all_slots_there(ask: Any, parts: int) -> None:
    """With three parts two wait for the member, which waits for what only the supervisor above can have done."""
    members = team(WorkerSpec(id="inner", execute=ask("look")))
    plan = [Subtask(f"s{n}", f"part {n}", worker="team") for n in range(parts)]

    report = run(shop(members, WorkerSpec(id="look", execute=does), plan=plan, max_parallel=parts))

    assert report.results == {f"s{n}": {"part": "did the next thing"} for n in range(parts)}


def test_the_slot_of_a_team_whose_member_waits_is_for_what_that_asked_for_and_for_nothing_else() -> None:
    order = list[str]()

    def works(task: Any, _: Any) -> str:
        order.append(str(task))
        return "done"

    members = team(WorkerSpec(id="inner", execute=asking("look", "look")))
    plan = [Subtask("team", "go", worker="team"), *(Subtask(id_, id_, worker=id_) for id_ in ("w", "look"))]
    workers = [WorkerSpec(id=id_, execute=works) for id_ in ("w", "look")]
    report = run(shop(members, *workers, plan=plan, max_parallel=1))

    assert report.results == {"team": {"part": "done"}, "w": "done", "look": "done"}
    assert order == ["look", "w", "look"], "the plan goes on when the team has ended"


def test_no_more_run_than_there_are_slots_where_teams_have_their_answers() -> None:
    inside, most = set[str](), list[int]()

    async def works(name: str) -> None:
        inside.add(name)
        for _ in range(5):
            most.append(len(inside))
            await asyncio.sleep(0)
        inside.discard(name)

    async def asks(_: Any, context: Any) -> Any:
        await works(context.path)
        got = await context.ask("look", f"look for {context.path}")
        await works(context.path)
        return got

    async def looks(task: Any, _: Any) -> str:
        await works(str(task))
        return "seen"

    teams = [team(WorkerSpec(id="inner", execute=asks)).replace("team", id=f"team{n}") for n in range(4)]
    plan = [Subtask(f"s{n}", worker=f"team{n}") for n in range(4)]
    report = run(shop(*teams, WorkerSpec(id="look", execute=looks, pool=4), plan=plan, max_parallel=1))

    assert report.results == {f"s{n}": {"part": "seen"} for n in range(4)}
    assert max(most) == 1


def test_the_slots_of_teams_are_counted_once_by_a_new_orchestrator() -> None:
    begun, release = threading.Event(), threading.Event()

    def looks(_: Any, __: Any) -> str:
        begun.set()
        release.wait(LONG_S)
        return "seen"

    members = team(WorkerSpec(id="inner", execute=asking("look")))
    plan = [Subtask("only", worker="team"), Subtask("more", worker="other")]
    workers = [WorkerSpec(id="look", execute=looks), WorkerSpec(id="other", execute=does)]
    with start(shop(members, *workers, plan=plan, max_parallel=1)) as tree:
        handle = tree.submit("the goal")
        assert begun.wait(LONG_S)
        tree.terminate_child("p/orchestrator")
        tree.restart_child("p/orchestrator")
        settle_orders(tree)
        release.set()

        assert handle.result(LONG_S).results == {"only": {"part": "seen"}, "more": "did the goal"}
        settle(tree)
        assert_nothing_left(tree)
        orchestrator = tree._system.children["p/orchestrator"].incarnation.actor  # type: ignore[union-attr]
        table = orchestrator.core.attempts
        assert (table.waiting, table.of_teams, table.running) == (0, 0, {})


def settle_orders(tree: Tree) -> None:
    """Return when the orchestrator has heard all that it was told: it answers a question that is asked after that."""
    heard = threading.Event()
    desk = tree._system.services["tasks"].ports["p"]
    orchestrator = tree._system.children["p/orchestrator"].incarnation
    assert orchestrator is not None
    desk.post(TimerFired(orchestrator, heard.set))
    assert heard.wait(LONG_S)
