"""A tree on a store: what goes on in the next process, who may start it, and when its store is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors import RestartLimitError, StartError, TreeDownError, Worker
from actors.testing import AsyncScriptedExecutable, Hang, ScriptedExecutable
from tests.support.command import WAIT_S, file, out, runtime
from tests.support.crew import LONG_S
from tests.support.databases import Cluster, postgres, postgres_url, sqlite_url, store_url
from tests.support.programs import python, ran
from trees import (
    HA,
    StaticPlan,
    StoreError,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    TaskStatus,
    TaskSubmitted,
    UnknownTaskError,
    WorkerSpec,
    start,
    start_async,
)

__all__ = ["postgres", "postgres_url", "runtime", "sqlite_url", "store_url"]
TWO = StaticPlan([Subtask("a"), Subtask("b", depends_on=["a"])])


def spec_of(a: Any, b: Any, **words: Any) -> SupervisorSpec:
    """A tree that does ``a`` and then ``b``."""
    children = [WorkerSpec(id="a", execute=a.execute), WorkerSpec(id="b", execute=b.execute)]
    return SupervisorSpec(id="p", tasks=Tasks(planner=TWO, **words), children=children)


@pytest.fixture
def url(store_url: str) -> str:
    return store_url


@contextmanager
def left_half_done(url: str) -> Iterator[ScriptedExecutable]:
    """A store in which ``a`` of the task ``t`` is done and ``b`` is not; and who did ``a``."""
    a, hang = ScriptedExecutable("one", by="call"), Hang()
    b = AsyncScriptedExecutable(hang, by="call")
    with start(spec_of(a, b), store=url) as tree:
        tree.submit(Task("do it", inputs={"x": 1}, id="t"))
        b.wait_for_calls(1)
    yield a


# -- what goes on ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_unfinished_goes_on_in_the_next_process_and_what_was_done_is_not_done_again(url: str) -> None:
    with left_half_done(url) as a:
        b = ScriptedExecutable("two", by="call")
        with start(spec_of(a, b), store=url) as tree:
            (handle,) = tree.resumed()
            report = handle.result(timeout=LONG_S)
            kept, task = handle.kept, handle.task

    assert (handle.id, task.goal, task.inputs) == ("t", "do it", {"x": 1})
    assert report.results == {"a": "one", "b": "two"}
    assert kept == ["a"]
    assert (len(a.calls), len(b.calls)) == (1, 1)
    assert b.calls[0].results == {"a": "one"}


def test_nothing_is_resumed_and_nothing_was_kept_of_a_task_of_this_process(url: str) -> None:
    with start(spec_of(ScriptedExecutable("one"), ScriptedExecutable("two")), store=url) as tree:
        handle = tree.submit("do it")
        handle.result(timeout=LONG_S)
        found = tree.resumed(), handle.kept

    assert found == ([], [])


def test_what_a_team_had_done_of_its_part_is_kept_and_told_under_the_subtask(url: str) -> None:
    hang = Hang()

    def spec(first: Any, second: Any) -> SupervisorSpec:
        plan = StaticPlan([Subtask("x"), Subtask("y", depends_on=["x"])])
        children = [WorkerSpec(id="x", execute=first.execute), WorkerSpec(id="y", execute=second.execute)]
        team = SupervisorSpec(id="team", tasks=Tasks(planner=plan), children=children)
        return SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("team")])), children=[team])

    first, second = ScriptedExecutable("one", by="call"), AsyncScriptedExecutable(hang, by="call")
    with start(spec(first, second), store=url) as tree:
        tree.submit(Task("do it", id="t"))
        second.wait_for_calls(1)
    with start(spec(first, ScriptedExecutable("two")), store=url) as tree:
        (handle,) = tree.resumed()
        kept = handle.kept
        handle.result(timeout=LONG_S)

    assert kept == ["team/x"]
    assert len(first.calls) == 1


def test_only_what_is_new_may_be_followed_of_a_task_that_goes_on(url: str) -> None:
    with left_half_done(url) as a, start(spec_of(a, ScriptedExecutable("two")), store=url) as tree:
        (handle,) = tree.resumed()
        new = [type(event).__name__ for event in handle.events(new=True)]
        everything = [type(event).__name__ for event in handle.events()]

    assert everything[0] == "TaskSubmitted"
    assert new == everything[-len(new) :]
    assert new[-1] == "TaskFinished"
    assert "TaskSubmitted" not in new
    assert new.count("SubtaskSucceeded") == 1


def test_tasks_of_earlier_processes_are_found_by_their_ids_and_listed_by_status(url: str) -> None:
    with start(spec_of(ScriptedExecutable("one"), ScriptedExecutable("two")), store=url) as tree:
        tree.submit(Task("do it", id="done")).result(timeout=LONG_S)
    with left_half_done(url) as a:
        hang = Hang()
        with start(spec_of(a, AsyncScriptedExecutable(hang)), store=url) as tree:
            listed = [handle.id for handle in tree.tasks()]
            ended = [(handle.id, handle.status) for handle in tree.tasks("succeeded")]
            report = tree.task("done").result(timeout=LONG_S)
            goes_on = tree.task("t").status
            again = tree.submit(Task("do it", id="done")).status
            with pytest.raises(UnknownTaskError):
                tree.task("nobody's")
            hang.release()

    assert listed == ["done", "t"]
    assert ended == [("done", TaskStatus.SUCCEEDED)]
    assert report.results == {"a": "one", "b": "two"}
    assert not goes_on.is_final
    assert again is TaskStatus.SUCCEEDED


# -- who may start it ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("runtime")
def test_a_root_is_started_by_one_at_a_time_on_a_store(url: str, runtime: Path) -> None:
    spec = spec_of(ScriptedExecutable("one"), ScriptedExecutable("two"))
    other = SupervisorSpec(id="q", tasks=Tasks(planner=TWO), children=spec.children)
    with start(spec, store=url) as tree:
        with pytest.raises(StoreError) as caught:
            start(spec, store=url, console=True)
        with start(other, store=url) as beside:
            report = beside.run("do it", timeout=LONG_S)
        consoles = list(runtime.glob("regrow/*"))
        alive = tree.run("do it", timeout=LONG_S).status

    assert "'p' is in use by " in str(caught.value)
    assert consoles == []
    assert report.status is alive is TaskStatus.SUCCEEDED


class Loud(Worker):
    started: list[str] = []  # noqa: RUF012 - of all of them

    def on_start(self) -> None:
        Loud.started.append("up")


@pytest.mark.parametrize(
    "wrong",
    [
        "mysql://x/y",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///a\udcff.db",  # as os.listdir gives a name that is no UTF-8
        "sqlite:////nowhere/at/all/tasks.db",
        "tasks.db",
    ],
)
def test_a_store_that_cannot_be_opened_is_an_error_and_nothing_has_run(wrong: str) -> None:
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=TWO), children=[WorkerSpec(id="loud", actor=Loud)])
    Loud.started.clear()

    async def host() -> None:
        await start_async(spec, store=wrong)

    with pytest.raises(StoreError) as refused:
        start(spec, store=wrong)
    with pytest.raises(StoreError):
        asyncio.run(host())

    assert f"Did you mean {wrong!r}" not in str(refused.value)
    assert Loud.started == []


def test_a_declaration_that_is_wrong_leaves_no_file(sqlite_url: str, tmp_path: Path) -> None:
    twice = [WorkerSpec(id="x", handle=print), WorkerSpec(id="x", handle=print)]
    with pytest.raises(Exception, match="x"):
        start(SupervisorSpec(id="p", children=twice), store=sqlite_url)

    assert list(tmp_path.iterdir()) == []


# -- when it is closed -----------------------------------------------------------------------------------------


def test_when_a_tree_is_down_its_store_is_closed_and_it_can_be_started_on_it_at_once(url: str) -> None:
    spec = spec_of(ScriptedExecutable("one"), ScriptedExecutable("two"))

    async def host() -> None:
        async with start_async(spec, store=url) as tree:
            await tree.arun("do it")
        tree = await start_async(spec, store=url)
        await asyncio.to_thread(tree.stop)

    for _ in range(3):
        tree = start(spec, store=url)
        tree.run("do it", timeout=LONG_S)
        assert tree.stop()
    asyncio.run(host())
    with start(spec, store=url) as tree:
        finished = tree.tasks("succeeded")

    assert len(finished) == 4


def test_what_was_read_of_a_tree_can_be_read_when_it_is_down(url: str) -> None:
    hang = Hang()
    b = AsyncScriptedExecutable("two", hang, by="call")
    with start(spec_of(ScriptedExecutable("one"), b), store=url) as tree:
        done, open_ = tree.submit("do it"), None
        report = done.result(timeout=LONG_S)
        open_ = tree.submit("do it")
        b.wait_for_calls(2)

    assert tree.task(done.id).result() == done.report == report
    assert [type(event).__name__ for event in done.events()][-1] == "TaskFinished"
    assert {handle.id: handle.status.is_final for handle in tree.tasks()} == {done.id: True, open_.id: False}
    assert "a" in open_.dump()
    with pytest.raises(TreeDownError):
        open_.result(timeout=1)


class Broken(Worker):
    def on_start(self) -> None:
        raise OSError("disk")


def test_a_start_that_fails_closes_its_store(url: str) -> None:
    spec = spec_of(ScriptedExecutable("one"), ScriptedExecutable("two"))
    broken = SupervisorSpec(id="p", tasks=Tasks(planner=TWO), children=[WorkerSpec(id="x", actor=Broken)])

    async def host() -> None:
        await start_async(broken, store=url)

    with pytest.raises(StartError):
        start(broken, store=url)
    with pytest.raises(StartError):
        asyncio.run(host())
    with start(spec, store=url) as tree:
        assert tree.run("do it", timeout=LONG_S).status is TaskStatus.SUCCEEDED


def test_a_root_that_gave_up_has_closed_its_store_before_anybody_hears_of_it(url: str) -> None:
    def crash(_: object) -> None:
        raise ValueError

    doomed = SupervisorSpec(
        id="p", tasks=Tasks(planner=TWO), max_restarts=0, children=[WorkerSpec(id="x", handle=crash)]
    )
    tree = start(doomed, store=url)
    tree.ref("p/x").tell("now")
    with pytest.raises(RestartLimitError):
        tree.wait(LONG_S)
    again = start(doomed, store=url)

    assert again.stop()


# -- on an event loop ------------------------------------------------------------------------------------------


# -- the end of the process ------------------------------------------------------------------------------------

LEAVES = """
import asyncio, sys
from loguru import logger
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

