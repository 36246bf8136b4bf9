"""SEMANTICS.md 17 and attempts: a helper that was stopped first answers nobody, and that is no failure of its asker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import actors
from actors import ActorStoppedError, Context, RequestFailed, Worker
from tests.support.crew import LONG_S, Record, meanwhile
from tests.support.hardening import Gate
from trees import (
    Plan,
    Retry,
    StepPutBack,
    StepStarted,
    Subtask,
    SubtaskFailed,
    SubtaskQueued,
    SubtaskStarted,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)


class Stage:
    """``work`` needs its helper when that is down, and has no second try; a slow worker is stopped between them.

    As a team, it is stopped last, and hears only then that the tree stops.
    """

    def __init__(self, raises: Callable[[ActorStoppedError], BaseException], *, is_team: bool = False) -> None:
        self.is_team = is_team
        self.at_work, self.slow = Gate(), Gate()
        self.raises = raises
        self.begun = 0

    def work(self, _: Subtask, __: Context) -> Any:
        """Ask the helper."""
        self.begun += 1
        if self.begun == 1:
            self.at_work()
        try:
            return actors.ref("shop/helper").ask(21, timeout=LONG_S)
        except ActorStoppedError as error:
            raise self.raises(error) from None

    def spec(self) -> SupervisorSpec:
        """Give the tree."""
        gate = self.slow

        class Slow(Worker):
            def on_stop(self) -> None:
                gate()

        workers = [
            WorkerSpec(id="work", execute=self.work, shutdown=LONG_S),
            WorkerSpec(id="slow", actor=Slow, shutdown=LONG_S),
            WorkerSpec(id="helper", handle=lambda number: 2 * number),
        ]
        tasks = Tasks(on_failure=[])
        if not self.is_team:
            return SupervisorSpec(id="shop", tasks=tasks, children=workers)
        return SupervisorSpec(
            id="shop", children=[SupervisorSpec(id="team", tasks=tasks, children=workers[:1]), *workers[1:]]
        )


def as_it_is(error: ActorStoppedError) -> BaseException:
    """Raise what the ask has raised."""
    return error


def of_a_framework(_: ActorStoppedError) -> BaseException:
    """Raise what a framework makes of it, which says nothing of where it comes from."""
    return RuntimeError("the tool has failed")


def in_a_group(error: ActorStoppedError) -> BaseException:
    """Raise what a task group makes of it."""
    return ExceptionGroup("tools", [ValueError("another"), error])


@pytest.mark.parametrize("is_team", [False, True], ids=["beside it", "in a team"])
@pytest.mark.parametrize("raises", [as_it_is, of_a_framework, in_a_group])
def test_an_attempt_whose_helper_was_stopped_before_it_goes_on_in_the_next_process(
    raises: Callable[[ActorStoppedError], BaseException], is_team: bool, tmp_path: Path
) -> None:
    """Nor is it begun once more while the tree still stops."""
    stage, url = Stage(raises, is_team=is_team), f"sqlite:///{tmp_path}/shop.db"
    at = "shop/team" if is_team else "shop"
    tree = start(stage.spec(), store=url)
    record = Record(tree)
    tree.submit(Task("work", id="t"), path=at)
    stage.at_work.wait_reached()
    with meanwhile(tree.stop) as stopping:
        stage.slow.wait_reached()  # the helper is down
        stage.at_work.open.set()
        record.wait_for(RequestFailed, f"{at}/work")
        record.wait_for(SubtaskQueued, count=2)  # its orchestrator has heard of it
        stage.slow.open.set()
        stopping.result(LONG_S)
    assert record.of(SubtaskFailed) == []
    assert (len(record.of(SubtaskStarted)), stage.begun) == (1, 1)

    with start(stage.spec(), store=url) as tree:
        assert tree.task("t").result(timeout=LONG_S).results == {"work": 42}


def asks_a_helper_when_it_may(_: Subtask, __: Context) -> Any:
    actors.ref("shop/gate").ask("may I?", timeout=LONG_S)
    try:
        return actors.ref("shop/helper").ask(21, timeout=LONG_S)
    except ActorStoppedError:
        raise RuntimeError("the tool has failed") from None


@pytest.mark.parametrize("dispatch", ["pool", "process"])
def test_where_it_runs_makes_no_difference_to_an_attempt_whose_helper_was_stopped_before_it(
    dispatch: Any, tmp_path: Path
) -> None:
    """From a process its error has to cross, and what that stems from with it."""
    at_work, slow = Gate(), Gate()

    class Slow(Worker):
        def on_stop(self) -> None:
            slow()

    plan = Plan([Subtask("work", worker="work")])
    children = [
        WorkerSpec(id="gate", handle=lambda _: at_work()),
        WorkerSpec(id="work", execute=asks_a_helper_when_it_may, shutdown=LONG_S, dispatch=dispatch),
        WorkerSpec(id="slow", actor=Slow, shutdown=LONG_S),
        WorkerSpec(id="helper", handle=lambda number: 2 * number),
    ]
    spec = SupervisorSpec(id="shop", tasks=Tasks(on_failure=[]), children=children)
    tree = start(spec, store=f"sqlite:///{tmp_path}/shop.db")
    record = Record(tree)
    tree.submit(Task("work", id="t", plan=plan))
    at_work.wait_reached()
    with meanwhile(tree.stop) as stopping:
        slow.wait_reached()  # the helper is down
        at_work.open.set()
        record.wait_for(RequestFailed, "shop/work")
        slow.open.set()
        stopping.result(LONG_S)
    assert record.of(SubtaskFailed) == []

    with start(spec, store=f"sqlite:///{tmp_path}/shop.db") as tree:
        assert tree.task("t").result(timeout=LONG_S).results == {"work": 42}


def test_a_team_works_for_younger_siblings_that_still_stop() -> None:
    """It is stopped after them, as all are whom they may need: its tasks are planned and done as ever."""
    begun, found = threading.Event(), list[Any]()

    def needs_the_team(_: Any) -> None:
        begun.set()
        actors.sleep(LONG_S)  # until it is to stop
        found.append(tree.run("double", path="shop/team", timeout=LONG_S).results)

    def plan(*_: Any) -> Plan:
        return Plan([Subtask("double", worker="double")])

    double = WorkerSpec(id="double", execute=lambda *_: 42)
    team = SupervisorSpec(id="team", tasks=Tasks(planner=plan, on_failure=[]), children=[double])
    late = WorkerSpec(id="late", handle=needs_the_team, shutdown=LONG_S)
    tree = start(SupervisorSpec(id="shop", children=[team, late]))
    tree.ref("shop/late").tell("now")
    assert begun.wait(LONG_S)
    tree.stop()
    assert found == [{"double": 42}]


def test_a_planner_of_a_team_that_fails_of_a_helper_while_the_tree_stops_is_called_by_the_next_process(
    tmp_path: Path,
) -> None:
    """And not once more before that: the helper is down."""
    at_work, slow, calls = Gate(), Gate(), list[str]()

    class Slow(Worker):
        def on_stop(self) -> None:
            slow()

    def plan(*_: Any) -> Plan:
        calls.append("plan")
        if len(calls) == 1:
            at_work()
        worker = actors.ref("shop/helper").ask("double", timeout=LONG_S)
        return Plan([Subtask("double", worker=worker)])

    double = WorkerSpec(id="double", execute=lambda *_: 42)
    tasks = Tasks(planner=plan, step_retry=Retry(max_attempts=1))
    team = SupervisorSpec(id="team", tasks=tasks, children=[double])
    children = [team, WorkerSpec(id="slow", actor=Slow, shutdown=LONG_S), WorkerSpec(id="helper", handle=str)]
    spec, url = SupervisorSpec(id="shop", children=children), f"sqlite:///{tmp_path}/shop.db"
    tree = start(spec, store=url)
    record = Record(tree)
    tree.submit(Task("double", id="t"), path="shop/team")
    at_work.wait_reached()
    with meanwhile(tree.stop) as stopping:
        slow.wait_reached()  # the helper is down
        at_work.open.set()
        record.wait_for(StepPutBack)
        slow.open.set()
        stopping.result(LONG_S)
    assert (calls, len(record.of(StepStarted))) == (["plan"], 1)

    slow = Gate()
    slow.open.set()
    with start(spec, store=url) as tree:
        assert tree.task("t").result(timeout=LONG_S).results == {"double": 42}


def test_a_helper_that_somebody_has_stopped_is_a_failure_of_its_asker() -> None:
    """The tree goes on, so the attempt has failed of what it has met."""
    stage = Stage(as_it_is)
    stage.at_work.open.set()
    stage.slow.open.set()
    with start(stage.spec()) as tree:
        record = Record(tree)
        tree.terminate_child("shop/helper")
        handle = tree.submit(Task("work", id="t"))
        with pytest.raises(TaskFailedError):
            handle.result(timeout=LONG_S)
        assert len(record.wait_for(SubtaskFailed)) == 1


def test_an_orchestrator_that_was_stopped_with_its_team_and_is_back_judges_failures_as_ever() -> None:
    """``closing`` said that all beside it was being stopped. All of them are back."""
    work = WorkerSpec(id="work", execute=lambda _, __: actors.ref("top/shop/helper").ask(1))
    workers = [work, WorkerSpec(id="helper", handle=str)]
    shop = SupervisorSpec(id="shop", tasks=Tasks(on_failure=[]), children=workers)
    with start(SupervisorSpec(id="top", children=[shop])) as tree:
        tree.terminate_child("top/shop")
        tree.restart_child("top/shop")
        tree.terminate_child("top/shop/helper")
        handle = tree.submit(Task("work", id="t"), path="top/shop")
        with pytest.raises(TaskFailedError):
            handle.result(timeout=LONG_S)
