"""The planner for words decides by evidence, and says when it is unsure (rule S15)."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st

from actors.model.errors import ConfigError
from actors.tasks.model.executable import ExecutableInfo, MemberInfo
from actors.tasks.model.task import Plan, Task
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.goal_text import word_set
from actors.tasks.planning.keyword_planner import KeywordPlanner
from actors.tasks.planning.plan_validation import check_plan
from actors.tasks.planning.verb_families import VERB_FAMILIES, Verbs
from actors.tasks.planning.worker_words import profile_of
from tests.tasks.planning.test_planners import row
from trees import SupervisorSpec, Tasks, WorkerSpec, start

ARTICLES = {
    "search": "Searches the documentation",
    "research": "Finds and compares sources",
    "code": "Writes code",
    "review": "Reviews implementations",
}
"""The articles' own registry."""
OPAQUE = dict(zip("stuv", ARTICLES.values(), strict=True))
"""The same with ids that say nothing."""
ARTICLES_GOAL = "Research vector databases, implement a prototype and review it"


def rows(said: dict[str, str]) -> tuple[ExecutableInfo, ...]:
    return tuple(row(name, description=description) for name, description in said.items())


def planned(goal: str, said: dict[str, str], **options: Any) -> Plan:
    return KeywordPlanner(**options).plan(Task(goal), rows(said), "")


def given(plan: Plan) -> dict[str, str]:
    return {str(one.worker): one.instruction for one in plan.subtasks}


def waits(plan: Plan) -> dict[str, list[str]]:
    return {str(one.worker): one.depends_on for one in plan.subtasks}


# -- what counts for how much ------------------------------------------------------------------------------------


@pytest.mark.parametrize("registry", [ARTICLES, OPAQUE], ids=["named", "descriptions only"])
def test_the_articles_own_registry_and_goal_come_out_right_with_descriptions_only(registry: dict[str, str]) -> None:
    _, research, code, review = registry
    plan = planned(ARTICLES_GOAL, registry)

    assert waits(plan) == {research: [], code: [], review: [research, code]}
    assert given(plan)[code] == "implement a prototype"
    assert plan.warnings == []


def test_a_verb_at_the_head_of_a_clause_weighs_more_than_a_noun_that_is_a_form_of_it() -> None:
    said = {"x": "Reviews implementations", "y": "Writes code"}

    assert given(planned("implement a parser", said)) == {"y": "implement a parser"}
    assert given(planned("review the implementation", said)) == {"x": "review the implementation"}


def test_a_noun_form_of_a_verb_is_not_enough_to_be_meant() -> None:
    with pytest.raises(NoCapableWorkerError):
        planned("implement a parser", {"x": "Reviews implementations", "y": "Searches pages"})


@pytest.mark.parametrize("words", [{"capabilities": frozenset({"translate"})}, {"id": "translate"}])
def test_an_id_or_a_capability_weighs_more_than_a_description(words: dict[str, Any]) -> None:
    named = row(**({"name": "n"} | {"name" if name == "id" else name: value for name, value in words.items()}))
    plan = KeywordPlanner().plan(Task("translate it"), (row("other", description="Translates texts"), named), "")

    assert [one.worker for one in plan.subtasks] == [named.id]
    assert plan.warnings == []


@pytest.mark.parametrize(
    ("said", "goal"),
    [
        ("Writes code", "implement a cache"),
        ("Verifies results", "audit the numbers"),
        ("Investigates markets", "compare the prices"),
        ("Looks up words", "find a page"),
        ("Measures speed", "inspect the engine"),
        ("Releases packages", "deploy the service"),
        ("Repairs engines", "fix the pump"),
        ("An agent that reviews code", "check the change"),
        ("Code review", "verify the change"),
        ("Responsible for testing", "test the change"),
        ("Writes documentation", "document the change"),
        ("Quality: unit, integration and end-to-end tests", "test the change"),
    ],
)
def test_verbs_of_one_family_ask_for_one_kind_of_work(said: str, goal: str) -> None:
    assert given(planned(goal, {"x": said, "y": "Paints walls", "z": "Sends letters"})) == {"x": goal}


def test_the_families_of_verbs_can_be_replaced() -> None:
    said = {"x": "Brews tea", "y": "Writes code"}

    assert given(planned("cook a pot", said, families={"cook": ["cook", "brew"]})) == {"x": "cook a pot"}
    with pytest.raises(NoCapableWorkerError):
        planned("implement it", said, families={"cook": ["cook", "brew"]})
    more = {**VERB_FAMILIES, "cook": ["cook", "brew up"]}
    assert given(planned("implement it", said, families=more)) == {"y": "implement it"}


