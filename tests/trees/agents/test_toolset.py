"""CONTRACT, MCP servers: ``toolset`` gives their tools to an agent inside an attempt."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trees.agents.mcp_server import server
from tests.trees.agents.mcp_trees import AT_ONCE, command, eventually, office
from trees import NoCapableWorkerError, Plan, Subtask, Task, Tasks, Tree, WorkerSpec, start
from trees.agents import MCP, toolset


def run(
    agent: Callable[..., Any], *, apart: bool = False, seen: Callable[[Tree], None] | None = None, **fields: Any
) -> Any:
    """The result of an agent beside a server, which is in this process, or in one of its own, where it may die."""
    place = MCP(command=command("--plain")) if apart else MCP(server())
    spec = office(place, WorkerSpec(id="agent", execute=agent), **fields)
    with start(spec) as tree:
        if seen is not None:
            seen(tree)
        return tree.run(Task("g", plan=Plan([Subtask("a", worker="agent")])), timeout=60.0)


def test_a_pydantic_ai_agent_calls_its_tools() -> None:
    from pydantic_ai import Agent  # noqa: PLC0415 - loaded where there is one
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart  # noqa: PLC0415
    from pydantic_ai.models.function import AgentInfo, FunctionModel  # noqa: PLC0415

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        known = {tool.name: tool for tool in info.function_tools}
        assert known["read_file"].description == "Read a file."
        assert known["read_file"].parameters_json_schema["required"] == ["path"]
        if len(messages) == 1:
            return ModelResponse([ToolCallPart("read_file", {"path": "a.txt"})])
        return ModelResponse([TextPart(str(messages[-1].parts[0].content))])  # type: ignore[union-attr]

    async def agent(task: Any, context: Any) -> str:
        return (await Agent(FunctionModel(model)).run("go", toolsets=[toolset(context, "files")])).output

    report = run(agent)

    assert report.results["a"] == "content of a.txt"
    assert [node.worker for node in report.graph] == ["agent", "files"]


def test_a_langchain_tool_calls_sync_and_async() -> None:
    async def on_loop(task: Any, context: Any) -> Any:
        tools = {tool.name: tool for tool in toolset(context, "files").langchain()}
        assert tools["read_file"].args["path"]["type"] == "string"
        return await tools["numbers"].ainvoke({}), tools["read_file"].description

    def on_pool(task: Any, context: Any) -> Any:
        tools = {tool.name: tool for tool in toolset(context, "files").langchain()}
        return tools["read_file"].invoke({"path": "b"}), "sync"

    assert run(on_loop).results["a"] == ['{"one": 1}', "Read a file."]
    assert run(on_pool).results["a"] == ["content of b", "sync"]


def test_iterating_gives_functions_that_everybody_takes() -> None:
    async def agent(task: Any, context: Any) -> Any:
        functions = {each.__name__: each for each in toolset(context, "files")}
        read = functions["read_file"]
        assert inspect.iscoroutinefunction(read)
        return str(inspect.signature(read)), read.__doc__, await read(path="d")

    assert run(agent).results["a"] == ["(*, path: str) -> Any", "Read a file.", "content of d"]


@pytest.mark.parametrize("how", ["fails", "unknown effect", "missing input", "parked"])
def test_a_tool_that_fails_or_is_down_is_a_text_for_the_model_and_not_the_end(how: str, tmp_path: Path) -> None:
    async def agent(task: Any, context: Any) -> Any:
        tools = toolset(context, "files")
        if how == "parked":
            os.kill(await tools.call("pid", {}), signal.SIGKILL)
            await asyncio.to_thread(eventually, lambda: trees[0].child("office/files").state == "parked")
        calls: dict[str, tuple[str, dict[str, Any]]] = {
            "fails": ("fail", {}),
            "unknown effect": ("die", {"mark": str(tmp_path / "mark")}),
            "missing input": ("read_file", {}),
            "parked": ("numbers", {}),
        }
        return await tools.call(*calls[how])

    trees = list[Tree]()
    limits = {"max_restarts": 0} if how == "parked" else {}
    apart = how in {"unknown effect", "parked"}
    said = run(agent, apart=apart, seen=trees.append, on_failure=[], **limits).results["a"]

    assert said.startswith("Error: ")
    words = {"fails": "no such disk", "unknown effect": "key ", "missing input": "needs path", "parked": "parked"}
    assert words[how] in said


def test_a_tool_that_a_model_has_made_up_is_a_text_that_says_which_there_are() -> None:
    async def agent(task: Any, context: Any) -> Any:
        tools = toolset(context, "files")
        return [await tools.call("read_fiel", {}), await asyncio.to_thread(tools.call_sync, "nonsense", {})]

    near, far = run(agent).results["a"]

    assert near.startswith("Error: there is no tool 'read_fiel'. Did you mean 'read_file'? There are: ")
    assert far.startswith("Error: there is no tool 'nonsense'. There are: ")


@pytest.mark.parametrize("context", [None, "files"])
def test_what_is_no_context_is_refused_with_how_it_is_written(context: Any) -> None:
    with pytest.raises(TypeError, match=r"is no context of an attempt\. Write toolset"):
        toolset(context, "files")


def test_a_call_of_an_idempotent_tool_survives_its_server(tmp_path: Path) -> None:
    async def agent(task: Any, context: Any) -> Any:
        return await toolset(context, "files").call("die_once", {"mark": str(tmp_path / "mark")})

    assert run(agent, apart=True, on_failure=AT_ONCE).results["a"] == "done"


def test_tools_of_one_name_of_two_servers_have_the_name_of_the_server() -> None:
    async def agent(task: Any, context: Any) -> Any:
        return sorted(toolset(context, "files", "more").offered)

    more = WorkerSpec(id="more", execute=MCP(server()), tools=["numbers"])
    spec = office(MCP(server()), more, WorkerSpec(id="agent", execute=agent), tools=["numbers", "read_file"])
    with start(spec) as tree:
        report = tree.run(Task("g", plan=Plan([Subtask("a", worker="agent")])), timeout=60.0)

    assert report.results["a"] == ["files_numbers", "more_numbers", "read_file"]


def test_a_server_that_is_not_there_is_named() -> None:
    async def agent(task: Any, context: Any) -> Any:
        with pytest.raises(NoCapableWorkerError, match="nowhere"):
            toolset(context, "nowhere")
        with pytest.raises(ValueError, match="names no server"):
            toolset(context)
        return "told"

    assert run(agent).results["a"] == "told"


def test_a_tool_that_asks_its_asker_is_refused() -> None:
    """A worker of tools that is an agent's own asker: the call back is a text with the chain, and nobody waits."""

    async def agent(task: Any, context: Any) -> Any:
        tools = toolset(context, "files")
        tools.offered["numbers"] = tools.offered["numbers"]._replace(worker="agent")
        return await tools.call("numbers", {})

    assert "office/agent" in run(agent).results["a"]


def test_calls_are_journaled_and_count_for_the_task() -> None:
    async def agent(task: Any, context: Any) -> Any:
        tools = toolset(context, "files")
        return [await tools.call("read_file", {"path": str(n)}) for n in range(3)]

    report = run(agent, tasks=Tasks(max_parallel=1))

    assert report.results["a"] == [f"content of {n}" for n in range(3)]
    assert sorted(node.id for node in report.graph) == ["a", "a/@1", "a/@2", "a/@3"]


# -- names that models and Python take ------------------------------------------------------------------------
