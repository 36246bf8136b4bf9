"""Wordings of goals that a reader understands at once: what is not to be done, what comes first, what hangs on what."""

from __future__ import annotations

import pytest

from actors.tasks.model.task import Task
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.keyword_planner import KeywordPlanner
from tests.tasks.planning.test_goal_evidence import STAFF, given, planned, waits
from tests.tasks.planning.test_planners import row

CODE = {
    "ada": "Investigates libraries and compares alternatives",
    "bob": "Writes and fixes Python code",
    "cyd": "Reviews implementations for bugs and style",
    "dan": "Runs the test suite and reports failures",
    "eve": "Releases packages and deploys services",
    "fay": "Looks up pages of the documentation",
}

# -- what is not to be done --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "goal",
    [
        "deploy nothing, only write it",
        "deploying is forbidden; write it",
        "the service should be written but the service should not be deployed",
        "code must not be deployed; write it",
        "write, but do not deploy, the service",
        "stop deploying, write it",
        "hold off on deploying the service, write it",
        "forget the tests, write it",
        "write it and leave the tests alone",
        "don't deploy the service, the package, or the tests; write it",
    ],
)
def test_work_that_is_ruled_out_in_any_words_is_given_to_nobody(goal: str) -> None:
    plan = planned(goal, STAFF)

    assert given(plan) == {"w": goal}


@pytest.mark.parametrize(
    ("goal", "who"),
    [
        ("skip the tests and deploy", "d"),
        ("stop testing and deploy", "d"),
        ("avoid tests and write the code", "w"),
        ("hold off on testing and deploy it", "d"),
        ("skip the tests and the review and deploy", "d"),
        ("skip testing and reviewing, but deploy", "d"),
        ("do not test and deploy, only write code", "w"),
        ("avoid testing and deploying; write code", "w"),
    ],
)
def test_what_is_skipped_ends_before_the_next_request_and_what_must_not_be_done_goes_on(goal: str, who: str) -> None:
    assert given(planned(goal, STAFF)) == {who: goal}


@pytest.mark.parametrize("goal", ["skip tests and review", "avoid testing and deploying", "leave out tests and review"])
def test_what_may_be_nouns_after_what_is_skipped_is_skipped(goal: str) -> None:
    with pytest.raises(NoCapableWorkerError, match="says only what is not to be done"):
        planned(goal, STAFF)


@pytest.mark.parametrize("goal", ["deploy nothing but the parser", "review code that nothing uses and deploy it"])
def test_nothing_rules_out_the_verb_before_it_and_not_more(goal: str) -> None:
    assert "d" in given(planned(goal, STAFF))


def test_a_goal_that_only_says_what_is_to_stop_is_refused() -> None:
    with pytest.raises(NoCapableWorkerError, match="says only what is not to be done"):
        planned("stop deploying the service", STAFF)


@pytest.mark.parametrize("goal", ["No, thanks.", "don't you like tea?", "never", "stop deploying the service"])
@pytest.mark.parametrize("keywords", [None, {"deploy": "agent"}])
def test_the_only_worker_gets_every_goal_also_one_that_asks_for_nothing(
    goal: str, keywords: dict[str, str] | None
) -> None:
    plan = KeywordPlanner(keywords).plan(Task(goal), (row("agent", is_only=True),), "")

    assert given(plan) == {"agent": goal}
    assert "it is the only worker" in plan.warnings[0]


