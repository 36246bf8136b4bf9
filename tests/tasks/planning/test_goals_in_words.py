"""What the default planner makes of a goal: who gets which part, after whom, and what it says of its doubts."""

from __future__ import annotations

import pytest

from trees import (
    ExecutableInfo,
    KeywordPlanner,
    NoCapableWorkerError,
    Plan,
    PlanError,
    SupervisorSpec,
    Task,
    Tasks,
    WorkerSpec,
    start,
)

CREW = {
    "dev": "Writes code",
    "qa": "Tests code",
    "rev": "Reviews changes",
    "ops": "Deploys services",
    "web": "Searches the web",
    "sum": "Summarises findings",
}
DESK = {
    "login": "Resets passwords of people who cannot log in",
    "billing": "Answers questions about invoices",
    "orders": "Tracks orders and parcels",
}


def catalogue(said: dict[str, str]) -> tuple[ExecutableInfo, ...]:
    return tuple(
        ExecutableInfo(
            id=name,
            path=f"shop/{name}",
            type="tool",
            description=description,
            capabilities=frozenset(),
            input_schema=None,
            output_schema=None,
            state="running",
            breaker="closed",
            load=0,
            size=1,
            backup=None,
            is_only=len(said) == 1,
        )
        for name, description in said.items()
    )


def planned(goal: str, said: dict[str, str], **options: str) -> Plan:
    return KeywordPlanner(**options).plan(Task(goal), catalogue(said))


def lines(plan: Plan) -> list[str]:
    """Return ``worker < those it waits for: instruction`` for each subtask."""
    return [" < ".join([one.id, *sorted(one.depends_on)]) + f": {one.instruction}" for one in plan.subtasks]


PLANS = [
    # lists
    ("search the web, write code; test the code", ["web: search the web", "dev: write code", "qa: test the code"]),
    ("- search the web\n- write code", ["web: search the web", "dev: write code"]),
    ("1. search the web\n2. write code", ["web: search the web", "dev < web: write code"]),
    ("1) search the web 2) write code", ["web: search the web", "dev < web: write code"]),
    # words of order
    ("write code, then deploy the service", ["dev: write code", "ops < dev: deploy the service"]),
    ("write code. Finally, deploy the service", ["dev: write code", "ops < dev: deploy the service"]),
    ("write code, but first search the web", ["web: but first search the web", "dev < web: write code"]),
    ("deploy the service after testing the code", ["qa: after testing the code", "ops < qa: deploy the service"]),
    ("test the code before deploying the service", ["qa: test the code", "ops < qa: before deploying the service"]),
    ("Before deploying it, test the code", ["qa: test the code", "ops < qa: Before deploying it"]),
    ("Once the code is tested, deploy the service", ["qa: Once the code is tested", "ops < qa: deploy the service"]),
    (
        "When the changes are reviewed, deploy the service",
        ["rev: When the changes are reviewed", "ops < rev: deploy the service"],
    ),
    *(
        (f"Deploy the service{joint} before that test it", ["qa: before that test it", "ops < qa: Deploy the service"])
        for joint in (",", ", and", ", but", " and", ";")
    ),
    # an order whose comma is missing
    ("After testing the code deploy the service", ["qa: After testing the code", "ops < qa: deploy the service"]),
    ("After testing deploy the service", ["qa: After testing", "ops < qa: deploy the service"]),
    ("Before deploying test the code", ["qa: test the code", "ops < qa: Before deploying"]),
    ("Once the code is tested deploy the service", ["qa: Once the code is tested", "ops < qa: deploy the service"]),
    (
        "After testing code against the plan, deploy the service",
        ["qa: After testing code against the plan", "ops < qa: deploy the service"],
    ),
    (
        "deploy it after testing and search the web",
        ["qa: after testing", "ops < qa: deploy it", "web < qa: search the web"],
    ),
    # what speaks of something before it
    ("write code and review it", ["dev: write code", "rev < dev: review it"]),
    ("search the web and summarise the results", ["web: search the web", "sum < web: summarise the results"]),
    # what is said once for two
    ("write and test the parser", ["dev: write the parser", "qa < dev: test the parser"]),
    # what is not to be done
    *(
        (goal, [f"dev: {goal}"])
        for goal in (
            "write code but do not deploy it",
            "write code, don't deploy it",
            "never deploy. Write code",
            "write code without testing it",
            "write code, except that you must not deploy it",
            "write code instead of searching the web",
            "skip the tests, write code",
            "avoid deploying; write code",
            "do not test, review or deploy it. Write code",
        )
    ),
    ("skip the tests and deploy the service", ["ops: skip the tests and deploy the service"]),
    ("write code and don't forget to test it", ["dev: write code", "qa < dev: don't forget to test it"]),
    # a condition is read by the worker that it decides for
    (
        "test the code and, if it passes, deploy the service",
        ["qa: test the code", "ops < qa: if it passes, deploy the service"],
    ),
    # words of one family, names
    ("implement a cache", ["dev: implement a cache"]),
    ("ask ops for a date", ["ops: ask ops for a date"]),
]


@pytest.mark.parametrize(("goal", "expected"), PLANS, ids=[goal for goal, _ in PLANS])
def test_a_goal_becomes_the_subtasks_that_a_reader_would_expect_and_leaves_no_doubt(
    goal: str, expected: list[str]
) -> None:
    plan = planned(goal, CREW)

    assert lines(plan) == expected
    assert plan.warnings == []


