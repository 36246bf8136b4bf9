"""What a host sees of a task: handles, waiting, events, dumps, and where a submission is refused."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors.testing import AsyncScriptedExecutable, Hang, ScriptedExecutable
from tests.tasks.orchestration.one_worker import TWO, held, spec_of
from trees import (
    Plan,
    Subtask,
    Task,
    TaskCancelledError,
    TaskFailedError,
    TaskHandle,
    TaskStatus,
    TaskTimeoutError,
    UnknownTaskError,
    start,
)

# -- handles ---------------------------------------------------------------------------------------------------


def test_a_handle_has_an_id_a_status_and_a_report() -> None:
    with held() as (tree, hang, script):
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        running, nothing = handle.status, handle.report
        hang.release()
        report = handle.result(timeout=60)

        assert isinstance(handle, TaskHandle)
        assert handle.id == report.task_id
        assert (running, nothing) == (TaskStatus.RUNNING, None)
        assert handle.status is TaskStatus.SUCCEEDED
        assert handle.report == report == handle.result()


@pytest.mark.parametrize("found_by", ["task", "tasks"])
def test_a_handle_that_was_found_says_that_its_task_was_removed_and_not_that_it_is_pending(found_by: str) -> None:
    with start(spec_of(ScriptedExecutable())) as tree:
        told = tree.submit("do it")
        told.result(timeout=60)
        found = tree.task(told.id) if found_by == "task" else tree.tasks()[0]
        tree.remove_task(told.id)

        for look in (lambda: found.status, lambda: found.task, found.dump, found.result):
            with pytest.raises(UnknownTaskError):
                look()
        assert repr(found) == f"<TaskHandle {told.id} UnknownTaskError>"
        assert told.status is TaskStatus.SUCCEEDED  # it had been told of the end
        assert "succeeded" in told.dump()


def test_the_events_of_a_task_that_was_removed_end_for_whoever_reads_them() -> None:
    async def collected(events: Any) -> list[Any]:
        return [event async for event in events]

    with start(spec_of(ScriptedExecutable())) as tree:
        told = tree.submit("do it")
        told.result(timeout=60)
        found = tree.task(told.id)
        tree.remove_task(told.id)

        for handle in (told, found):
            assert list(handle.events()) == list(handle.events(after=2)) == list(handle.stream()) == []
            assert asyncio.run(collected(handle.events())) == asyncio.run(collected(handle.stream())) == []


def test_a_result_that_is_not_there_in_time_is_a_timeout_and_the_task_goes_on() -> None:
    with held() as (tree, hang, _):
        handle = tree.submit("do it")
        with pytest.raises(TaskTimeoutError) as caught:
            handle.result(timeout=0.01)
        hang.release()
        report = handle.result(timeout=60)

    assert isinstance(caught.value, TimeoutError)
    assert caught.value.task == handle.id
    assert report.status is TaskStatus.SUCCEEDED


def test_a_run_that_takes_too_long_goes_on() -> None:
    with held() as (tree, hang, _):
        with pytest.raises(TaskTimeoutError) as caught:
            tree.run("do it", timeout=0.01)
        hang.release()
        report = tree.task(caught.value.task).result(timeout=60)

    assert report.status is TaskStatus.SUCCEEDED


def test_a_handle_may_be_awaited_on_any_loop_and_on_several_at_once() -> None:
    with held() as (tree, hang, _):
        handle = tree.submit("do it")
        found: list[Any] = []

        async def wait() -> Any:
            return await handle

        threads = [threading.Thread(target=lambda: found.append(asyncio.run(wait()))) for _ in range(3)]
        for thread in threads:
            thread.start()
        hang.release()
        for thread in threads:
            thread.join(60)
        again = asyncio.run(wait())

    assert found == [again] * 3


def test_a_failed_task_raises_the_same_to_everybody_with_its_report() -> None:
    script = ScriptedExecutable(ValueError("broken"))
    with start(spec_of(script, on_failure=[])) as tree:
        handle = tree.submit("do it")

        async def wait() -> Any:
            return await handle

        with pytest.raises(TaskFailedError) as first:
            handle.result(timeout=60)
        with pytest.raises(TaskFailedError) as second:
            asyncio.run(wait())

    assert first.value.report == second.value.report == handle.report
    assert "broken" in str(first.value)


def test_a_cancelled_task_raises_that_with_what_was_done() -> None:
    hang = Hang()
    script = AsyncScriptedExecutable("first", hang, by="call")
    with start(spec_of(script, TWO)) as tree:
        handle = tree.submit("do it")
        script.wait_for_calls(2)
        handle.cancel("not wanted")
        handle.cancel()
        with pytest.raises(TaskCancelledError, match="not wanted") as caught:
            handle.result(timeout=60)
        handle.cancel()

    report = caught.value.report
    assert report is not None
    assert (report.status, report.results) == (TaskStatus.CANCELLED, {"a": "first"})
    assert list(report.skipped) == ["b"]
    assert handle.status is TaskStatus.CANCELLED
    assert script.calls[1].ended == "CancelledError"


def test_to_cancel_what_has_ended_changes_nothing() -> None:
    with start(spec_of(ScriptedExecutable("ok"))) as tree:
        handle = tree.submit("do it")
        report = handle.result(timeout=60)
        handle.cancel()
        again = tree.run("do it", timeout=60)

        assert handle.status is TaskStatus.SUCCEEDED
        assert handle.result() == report
        assert again.status is TaskStatus.SUCCEEDED


def test_an_id_that_is_known_gives_its_handle_and_starts_nothing() -> None:
    script = ScriptedExecutable("first", "second", by="call")
    with start(spec_of(script)) as tree:
        first = tree.submit(Task(goal="do it", id="t1"))
        same = tree.submit(Task(goal="something else", id="t1"))
        reports = [first.result(timeout=60), same.result(timeout=60)]
        later = tree.submit(Task(goal="do it", id="t1")).result(timeout=60)

    assert first.id == same.id == "t1"
    assert reports == [later, later]
    assert len(script.calls) == 1


def test_two_handles_of_one_task_are_equal_and_those_of_another_task_or_tree_are_not() -> None:
    with start(spec_of(ScriptedExecutable())) as tree, start(spec_of(ScriptedExecutable())) as elsewhere:
        first = tree.submit(Task("do it", id="t"))
        again, listed, found = tree.submit(Task("do it", id="t")), tree.tasks()[0], tree.task("t")
        others = [tree.submit(Task("do it", id="u")), elsewhere.submit(Task("do it", id="t"))]

        assert [first] * 3 == [again, listed, found]
        assert {first, again, listed, found} == {first}
        assert all(other != first for other in others)
        assert first != first.id


def test_a_known_id_submitted_by_many_at_once_runs_once() -> None:
    script = ScriptedExecutable("ok")
    with start(spec_of(script)) as tree:
        gate = threading.Barrier(8)
        found: list[Any] = []

        def submit() -> None:
            gate.wait()
            found.append(tree.submit(Task(goal="do it", id="t1")).result(timeout=60))

        threads = [threading.Thread(target=submit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    assert len(found) == 8
    assert len(script.calls) == 1


def test_a_task_is_found_again_by_its_id() -> None:
    with held() as (tree, hang, _):
        handle = tree.submit(Task(goal="do it", id="t1"))
        found = tree.task("t1")
        hang.release()

        assert found.result(timeout=60) == handle.result(timeout=60)
        with pytest.raises(UnknownTaskError, match="ghost"):
            tree.task("ghost")


def test_tasks_are_listed_by_status() -> None:
    with held() as (tree, hang, script):
        running = tree.submit(Task(goal="do it", id="t1"))
        script.wait_for_calls(1)
        waiting = tree.submit(Task(goal="do it", id="t2"))
        before = {handle.id for handle in tree.tasks()}
        active = {handle.id for handle in tree.tasks(TaskStatus.RUNNING)}
        hang.release()
        running.result(timeout=60)
        waiting.result(timeout=60)
        done = {handle.id for handle in tree.tasks("succeeded")}

        assert before == {"t1", "t2"}
        assert "t1" in active
        assert done == {"t1", "t2"}
        assert tree.tasks("running") == []
        with pytest.raises(ValueError, match="lost"):
            tree.tasks("lost")


# -- many ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_thousands_of_queued_tasks_all_finish() -> None:
    count = 1_000
    ran = 0

    async def execute(task: Any, context: Any) -> str:
        nonlocal ran
        ran += 1
        return "ok"

    with start(spec_of(execute)) as tree:
        handles = [tree.submit(Task(goal="do it", id=f"t{n}")) for n in range(count)]
        statuses = {handle.result(timeout=60).status for handle in handles}
        first = tree.task("t0").result(timeout=1)
        ids = {handle.id for handle in handles}

    assert statuses == {TaskStatus.SUCCEEDED}
    assert ran == len(ids) == count
    assert first.results == {"a": "ok"}


def test_plans_made_by_a_planner_of_the_user_for_many_tasks_at_once_do_not_mix() -> None:
    def planner(task: Task, catalogue: Any, feedback: str) -> Plan:
        return Plan([Subtask("a", f"for {task.goal}", worker="w")])

    with start(spec_of(ScriptedExecutable(), planner)) as tree:
        handles = {goal: tree.submit(goal) for goal in (f"goal {n}" for n in range(50))}
        found = {goal: handle.result(timeout=60).results["a"] for goal, handle in handles.items()}

    assert found == {goal: f"for {goal}" for goal in handles}
