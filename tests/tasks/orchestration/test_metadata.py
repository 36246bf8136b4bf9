"""Metadata of tasks: seen by all attempts, carried by all events, and what tasks are found by (S33)."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from actors.testing import AsyncScriptedExecutable, Hang
from tests.support.command import runtime
from tests.tasks.dispatching import LONG_S, heard
from trees import (
    Check,
    ConfigError,
    StaticPlan,
    Subtask,
    SubtaskProgressed,
    SubtaskStarted,
    SupervisorSpec,
    Task,
    TaskEvent,
    TaskFailedError,
    Tasks,
    Verdict,
    WorkerSpec,
    start,
)

__all__ = ["runtime"]
LABELS = {"customer": 7, "tags": ["a", "b"], "deep": {"x": None}}


class Seeing:
    """A worker whose attempts and undos tell what metadata they see, and may change it."""

    def __init__(self, then: Any = "ok") -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.then = then

    async def execute(self, task: Subtask, context: Any) -> Any:
        self.seen.append((task.id, json.loads(json.dumps(context.metadata))))
        context.metadata["changed"] = True
        context.progress(0.5)
        if isinstance(self.then, Exception):
            raise self.then
        return self.then

    async def undo(self, task: Subtask, _result: object, context: Any) -> None:
        self.seen.append((f"undo {task.id}", dict(context.metadata)))


def tree_of(worker: Any, plan: list[Subtask], *more: Any, **tasks: Any) -> SupervisorSpec:
    child = WorkerSpec(id="w", execute=worker.execute, undo=getattr(worker, "undo", None))
    settings = Tasks(**{"planner": StaticPlan(plan), "on_failure": [], **tasks})
    return SupervisorSpec(id="p", tasks=settings, children=[child, *more])


# -- what attempts see ---------------------------------------------------------------------------------------


def test_metadata_is_seen_by_all_attempts_of_a_task_and_their_undos() -> None:
    worker = Seeing()
    plan = [Subtask("a", worker="w"), Subtask("b", worker="w", depends_on=["a"])]
    broken = WorkerSpec(id="broken", execute=Seeing(OSError("no")).execute)
    spec = tree_of(worker, [*plan, Subtask("c", worker="broken", depends_on=["b"])], broken)
    with start(spec) as tree, pytest.raises(TaskFailedError):
        tree.run(Task("go", metadata=LABELS), timeout=LONG_S)

    assert worker.seen == [("a", LABELS), ("b", LABELS), ("undo b", LABELS), ("undo a", LABELS)]


def test_metadata_of_a_subtask_lies_over_that_of_its_task() -> None:
    worker = Seeing()
    plan = [Subtask("a", worker="w", metadata={"step": 1, "customer": 8}), Subtask("b", worker="w", depends_on=["a"])]
    with start(tree_of(worker, plan)) as tree:
        tree.run(Task("go", metadata={"customer": 7}), timeout=LONG_S)

    assert worker.seen == [("a", {"customer": 8, "step": 1}), ("b", {"customer": 7})]


def test_metadata_is_seen_in_teams_and_in_teams_of_teams_as_deep_as_they_go() -> None:
    worker = Seeing()
    crew = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("b", worker="m", metadata={"inner": True})])),
        children=[WorkerSpec(id="m", execute=worker.execute)],
    )
    plan = [Subtask("a", worker="team", metadata={"outer": True})]
    events: list[Any] = []
    with start(tree_of(Seeing(), plan, crew)) as tree:
        tree.subscribe(events.append)
        handle = tree.submit(Task("go", metadata={"customer": 7}))
        handle.result(timeout=LONG_S)
        told = list(handle.events())

    assert worker.seen == [("b", {"customer": 7, "outer": True, "inner": True})]
    started = {event.subtask: event.metadata for event in told if isinstance(event, SubtaskStarted)}
    assert started == {"a": {"customer": 7, "outer": True}, "a/b": {"customer": 7, "outer": True, "inner": True}}


def test_metadata_is_seen_by_what_an_attempt_asks_for_and_by_planner_and_reviewer() -> None:
    worker, seen = Seeing(), []

    async def asks(_task: object, context: Any) -> Any:
        return await context.ask("w", "more")

    def review(task: Task, _plan: object, results: dict[str, Any]) -> Verdict:
        seen.append(task.metadata)
        return Verdict(passed=True, checks=[Check(id, passed=True) for id in results])

    asker = WorkerSpec(id="asker", execute=asks)
    with start(tree_of(worker, [Subtask("a", worker="asker")], asker, reviewer=review)) as tree:
        tree.run(Task("go", metadata={"customer": 7}), timeout=LONG_S)

    assert [labels for _, labels in worker.seen] == [{"customer": 7}]
    assert seen == [{"customer": 7}]


# -- what events carry ---------------------------------------------------------------------------------------


def test_every_event_of_a_task_carries_its_metadata() -> None:
    events: list[Any] = []
    plan = [Subtask("a", worker="w"), Subtask("b", worker="w", metadata={"step": 2}, depends_on=["a"])]
    with start(tree_of(Seeing(), plan)) as tree:
        tree.subscribe(events.append)
        with_labels = tree.submit(Task("go", metadata=LABELS))
        without = tree.submit(Task("go"))
        for handle in (with_labels, without):
            handle.result(timeout=LONG_S)
        heard(tree, "p")
        told = list(with_labels.events())
    mine = [event for event in events if isinstance(event, TaskEvent) and event.task == with_labels.id]
    others = [event for event in events if isinstance(event, TaskEvent) and event.task == without.id]

    assert len(mine) == len(others) > 8
    assert any(isinstance(event, SubtaskProgressed) for event in mine)
    for event in (*mine, *told):
        assert event.metadata == (LABELS | {"step": 2} if getattr(event, "subtask", "") == "b" else LABELS), event
    assert {type(event) for event in told} == {type(event) for event in mine} - {SubtaskProgressed}
    assert all(event.metadata == ({"step": 2} if getattr(event, "subtask", "") == "b" else {}) for event in others)
    assert json.loads(json.dumps(asdict(mine[3])))["metadata"] == LABELS


# -- what tasks are found by -----------------------------------------------------------------------------------


def test_tasks_are_found_by_their_metadata_whether_they_run_have_ended_or_are_of_an_earlier_process(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    plan = [Subtask("a", worker="w")]
    with start(tree_of(Seeing(), plan), store=url) as tree:
        for number in range(4):
            tree.run(Task("go", id=f"old-{number}", metadata={"customer": number % 2, "tags": ["x"]}), timeout=LONG_S)
        tree.run(Task("go", id="none"), timeout=LONG_S)
    with Hang() as hang, start(tree_of(AsyncScriptedExecutable(hang), plan), store=url) as tree:
        tree.submit(Task("go", id="new", metadata={"customer": 1, "more": True}))
        hang.wait_until_entered()

        def found(status: str | None = None, **wanted: Any) -> list[str]:
            return [handle.id for handle in tree.tasks(status, metadata=wanted)]

        assert found(customer=1) == ["old-1", "old-3", "new"]
        assert found(customer=1, more=True) == ["new"]
        assert found(customer=1, tags=["x"]) == ["old-1", "old-3"]
        assert found("succeeded", customer=0) == ["old-0", "old-2"]
        assert found("running", customer=1) == ["new"]
        assert found(customer=2) == found(customer="1") == found(other=None) == []
        assert found() == ["old-0", "old-1", "old-2", "old-3", "none", "new"]
        assert len(tree.tasks()) == 6
        with pytest.raises(ConfigError, match="expected a dict, got 'customer'"):
            tree.tasks(metadata="customer")  # type: ignore[arg-type]


# -- what is metadata ------------------------------------------------------------------------------------------
