"""Tasks on the page: the list, graph and timeline, also of those that have ended; questions, and their answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from actors import Escalated, Event
from actors.testing import settle
from tests.support.hardening import eventually
from trees import (
    Check,
    Escalate,
    Operated,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    Tasks,
    Tree,
    Verdict,
    WorkerSpec,
    start,
)

GOAL = "a goal <img src=x>"


def _flaky(task: Any, context: Any) -> str:
    context.use(tokens=7, cost=0.5)
    if context.attempt == 1:
        raise ValueError("not yet <b>")
    return "secret result"


def _asks(task: Any) -> str:
    raise RuntimeError("only a person knows")


def _team() -> SupervisorSpec:
    plan = [Subtask(id="one", worker="flaky"), Subtask(id="two", worker="asks", depends_on=["one"])]
    return SupervisorSpec(
        id="shop",
        tasks=Tasks(planner=StaticPlan(plan), on_failure=[Retry(max_attempts=2, initial_s=0.01), Escalate()]),
        children=[
            WorkerSpec(id="flaky", execute=_flaky),
            WorkerSpec(id="asks", execute=_asks),
        ],
    )


@pytest.fixture(params=[False, True], ids=["without content", "with content"])
def seen(request: pytest.FixtureRequest) -> Iterator[tuple[Tree, httpx.Client, bool]]:
    with start(_team()) as tree:
        page = tree.serve(port=0, content=request.param)
        headers = {"Authorization": f"Bearer {page.token}"}
        with httpx.Client(base_url=page.address, headers=headers, timeout=20) as client:
            yield tree, client, request.param


def _question_of(client: httpx.Client, task: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        return [each for each in client.get("/api/questions").json()["questions"] if each["task"] == task]

    eventually(found, f"the question of {task}")
    return found()[0]


def test_a_task_is_shown_with_graph_timeline_and_log_while_it_waits_and_after_its_end(
    seen: tuple[Tree, httpx.Client, bool],
) -> None:
    tree, client, content = seen
    handle = tree.submit(Task(id="a.task", goal=GOAL))
    asked = _question_of(client, handle.id)
    assert (asked["path"], asked["subtask"], asked["answers"][0]) == ("shop", "two", "approve")
    assert asked["error"] == "RuntimeError: only a person knows"  # no question of a worker, but why one is asked
    assert (asked["text"] == "two failed. What now?") is content
    url = "/api/tasks/a.task"
    page = client.get(url).json()
    assert page["status"] == "waiting"
    assert {node["id"]: (node["worker"], node["depends"]) for node in page["nodes"]} == {
        "one": ("flaky", []),
        "two": ("asks", ["one"]),
    }
    bars = [(bar["subtask"], bar["kind"], bar["attempt"], bar["status"]) for bar in page["bars"]]
    for bar in (("one", "running", 1, "failed"), ("one", "running", 2, "succeeded"), ("two", "person", 2, "person")):
        assert bar in bars
    assert ("one", "retry_wait") in [bar[:2] for bar in bars]
    assert next(bar["error"] for bar in page["bars"] if bar["status"] == "failed") == "ValueError"
    assert next(bar["error"] for bar in page["bars"] if bar["status"] == "asks") == "RuntimeError"
    assert all(bar["to"] is None or bar["from"] <= bar["to"] for bar in page["bars"])

    answer = client.post(f"/api/questions/{asked['id']}", json={"answer": "edit", "value": "by hand"})
    assert answer.json() == {"version": 1, "ok": True}
    assert handle.result(60).results["two"] == "by hand"
    again = client.post(f"/api/questions/{asked['id']}", json={"answer": "approve"})
    assert again.status_code == 404
    page = client.get(url).json()
    assert page["status"] == "succeeded"
    assert page["finished_at"] >= page["created_at"]
    assert all(bar["to"] is not None for bar in page["bars"])
    assert ("two", "person", "edit") in [(bar["subtask"], bar["kind"], bar["status"]) for bar in page["bars"]]
    assert page["usage"]["flaky"] == {"tokens": 14, "cost": 1.0}
    assert page["log"][0]["kind"] == "task_submitted"
    assert page["log"][-1]["kind"] == "task_finished"
    assert (GOAL in str(page)) is content
    assert ("secret result" in str(page)) is content
    assert client.post(f"{url}/cancel", json={}).status_code == 409


def _wonders(task: Any) -> str:
    raise Escalated("secret: pay it all?")


@pytest.mark.parametrize(("content", "errors"), [(False, "text"), (False, "type"), (True, "text"), (True, "type")])
def test_a_question_has_the_error_that_it_is_about_as_the_log_shows_it_and_its_own_words_with_content(
    content: bool, errors: Any
) -> None:
    """Whoever decides what becomes of a failure must see it: without content, and not where errors are types only."""
    children = [WorkerSpec(id="asks", execute=_asks), WorkerSpec(id="wonders", execute=_wonders)]
    tasks = Tasks(planner=StaticPlan([Subtask("asks"), Subtask("wonders")]), on_failure=[Escalate()])
    with start(SupervisorSpec(id="shop", tasks=tasks, children=children), log_errors=errors) as tree:
        page = tree.serve(port=0, content=content)
        tree.submit(Task("decide", id="t"))
        eventually(lambda: len(tree.escalations()) == 2)
        with httpx.Client(base_url=page.address, timeout=20) as client:
            found = {each["subtask"]: each for each in client.get("/api/questions").json()["questions"]}
            told = client.get("/api/tasks/t").json()
    assert (found["asks"]["error"] == "RuntimeError: only a person knows") is (errors == "text")
    assert ("only a person knows" in str(found["asks"])) is (errors == "text")
    assert ("only a person knows" in str(told["log"])) is (errors == "text")
    assert (found["wonders"]["text"] == "secret: pay it all?") is content
    assert ("secret" in str(found)) is content
    assert ("secret" in str(told["log"])) is content
    assert {bar["subtask"]: bar["error"] for bar in told["bars"] if bar["status"] == "asks"} == {
        "asks": "RuntimeError",
        "wonders": "escalated",
    }


@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("on_rejected", ["best_effort", "fail", "escalate"])
def test_what_a_reviewer_says_is_shown_with_content_only_and_in_the_round_in_which_it_said_it(
    on_rejected: Any, content: bool
) -> None:
    """Feedback speaks of results. Log lines have it, or nobody knew why a task was rejected; a page shows content."""

    def says_no(*_: Any) -> Verdict:
        return Verdict(passed=False, checks=[Check("one", passed=False, feedback="secret feedback")])

    tasks = Tasks(planner=StaticPlan([Subtask("one")]), reviewer=says_no, on_rejected=on_rejected, max_iterations=2)
    children = [WorkerSpec(id="one", execute=lambda task: "done")]
    with start(SupervisorSpec(id="shop", tasks=tasks, children=children)) as tree:
        events: list[Event] = []
        tree.subscribe(events.append)
        page = tree.serve(port=0, content=content)
        handle = tree.submit(Task("go", id="t"))
        eventually(lambda: bool(tree.escalations()) or handle.report is not None)
        settle(tree)
        with httpx.Client(base_url=page.address, timeout=20) as client:
            told = client.get("/api/tasks/t").json()
            questions = client.get("/api/questions").json()["questions"]
    assert ("secret" in str(told)) is content
    assert ("secret" in str(questions)) is (content and on_rejected == "escalate")
    assert [each["feedback"] for each in told["reviews"]][:2] == (
        ["secret feedback", "one: secret feedback"] if content else [None, None]
    )
    assert "secret" not in str([event.as_dict() for event in events])
    assert "secret" in str([event.as_dict(content=True) for event in events])


def test_the_list_filters_by_status_and_text_and_has_no_goal_without_content(
    seen: tuple[Tree, httpx.Client, bool],
) -> None:
    tree, client, content = seen
    heard: list[object] = []
    unsubscribe = tree.subscribe(heard.append)
    handle = tree.submit(Task(id="to-cancel", goal=GOAL))
    _question_of(client, handle.id)
    rows = client.get("/api/tasks?status=waiting").json()["tasks"]
    assert [(row["id"], row["path"], row["subtasks"]) for row in rows if row["id"] == handle.id] == [
        ("to-cancel", "shop", {"succeeded": 1, "waiting": 1})
    ]
    assert rows[0]["goal"] == (GOAL if content else None)
    assert [row["id"] for row in client.get("/api/tasks?q=TO-CANC").json()["tasks"]] == ["to-cancel"]
    assert bool(client.get("/api/tasks", params={"q": "<img"}).json()["tasks"]) is content
    assert len(client.get("/api/tasks?limit=1").json()["tasks"]) == 1
    assert client.get("/api/tasks?status=sleeping").status_code == 400
    now = client.get("/api/snapshot").json()["now"]
    assert now["tasks"]["waiting"] == 1
    assert client.post("/api/tasks/to-cancel/cancel", json={"reason": "no"}).json() == {"version": 1, "ok": True}
    with pytest.raises(TaskCancelledError):
        handle.result(60)
    eventually(lambda: any(isinstance(event, Operated) for event in heard))
    unsubscribe()
    acts = [(event.act, event.about, event.by) for event in heard if isinstance(event, Operated)]
    assert acts == [("cancel", "to-cancel", "page 127.0.0.1")]
    assert [row["id"] for row in client.get("/api/tasks?status=cancelled").json()["tasks"]] == ["to-cancel"]


def test_a_task_or_question_that_is_not_there_is_a_sentence(seen: tuple[Tree, httpx.Client, bool]) -> None:
    _, client, _ = seen
    for id_ in ("nope", "it's", "a/b", "%00x", "..%2f"):
        for response in (
            client.get(f"/api/tasks/{id_}"),
            client.post(f"/api/tasks/{id_}/cancel", json={}),
            client.post(f"/api/questions/{id_}", json={"answer": "approve"}),
        ):
            assert response.status_code in {404, 422}
            assert response.json()["error"]