# -- what comes first --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "goal",
    [
        "deploy the service, but first review the change",
        "deploy the service, review the change first",
        "deploy the service. Before that, review the change.",
        "once the change is reviewed, deploy the service",
        "when you have reviewed the change, deploy the service",
        "after the change is reviewed, deploy the service",
        "before the service is deployed, review the change",
        "first review the change, second deploy the service",
        "1. review the change\n2. deploy the service",
        "1) review the change 2) deploy the service",
        "Step 1: review the change. Step 2: deploy the service.",
        "1. review the change 2. deploy the service",
        "review the change; once that's done deploy the service",
        "review the change and as soon as it is finished deploy the service",
        "review the change. After everything has been done, deploy the service",
        "Do this: 1. review the change 2. deploy the service",
        "deploy the service following reviewing the change",
        "review the change prior to deploying the service",
        "deploy the service when the change is reviewed",
        "at the end deploy the service, first review the change",
    ],
)
def test_every_way_to_say_what_comes_first_is_an_order(goal: str) -> None:
    assert waits(planned(goal, STAFF)) == {"r": [], "d": ["r"]}


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        (
            "Write code, test it, deploy it, but first review it",
            {"w": [], "t": ["w"], "r": ["w", "t"], "d": ["w", "t", "r"]},
        ),
        ("Write code. Afterwards deploy it. Before that, review it.", {"w": [], "r": ["w"], "d": ["w", "r"]}),
        ("Write code, and before deploying it, review it", {"w": [], "r": ["w"], "d": ["w", "r"]}),
        ("Deploy the service, but first write code. Then test features.", {"w": [], "d": ["w"], "t": ["d"]}),
        ("Have the change reviewed and deployed", {"r": [], "d": ["r"]}),
    ],
)
def test_what_comes_first_moves_its_own_sentence_and_what_came_before_stays(
    goal: str, expected: dict[str, list[str]]
) -> None:
    assert waits(planned(goal, STAFF)) == expected


def test_first_in_a_list_of_ways_orders_nothing() -> None:
    assert given(planned("Write code, first for Linux, then for Windows", STAFF)) == {
        "w": "Write code, first for Linux, then for Windows"
    }


@pytest.mark.parametrize(
    "goal", ["fix the bug (of version 2) in the parser", "write code for 3 parsers", "fix version 1. 2 parsers have it"]
)
def test_a_number_that_is_no_place_in_a_list_cuts_nothing(goal: str) -> None:
    assert given(planned(goal, CODE)) == {"bob": goal}


# -- conditions --------------------------------------------------------------------------------------------------


def test_a_condition_is_no_work_and_is_read_by_whoever_it_decides_for() -> None:
    plan = planned("Run the tests and, if they pass, deploy the service", CODE)

    assert given(plan) == {"dan": "Run the tests", "eve": "if they pass, deploy the service"}
    assert waits(plan) == {"dan": [], "eve": ["dan"]}
    assert plan.warnings == []


@pytest.mark.parametrize(
    "goal", ["Deploy the service, unless the tests fail", "Unless the tests fail, deploy the service"]
)
def test_where_nobody_is_asked_whether_a_condition_holds_the_plan_says_so(goal: str) -> None:
    plan = planned(goal, CODE)

    assert given(plan) == {"eve": goal}
    assert "is a condition and no work: eve reads it, and dan is not asked" in plan.warnings[0]


@pytest.mark.parametrize("other", ["otherwise fix the code", "else fix the code", "if not, fix the code"])
def test_what_is_for_the_other_case_waits_and_the_plan_says_that_it_makes_no_choice(other: str) -> None:
    plan = planned(f"Run the tests. If they pass, deploy the service; {other}", CODE)

    assert given(plan)["bob"] == other
    assert waits(plan) == {"dan": [], "eve": ["dan"], "bob": ["dan", "eve"]}
    assert "is for the other case, and a plan makes no choice: bob has it in any case" in plan.warnings[0]


def test_a_choice_between_two_kinds_of_work_is_told() -> None:
    plan = planned("Either deploy the service or fix the code", CODE)

    assert given(plan) == {"eve": "Either deploy the service or fix the code"}
    assert "leaves a choice, and a plan makes none: eve has all of it" in plan.warnings[0]


# -- what came before ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "goal",
    [
        "Write the code. Review that.",
        "Write the code; review the same",
        "Write the code and the form; review both",
        "Write the code; review both carefully",
        "Write the code; review that too",
        "Write the code and the form; review the latter",
    ],
)
def test_a_clause_that_ends_with_a_pronoun_waits_for_what_it_speaks_of(goal: str) -> None:
    assert waits(planned(goal, CODE)) == {"bob": [], "cyd": ["bob"]}


def test_verbs_that_share_a_pronoun_all_speak_of_what_came_before() -> None:
    assert waits(planned("Write code, test and deploy it", STAFF)) == {"w": [], "t": ["w"], "d": ["w", "t"]}


@pytest.mark.parametrize("goal", ["Write code; review both versions", "Write code; check that the service runs"])
def test_the_same_words_before_a_noun_are_no_pronouns(goal: str) -> None:
    assert waits(planned(goal, CODE)) == {"bob": [], "cyd": []}


