"""What a host sees of a task: handles, waiting, events, dumps, and where a submission is refused."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors.testing import AsyncScriptedExecutable, Hang, ScriptedExecutable
from tests.tasks.orchestration.one_worker import TWO, held, spec_of
from trees import (
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
