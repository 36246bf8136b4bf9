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
    Subtask,
    SubtaskFailed,
    SubtaskRequeued,
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
        record.wait_for(SubtaskRequeued)  # its orchestrator has heard of it
        stage.slow.open.set()
        stopping.result(LONG_S)
    assert record.of(SubtaskFailed) == []
    assert (len(record.of(SubtaskStarted)), stage.begun) == (1, 1)

    with start(stage.spec(), store=url) as tree:
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
