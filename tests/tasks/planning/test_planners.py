"""The planners that are shipped: which subtasks they make of a goal, and what they say where they cannot."""

from typing import Any

import pytest

from actors import ConfigError
from trees import (
    CapabilityPlanner,
    ExecutableInfo,
    KeywordPlanner,
    NoCapableWorkerError,
    StaticPlan,
    Subtask,
    Task,
)


def row(name: str, *capabilities: str, **others: Any) -> ExecutableInfo:
    said: dict[str, Any] = {
        "id": name,
        "path": f"shop/{name}",
        "type": "tool",
        "description": "",
        "capabilities": frozenset(capabilities),
        "input_schema": None,
        "output_schema": None,
        "state": "running",
        "breaker": "closed",
        "load": 0,
        "size": 1,
        "backup": None,
    }
    return ExecutableInfo(**(said | others))


SEARCH = row("search", description="Searches the documentation")
RESEARCH = row("research", description="Finds and compares sources")
CODE = row("code", "implement")
REVIEW = row("review")
TEAM = (SEARCH, RESEARCH, CODE, REVIEW)


def by_words(goal: str, *rows: ExecutableInfo) -> list[Subtask]:
    return KeywordPlanner().plan(Task(goal), rows, "").subtasks


def shape(subtasks: list[Subtask]) -> dict[str, list[str]]:
    return {subtask.id: subtask.depends_on for subtask in subtasks}


# -- KeywordPlanner ----------------------------------------------------------------------------------------------


def test_each_worker_that_is_meant_gets_its_clause_in_the_order_of_the_goal() -> None:
    subtasks = by_words("Research vector databases, implement a prototype and review it", *reversed(TEAM))

    assert [(one.id, one.worker, one.instruction) for one in subtasks] == [
        ("research", "research", "Research vector databases"),
        ("code", "code", "implement a prototype"),
        ("review", "review", "review it"),
    ]


def test_what_points_back_waits_for_all_before_it_and_the_rest_runs_in_parallel() -> None:
    rows = (SEARCH, row("file_analysis"), row("complexity", "measure"), REVIEW)

    subtasks = by_words("search for open work, analyse the files, measure complexity and review the findings", *rows)

    before = ["search", "file_analysis", "complexity"]
    assert shape(subtasks) == {"search": [], "file_analysis": [], "complexity": [], "review": before}


def test_what_follows_a_sequence_word_waits_for_the_whole_stage_before_it() -> None:
    subtasks = by_words("search docs and research papers, then implement one, finally review", *TEAM)

    assert shape(subtasks) == {"search": [], "research": [], "code": ["search", "research"], "review": ["code"]}


def test_a_sequence_word_before_the_first_worker_orders_nothing() -> None:
    assert shape(by_words("be quick, then search docs and research papers", *TEAM)) == {"search": [], "research": []}


def test_a_worker_that_is_meant_twice_has_one_subtask_with_both_clauses() -> None:
    subtasks = by_words("search cats, review dogs and search birds", *TEAM)

    assert [(one.id, one.instruction) for one in subtasks] == [
        ("search", "search cats, search birds"),
        ("review", "review dogs"),
    ]


def test_a_worker_that_is_meant_again_in_a_later_stage_has_a_second_subtask() -> None:
    subtasks = by_words("search cats, review them, then search again", *TEAM)

    assert shape(subtasks) == {"search": [], "review": ["search"], "search-2": ["search", "review"]}
    assert subtasks[2].worker == "search"


def test_a_backup_comes_after_the_one_that_it_backs_up() -> None:
    rows = (row("spare_search"), row("docs_search", backup="spare_search", load=3))

    assert [one.worker for one in by_words("search it", *rows)] == ["docs_search"]


def test_of_two_who_match_by_one_capability_whoever_is_free_takes_it() -> None:
    [only] = by_words("translate the letter", row("t1", "translate"), row("t2", "translate"))

    assert (only.id, only.worker, only.capability) == ("translate", None, "translate")


def test_keywords_pick_workers_by_any_form_of_the_word() -> None:
    planner = KeywordPlanner({"look": "s1", "unit test": "t1"})

    plan = planner.plan(Task("Looking for bugs, then run the unit tests"), (row("s1"), row("t1")), "")

    assert [(one.id, one.instruction) for one in plan.subtasks] == [
        ("s1", "Looking for bugs"),
        ("t1", "run the unit tests"),
    ]


def test_keywords_that_can_never_work_are_refused_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        KeywordPlanner({"the": "search", "look": "no id"})

    assert len(caught.value.problems) == 2


# -- CapabilityPlanner -------------------------------------------------------------------------------------------


def by_needs(*rows: ExecutableInfo, needs: list[str] | None = None, goal: str = "do it") -> list[Subtask]:
    planner = CapabilityPlanner(None if needs is None else lambda task: needs)
    return planner.plan(Task(goal), rows, "").subtasks


def test_one_worker_that_covers_all_needs_gets_the_whole_goal() -> None:
    [only] = by_needs(row("a", "x"), row("both", "x", "y"), row("b", "y"), needs=["x", "y"])

    assert (only.id, only.worker, only.instruction) == ("both", "both", "do it")


def test_several_are_combined_where_no_single_one_covers_the_need() -> None:
    subtasks = by_needs(row("a", "x"), row("ab", "x", "y"), row("c", "z"), needs=["x", "y", "z"])

    assert [(one.id, one.worker) for one in subtasks] == [("ab", "ab"), ("c", "c")]
    assert subtasks[0].instruction == "do it\nYour part of it: x, y."


def test_of_equals_the_least_busy_is_chosen_and_then_the_first() -> None:
    assert by_needs(row("a", "x", "y", load=2), row("b", "x", "y", load=1), needs=["x", "y"])[0].worker == "b"
    assert by_needs(row("a", "x", "y"), row("b", "x", "y"), needs=["x", "y"])[0].worker == "a"


def test_one_capability_that_several_have_is_left_to_dispatch() -> None:
    [only] = by_needs(row("a", "x"), row("b", "x"), needs=["x"])

    assert (only.id, only.worker, only.capability) == ("x", None, "x")


def test_needs_are_the_capabilities_that_stand_in_the_goal() -> None:
    rows = (row("a", "searching"), row("b", "review", "review-sql"), row("c", "painting"))

    subtasks = by_needs(*rows, goal="search the tables and review the sql")

    assert [one.worker for one in subtasks] == ["a", "b"]
    assert "review-sql" in subtasks[1].instruction


def test_what_nobody_can_do_is_named_with_all_that_is_known() -> None:
    with pytest.raises(NoCapableWorkerError) as caught:
        by_needs(row("a", "x"), row("b", "z", "y"), needs=["x", "fly", "swim"])

    assert (caught.value.needed, caught.value.known) == (("fly", "swim"), ("x", "y", "z"))


# -- StaticPlan --------------------------------------------------------------------------------------------------


def test_a_static_plan_is_the_same_for_every_task() -> None:
    planner = StaticPlan([Subtask("pay"), Subtask("ship", depends_on=["pay"])])

    assert planner.plan(Task("a"), (), "") is planner.plan(Task("b"), TEAM, "no")
    assert shape(planner.plan(Task("a"), (), "").subtasks) == {"pay": [], "ship": ["pay"]}


# -- as_plan, is_inline, repr ------------------------------------------------------------------------------------