@pytest.mark.parametrize("goal", ["Look up when the package is released", "Find out when the code was deployed"])
def test_a_time_that_is_asked_for_is_no_order(goal: str) -> None:
    assert len(given(planned(goal, CODE))) == 1


@pytest.mark.parametrize(
    ("goal", "doubt"),
    [
        (
            "Book flights and tours",
            "clause 2 ('tours' ...) goes on with the verb before it, so f has it, though g speaks",
        ),
        ("Either book the flights or the tours", "leaves a choice, and a plan makes none: f has all of it"),
        ("Book the flights, run the regression on them", "clause 2 ('run' ...) matches nobody: it stays with f"),
    ],
)
def test_what_it_cannot_know_it_says(goal: str, doubt: str) -> None:
    plan = planned(goal, {"f": "Books flights", "g": "Plans tours", "h": "Sells insurance"})

    assert any(doubt in warning for warning in plan.warnings), plan.warnings


@pytest.mark.parametrize(
    "goal", ["Write the code and the form; each must be reviewed", "Write code; both need a review"]
)
def test_each_of_what_was_written_is_what_came_before(goal: str) -> None:
    assert waits(planned(goal, CODE)) == {"bob": [], "cyd": ["bob"]}


TEAM = {
    "dev": "Writes code",
    "qa": "Runs the tests and tests code",
    "ops": "Deploys the service",
    "art": "Draws pictures",
}


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        # what goes on with a time has the same time
        ("Deploy the service after it has been written and tested", {"dev": [], "qa": ["dev"], "ops": ["dev", "qa"]}),
        ("Deploy the service after writing the code and testing it", {"dev": [], "qa": ["dev"], "ops": ["dev", "qa"]}),
        ("Deploy the service after writing and testing code", {"dev": [], "qa": ["dev"], "ops": ["dev", "qa"]}),
        ("After writing code and drawing pictures, deploy the service", {"dev": [], "art": [], "ops": ["dev", "art"]}),
        ("Before writing code and drawing pictures, run the tests", {"qa": [], "dev": ["qa"], "art": ["qa"]}),
        # a noun in place of a gerund
        ("Following the tests, deploy the service", {"qa": [], "ops": ["qa"]}),
        ("Prior to deploying the service, run the tests", {"qa": [], "ops": ["qa"]}),
        # a verb that says no kind of work is one all the same
        ("Write code, run the tests, then deploy the service", {"dev": [], "qa": [], "ops": ["dev", "qa"]}),
        ("Before you deploy the service, run the tests", {"qa": [], "ops": ["qa"]}),
        # somebody has somebody else do it
        ("Write code and have Lena draw pictures", {"dev": [], "art": []}),
        ("Write code, let the artist draw pictures", {"dev": [], "art": []}),
        ("Write code and have Ann test it", {"dev": [], "qa": ["dev"]}),
        ("Make sure that you test code before deploying it", {"qa": [], "ops": ["qa"]}),
        # what others do, or is done
        ("Write code but leave the testing to Anna", {"dev": []}),
        ("The code is already tested, so deploy the service", {"ops": []}),
        # lists, and pronouns in the middle
        ("a) write code b) test it c) deploy it", {"dev": [], "qa": ["dev"], "ops": ["dev", "qa"]}),
        ("Write code and draw pictures; deploy both to the server", {"dev": [], "art": [], "ops": ["dev", "art"]}),
    ],
)
def test_what_is_said_in_passing_is_work_or_an_order_too(goal: str, expected: dict[str, list[str]]) -> None:
    assert waits(planned(goal, TEAM)) == expected


def test_what_must_not_be_done_before_something_is_a_doubt() -> None:
    plan = planned("Write code, but do not deploy it before it has been tested", TEAM)

    assert any("says what is not to be done before something else" in warning for warning in plan.warnings)


def test_a_noun_means_who_speaks_of_the_same_things() -> None:
    staff = {"eli": "Writes and runs automated tests", "cat": "Prepares the bill and takes payments"}
    assert given(planned("Run the tests", staff)) == {"eli": "Run the tests"}
    assert given(planned("Take the payment", staff)) == {"cat": "Take the payment"}


RESTAURANT = {"waiter": "Takes orders from guests", "buyer": "Buys ingredients", "host": "Books tables"}


