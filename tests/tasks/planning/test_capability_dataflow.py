"""CapabilityPlanner: async ``needs``, and dependencies from what workers consume and produce (rule S16)."""

from __future__ import annotations

from typing import Any

from tests.tasks.planning.test_planners import row
from trees import (
    CapabilityPlanner,
    ExecutableInfo,
    Plan,
    SupervisorSpec,
    Task,
    Tasks,
    WorkerSpec,
    start,
)


def flow(name: str, *, takes: str = "", gives: str = "", **words: Any) -> ExecutableInfo:
    return row(
        name,
        *words.pop("can", [f"can-{name}"]),
        consumes=frozenset(takes.split()),
        produces=frozenset(gives.split()),
        **words,
    )


def planned(*rows: ExecutableInfo, needs: list[str] | None = None, inputs: dict[str, Any] | None = None) -> Plan:
    planner = CapabilityPlanner(lambda task: needs or [f"can-{one.id}" for one in rows])
    plan = planner.plan(Task("do it", inputs=inputs or {}), rows, "")
    assert isinstance(plan, Plan)
    return plan


def waits(plan: Plan) -> dict[str, list[str]]:
    return {one.id: one.depends_on for one in plan.subtasks}


def test_dependencies_come_from_the_declared_words_of_workers() -> None:
    plan = planned(
        flow("report", takes="figures pages"),
        flow("count", takes="pages", gives="figures"),
        flow("read", gives="pages"),
    )

    assert waits(plan) == {"report": ["count", "read"], "count": ["read"], "read": []}
    assert plan.warnings == []


def test_workers_without_such_words_depend_on_nobody() -> None:
    assert waits(planned(flow("a"), flow("b"))) == {"a": [], "b": []}


def test_a_word_that_the_task_gives_is_no_dependency_and_one_that_nobody_gives_is_told() -> None:
    plan = planned(flow("a", takes="text"), inputs={"text": "x"})
    assert (waits(plan), plan.warnings) == ({"a": []}, [])

    plan = planned(flow("a", takes="text"))
    assert plan.warnings == ["a consumes text, which nobody in this plan produces."]


def test_workers_that_wait_for_each_other_go_in_the_order_of_the_needs_and_the_plan_says_so() -> None:
    plan = planned(flow("a", takes="y", gives="x"), flow("b", takes="x", gives="y"))

    assert waits(plan) == {"a": ["b"], "b": []}
    assert "wait for each other's results" in plan.warnings[0]


def test_of_several_with_one_capability_the_words_of_all_of_them_count() -> None:
    plan = planned(
        flow("s1", can=["read"], gives="pages"),
        flow("s2", can=["read"], gives="words"),
        flow("c", takes="words"),
        needs=["read", "can-c"],
    )

    assert waits(plan) == {"read": [], "c": ["read"]}


def test_declared_words_order_the_work_of_a_tree() -> None:
    def collect(task: Any, context: Any) -> str:
        return "pages"

    def count(task: Any, context: Any) -> dict[str, Any]:
        return dict(context.results)

    members = [WorkerSpec(id="collect", execute=collect, capabilities={"collect"}, produces={"pages"})]
    team = SupervisorSpec(id="readers", tasks=Tasks(), children=members)
    counts = WorkerSpec(id="count", execute=count, capabilities={"count"}, consumes={"pages"})
    planner = CapabilityPlanner(lambda task: ["count", "collect"])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=planner), children=[counts, team])
    with start(spec) as tree:
        report = tree.run("collect and count", timeout=60)

    assert report.results["count"] == {"readers": {"collect": "pages"}}


# -- the error ---------------------------------------------------------------------------------------------------