@pytest.mark.parametrize("families", [["write"], {"make": "write"}, {1: ["write"]}, {"make": [1]}])
def test_families_of_another_form_are_refused_with_the_form(families: Any) -> None:
    with pytest.raises(ConfigError, match=r"expected .*, got .*'make': \['write', 'build'\]"):
        KeywordPlanner(families=families)


def test_what_is_worked_on_decides_where_nobody_says_the_verb_and_the_plan_says_so() -> None:
    plan = planned("cancel the hotel", {"x": "Books hotels", "y": "Books flights"})
    assert (given(plan), plan.warnings) == ({"x": "cancel the hotel"}, [])

    plan = planned("summarise the sources", {"x": "Gathers sources", "y": "Writes code"})
    assert given(plan) == {"x": "summarise the sources"}
    assert "nobody says that it does this" in plan.warnings[0]


# -- teams -------------------------------------------------------------------------------------------------------

TEAMS = [
    ("Builds user interfaces", "Stores data", "Quality of the product"),
    ("Frontend team", "Backend team", "Testing team"),
    ("", "", ""),
]


def hierarchy(said: tuple[str, str, str]) -> SupervisorSpec:
    def do(task: Any, context: Any) -> str:
        return f"{task}"

    def team(name: str, description: str, *members: WorkerSpec) -> SupervisorSpec:
        return SupervisorSpec(id=name, tasks=Tasks(), description=description, children=members)

    return SupervisorSpec(
        id="project",
        tasks=Tasks(),
        children=[
            team(
                "frontend",
                said[0],
                WorkerSpec(id="react", execute=do, description="Writes React components and forms"),
                WorkerSpec(id="css", execute=do, description="Styles pages"),
            ),
            team("backend", said[1], WorkerSpec(id="db", execute=do, description="Designs databases")),
            team("qa", said[2], WorkerSpec(id="e2e", execute=do, description="Tests integrations")),
        ],
    )


@pytest.mark.parametrize("said", TEAMS)
def test_the_hierarchy_example_is_split_over_its_three_teams(said: tuple[str, str, str]) -> None:
    """With descriptions: they add to the words of the members, and never replace them."""
    with start(hierarchy(said)) as tree:
        report = tree.run("Write the react form, design the database, and test the integration", timeout=60)

    assert report.results == {
        "frontend": {"react": "Write the react form"},
        "backend": {"db": "design the database"},
        "qa": {"e2e": "test the integration"},
    }


def test_a_description_on_a_team_adds_to_its_members_words_and_never_replaces_them() -> None:
    member = MemberInfo("inner", "Bakes bread", frozenset({"knead"}))
    team = row("kitchen", type="team", description="Cooks dinners", members=(member,))
    others = row("y", description="Writes code")

    for goal in ("bake bread", "cook the dinner", "knead it", "ask inner for it"):
        assert [one.worker for one in KeywordPlanner().plan(Task(goal), (others, team), "").subtasks] == ["kitchen"]


# -- negations ---------------------------------------------------------------------------------------------------

STAFF = {"w": "Writes code", "d": "Deploys services", "t": "Tests features", "r": "Reviews changes"}


@pytest.mark.parametrize(
    "goal",
    [
        "write it but do not deploy it",
        "do not deploy, only write it",
        "don't deploy it; write it",
        "write it without deploying or testing it",
        "never deploy. Write it",
        "write it instead of deploying it",
        "please do not test or deploy, just write it",
        "do not test, review or deploy it. Write it",
        "the service should not be deployed; write it",
        "write it and do not deploy and test it",
        "skip the tests, write it",
        "neither deploy nor test it, but write it",
        "write it rather than deploying it",
    ],
)
def test_a_negated_clause_is_no_work(goal: str) -> None:
    plan = planned(goal, STAFF)

    assert [one.worker for one in plan.subtasks] == ["w"]
    assert plan.subtasks[0].instruction == goal, "whoever does it reads what is not to be done"


@pytest.mark.parametrize(
    "goal",
    [
        "not only write it but also deploy it",
        "write it and don't forget to deploy it",
        "write it, no matter how long it takes, and deploy it",
        "write code that does not hang and deploy it",
        "do not test it, but write it and deploy it",
    ],
)
def test_what_only_looks_like_a_negation_is_work(goal: str) -> None:
    assert [one.worker for one in planned(goal, STAFF).subtasks] == ["w", "d"]


