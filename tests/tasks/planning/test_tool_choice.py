"""Planners for words and for capabilities name the tool of a worker that has several, such as an MCP server."""

from __future__ import annotations

from typing import Any

import pytest

from actors.model.errors import Problem
from actors.tasks.model.executable import ExecutableInfo, ToolInfo
from actors.tasks.model.task import Plan, Subtask, Task
from actors.tasks.planning.capability_planner import CapabilityPlanner
from actors.tasks.planning.keyword_planner import KeywordPlanner
from actors.tasks.planning.plan_validation import check_plan
from tests.tasks.planning.test_planners import row
from trees import SupervisorSpec, Tasks, WorkerSpec, start
from trees.agents import MCP

TOOLS = {
    "read_file": "Reads a file",
    "count_words": "Counts the words of a text",
    "move/rename": "Renames a folder",
}


def server(id_: str = "files", **words: Any) -> ExecutableInfo:
    """A worker as an MCP server of three tools is."""
    tools = tuple(ToolInfo(name=name, description=said) for name, said in TOOLS.items())
    said = "; ".join(f"{name}: {what}" for name, what in TOOLS.items())
    return row(id_, *TOOLS, description=said, tools=tools, **words)


def writer() -> ExecutableInfo:
    return row("writer", description="Writes texts")


def problems_of(plan: Plan, rows: tuple[ExecutableInfo, ...]) -> list[Problem]:
    return check_plan(plan, rows, task_id="t", max_subtasks=9, budget=None)[0]


def planned(goal: str, *rows: ExecutableInfo, **options: Any) -> Plan:
    rows = rows or (server(), writer())
    plan = KeywordPlanner(**options).plan(Task(goal), rows, "")
    assert problems_of(plan, rows) == []
    return plan


def given(plan: Plan) -> list[tuple[str | None, str | None]]:
    return [(one.worker, one.tool) for one in plan.subtasks]


@pytest.mark.parametrize(
    ("goal", "tool"),
    [
        ("Read the file", "read_file"),
        ("count the words in the text", "count_words"),
        ("use read_file", "read_file"),
        ("Rename the folder", "move/rename"),
    ],
)
def test_the_words_that_mean_a_worker_choose_among_its_tools(goal: str, tool: str) -> None:
    plan = planned(goal)

    assert given(plan) == [("files", tool)]
    assert plan.warnings == []


def test_two_tools_of_one_worker_are_two_subtasks_in_their_order() -> None:
    plan = planned("Read the file, then count the words of the text, then write a text")

    assert given(plan) == [("files", "read_file"), ("files", "count_words"), ("writer", None)]
    first, second, third = plan.subtasks
    assert (first.depends_on, second.depends_on, third.depends_on) == ([], [first.id], [second.id])


def test_keywords_of_the_users_own_mean_a_worker_and_the_clause_its_tool() -> None:
    assert given(planned("read the file", keywords={"file": "files"})) == [("files", "read_file")]


def test_tools_that_fit_nearly_alike_are_told() -> None:
    tools = (ToolInfo(name="a", description="Reads pages"), ToolInfo(name="b", description="Reads pages"))
    plan = planned("read the pages", row("files", description="Reads pages", tools=tools), writer())

    assert given(plan) == [("files", "a")]
    assert "fits files.a and files.b nearly alike" in plan.warnings[0]


def test_where_no_tool_is_meant_the_check_of_the_plan_says_which_there_are() -> None:
    rows = (row("files", description="Looks after documents", tools=server().tools), writer())
    [problem] = problems_of(KeywordPlanner().plan(Task("look after the documents"), rows, ""), rows)

    assert "has several tools" in problem.what
    assert "read_file" in problem.hint


def test_a_condition_that_the_worker_of_a_tool_looks_at_is_asked() -> None:
    plan = planned("Read the file, if the words of the text count, write a text")

    assert not any("is not asked" in said for said in plan.warnings)


def parts(*needs: str, rows: tuple[ExecutableInfo, ...]) -> list[Subtask]:
    plan = CapabilityPlanner(lambda task: list(needs)).plan(Task("go"), rows, "")
    assert isinstance(plan, Plan)
    assert problems_of(plan, rows) == []
    return plan.subtasks


def test_each_tool_that_is_needed_is_a_subtask() -> None:
    found = parts("read_file", "count_words", "move/rename", rows=(server(), writer()))

    assert [(one.worker, one.tool) for one in found] == [("files", name) for name in TOOLS]
    assert [one.id for one in found] == ["read_file", "count_words", "files"]
    assert "Your part of it: count_words." in found[1].instruction


def test_a_tool_that_several_servers_have_goes_to_whoever_is_least_busy() -> None:
    [found] = parts("read_file", rows=(server(), server("other")))

    assert (found.worker, found.capability, found.tool) == (None, "read_file", None)


@pytest.mark.parametrize("planner", [KeywordPlanner(), CapabilityPlanner()])
def test_a_server_of_several_tools_does_what_a_goal_says(planner: Any) -> None:
    from mcp.server.mcpserver import MCPServer  # noqa: PLC0415

    made = MCPServer("files")
    made.add_tool(lambda path: f"content of {path}", name="read-file", description="Reads a file")
    made.add_tool(lambda text: len(text.split()), name="count-words", description="Counts words")
    children = [WorkerSpec(id="files", execute=MCP(made)), WorkerSpec(id="w", execute=str.upper)]
    with start(SupervisorSpec(id="office", tasks=Tasks(planner=planner), children=children)) as tree:
        report = tree.run(Task("read-file please", inputs={"path": "a.txt"}), timeout=60)

    assert list(report.results.values()) == ["content of a.txt"]
