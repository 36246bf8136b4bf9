"""What a team had done is undone, by itself or by its members."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors import ChildStarted, Failed
from actors.tasks.journal.effect_record import EffectRecord
from actors.tasks.model.task_events import Compensated, SubtaskStarted, TaskFinished
from actors.testing import ManualClock, settle
from tests.support.crew import Record
from tests.support.hardening import Gate
from tests.tasks.dispatching import until
from tests.tasks.orchestrators import kill_orchestrator
from tests.tasks.resuming import settle_orchestrators
from tests.tasks.teams import LONG_S, above, does, fails, run, team
from trees import (
    Approve,
    Budget,
    Failover,
    Reject,
    Report,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    TaskStatus,
    WorkerSpec,
    start,
)
from trees.store import MemoryStore

# -- undoing -------------------------------------------------------------------------------------------------


def undone_after(*, undo: Any = None, member_undo: Any, fails_at: str = "after") -> Report:
    """A team of two succeeds; then what comes after it fails."""
    members = [WorkerSpec(id=id_, execute=does, undo=member_undo) for id_ in ("x", "y")]
    plan = [Subtask("only", worker="team"), Subtask(fails_at, worker="w", depends_on=["only"])]
    return run(above(team(*members, undo=undo), WorkerSpec(id="w", execute=fails), plan=plan))


def test_what_a_team_undoes_by_itself_its_members_do_not_undo_also_where_its_orchestrator_dies_meanwhile() -> None:
    """The next orchestrator of the team finds the call under way: that is none that was given to it."""
    undone, gate = list[str](), Gate()

    def undo_whole(*_: Any) -> None:
        undone.append("team")
        gate()

    async def uses(_: Any, context: Any) -> str:
        context.use(tokens=5)
        return "done"

    member = WorkerSpec(id="x", execute=uses, undo=lambda *_: undone.append("x"))
    plan = [Subtask("only", worker="team"), Subtask("after", worker="w", depends_on=["only"])]
    spec = above(team(member, undo=undo_whole), WorkerSpec(id="w", execute=fails), plan=plan)
    with start(spec) as tree:
        record = Record(tree)
        handle = tree.submit("go")
        gate.wait_reached()
        path = f"{spec.id}/team"
        kill_orchestrator(tree, path)
        record.wait_for(ChildStarted, f"{path}/orchestrator")
        settle_orchestrators(tree)
        gate.open.set()
        with pytest.raises(TaskFailedError) as caught:
            handle.result(LONG_S)

    assert undone == ["team"]
    assert caught.value.report is not None
    assert caught.value.report.usage.tokens == 5


def test_a_team_that_had_succeeded_has_its_members_undo_what_they_did_in_reverse_and_once() -> None:
    undone: list[tuple[str, Any, str]] = []

    def undo(task: Any, result: Any, context: Any) -> None:
        undone.append((task.id, result, context.idempotency_key.rpartition("/")[2]))

    report = undone_after(member_undo=undo)

    assert undone == [("y", "did the goal", "undo"), ("x", "did the goal", "undo")]
    assert report.compensated == ["only"]
    assert {one.id: str(one.status) for one in report.graph} == {"only": "compensated", "after": "failed"}


def test_a_team_that_was_broken_off_goes_on_where_it_was_so_its_clean_failure_is_one() -> None:
    """Its part knows what was done: of another worker nobody would, and its undo would be called."""
    undone, begun = list[Any](), [threading.Event(), threading.Event()]

    async def hopeless(task: Subtask, context: Any) -> None:
        is_first = not begun[0].is_set()
        begun[not is_first].set()
        if is_first:
            await asyncio.get_running_loop().create_future()
        raise Failed("no")

    def blow(_: str) -> None:
        raise ValueError

    inner = team(WorkerSpec(id="x", execute=hopeless), undo=lambda *_: undone.append("team"))
    spec = SupervisorSpec(
        id="p",
        strategy="one_for_all",
        tasks=Tasks(planner=StaticPlan([Subtask("only", worker="team")]), on_failure=[]),
        children=[inner, WorkerSpec(id="fuse", handle=blow)],
    )
    with start(spec) as tree:
        handle = tree.submit(Task("go"))
        assert begun[0].wait(LONG_S)
        tree.ref("p/fuse").tell("blow")
        with pytest.raises(TaskFailedError):
            handle.result(LONG_S)
    assert begun[1].is_set()
    assert undone == []


@pytest.mark.parametrize(("part", "is_undone"), [("", True), ("t@team:1.1", False)], ids=["worker", "team"])
def test_what_gave_way_and_then_fails_cleanly_is_undone_where_nobody_knows_what_it_did(
    part: str, is_undone: bool
) -> None:
    act = EffectRecord("w", 1, 1)
    act.open, act.part = True, part
    act.interrupted()
    act.open = True  # it goes on
    act.fails(may_have_acted=False)
    assert act.needs_compensation == is_undone


def test_an_undo_of_the_team_itself_goes_before_those_of_its_members() -> None:
    undone: list[Any] = []

    report = undone_after(
        undo=lambda task, result, _: undone.append((task.id, result)), member_undo=lambda *_: undone.append("member")
    )

    assert undone == [("only", {"x": "did the goal", "y": "did the goal"})]
    assert report.compensated == ["only"]


def test_a_team_of_which_nothing_can_be_undone_stays_done() -> None:
    report = undone_after(member_undo=None)

    assert report.compensated == []
    assert list(report.results) == ["only"]


def test_a_member_that_cannot_be_undone_is_in_the_report_above() -> None:
    def undo(task: Any, _: Any, __: Any) -> None:
        if task.id == "x":
            raise Failed("gone already", retryable=False)

    members = [WorkerSpec(id=id_, execute=does, undo=undo) for id_ in ("x", "y")]
    plan = [Subtask("only", worker="team"), Subtask("after", worker="w", depends_on=["only"])]
    clock = ManualClock()
    with start(above(team(*members), WorkerSpec(id="w", execute=fails), plan=plan), clock=clock) as tree:
        handle = tree.submit("the goal")
        for event in handle.events():
            if type(event).__name__ == "Compensating":
                break
        for _ in range(2):  # first nobody answers below, then nobody does above
            settle(tree)
            clock.advance(301)
        with pytest.raises(TaskFailedError) as info:
            handle.result(LONG_S)

    assert info.value.report is not None
    assert list(info.value.report.undo_errors) == ["only"]
    assert info.value.report.compensated == []


@pytest.mark.parametrize("answer", [Approve(), Respond("it is back")], ids=["approve", "respond"])
def test_an_undo_of_a_team_that_a_person_has_called_once_more_calls_that_of_the_member_that_could_not(
    answer: Approve | Respond,
) -> None:
    undos: list[str] = []

    def undo(task: Any, *_: Any) -> None:
        undos.append(task.id)
        if undos == ["y", "x"]:
            raise Failed("not now", retryable=False)

    members = [WorkerSpec(id=id_, execute=does, undo=undo) for id_ in ("x", "y")]
    plan = [Subtask("only", worker="team"), Subtask("after", worker="w", depends_on=["only"])]
    with start(above(team(*members), WorkerSpec(id="w", execute=fails), plan=plan)) as tree:
        handle = tree.submit("the goal")
        for subtask, said in (("x", Reject("leave it")), ("only", answer)):
            until(lambda subtask=subtask: [each for each in tree.escalations() if each.subtask == subtask])
            tree.respond(tree.escalations()[0].id, said)
        until(lambda: handle.report is not None or tree.escalations())
        report = handle.report

    assert undos == ["y", "x", "x"]
    assert report is not None
    assert report.undo_errors == {}
    assert report.compensated == ["only"]


def test_a_team_that_fails_has_undone_what_it_did_before_the_task_above_goes_on() -> None:
    order: list[str] = []

    def undo(task: Any, _: Any, __: Any) -> None:
        order.append(f"undo {task.id}")

    def backs_up(_: Any, __: Any) -> str:
        order.append("backup")
        return "done instead"

    members = [WorkerSpec(id="x", execute=does, undo=undo), WorkerSpec(id="y", execute=fails)]
    spec = above(team(*members, backup="w", on_failure=[Failover()]), WorkerSpec(id="w", execute=backs_up))

    report = run(spec)

    assert report.results == {"only": "done instead"}
    assert order == ["undo x", "backup"]


def test_two_attempts_of_two_tasks_run_in_one_team_side_by_side() -> None:
    both = threading.Barrier(2)

    def meets(task: Any, context: Any) -> str:
        both.wait(LONG_S)
        return does(task, context)

    with start(above(team(WorkerSpec(id="x", execute=meets, pool=2)))) as tree:
        handles = [tree.submit("the goal"), tree.submit("another goal")]
        reports = [handle.result(LONG_S) for handle in handles]
        own = [event for handle in handles for event in handle.events(deep=False)]
        started = [event for event in own if isinstance(event, SubtaskStarted)]

    assert {report.status for report in reports} == {TaskStatus.SUCCEEDED}
    assert [event.worker for event in started] == ["team", "team"]


# -- a team that is gone -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stopped", "deleted"])
@pytest.mark.parametrize("when", ["before its undo", "in the middle of its undo"])
def test_a_person_is_asked_where_a_team_that_is_to_undo_is_gone(when: str, how: str) -> None:
    begun, go_on, undone = threading.Event(), threading.Event(), list[str]()
    goes_on = threading.Event()

    def undo(*_: Any) -> None:
        undone.append("x")
        if when == "in the middle of its undo":
            begun.set()
            goes_on.wait(LONG_S)

    def waits(*_: Any) -> None:
        if when == "before its undo":
            begun.set()
        go_on.wait(LONG_S)
        raise Failed("it cannot be done")

    plan = [Subtask("only", worker="team"), Subtask("after", worker="w", depends_on=["only"])]
    spec = above(team(WorkerSpec(id="x", execute=does, undo=undo)), WorkerSpec(id="w", execute=waits), plan=plan)
    with start(spec) as tree:
        handle = tree.submit("the goal")
        if when == "in the middle of its undo":
            go_on.set()
        assert begun.wait(LONG_S)
        tree.terminate_child("p/team")
        if how == "deleted":
            tree.delete_child("p/team")
        go_on.set()
        until(lambda: handle.escalations)
        (question,) = handle.escalations
        goes_on.set()
        if how == "stopped":
            tree.restart_child("p/team")
            settle(tree)
            handle.respond(question.id, Approve())
        else:
            handle.respond(question.id, Reject("leave it"))
        with pytest.raises(TaskFailedError) as caught:
            handle.result(LONG_S)

    report = caught.value.report
    assert report is not None
    assert "team" in question.error
    # Cut short in its middle nobody knows what it has done, and the person has said: call it again.
    assert len(undone) <= (2 if (when, how) == ("in the middle of its undo", "stopped") else 1)
    assert report.compensated == (["only"] if how == "stopped" else [])
    assert list(report.undo_errors) == ([] if how == "stopped" else ["only"])


@pytest.mark.parametrize("how", ["stopped", "deleted", "deleted before the orchestrator came up"])
def test_nobody_is_asked_about_a_team_that_is_gone_where_its_members_had_nothing_to_undo(how: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def waits(*_: Any) -> None:
        begun.set()
        go_on.wait(LONG_S)
        raise Failed("it cannot be done")

    plan = [Subtask("only", worker="team"), Subtask("after", worker="w", depends_on=["only"])]
    with start(above(team(WorkerSpec(id="x", execute=does)), WorkerSpec(id="w", execute=waits), plan=plan)) as tree:
        handle = tree.submit("the goal")
        assert begun.wait(LONG_S)
        tree.terminate_child("p/team")
        if how != "stopped":
            tree.delete_child("p/team")
        if how == "deleted before the orchestrator came up":
            kill_orchestrator(tree)
            until(lambda: tree.child("p/orchestrator").incarnation == 2)
        go_on.set()
        with pytest.raises(TaskFailedError) as caught:
            handle.result(LONG_S)

    assert caught.value.report is not None
    assert (caught.value.report.compensated, caught.value.report.undo_errors) == ([], {})


def test_what_a_team_did_whose_result_is_refused_above_is_undone() -> None:
    done: list[str] = []

    def pays(_: Any, context: Any) -> str:
        context.use(tokens=9)
        done.append("paid")
        return "paid"

    member = WorkerSpec(id="x", execute=pays, undo=lambda *_: done.append("refunded"))
    report = run(above(team(member), plan=[Subtask("only", worker="team", budget=Budget(tokens=5))]))

    assert "tokens 9 of 5" in report.failed["only"]
    assert done == ["paid", "refunded"]
    assert report.compensated == ["only"]


@pytest.mark.parametrize("ended", ["done", "timed out"])
def test_what_could_not_be_undone_keeps_its_key_where_its_team_is_tried_again_and_is_undone_then(ended: str) -> None:
    keys, undos = list[str](), list[str]()

    async def pays(_: Any, context: Any) -> str:
        keys.append(context.idempotency_key)
        if ended == "timed out" and len(keys) == 1:
            await asyncio.get_running_loop().create_future()
        return "paid"

    def refunds(*_: Any) -> None:
        undos.append("refund")
        if len(undos) == 1:
            raise Failed("not now")

    members = (
        WorkerSpec(id="x", execute=pays, undo=refunds, timeout_s=2.0 if ended == "timed out" else None),
        WorkerSpec(id="y", execute=fails),
    )
    once_more = [Retry(max_attempts=2, initial_s=0.0, max_s=0.0)]
    with start(above(team(*members), on_failure=once_more)) as tree:
        handle = tree.submit("the goal")
        until(tree.escalations)
        tree.respond(tree.escalations()[0].id, Reject("leave it"))
        with pytest.raises(TaskFailedError):
            handle.result(LONG_S)

    assert len(set(keys)) == 1
    assert len(keys) == (1 if ended == "done" else 2)
    assert undos == ["refund", "refund"]


class DiesOfTheEnd(MemoryStore):
    """Exits, once, where the end of a part is to be recorded of which something was undone.

    A bug of the task would count in no restart window, and the team would go on.
    """

    died = False

    def append(self, stream: str, record: Any) -> None:
        if isinstance(record, TaskFinished) and isinstance(self.last(stream), Compensated) and not self.died:
            self.died = True
            raise SystemExit
        super().append(stream, record)


def test_nobody_is_asked_about_a_team_that_is_gone_when_it_had_undone_all_and_could_not_say_so() -> None:
    undone: list[Any] = []
    store = DiesOfTheEnd()
    member = WorkerSpec(id="x", execute=does, undo=lambda *given: undone.append(given))
    gives_up = team(member, max_restarts=0, restart="transient")
    plan = [Subtask("only", worker="team"), Subtask("after", worker="w", depends_on=["only"])]
    with start(above(gives_up, WorkerSpec(id="w", execute=fails), plan=plan), store=store) as tree:
        with pytest.raises(TaskFailedError) as caught:
            tree.run("the goal", timeout=LONG_S)
        state = tree.child("p/team").state

    assert (store.died, state, len(undone)) == (True, "stopped", 1)
    assert caught.value.report is not None
    assert (caught.value.report.compensated, caught.value.report.undo_errors) == (["only"], {})