def test_a_goal_that_only_says_what_is_not_to_be_done_is_refused_and_says_so() -> None:
    with pytest.raises(NoCapableWorkerError, match="says only what is not to be done"):
        planned("do not deploy", STAFF, default="w")


def test_a_negation_that_may_go_on_is_told() -> None:
    plan = planned("write it, do not test and deploy it", STAFF)

    assert [one.worker for one in plan.subtasks] == ["w"]
    assert "clause 3 ('deploy' ...) is read as not to be done" in plan.warnings[0]


# -- what is said once for several -------------------------------------------------------------------------------


def test_two_verbs_for_one_noun_are_two_subtasks_of_which_the_second_needs_the_first() -> None:
    plan = planned("Write and review the parser", STAFF)

    assert given(plan) == {"w": "Write the parser", "r": "review the parser"}
    assert waits(plan) == {"w": [], "r": ["w"]}


def test_two_verbs_for_one_noun_of_one_worker_are_one_subtask() -> None:
    assert given(planned("Research and compare vector databases", ARTICLES)) == {
        "research": "Research and compare vector databases"
    }


def test_one_verb_for_two_nouns_is_said_to_both_workers() -> None:
    said = {"x": "APIs and services", "y": "Forms and pages"}

    assert given(planned("Build an API and a form", said)) == {"x": "Build an API", "y": "Build a form"}


def test_a_list_of_nouns_stays_with_its_verb() -> None:
    said = {"x": "Tests features", "y": "Forms and pages"}

    assert given(planned("Test the forms, the pages and the rest", said)) == {
        "x": "Test the forms, the pages and the rest"
    }


@pytest.mark.parametrize(
    "goal",
    [
        "review the change, then deploy it",
        "deploy it after reviewing the change",
        "after reviewing the change, deploy it",
        "before deploying it, review the change",
        "review the change before deploying it",
        "review the change -> deploy",
        "1. review the change\n2. then deploy it",
    ],
)
def test_words_of_order_say_what_waits_for_what(goal: str) -> None:
    assert waits(planned(goal, STAFF)) == {"r": [], "d": ["r"]}


# -- doubts ------------------------------------------------------------------------------------------------------


def test_where_the_best_two_are_close_the_plan_says_so() -> None:
    plan = planned("write a parser", {"x": "Writes code", "y": "Writes code", "z": "Sends mail"})

    assert [one.worker for one in plan.subtasks] == ["x"]
    assert plan.warnings == [
        (
            "clause 1 ('write' ...) fits x and y nearly alike: x has it. "
            "Name the worker in the goal, or say more in its description=."
        )
    ]


def test_where_the_verb_speaks_for_one_and_its_object_for_another_the_plan_says_so() -> None:
    assert (
        "fits x and y nearly alike" in planned("find a hotel", {"x": "Finds trains", "y": "Books hotels"}).warnings[0]
    )


def test_a_clause_that_matches_nobody_is_told_and_stays_with_the_one_before_it() -> None:
    plan = planned("write a parser and bake a cake", STAFF)

    assert given(plan) == {"w": "write a parser and bake a cake"}
    assert "clause 2 ('bake' ...) matches nobody: it stays with w" in plan.warnings[0]


def test_the_default_gets_what_matches_nobody_and_what_fits_several_alike() -> None:
    plan = planned("write a parser and bake a cake", STAFF, default="t")
    assert given(plan) == {"w": "write a parser", "t": "bake a cake"}
    assert "matches nobody: t, the default, has it" in plan.warnings[0]

    plan = planned("write a parser", {"x": "Writes code", "y": "Writes code", "z": "Sends mail"}, default="z")
    assert given(plan) == {"z": "write a parser"}
    assert "z, the default, has it" in plan.warnings[0]

    assert given(planned("bake a cake", STAFF, default="t")) == {"t": "bake a cake"}


def test_the_default_of_keywords_gets_what_no_keyword_stands_for() -> None:
    planner = KeywordPlanner({"code": "w"}, default="t")
    plan = planner.plan(Task("code it, bake a cake"), rows(STAFF), "")

    assert given(plan) == {"w": "code it", "t": "bake a cake"}


def test_a_default_that_is_no_id_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected the id of a worker"):
        KeywordPlanner(default="no id")


def test_warnings_show_no_more_of_a_goal_than_the_verb() -> None:
    plan = planned("write a parser and bake a secret", STAFF)

    assert "secret" not in " ".join(plan.warnings)