@pytest.mark.parametrize("goal", ["Take orders from the guests", "Take the order of table 4", "Take the orders"])
def test_an_order_that_is_taken_is_nothing_that_is_bought(goal: str) -> None:
    assert given(planned(goal, RESTAURANT)) == {"waiter": goal}
    assert given(planned("Order the ingredients", RESTAURANT)) == {"buyer": "Order the ingredients"}
    assert given(planned("Order more flour", RESTAURANT)) == {"buyer": "Order more flour"}


def test_who_puts_things_into_production_deploys_them() -> None:
    staff = {"coder": "Writes code", "ops": "Puts releases into production"}
    assert given(planned("Write the code, then deploy it", staff)) == {"coder": "Write the code", "ops": "deploy it"}


# -- what is said ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        ("Write code & review it", {"bob": "Write code", "cyd": "review it"}),
        ("Write the code plus review it", {"bob": "Write the code", "cyd": "review it"}),
        ("Write the code (and review it)", {"bob": "Write the code", "cyd": "review it"}),
        ("Write the code \u2014 deploy it", {"bob": "Write the code", "eve": "deploy it"}),
        ("Get the service tested and deployed", {"dan": "Get the service tested", "eve": "deployed"}),
        (
            "Write code, have it reviewed, deploy the service",
            {"bob": "Write code", "cyd": "have it reviewed", "eve": "deploy the service"},
        ),
        ("Once the code is written, deploy it", {"bob": "Once the code is written", "eve": "deploy it"}),
        ("Write code. When finished, deploy it", {"bob": "Write code", "eve": "When finished, deploy it"}),
        ("Write the code and, in the end, deploy it", {"bob": "Write the code", "eve": "in the end, deploy it"}),
        ("1. Write code 2. review it 3. deploy it", {"bob": "Write code", "cyd": "review it", "eve": "deploy it"}),
        (
            "Write code; after it's been reviewed, deploy it",
            {"bob": "Write code", "cyd": "after it's been reviewed", "eve": "deploy it"},
        ),
        ("1) Write code 2) review it", {"bob": "Write code", "cyd": "review it"}),
        ("- Write code\n- review it", {"bob": "Write code", "cyd": "review it"}),
        ("Write the code, puis review it", {"bob": "Write the code", "cyd": "puis review it"}),
        ("Write code and put it into production", {"bob": "Write code", "eve": "put it into production"}),
        ("Write code and take it live", {"bob": "Write code", "eve": "take it live"}),
    ],
)
def test_an_instruction_is_a_whole_and_has_nothing_of_its_neighbours(goal: str, expected: dict[str, str]) -> None:
    assert given(planned(goal, CODE)) == expected


def test_what_stands_in_quotes_is_one_piece() -> None:
    goal = 'Look up "write code and deploy it" in the documentation'

    assert given(planned(goal, CODE)) == {"fay": goal}


@pytest.mark.parametrize("goal", ["The change needs to be reviewed", "I want the change to get reviewed"])
def test_a_passive_after_to_is_the_verb(goal: str) -> None:
    assert given(planned(goal, {**STAFF, "c": "Changes settings"})) == {"r": goal}


def test_where_the_direct_object_is_the_work_of_somebody_else_the_plan_says_so() -> None:
    said = {"x": "Sends emails to customers", "y": "Refunds payments"}
    plan = planned("Send a refund to the customer", said)

    assert given(plan) == {"x": "Send a refund to the customer"}
    assert "fits x and y nearly alike" in plan.warnings[0]


# -- descriptions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("description", "goal"),
    [
        ("Charges credit cards", "charge the card"),
        ("Develops apps", "build an app"),
        ("Groups records by key", "group the records"),
        ("Services cars", "service the car"),
        ("Function in charge of checking disks", "verify the disks"),
        ("A team of experts that reviews contracts", "check the contract"),
    ],
)
def test_a_description_begins_with_its_verb_though_a_form_of_it_may_lead_in(description: str, goal: str) -> None:
    plan = planned(goal, {"x": description, "y": "Paints cards, apps, records, cars, disks and contracts"})

    assert given(plan) == {"x": goal}
    assert plan.warnings == []


@pytest.mark.parametrize("description", ["Lints and formats files", "Linting and formatting files"])
def test_verbs_that_share_their_object_in_a_description_are_all_verbs(description: str) -> None:
    plan = planned("Compile and lint the project", {"x": "Compiles the project", "y": description})

    assert given(plan) == {"x": "Compile the project", "y": "lint the project"}