async def wait(task, context):
    await asyncio.sleep(600)

logger.disable("actors")

TREE = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a")])),
                      children=[WorkerSpec(id="a", execute=wait)])
if __name__ == "__main__":
    tree = start(TREE, store=sys.argv[1])
    for number in range(50):
        print(tree.submit(Task("do it", id=f"t{number}")).id, flush=True)
"""


def held() -> SupervisorSpec:
    """The same tree, and nothing ends by itself."""
    worker = WorkerSpec(id="a", execute=AsyncScriptedExecutable(Hang()).execute)
    return SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a")])), children=[worker])


@pytest.mark.slow
def test_an_interpreter_that_ends_without_a_stop_loses_nothing_that_was_taken(url: str, tmp_path: Path) -> None:
    script = file(tmp_path, "leaves.py", LEAVES)
    left = ran("-W", "error", script, url, timeout=WAIT_S)
    told = set(left.stdout.split())
    with start(held(), store=url) as tree:
        kept = {handle.id for handle in tree.resumed()}

    assert left.returncode == 0, left.stderr
    assert left.stderr == ""
    assert kept == told
    assert len(kept) == 50


def test_a_process_that_is_killed_loses_nothing_that_was_taken(url: str, tmp_path: Path) -> None:
    script = file(tmp_path, "leaves.py", LEAVES + "    tree.wait()\n")
    told: list[str] = []
    with python(script, url) as process:
        while len(told) < 10:
            told.append(out(process).readline().strip())
        process.kill()
        told += process.communicate(timeout=WAIT_S)[0].split()
    with start(held(), store=url) as tree:
        kept = [handle.id for handle in tree.resumed()]
        events = [next(iter(handle.events())) for handle in tree.resumed()]

    assert set(told) <= set(kept)
    assert len(told) >= 10
    assert all(isinstance(event, TaskSubmitted) for event in events)


@pytest.mark.parametrize(
    "odd",
    [
        "CREATE DATABASE {} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'",
        "ALTER DATABASE {} SET client_encoding = 'LATIN1'",
    ],
)
def test_texts_are_kept_whatever_encoding_a_database_has(odd: str, postgres: Cluster) -> None:
    url = postgres.create()
    try:
        if odd.startswith("CREATE"):
            postgres.drop(url)
        postgres.execute(odd.format(url.rpartition("/")[2]))
        for _ in range(2):
            spec = spec_of(ScriptedExecutable(), ScriptedExecutable())
            with start(spec, store=url, ha=HA(name="Büro \N{PALM TREE}")) as tree:
                assert tree.holder == "Büro \N{PALM TREE}"
                handle = tree.submit(Task("Käse \N{PALM TREE}", id="t"))
                assert handle.result(LONG_S).status == "succeeded"
                assert handle.task.goal == "Käse \N{PALM TREE}"
    finally:
        postgres.drop(url)
