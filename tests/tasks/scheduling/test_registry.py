"""Typed results, and who is listed: points 4 and 5 of the contract."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from actors.tasks.model.executable import Catalogue
from actors.testing import ScriptedExecutable, settle
from tests.tasks.one_subtask import Found, one, report_of
from trees import (
    Breaker,
    Plan,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    TaskFailedError,
    Tasks,
    TaskStatus,
    WorkerSpec,
    start,
)


def of_two(task: Subtask, context: Any) -> str:
    return f"{task}/{context.goal}"


# -- types -----------------------------------------------------------------------------------------------------


def test_output_gives_the_json_of_the_model() -> None:
    report = report_of(one(lambda task, context: Found(title="x", pages=3), output=Found))

    assert report.results == {"a": {"title": "x", "pages": 3}}
    assert report.result("a", as_=Found) == Found(title="x", pages=3)
    assert report.result("a") == {"title": "x", "pages": 3}


def test_output_reads_what_pydantic_can_read() -> None:
    report = report_of(one(lambda task, context: {"title": "x", "pages": "3"}, output=Found))

    assert report.results == {"a": {"title": "x", "pages": 3}}


def test_a_result_of_another_shape_is_a_failed_attempt_whose_feedback_says_what_does_not_fit() -> None:
    script = ScriptedExecutable({"title": "secret title", "pages": "many"}, Found(title="x", pages=3))
    report = report_of(one(script.execute, output=Found, on_failure=[Retry(2, initial_s=0)]))

    assert report.results == {"a": {"title": "x", "pages": 3}}
    assert script.calls[0].feedback == ""
    assert "pages" in script.calls[1].feedback
    assert "integer" in script.calls[1].feedback


def test_a_result_of_another_shape_is_never_shown() -> None:
    report = report_of(one(lambda task, context: {"title": "x", "pages": "secret"}, output=Found))

    assert report.status is TaskStatus.FAILED
    assert "Found" in report.failed["a"]
    assert "secret" not in str(report.failed)
    assert "secret" not in str(report.error)


@dataclasses.dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("output", "returned", "kept"),
    [
        (int, "7", 7),
        (list[int], (1, 2), [1, 2]),
        (dict[str, int], {"a": "1"}, {"a": 1}),
        (Point, Point(1, 2), {"x": 1, "y": 2}),
        (bool, True, True),
        (int | None, None, None),
    ],
)
def test_output_is_anything_that_pydantic_knows(output: Any, returned: Any, kept: Any) -> None:
    report = report_of(one(lambda task, context: returned, output=output))

    assert report.results == {"a": kept}


def test_dependants_and_the_report_see_the_json_form() -> None:
    seen: dict[str, Any] = {}

    def second(task: Any, context: Any) -> Any:
        seen.update(context.results)
        return context.results["a"]

    plan = StaticPlan([Subtask("a", worker="first"), Subtask("b", worker="second", depends_on=["a"])])
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=plan),
        children=[
            WorkerSpec(
                id="first", execute=lambda task, context: {"at": Point(1, 2), "all": ({1}, Found(title="", pages=0))}
            ),
            WorkerSpec(id="second", execute=second),
        ],
    )
    with start(spec) as tree:
        report = tree.run("read it", timeout=60)

    kept = {"at": {"x": 1, "y": 2}, "all": [[1], {"title": "", "pages": 0}]}
    assert seen == {"a": kept}
    assert report.results == {"a": kept, "b": kept}


# -- the registry ----------------------------------------------------------------------------------------------


def typed(task: Found, context: Any) -> list[str]:
    return [task.title]


def test_the_registry_says_who_they_are_and_what_they_take_and_give() -> None:
    team = SupervisorSpec(
        id="code",
        tasks=Tasks(),
        description="Writes code",
        children=[
            WorkerSpec(id="lint", execute=of_two, capabilities={"lint"}),
            WorkerSpec(id="test", execute=of_two, capabilities={"test"}),
        ],
    )
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(),
        children=[
            WorkerSpec(
                id="search", execute=typed, type="tool", description="Searches", capabilities=["search"], pool=4
            ),
            WorkerSpec(id="stats", execute=of_two, type="skill", output=Found, breaker=None, backup="search"),
            WorkerSpec(id="think", execute=of_two, type="agent"),
            WorkerSpec(id="clock", run=lambda: None, restart="temporary"),
            team,
        ],
    )
    with start(spec) as tree:
        rows = {row.id: row for row in tree.registry()}
        inner = {row.id for row in tree.registry("p/code")}

    assert list(rows) == ["search", "stats", "think", "code"]
    assert inner == {"lint", "test"}
    assert {id_: row.type for id_, row in rows.items()} == {
        "search": "tool",
        "stats": "workflow",
        "think": "agent",
        "code": "team",
    }
    assert rows["search"].path == "p/search"
    assert rows["search"].description == "Searches"
    assert rows["search"].capabilities == {"search"}
    assert rows["search"].input_schema is not None
    assert rows["search"].input_schema["title"] == "Found"
    assert rows["search"].output_schema == {"items": {"type": "string"}, "type": "array"}
    assert rows["stats"].output_schema is not None
    assert rows["stats"].output_schema["title"] == "Found"
    assert (rows["search"].state, rows["search"].breaker, rows["stats"].breaker) == ("running", "closed", None)
    assert (rows["search"].load, rows["search"].size) == (0, 4)
    assert rows["stats"].backup == "search"
    assert rows["code"].capabilities == {"lint", "test"}


def test_the_registry_shows_how_busy_a_worker_is() -> None:
    release = ScriptedExecutable(lambda task, context: loads.append(registry()) or "ok")
    loads: list[int] = []
    with start(one(release.execute)) as tree:

        def registry() -> int:
            return tree.registry()[0].load

        tree.run("read it", timeout=60)
        settle(tree)
        after = registry()

    assert loads == [1]
    assert after == 0


class Seeing:
    """A planner that keeps what it was shown, and plans for the one worker of the goal."""

    def __init__(self) -> None:
        self.catalogues: list[list[str]] = []

    def plan(self, task: Any, catalogue: Catalogue, feedback: str) -> Plan:
        self.catalogues.append([row.id for row in catalogue])
        return Plan([Subtask("a", worker=task.goal)])


def test_workers_that_are_added_and_removed_appear_and_disappear() -> None:
    planner = Seeing()
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=planner), children=[WorkerSpec(id="w", execute=of_two)])
    with start(spec) as tree:
        tree.start_child("p", WorkerSpec(id="new", execute=lambda task, context: "by the new one"))
        report = tree.run("new", timeout=60)
        listed = [row.id for row in tree.registry()]
        tree.terminate_child("p/new")
        tree.delete_child("p/new")
        left = [row.id for row in tree.registry()]
        tree.run("w", timeout=60)

    assert report.results == {"a": "by the new one"}
    assert listed == ["w", "new"]
    assert left == ["w"]
    assert planner.catalogues == [["w", "new"], ["w"]]


def test_a_pool_that_is_added_at_run_time_is_one_row() -> None:
    with start(one(of_two)) as tree:
        tree.start_child("p", WorkerSpec(id="more", execute=of_two, pool=3))
        rows = {row.id: row.size for row in tree.registry()}

    assert rows == {"w": 1, "more": 3}


def test_a_parked_worker_is_in_the_registry_but_not_in_the_catalogue() -> None:
    planner = Seeing()
    crash = ScriptedExecutable(SystemExit())
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=planner, on_failure=[]),
        max_restarts=0,
        children=[
            WorkerSpec(id="bad", execute=crash.execute, breaker=None),
            WorkerSpec(id="good", execute=of_two),
        ],
    )
    with start(spec) as tree:
        with pytest.raises(TaskFailedError):
            tree.run("bad", timeout=60)
        settle(tree)
        states = {row.id: row.state for row in tree.registry()}
        tree.run("good", timeout=60)

    assert states == {"bad": "parked", "good": "running"}
    assert planner.catalogues == [["bad", "good"], ["good"]]


def test_a_worker_with_an_open_breaker_is_in_the_registry_but_not_in_the_catalogue() -> None:
    planner = Seeing()
    fails = ScriptedExecutable(ValueError("no"))
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=planner, on_failure=[]),
        children=[
            WorkerSpec(id="bad", execute=fails.execute, breaker=Breaker(1, 60, 60)),
            WorkerSpec(id="good", execute=of_two),
        ],
    )
    with start(spec) as tree:
        with pytest.raises(TaskFailedError):
            tree.run("bad", timeout=60)
        breakers = {row.id: row.breaker for row in tree.registry()}
        tree.run("good", timeout=60)

    assert breakers == {"bad": "open", "good": "closed"}
    assert planner.catalogues == [["bad", "good"], ["good"]]