def test_warnings_of_a_planner_stand_in_the_event_and_in_the_report() -> None:
    tree_of = SupervisorSpec(
        id="p",
        tasks=Tasks(),
        children=[WorkerSpec(id=name, execute=lambda task, context: "ok", description="Writes code") for name in "ab"],
    )
    with start(tree_of) as tree:
        handle = tree.submit("write a parser")
        report = handle.result(timeout=60)
        warnings = next(event.warnings for event in handle.events() if type(event).__name__ == "Planned")

    assert "fits a and b nearly alike" in warnings[0]
    assert warnings[0] in report.notes


def test_very_many_doubts_are_told_in_a_few_lines() -> None:
    goal = "write it, " + ", ".join(f"bake the cake{n}" for n in range(100))

    assert len(planned(goal, STAFF).warnings) == 21


# -- nobody ------------------------------------------------------------------------------------------------------


def test_a_goal_that_matches_nobody_is_refused_with_what_workers_are_matched_on_and_what_helps() -> None:
    with pytest.raises(NoCapableWorkerError) as caught:
        KeywordPlanner().plan(Task("bake a cake"), (*rows(STAFF), row("q", "quote")), "")

    text = str(caught.value)
    for word in ("w: 'Writes code'", "q (quote)", "description=", "capabilities=", "ModelPlanner(call)", "default="):
        assert word in text


WORDS = sorted(
    word_set("""
        write review deploy test bake it them the a cake parser code then and , . ; not don't never or but without
        instead of rather than before after testing reviewing to Write Tests reviews 1. - -> followed by if that
        neither nor ? I you please results if unless otherwise first second once when plus & " ( ) 2. 2) step
        nothing stop forbidden is either reviewed leave alone
    """)
)


@given_any(st.lists(st.sampled_from(WORDS), max_size=30), st.sampled_from([None, "w"]))
def test_whatever_is_asked_for_makes_a_plan_that_fits_and_loses_no_work(words: list[str], default: str | None) -> None:
    goal = " ".join(words)
    staff = rows(STAFF)
    try:
        plan = KeywordPlanner(default=default).plan(Task(goal or "?"), staff, "")
    except NoCapableWorkerError:
        return

    assert check_plan(plan, staff, task_id="t", max_subtasks=1_000, budget=None, goal=goal)[0] == []
    said = " ".join(one.instruction for one in plan.subtasks)
    assert {word for word in ("bake", "parser", "cake", "code") if word in words} <= set(re.findall(r"\w+", said))


# -- cost --------------------------------------------------------------------------------------------------------


UNITS = [
    "search the docs, ",
    "search docs then review them. ",
    "search many documents ",
    "review it, search it, ",
    "lorem ipsum dolor, ",
    "do not search and review, ",
    "search and ",
    "but first search it, ",
    "search docs, first review, ",
    "once it is found, review it, ",
    "if it fails, search it; otherwise review it. ",
    "2) search ",
    "step 3: search ",
    '"',
    '"search and ',
    ";",
    ".",
    "!?",
    "(",
    "\n",
]


LONG = 16_000
"""Characters of what is long."""


def grows_with_its_length(took: Callable[[int], float]) -> None:
    """Sixteen times as long takes sixteen times as long, and not 256 times; a busy machine may come between."""
    took(500)
    gc.collect()
    gc.disable()  # it would walk over whatever other tests have loaded, more often for a longer text
    try:
        small, large = min(took(LONG // 16) for _ in range(5)), min(took(LONG) for _ in range(2))
    finally:
        gc.enable()
    assert large < 64 * small, f"{small:.4f} s for {LONG // 16:,} characters and {large:.4f} s for {LONG:,}"


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS[::2])
@pytest.mark.parametrize("keywords", [None, {"search": "search", "ipsum": "review", "unit test": "code"}])
def test_the_time_for_a_goal_grows_with_its_length_and_no_faster(unit: str, keywords: dict[str, str] | None) -> None:
    planner = KeywordPlanner(keywords, default="search")
    catalogue = rows(ARTICLES)

    def took(length: int) -> float:
        goal, began = f"Search. {unit * (length // len(unit))}x", time.thread_time()
        planner.plan(Task(goal), catalogue, "")
        return time.thread_time() - began

    grows_with_its_length(took)


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_the_time_for_a_description_grows_with_its_length_and_no_faster(unit: str) -> None:
    def took(length: int) -> float:
        said, began = f"Searches {unit * (length // len(unit))}x", time.thread_time()
        profile_of(row("search", description=said), Verbs())
        return time.thread_time() - began

    grows_with_its_length(took)
