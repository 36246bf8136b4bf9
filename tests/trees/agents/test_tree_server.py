"""The MCP server of a tree, with a real client in this process; over pipes and HTTP: ``test_mcp_command``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from actors import Escalated
from tests.support.hardening import eventually
from trees import (
    Escalate,
    Last,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)
from trees.agents.tree_server import server_of

MODES = ("auto", "legacy")
TWO = StaticPlan([Subtask("a", worker="w"), Subtask("b", worker="w", depends_on=["a"])])


async def _works(task: Any, context: Any) -> Any:
    if "ask" in str(task) and task.id == "a" and not context.answers:
        raise Escalated("may I?")
    if "break" in str(task):
        raise ValueError("the disk is full")
    if "hang" in str(task):
        await asyncio.sleep(600)
    return {"did": str(task), "with": dict(context.inputs), "told": list(context.answers)}


@pytest.fixture
def tree() -> Iterator[Tree]:
    tasks = Tasks(planner=TWO, synthesizer=Last(), on_failure=[Retry(1), Escalate()])
    spec = SupervisorSpec(id="shop", tasks=tasks, children=[WorkerSpec(id="w", execute=_works)])
    with start(spec) as running:
        yield running


def using(tree: Tree, use: Callable[[Client], Awaitable[Any]], mode: str = "auto", **options: Any) -> Any:
    """Use a client of the server of a tree."""

    async def connected() -> Any:
        async with Client(server_of(tree), mode=mode, **options) as client:
            return await use(client)

    return asyncio.run(connected())


def call(tree: Tree, name: str, mode: str = "auto", **arguments: Any) -> Any:
    """Call one tool; its result."""
    return using(tree, lambda client: client.call_tool(name, arguments), mode)


def text(result: Any) -> str:
    """The text of an error."""
    assert result.is_error
    return str(result.content[0].text)


def answering(*answers: types.ElicitResult) -> tuple[Any, list[str]]:
    """A client's callback that gives these answers, and the questions that it was asked."""
    asked, left = list[str](), list(answers)

    async def elicit(_: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return left.pop(0)

    return elicit, asked


ACCEPTED = types.ElicitResult(action="accept", content={"answer": "approve"})
DECLINED = types.ElicitResult(action="decline")


@pytest.mark.parametrize("mode", MODES)
def test_a_client_finds_the_seven_tools_with_their_parameters_described(tree: Tree, mode: str) -> None:
    tools = {each.name: each for each in using(tree, lambda client: client.list_tools(), mode).tools}

    expected = {"run_task", "submit_task", "get_task", "list_tasks", "answer_question", "cancel_task", "dump_tree"}
    assert set(tools) == expected
    assert all(each.description for each in tools.values())
    assert all(
        each["description"]
        for tool in tools.values()
        for name, each in tool.input_schema["properties"].items()
        if name != "format"
    )
    assert tools["run_task"].input_schema["required"] == ["goal"]
    assert {name for name, each in tools.items() if each.annotations and each.annotations.read_only_hint} == {
        "get_task",
        "list_tasks",
        "dump_tree",
    }


@pytest.mark.parametrize("mode", MODES)
def test_run_task_waits_for_the_result_and_reports_progress_that_only_grows(tree: Tree, mode: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    run = {"goal": "sell", "inputs": {"n": 2}, "task_id": "mine"}
    result = using(tree, lambda client: client.call_tool("run_task", run, progress_callback=progress), mode)

    assert not result.is_error
    assert result.structured_content["task"] == "mine"
    assert result.structured_content["status"] == "succeeded"
    assert result.structured_content["output"] == {"did": "sell", "with": {"n": 2}, "told": []}
    figures = [done for done, _, _ in told]
    assert figures == sorted(set(figures))
    assert told[-1][:2] == (2.0, 2.0)
    assert [message for _, _, message in told] == [
        "planned: 2 subtasks",
        "a: started",
        "a: succeeded",
        "b: started",
        "b: succeeded",
    ]


def test_the_same_task_id_starts_nothing_twice(tree: Tree) -> None:
    first = call(tree, "run_task", goal="sell", task_id="mine").structured_content
    second = call(tree, "run_task", goal="sell", task_id="mine").structured_content

    assert first == second
    assert len(tree.tasks()) == 1


def test_a_task_that_fails_is_an_error_whose_text_says_why(tree: Tree) -> None:
    tree_of_one = tree.spec.replace("shop", tasks=Tasks(planner=TWO, on_failure=[Retry(1)]))
    with start(tree_of_one.model_copy(update={"id": "frail"})) as frail:
        assert "the disk is full" in text(call(frail, "run_task", goal="break"))


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_goes_away_leaves_the_task_running(tree: Tree, mode: str) -> None:
    async def goes_away(client: Client) -> None:
        calling = asyncio.ensure_future(client.call_tool("run_task", {"goal": "hang", "task_id": "long"}))
        await asyncio.to_thread(eventually, lambda: [str(each.status) for each in tree.tasks()] == ["running"])
        calling.cancel()

    using(tree, goes_away, mode)

    assert call(tree, "get_task", task_id="long").structured_content["status"] == "running"
    assert call(tree, "cancel_task", task_id="long", reason="enough").structured_content["status"] == "cancelled"


def test_submit_task_does_not_wait_and_get_task_says_what_became_of_it(tree: Tree) -> None:
    submitted = call(tree, "submit_task", goal="sell").structured_content
    eventually(lambda: tree.task(submitted["task"]).report)

    found = call(tree, "get_task", task_id=submitted["task"]).structured_content
    listed = call(tree, "list_tasks", status="succeeded").structured_content["tasks"]

    assert found["output"]["did"] == "sell"
    assert "a" in found["graph"]
    assert listed == [{"task": submitted["task"], "status": "succeeded", "goal": "sell"}]


def test_dump_tree_shows_the_tree(tree: Tree) -> None:
    assert call(tree, "dump_tree").content[0].text == tree.dump()
    assert call(tree, "dump_tree", path="shop/w", format="json").content[0].text.startswith("{")


# -- questions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_elicits_is_asked_and_the_task_goes_on(tree: Tree, mode: str) -> None:
    elicit, asked = answering(ACCEPTED)
    result = using(
        tree,
        lambda client: client.call_tool("run_task", {"goal": "ask", "task_id": "t"}),
        mode,
        elicitation_callback=elicit,
    )

    assert result.structured_content["status"] == "succeeded"
    assert asked == ["may I? (task t, a)"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("content", "output"),
    [
        ({"answer": "edit", "value": '{"x": 1}'}, "succeeded"),
        ({"answer": "respond", "value": "yes"}, "succeeded"),
    ],
)
def test_each_answer_of_a_form_is_taken(tree: Tree, mode: str, content: dict[str, str], output: str) -> None:
    elicit, _ = answering(types.ElicitResult(action="accept", content=dict(content)))
    result = using(
        tree,
        lambda client: client.call_tool("run_task", {"goal": "ask", "task_id": "t"}),
        mode,
        elicitation_callback=elicit,
    )

    assert result.structured_content["status"] == output
    report = tree.task("t").report
    assert report is not None
    if content["answer"] == "edit":
        assert report.results["a"] == {"x": 1}


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_declines_gets_the_questions_and_what_to_call(tree: Tree, mode: str) -> None:
    elicit, _ = answering(DECLINED)
    result = using(
        tree,
        lambda client: client.call_tool("run_task", {"goal": "ask", "task_id": "t"}),
        mode,
        elicitation_callback=elicit,
    )

    assert result.structured_content["status"] == "waiting"
    assert result.structured_content["questions"][0]["question"] == "may I?"


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_cannot_elicit_answers_with_a_tool(tree: Tree, mode: str) -> None:
    waiting = call(tree, "run_task", mode, goal="ask", task_id="t").structured_content
    question = waiting["questions"][0]["id"]

    assert waiting["status"] == "waiting"
    assert "answer_question" in waiting["next"]
    assert call(tree, "answer_question", mode, question_id=question, answer="approve").structured_content
    assert call(tree, "run_task", mode, goal="ask", task_id="t").structured_content["status"] == "succeeded"
    assert "answered before" in text(call(tree, "answer_question", question_id=question, answer="reject"))


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("run_task", {}, "run_task: goal: field required."),
        ("get_task", {"id": "t"}, "get_task: there is no argument 'id'. It takes task_id."),
        (
            "get_task",
            {"task_ids": "t"},
            "get_task: there is no argument 'task_ids'. Did you mean 'task_id'? It takes task_id.",
        ),
        ("run_task", {"goal": 3}, "run_task: goal: input should be a valid string."),
        ("run_task", {"goal": ""}, "goal: '' is too short"),
        ("run_task", {"goal": "x", "inputs": [1]}, "run_task: inputs: input should be a valid dictionary."),
        ("run_task", {"goal": "x", "path": "shop/nowhere"}, "shop/nowhere: no such path"),
        ("run_task", {"goal": "x", "task_id": "a b"}, "Task.id"),
        ("get_task", {"task_id": "nope"}, "nope: not known"),
        ("cancel_task", {"task_id": "nope"}, "nope: not known"),
        ("list_tasks", {"status": "odd"}, "Use "),
        (
            "answer_question",
            {"question_id": "x", "answer": "maybe"},
            "answer_question: answer: input should be 'approve'",
        ),
        ("answer_question", {"question_id": "x", "answer": "respond"}, "respond needs a value"),
        ("answer_question", {"question_id": "x", "answer": "approve"}, "no such open question"),
        ("dump_tree", {"format": "png"}, "dump_tree: format: input should be 'text'"),
        ("dump_tree", {"path": "shop/nowhere"}, "no such path"),
        ("dance", {}, "dance"),
    ],
)
def test_bad_input_gets_one_sentence(tree: Tree, name: str, arguments: dict[str, Any], said: str) -> None:
    told = text(call(tree, name, **arguments))

    assert said in told
    assert "\n" not in told
    assert "Traceback" not in told
    assert tree.tasks() == []
