"""What was done is undone when a task cannot succeed: which acts, in which order, how often, and what if that fails."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from actors import Failed
from actors.testing import AsyncScriptedExecutable, Crash, Hang, ScriptedExecutable
from tests.support.attempts import LINE, LONG_S, SLOWLY, bad, no, run, shop, undoable
from trees import (
    Budget,
    Check,
    Compensated,
    Done,
    Edit,
    Escalate,
    Failover,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskFailed,
    SubtaskRetrying,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskEnding,
    TaskFailedError,
    Tasks,
    Usage,
    Verdict,
    WorkerSpec,
    start,
)
from trees.store import MemoryStore

UNDONE: list[tuple[str, Any]] = []
"""What the undos that are found by name have undone."""
ONCE = [Retry(max_attempts=1)]


def by_name(task: Subtask, result: Any, context: Any) -> None:
    """Found as ``"tests.tasks.recovery.test_compensation:by_name"``."""
    UNDONE.append((task.id, result))


@pytest.fixture(autouse=True)
def _nothing_undone() -> Iterator[None]:
    UNDONE.clear()
    yield
    UNDONE.clear()


# -- what is undone ----------------------------------------------------------------------------------------------


def test_what_was_done_is_undone_once_the_newest_first() -> None:
    pay, pays = undoable("pay", {"paid": 20})
    pack, packs = undoable("pack", "parcel")
    with shop(LINE, pays, packs, bad()) as it:
        it.submit()
        report = it.report()
        order = [event.subtask for event in it.events(Compensated)]

    assert (order, report.compensated) == (["pack", "pay"], ["pack", "pay"])
    assert [call.result for call in pay.undos] == [{"paid": 20}]
    assert [call.result for call in pack.undos] == ["parcel"]
    assert (report.status, report.undo_errors) == ("failed", {})
    assert report.failed == {"send": "ValueError: no"}


def test_nothing_is_undone_where_all_went_well() -> None:
    pay, pays = undoable("pay", "paid")
    report = run(LINE[:1], pays)

    assert (pay.undos, report.compensated) == ([], [])


def test_nothing_is_undone_while_the_ladder_goes_on_or_an_independent_branch_still_runs() -> None:
    held = Hang()
    slow = AsyncScriptedExecutable(held)
    pay, pays = undoable("pay", "paid")
    plan = [*LINE, Subtask("slow", worker="slow")]
    _pack, packs = undoable("pack", "parcel")
    with shop(plan, pays, packs, bad(), WorkerSpec(id="slow", execute=slow.execute), on_failure=[SLOWLY]) as it:
        it.begin()
        held.wait_until_entered()
        for number in (1, 2):
            it.until(SubtaskRetrying, number)
            it.clock.advance(20.0)
        it.until(SubtaskFailed)
        failed, early = it.status("send"), len(pay.undos)
        held.release()
        report = it.report()

    assert (failed, early) == ("failed", 0)
    assert report.compensated == ["pack", "pay"]
    assert report.results["slow"] == "sell"


def test_after_a_clean_failure_there_is_nothing_to_undo() -> None:
    script, a = undoable("bad", no)
    report = run([Subtask("x", worker="bad")], a)

    assert (script.undos, report.compensated) == ([], [])


@pytest.mark.parametrize("step", [Crash(), object()], ids=["crash", "no json"])
def test_what_may_have_been_done_is_undone_without_a_result(step: object) -> None:
    script, a = undoable("bad", step)
    with shop([Subtask("x", worker="bad")], a, on_failure=ONCE) as it:
        it.submit()
        it.advance(1.0)
        report = it.report()

    assert [call.result for call in script.undos] == [None]
    assert report.compensated == ["x"]
    assert list(report.failed) == ["x"]


def test_after_a_timeout_it_is_undone_without_a_result_and_still_has_failed() -> None:
    script = AsyncScriptedExecutable(Hang())
    spec = WorkerSpec(id="bad", execute=script.execute, undo=script.undo, timeout_s=5)
    with shop([Subtask("x", worker="bad")], spec, on_failure=ONCE) as it:
        it.begin()
        script.wait_for_calls(1)
        it.advance(5.0)
        report = it.report()

    assert [call.result for call in script.undos] == [None]
    assert "AttemptTimeoutError" in report.failed["x"]
    assert report.compensated == ["x"]


@pytest.mark.parametrize("ended_by", ["group", "process"])
def test_what_was_broken_off_is_undone_though_its_next_attempt_fails_cleanly(ended_by: str) -> None:
    """That one says nothing of what the first had done: its exception does not know the key of the act."""
    undone: list[Any] = []
    begun: list[threading.Event] = [threading.Event(), threading.Event()]

    async def pay(task: Subtask, context: Any) -> None:
        is_first = not begun[0].is_set()
        begun[not is_first].set()
        if is_first:
            await asyncio.get_running_loop().create_future()
        raise Failed("no money left")

    def refund(task: Subtask, result: Any, context: Any) -> None:
        undone.append(result)

    def fuse(_: str) -> None:
        raise ValueError

    spec = SupervisorSpec(
        id="shop",
        strategy="one_for_all",
        tasks=Tasks(planner=StaticPlan([Subtask("x", worker="pay")]), on_failure=[]),
        children=[WorkerSpec(id="pay", execute=pay, undo=refund), WorkerSpec(id="fuse", handle=fuse)],
    )
    store = MemoryStore()
    with start(spec, store=store) as tree:
        handle = tree.submit(Task("go", id="t"))
        assert begun[0].wait(LONG_S)
        if ended_by == "process":
            store = _as_killed(store)
        else:
            tree.ref("shop/fuse").tell("blow")
            with pytest.raises(TaskFailedError):
                handle.result(LONG_S)
    if ended_by == "process":
        with start(spec, store=store) as tree, pytest.raises(TaskFailedError):
            tree.task("t").result(LONG_S)
    assert begun[1].is_set()
    assert undone == [None]


def _as_killed(store: MemoryStore) -> MemoryStore:
    """Return what a process leaves that is killed now."""
    left = MemoryStore()
    for stream, owner in store.owners().items():
        first, *others = store.read(stream)
        left.create(stream, owner, first)
        for each in others:
            left.append(stream, each)
    return left


def test_a_crash_that_was_made_good_is_undone_once_with_the_result() -> None:
    pay, pays = undoable("pay", Crash(), "paid")
    _, packs = undoable("pack")
    with shop(LINE, pays, packs, bad()) as it:
        it.submit()
        it.advance(1.0)
        report = it.report()

    assert [call.result for call in pay.undos] == ["paid"]
    assert report.compensated == ["pack", "pay"]


def test_after_failing_over_each_worker_undoes_its_own_act() -> None:
    first, a = undoable("a", Crash(), backup="b")
    second, b = undoable("b", "paid")
    plan = [Subtask("pay", worker="a"), Subtask("send", worker="bad", depends_on=["pay"])]
    with shop(plan, a, b, bad(), on_failure=[*ONCE, Failover()]) as it:
        it.submit()
        it.advance(1.0)
        report = it.report()

    assert [call.result for call in second.undos] == ["paid"]
    assert [call.result for call in first.undos] == [None]
    assert report.compensated == ["pay"]


@pytest.mark.parametrize("kind", ["worker", "team"])
def test_what_is_undone_is_compensated_though_one_who_hung_at_it_before_has_nothing_to_undo(kind: str) -> None:
    hangs, (second, b) = AsyncScriptedExecutable(Hang()), undoable("b", "paid")
    first: WorkerSpec | SupervisorSpec = WorkerSpec(id="a", execute=hangs.execute, timeout_s=5, backup="b")
    if kind == "team":
        tasks, member = Tasks(planner=StaticPlan([Subtask("m")])), WorkerSpec(id="m", execute=hangs.execute)
        first = SupervisorSpec(id="a", tasks=tasks, children=[member], timeout_s=5, backup="b")
    plan = [Subtask("pay", worker="a"), Subtask("send", worker="bad", depends_on=["pay"])]
    with shop(plan, first, b, bad(), on_failure=[*ONCE, Failover()]) as it:
        it.begin()
        hangs.wait_for_calls(1)
        it.advance(5.0)
        report = it.report()

    assert [call.result for call in second.undos] == ["paid"]
    assert report.compensated == ["pay"]
    assert {one.id: str(one.status) for one in report.graph} == {"pay": "compensated", "send": "failed"}


def test_each_act_of_a_revised_subtask_is_undone_with_its_own_result() -> None:
    def reviewer(task: Task, plan: Any, results: dict[str, Any]) -> Verdict:
        if results["pay"] == "first":
            return Verdict(passed=False, checks=[Check("pay", passed=False, feedback="more")])
        return Verdict(passed=True)

    pay = ScriptedExecutable("first", "second", by="call")
    script = ScriptedExecutable("sent", no, by="call")
    plan = [Subtask("pay", worker="pay"), Subtask("send", worker="bad", depends_on=["pay"])]
    specs = [
        WorkerSpec(id="pay", execute=pay.execute, undo=pay.undo),
        WorkerSpec(id="bad", execute=script.execute, undo=script.undo),
    ]
    report = run(plan, *specs, reviewer=reviewer, on_failure=[])

    assert [call.result for call in pay.undos] == ["first", "second"]  # the first one before it ran again
    assert [call.result for call in script.undos] == ["sent"]
    assert len({call.idempotency_key for call in pay.undos}) == 2
    assert report.compensated == ["send", "pay"]


def test_a_result_that_a_person_gave_was_no_act() -> None:
    pay, pays = undoable("pay", no)
    _, packs = undoable("pack", undo=None)
    with shop(LINE, pays.model_copy(update={"on_failure": [Escalate()]}), packs, bad()) as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Edit("paid by hand"))
        it.report()

    assert pay.undos == []


# -- why it ends -------------------------------------------------------------------------------------------------


def test_a_cancelled_task_undoes_what_was_done_and_what_was_cut_in_half() -> None:
    pay, pays = undoable("pay", "paid")
    half = AsyncScriptedExecutable(Hang())
    spec = WorkerSpec(id="pack", execute=half.execute, undo=half.undo)
    with shop(LINE, pays, spec, bad()) as it:
        it.begin()
        half.wait_for_calls(1)
        it.handle.cancel()
        report = it.report()

    assert report.status == "cancelled"
    assert [call.result for call in half.undos] == [None]
    assert [call.result for call in pay.undos] == ["paid"]
    assert report.compensated == ["pack", "pay"]
    assert set(report.skipped) == {"pack", "send"}


def test_a_task_whose_time_is_up_undoes_too() -> None:
    pay, pays = undoable("pay", "paid")
    half = AsyncScriptedExecutable(Hang())
    with shop(LINE, pays, WorkerSpec(id="pack", execute=half.execute), bad()) as it:
        it.begin(deadline_s=30)
        half.wait_for_calls(1)
        it.clock.advance(30.0)
        report = it.report()
        [ending] = it.events(TaskEnding)

    assert (report.status, ending.kind, report.compensated) == ("failed", "deadline", ["pay"])
    assert [call.result for call in pay.undos] == ["paid"]


def test_a_task_over_its_budget_undoes_too() -> None:
    pay, pays = undoable("pay", Done("paid", Usage(tokens=50)))
    with shop(LINE, pays, undoable("pack")[1], bad()) as it:
        it.submit(budget=Budget(tokens=10))
        report = it.report()

    assert report.compensated == ["pay"]
    assert len(pay.undos) == 1


def test_nothing_cancels_an_undo_and_the_task_stays_failed() -> None:
    held = Hang()
    pay = AsyncScriptedExecutable("paid", undo=[held])
    spec = WorkerSpec(id="pay", execute=pay.execute, undo=pay.undo)
    plan = [LINE[0], Subtask("send", worker="bad", depends_on=["pay"])]
    with shop(plan, spec, bad()) as it:
        it.begin(deadline_s=60)
        held.wait_until_entered()
        it.handle.cancel()
        it.pass_(100.0)
        running = it.handle.status
        held.release()
        report = it.report()

    assert (str(running), report.status) == ("running", "failed")
    assert [call.ended for call in pay.undos] == ["returned"]
    assert report.compensated == ["pay"]


def test_what_gave_way_in_the_middle_and_never_ran_again_is_undone_without_a_result() -> None:
    script = AsyncScriptedExecutable(Hang(), Hang(), by="call")
    plan = [Subtask("x", worker="a", preemptible=True)]
    with shop(plan, WorkerSpec(id="a", execute=script.execute, undo=script.undo), max_parallel=1) as it:
        urgent = it.begin(priority=5)
        script.wait_for_calls(1)
        first = it.handle
        it.begin(priority=0)
        script.wait_for_calls(2)
        first.cancel()
        with pytest.raises(TaskCancelledError):
            first.result(timeout=LONG_S)
        undone = [(call.result, call.idempotency_key) for call in script.undos]

    assert undone == [(None, f"{urgent.id}/x/1/undo")]


def test_what_was_queued_and_never_begun_is_not_undone() -> None:
    script = AsyncScriptedExecutable(Hang())
    with shop([Subtask("x", worker="a")], WorkerSpec(id="a", execute=script.execute, undo=script.undo)) as it:
        it.begin()
        script.wait_for_calls(1)
        queued = it.begin()
        it.pass_()
        queued.cancel()
        with pytest.raises(TaskCancelledError):
            queued.result(timeout=LONG_S)

    assert script.undos == []


def test_what_was_asked_for_on_the_way_is_undone_too() -> None:
    helper, helps = undoable("helper", "helped")

    def execute(task: Subtask, context: Any) -> Any:
        return context.ask_sync("helper", "help me")

    plan = [Subtask("x", worker="a"), Subtask("send", worker="bad", depends_on=["x"])]
    report = run(plan, WorkerSpec(id="a", execute=execute), helps, bad())

    assert [call.result for call in helper.undos] == ["helped"]
    assert report.compensated == ["x.1"]


def test_an_undo_whose_worker_is_restarted_meanwhile_is_called_again_and_recorded_once() -> None:
    held = Hang()
    refund = AsyncScriptedExecutable(held, "refunded", by="call")
    pays = undoable("pay", "paid", undo="refund")[1]
    plan = [LINE[0], Subtask("send", worker="bad", depends_on=["pay"])]
    with shop(plan, pays, WorkerSpec(id="refund", execute=refund.execute), bad()) as it:
        it.begin()
        held.wait_until_entered()
        it.tree.terminate_child("shop/refund")
        it.tree.restart_child("shop/refund")
        it.pass_()
        it.advance(1.0)
        report = it.report()
        undone = it.events(Compensated)

    assert (len(refund.calls), len(undone)) == (2, 1)
    assert len({call.idempotency_key for call in refund.calls}) == 1
    assert report.compensated == ["pay"]


# -- who undoes --------------------------------------------------------------------------------------------------


def test_an_undo_may_be_async() -> None:
    pay = AsyncScriptedExecutable("paid")
    spec = WorkerSpec(id="pay", execute=pay.execute, undo=pay.undo)
    run(LINE, spec, undoable("pack")[1], bad())

    assert [call.result for call in pay.undos] == ["paid"]


@pytest.mark.parametrize("where", ["subtask", "worker"])
def test_an_undo_may_be_found_by_name(where: str) -> None:
    name = "tests.tasks.recovery.test_compensation:by_name"
    plan = [LINE[0].model_copy(update={"undo": name}) if where == "subtask" else LINE[0], *LINE[1:]]
    pays = undoable("pay", "paid", undo=name if where == "worker" else None)[1]
    report = run(plan, pays, undoable("pack", undo=None)[1], bad())

    assert UNDONE == [("pay", "paid")]
    assert report.compensated == ["pay"]


@pytest.mark.parametrize("where", ["subtask", "worker"])
def test_an_undo_may_be_another_worker(where: str) -> None:
    refund, refunds = undoable("refund", undo=None)
    plan = [LINE[0].model_copy(update={"undo": "refund"}) if where == "subtask" else LINE[0], *LINE[1:]]
    pays = undoable("pay", "paid", undo="refund" if where == "worker" else None)[1]
    report = run(plan, pays, refunds, undoable("pack", undo=None)[1], bad())

    assert [call.results for call in refund.calls] == [{"pay": "paid"}]
    assert report.compensated == ["pay"]


def test_the_undo_of_a_subtask_goes_before_that_of_its_worker() -> None:
    pay, pays = undoable("pay", "paid")
    plan = [LINE[0].model_copy(update={"undo": "tests.tasks.recovery.test_compensation:by_name"}), *LINE[1:]]
    run(plan, pays, undoable("pack")[1], bad())

    assert (UNDONE, pay.undos) == ([("pay", "paid")], [])


def test_an_undo_has_a_key_that_stays_the_same_however_often_it_is_tried() -> None:
    pay, pays = undoable("pay", "paid", undos=[no, None])
    run(LINE, pays, undoable("pack")[1], bad())
    keys = {call.idempotency_key for call in pay.undos}

    assert [call.attempt for call in pay.undos] == [1, 2]
    assert len(keys) == 1
    assert keys.isdisjoint({call.idempotency_key for call in pay.calls})