@pytest.mark.parametrize(
    ("goal", "expected", "doubt"),
    [
        (
            "write code and bake a cake",
            ["dev: write code and bake a cake"],
            "'bake' ...) matches nobody: it stays with dev",
        ),
        ("write code and put it on the shelf", ["dev: write code and put it on the shelf"], "stays with dev"),
        (
            "do not test and deploy, only write code",
            ["dev: do not test and deploy, only write code"],
            "read as not to be",
        ),
        (
            "Either write code or deploy it",
            ["dev: Either write code or deploy it"],
            "a plan makes none: it stays with dev",
        ),
        (
            "test the code, otherwise deploy the service",
            ["qa: test the code, otherwise deploy the service"],
            "is one half of a choice, and a plan makes none: it stays with qa",
        ),
        # a step may hide behind the first one
        *(
            (goal, [f"{worker}: {goal}"], "may ask for two things: a comma would part them")
            for goal, worker in (
                ("After testing the code search pages", "qa"),
                ("Before you deploy the service test the code", "ops"),
                ("If pages are new write code; deploy the service", "ops"),
            )
        ),
        (
            "After testing bake a cake",
            ["qa: After testing bake a cake"],
            "'bake' ...) matches nobody: it stays with qa",
        ),
        # what stands in quotes is one piece
        (
            'search for "write code and deploy it"',
            ['web: search for "write code and deploy it"'],
            "fits web and dev nearly alike: web has it",
        ),
    ],
)
def test_what_cannot_be_placed_stays_with_the_part_before_it_and_the_plan_says_so(
    goal: str, expected: list[str], doubt: str
) -> None:
    plan = planned(goal, CREW)

    assert lines(plan) == expected
    assert any(doubt in warning for warning in plan.warnings), plan.warnings


@pytest.mark.parametrize(
    ("goal", "worker"),
    [
        ("I cannot log in", "login"),
        ("No parcel has come", "orders"),
        ("My order is not here", "orders"),
        ("I don't have an invoice", "billing"),
    ],
)
def test_a_negation_that_tells_a_fact_is_no_prohibition(goal: str, worker: str) -> None:
    plan = planned(goal, DESK)

    assert lines(plan) == [f"{worker}: {goal}"]
    assert "is read as work, though it has a negation" in plan.warnings[0]


@pytest.mark.parametrize(
    "said",
    [
        "Nothing may be deleted",
        "Nobody may delete files",
        "None of the files should be deleted",
        "Make sure that nothing is deleted",
    ],
)
@pytest.mark.parametrize("joint", [";", ","])
def test_a_negation_by_a_pronoun_is_work_with_a_note(said: str, joint: str) -> None:
    plan = planned(f"{said}{joint} send a mail", {"deleter": "Deletes files", "mailer": "Sends mails"})

    assert lines(plan) == [f"deleter: {said}", "mailer: send a mail"]
    assert "is read as work, though it has a negation: deleter has it" in plan.warnings[0]


@pytest.mark.parametrize("goal", ["do not deploy", "Skip the tests.", "never write code"])
def test_a_goal_that_only_forbids_is_refused(goal: str) -> None:
    with pytest.raises(NoCapableWorkerError, match="says only what is not to be done"):
        planned(goal, CREW)


@pytest.mark.parametrize("worker", ["work", "do", "make", "run", "worker_agent"])
def test_a_worker_is_named_by_its_id_also_if_that_is_a_common_word(worker: str) -> None:
    plan = planned(
        f"{worker.replace('_', ' ')} the books, then search the web", {worker: "", "web": "Searches the web"}
    )

    assert lines(plan) == [f"{worker}: {worker.replace('_', ' ')} the books", f"web < {worker}: search the web"]


@pytest.mark.parametrize("goal", ["do not deploy", "write code, then test it", "No, thanks.", "2 + 2"])
def test_one_worker_alone_gets_every_goal_as_it_is(goal: str) -> None:
    plan = planned(goal, {"agent": ""})

    assert (lines(plan), plan.warnings) == ([f"agent: {goal}"], [])


def test_what_matches_nobody_and_what_fits_several_alike_goes_to_the_default() -> None:
    staff = {"a": "Writes code", "b": "Writes code", "helper": ""}
    plan = planned("write code, bake a cake", staff, default="helper")

    assert lines(plan) == ["helper: write code, bake a cake"]
    assert "fits a and b nearly alike: helper, the default, has it" in plan.warnings[0]
    assert "matches nobody: helper, the default, has it" in plan.warnings[1]


def test_two_workers_that_fit_alike_are_told() -> None:
    plan = planned("write a parser", {"a": "Writes code", "b": "Writes code"})

    assert lines(plan) == ["a: write a parser"]
    assert "fits a and b nearly alike: a has it" in plan.warnings[0]


def test_a_goal_that_matches_nobody_is_refused_with_who_there_is_and_what_helps() -> None:
    crew = [WorkerSpec(id=name, execute=lambda task, context: "ok", description=said) for name, said in CREW.items()]
    with start(SupervisorSpec(id="shop", tasks=Tasks(), children=crew)) as tree, pytest.raises(PlanError) as caught:
        tree.run("bake a cake", timeout=60)

    for word in ("Known: dev, qa, rev", "description=", "KeywordPlanner(default='...')", "ModelPlanner(call)"):
        assert word in str(caught.value)


def test_doubts_of_the_planner_stand_in_the_report() -> None:
    children = [WorkerSpec(id=name, execute=lambda task, context: "ok", description="Writes code") for name in "ab"]
    with start(SupervisorSpec(id="app", tasks=Tasks(), children=children)) as tree:
        report = tree.run("write a parser", timeout=60)

    assert any("fits a and b nearly alike" in note for note in report.notes)
