"""From where a task may be submitted and waited for, and where it is refused."""

from __future__ import annotations

import asyncio
import copy
import threading
from typing import Any

import pytest

from actors import BlockingAskError, ConfigError, Event, TreeDownError, UnknownPathError
from actors.testing import AsyncScriptedExecutable, Hang, ScriptedExecutable
from trees import (
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskError,
    TaskFailedError,
    Tasks,
    TaskStatus,
    Tree,
    WorkerSpec,
    start,
    start_async,
)

ONE = StaticPlan([Subtask("a", worker="w")])


def spec_of(script: Any, planner: Any = ONE, **tasks: Any) -> SupervisorSpec:
    """A tree of one worker ``w``."""
    worker = WorkerSpec(id="w", execute=getattr(script, "execute", script))
    return SupervisorSpec(id="p", tasks=Tasks(planner=planner, **tasks), children=[worker])


# -- where it is refused ---------------------------------------------------------------------------------------


def test_a_supervisor_without_tasks_takes_none() -> None:
    plain = SupervisorSpec(id="plain", children=[WorkerSpec(id="x", handle=lambda message: None)])
    team = SupervisorSpec(id="team", tasks=Tasks(planner=ONE), children=[WorkerSpec(id="w", execute=lambda t, c: "ok")])
    with start(SupervisorSpec(id="p", children=[plain, team])) as tree:
        for path in (None, "p", "p/plain"):
            with pytest.raises(TaskError, match="tasks="):
                tree.submit("do it", path)
        with pytest.raises(TaskError, match="tasks="):
            tree.registry("p/plain")
        report = tree.run("do it", timeout=10, path="p/team")

    assert report.path == "p/team"


@pytest.mark.parametrize("path", ["ghost", "p/ghost", "p/w", "p/orchestrator", ""])
def test_a_path_that_is_no_supervisor_is_refused(path: str) -> None:
    with start(spec_of(ScriptedExecutable("ok"))) as tree:
        with pytest.raises(UnknownPathError):
            tree.submit("do it", path)
        with pytest.raises(UnknownPathError):
            tree.registry(path)


def test_a_tree_that_is_down_takes_no_task() -> None:
    with start(spec_of(ScriptedExecutable("ok"))) as tree:
        done = tree.submit("do it")
        report = done.result(timeout=60)
    with pytest.raises(TreeDownError):
        tree.submit("do it")
    with pytest.raises(TreeDownError):
        tree.run("do it")

    assert done.result() == report


def error_of(way: Any) -> BaseException:
    """What is raised to whoever waits in this way."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - whatever it is, it is looked at
        way()
    return caught.value


def test_who_waits_when_the_tree_goes_down_hears_it_and_the_task_stays_unfinished() -> None:
    hang = Hang()
    script = AsyncScriptedExecutable(hang)
    found: list[type[BaseException]] = []
    read: list[list[Event]] = []

    async def wait() -> None:
        await handle

    with start(spec_of(script)) as tree:
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        ways = [handle.result, lambda: asyncio.run(wait())]
        threads = [threading.Thread(target=lambda way=way: found.append(type(error_of(way)))) for way in ways]
        threads.append(threading.Thread(target=lambda: read.append(list(handle.events()))))
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join(60)

    assert found == [TreeDownError] * 2
    assert [len(events) > 0 for events in read] == [True]  # events end with their tree
    assert not handle.status.is_final
    assert script.calls[0].ended == "CancelledError"
    with pytest.raises(TreeDownError):
        handle.result(timeout=1)


def test_a_task_of_a_goal_that_is_none_is_refused_where_it_is_written() -> None:
    with start(spec_of(ScriptedExecutable("ok"))) as tree:
        for wrong in ("", None, 7, b"x"):
            with pytest.raises(ConfigError, match="goal"):
                tree.submit(wrong)  # type: ignore[arg-type]
        assert tree.run("do it", timeout=60).status is TaskStatus.SUCCEEDED


# -- from where it may be called -------------------------------------------------------------------------------


def test_a_task_is_submitted_and_awaited_in_async_code() -> None:
    async def host() -> list[Any]:
        async with await start_async(spec_of(ScriptedExecutable("ok"))) as tree:
            handle = tree.submit("do it")
            return [await handle, await tree.arun("do it")]

    reports = asyncio.run(host())

    assert [report.results for report in reports] == [{"a": "ok"}] * 2


def team_and_asker(asker: Any) -> SupervisorSpec:
    """A worker ``asker`` of the root, and a team that it may submit tasks to."""
    team = SupervisorSpec(id="team", tasks=Tasks(planner=ONE), children=[WorkerSpec(id="w", execute=lambda t, c: "ok")])
    tasks = Tasks(planner=StaticPlan([Subtask("s", worker="asker")]), on_failure=[])
    return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="asker", execute=asker), team])


def test_workers_submit_tasks_to_other_teams_and_wait_for_them() -> None:
    trees: list[Tree] = []

    def sync(task: Any, context: Any) -> Any:
        return trees[-1].submit("do it", "p/team").result(timeout=60).output

    async def asynchronous(task: Any, context: Any) -> Any:
        handle = trees[-1].submit("do it", "p/team")
        return [(await handle).output, (await trees[-1].arun("do it", "p/team")).output]

    outputs = []
    for asker in (sync, asynchronous):
        with start(team_and_asker(asker)) as tree:
            trees.append(tree)
            outputs.append(tree.run("ask", timeout=60).results["s"])

    assert outputs == [{"a": "ok"}, [{"a": "ok"}, {"a": "ok"}]]


@pytest.mark.parametrize("way", ["result", "run"])
def test_to_wait_on_the_loop_of_the_tree_is_refused_and_nothing_hangs(way: str) -> None:
    trees: list[Tree] = []

    async def asker(task: Any, context: Any) -> Any:
        tree = trees[-1]
        return tree.submit("do it", "p/team").result() if way == "result" else tree.run("do it", path="p/team")

    with start(team_and_asker(asker)) as tree:
        trees.append(tree)
        with pytest.raises(TaskFailedError) as caught:
            tree.run("ask", timeout=60)

    assert caught.value.report is not None
    assert BlockingAskError.__name__ in caught.value.report.failed["s"]


@pytest.mark.parametrize("id_", [None, "t"])
@pytest.mark.parametrize("way", ["submit", "submit_many", "map"])
@pytest.mark.parametrize("inputs", [{}, {"n": [0]}])
def test_what_is_changed_in_a_task_after_it_was_submitted_is_no_part_of_it(inputs: Any, way: str, id_: Any) -> None:
    with start(spec_of(ScriptedExecutable("done"))) as tree:
        task = Task("go", inputs=copy.deepcopy(inputs), id=id_)
        if way == "submit":
            tree.submit(task)
        elif way == "submit_many":
            tree.submit_many([task])
        else:
            list(tree.map([task], to="p", on_error="raise"))
        [handle] = tree.tasks()
        task.inputs.setdefault("n", []).append(1)
        task.metadata["m"] = 1

        assert (handle.task.inputs, handle.task.metadata) == (inputs, {})


@pytest.mark.parametrize("way", ["submit", "map"])
def test_the_ids_of_the_library_are_refused(way: str) -> None:
    task = Task("go", id="t@a")
    with start(spec_of(ScriptedExecutable("done"))) as tree, pytest.raises(ConfigError, match="no id of a user"):
        _ = tree.submit(task) if way == "submit" else list(tree.map([task], to="p", on_error="raise"))
