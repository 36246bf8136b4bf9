"""What the API of a page tells people: questions with all that is needed for an answer, failed tasks, last errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from actors import Context, Escalated
from actors.testing import settle
from trees import (
    Check,
    Escalate,
    Plan,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

QUESTION = "May the summary be sent to the board?"


def research(task: Task, context: Context) -> dict[str, int]:
    return {"databases": 3}


def send(task: Task, context: Context) -> str:
    raise Escalated(QUESTION)


def print_it(task: Task, context: Context) -> str:
    raise ConnectionError("no route to the printer")


OFFICE = SupervisorSpec(
    id="office",
    tasks=Tasks(on_failure=[]),
    max_restarts=2,
    children=[
        WorkerSpec(id="research", execute=research),
        WorkerSpec(id="send", execute=send, on_failure=[Escalate()]),
        WorkerSpec(id="print", execute=print_it),
        WorkerSpec(id="count", handle=int, on_exhausted="park"),
    ],
)
BOARD = Task(
    "tell the board",
    id="board",
    inputs={"budget": 5000},
    plan=Plan(
        [
            Subtask("research"),
            Subtask(
                "send", instruction="send the summary", depends_on=["research"], inputs={"to": "board@example.com"}
            ),
        ]
    ),
)
PRICES = Task(
    "print the prices",
    id="prices",
    inputs={"copies": 12},
    plan=Plan(
        [
            Subtask("research"),
            Subtask("print", depends_on=["research"]),
            Subtask("again", worker="research", depends_on=["print"]),
        ]
    ),
)


@contextmanager
def looked_at(token: bool = True, spec: SupervisorSpec = OFFICE, **options: Any) -> Iterator[tuple[Tree, httpx.Client]]:
    with start(spec) as tree:
        page = tree.serve(port=0, **options)
        headers = {"Authorization": f"Bearer {page.token}"} if token else {}
        with httpx.Client(base_url=page.address, headers=headers, timeout=30) as client:
            yield tree, client


def question_of(tree: Tree, client: httpx.Client) -> dict[str, Any]:
    next(iter(tree.submit(BOARD).questions()))
    found: dict[str, Any] = client.get("/api/questions").json()["questions"][0]
    return found


def fail(tree: Tree) -> None:
    with pytest.raises(TaskFailedError):
        tree.submit(PRICES).result()


def test_a_question_comes_with_goal_instruction_inputs_and_the_results_that_it_rests_on() -> None:
    with looked_at() as (tree, client):
        asked = question_of(tree, client)
    assert asked["text"] == QUESTION
    assert (asked["goal"], asked["instruction"]) == ("tell the board", "send the summary")
    assert asked["inputs"] == {"budget": "5000", "to": "board@example.com"}
    assert asked["results"] == {"research": '{\n  "databases": 3\n}'}


def refuses(task: Task, plan: Plan, results: dict[str, Any]) -> list[Check]:
    return [Check("draft", passed=False, feedback="too rude")]


def _draft_before(of: str) -> Tasks:
    return Tasks(on_failure=[], planner=StaticPlan([Subtask("draft"), Subtask(of, depends_on=["draft"])]))


@pytest.mark.parametrize("asks", ["the subtask", "the review"])
def test_a_question_of_a_team_has_the_results_of_that_team_and_none_of_the_same_name_outside(asks: str) -> None:
    tasks = _draft_before("send")
    if asks == "the review":
        tasks = tasks.model_copy(update={"reviewer": refuses, "max_iterations": 1, "on_rejected": "escalate"})
    mail = WorkerSpec(id="draft", execute=lambda task, context: "you owe us 900 euros")
    done = WorkerSpec(id="send", execute=send if asks == "the subtask" else research, on_failure=[Escalate()])
    team = SupervisorSpec(id="team", tasks=tasks, children=[mail, done])
    note = WorkerSpec(id="draft", execute=lambda task, context: "a friendly note")
    office = SupervisorSpec(id="office", tasks=_draft_before("team"), children=[note, team])
    with looked_at(spec=office) as (tree, client):
        next(iter(tree.submit("tell them").questions()))
        [asked] = client.get("/api/questions").json()["questions"]
    assert asked["results"]["draft"] == "you owe us 900 euros"


@pytest.mark.parametrize(
    ("token", "options", "shown"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"content": False}, False),
        (False, {"content": True}, True),
    ],
    ids=["with the token", "without the token", "content=False", "content=True and no token"],
)
def test_texts_are_shown_to_whoever_has_the_token_unless_the_page_says_otherwise(
    token: bool, options: dict[str, Any], shown: bool
) -> None:
    with looked_at(token, **options) as (tree, client):
        asked = question_of(tree, client)
        told = str([asked, client.get("/api/tasks/board").json(), client.get("/api/tasks").json()])
    assert asked["id"].startswith("board:send")
    texts = ("tell the board", "send the summary", "board@example.com", "databases", QUESTION)
    assert [text in told for text in texts] == [shown] * 5


def test_a_failed_task_tells_its_error_its_inputs_and_what_came_of_each_subtask() -> None:
    with looked_at() as (tree, client):
        fail(tree)
        page = client.get("/api/tasks/prices").json()
    assert "print: ConnectionError: no route to the printer" in page["error"]
    assert page["inputs"] == {"copies": "12"}
    for part in ('"databases": 3', "no route to the printer", "needs 'print', which has failed"):
        assert part in page["report"]


def test_a_task_that_goes_well_has_no_error_and_its_output_as_json() -> None:
    with looked_at() as (tree, client):
        tree.submit(Task("look", id="look", plan=Plan([Subtask("research")]))).result()
        page = client.get("/api/tasks/look").json()
    assert page["error"] is None
    assert page["report"] == '{\n  "research": {\n    "databases": 3\n  }\n}'


def test_a_row_has_the_text_of_the_last_error_and_a_parked_child_how_often_it_was_restarted() -> None:
    with looked_at() as (tree, client):
        for _ in range(3):
            tree.ref("office/count").tell("no number")
            settle(tree)
        shape = client.get("/api/snapshot").json()
    rows = {row["path"]: row for row in shape["rows"]}
    assert "invalid literal for int()" in rows["office/count"]["last_error"]
    assert rows["office/research"]["last_error"] is None
    assert (rows["office/count"]["state"], rows["office/count"]["restarts_used"]) == ("parked", 3)
    assert shape["children"] == {"running": 4, "parked": 1}


def test_tasks_that_have_ended_are_counted_by_how_they_ended() -> None:
    with looked_at() as (tree, client):
        fail(tree)
        tree.submit(Task("look", plan=Plan([Subtask("research")]))).result()
        question_of(tree, client)
        assert client.get("/api/snapshot").json()["now"]["tasks"] == {"failed": 1, "succeeded": 1, "waiting": 1}
