"""``as_tool``: a running tree as a tool of each framework, against the real packages."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest
from agents import function_tool
from agents.tool_context import ToolContext
from langchain_core.tools import tool as langchain_tool
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from actors import ConfigError, Failed, RecursionRefused, UnknownPathError
from actors.testing import settle
from tests.support.hardening import eventually
from trees import (
    Last,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    TaskError,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)
from trees.agents import as_tool

ONE = StaticPlan([Subtask("a", worker="w")])


async def _works(task: Any, context: Any) -> Any:
    if "break" in str(task):
        raise Failed("the disk is full", retryable=False)
    if "hang" in str(task):
        await asyncio.sleep(600)
    return {"did": str(task), "with": dict(context.inputs)}


def _spec(execute: Any, id_: str = "shop", description: str = "Sells things.") -> SupervisorSpec:
    worker = WorkerSpec(id="w", execute=execute, description="does what is asked")
    tasks = Tasks(planner=ONE, synthesizer=Last(), on_failure=[Retry(1)])
    return SupervisorSpec(id=id_, description=description, tasks=tasks, children=[worker])


@pytest.fixture
def tree() -> Iterator[Tree]:
    with start(_spec(_works)) as running:
        yield running


# -- the function itself -------------------------------------------------------------------------------------


def test_a_tree_as_a_tool_is_an_async_function_of_a_goal_and_inputs(tree: Tree) -> None:
    tool = as_tool(tree)

    assert inspect.iscoroutinefunction(tool)
    assert list(inspect.signature(tool).parameters) == ["goal", "inputs"]
    assert inspect.signature(tool).parameters["inputs"].default is None
    assert tool.__name__ == "shop"
    assert (tool.__doc__ or "").startswith("Sells things.\n")
    assert asyncio.run(tool("sell", {"n": 2})) == {"did": "sell", "with": {"n": 2}}
    assert asyncio.run(tool("sell")) == {"did": "sell", "with": {}}


@pytest.mark.parametrize(
    ("name", "shown"),
    [("ask shop", "ask_shop"), ("a.b/c", "a_b_c"), ("x" * 100, "x" * 64), ("…", "run_task"), (None, "shop")],
)
def test_its_name_is_one_that_models_take(tree: Tree, name: str | None, shown: str) -> None:
    assert as_tool(tree, name=name).__name__ == shown


def test_its_docstring_says_what_it_is_good_for_or_what_its_members_do(tree: Tree) -> None:
    assert (as_tool(tree, description="Buys.").__doc__ or "").startswith("Buys.\n")
    with start(_spec(_works, "bare", "")) as bare:
        said = as_tool(bare).__doc__ or ""
    assert "'bare'" in said
    assert "- w: does what is asked" in said


def test_a_path_that_is_not_there_or_takes_no_tasks_is_refused_at_once(tree: Tree) -> None:
    with pytest.raises(UnknownPathError):
        as_tool(tree, path="shop/nowhere")
    with start(SupervisorSpec(id="idle")) as idle, pytest.raises(TaskError, match="tasks=Tasks"):
        as_tool(idle)


@pytest.mark.parametrize("wrong", [{"name": 5}, {"description": ["Sells books"]}])
def test_a_name_or_a_description_that_is_no_text_is_refused_at_once(tree: Tree, wrong: dict[str, Any]) -> None:
    (field,) = wrong
    with pytest.raises(ConfigError, match=rf"^as_tool\(\.\.\.\)\.{field}: expected a str"):
        as_tool(tree, **wrong)


@pytest.mark.parametrize("wrong", [None, "shop", SupervisorSpec(id="shop")])
def test_what_is_no_running_tree_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"^as_tool\.tree: expected a running tree, got"):
        as_tool(wrong)


def test_a_failed_task_raises_an_error_whose_text_a_model_can_use(tree: Tree) -> None:
    with pytest.raises(TaskFailedError, match="the disk is full") as raised:
        asyncio.run(as_tool(tree)("break"))

    assert raised.value.report is not None


@pytest.mark.parametrize(
    ("goal", "inputs", "said"),
    [("", None, "goal"), (3, None, "goal"), ("x", [1], "inputs"), ("x", "no json", "inputs")],
)
def test_what_is_no_goal_and_no_inputs_is_said_in_a_sentence(tree: Tree, goal: Any, inputs: Any, said: str) -> None:
    with pytest.raises(Failed, match=said):
        asyncio.run(as_tool(tree)(goal, inputs))
    assert tree.tasks() == []


def test_cancelling_the_caller_cancels_the_task(tree: Tree) -> None:
    async def cancelled() -> None:
        call = asyncio.ensure_future(as_tool(tree)("hang"))
        await asyncio.to_thread(eventually, lambda: [str(each.status) for each in tree.tasks()] == ["running"])
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancelled())

    eventually(lambda: [str(each.status) for each in tree.tasks()] == ["cancelled"])


# -- frameworks ----------------------------------------------------------------------------------------------


def _calls_tool(name: str, goal: str) -> FunctionModel:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        answers = [
            part
            for message in messages
            for part in message.parts
            if part.part_kind.startswith(("tool-return", "retry"))
        ]
        if answers:
            return ModelResponse(parts=[TextPart(str(answers[-1].content))])
        assert [each.name for each in info.function_tools] == [name]
        return ModelResponse(parts=[ToolCallPart(name, {"goal": goal, "inputs": {"n": 1}})])

    return FunctionModel(respond)


@pytest.mark.parametrize(("goal", "said"), [("sell", "'n': 1"), ("break", "the disk is full")])
def test_it_is_a_tool_of_pydantic_ai_and_the_model_reads_its_errors(tree: Tree, goal: str, said: str) -> None:
    agent = Agent(_calls_tool("shop", goal), tools=[as_tool(tree)])

    assert said in str(asyncio.run(agent.run("go")).output)


def test_it_is_a_tool_of_langchain(tree: Tree) -> None:
    tool = langchain_tool(as_tool(tree))

    assert tool.name == "shop"
    assert "Sells things." in tool.description
    assert {"type": "object"} in tool.args["inputs"]["anyOf"]
    assert asyncio.run(tool.ainvoke({"goal": "sell", "inputs": {"n": 1}})) == {"did": "sell", "with": {"n": 1}}
    assert asyncio.run(tool.ainvoke({"goal": "sell", "inputs": '{"n": 1}'}))["with"] == {"n": 1}
    with pytest.raises(TaskFailedError, match="the disk is full"):
        asyncio.run(tool.ainvoke({"goal": "break"}))


@pytest.mark.parametrize("strict", [True, False])
def test_it_is_a_function_tool_of_openai_agents_strict_or_not(tree: Tree, strict: bool) -> None:
    def told(_: Any, error: Exception) -> str:  # by default the model is told nothing of an error
        return str(error)

    tool = function_tool(as_tool(tree), strict_mode=strict, failure_error_function=told)

    async def call(goal: str, inputs: Any) -> Any:
        arguments = json.dumps({"goal": goal, "inputs": inputs})
        context = ToolContext(context=None, tool_name=tool.name, tool_call_id="1", tool_arguments=arguments)
        return await tool.on_invoke_tool(context, arguments)

    assert tool.name == "shop"
    assert tool.description.startswith("Sells things.")
    assert "What is to be done" in tool.params_json_schema["properties"]["goal"]["description"]
    assert asyncio.run(call("sell", '{"n": 1}'))["with"] == {"n": 1}
    assert asyncio.run(call("sell", None))["with"] == {}
    assert "the disk is full" in asyncio.run(call("break", None))


# -- circles -------------------------------------------------------------------------------------------------


def _calling(holder: list[Any]) -> Any:
    """A worker whose code calls a tool, as an agent would."""

    async def call(task: Any) -> Any:
        return await holder[0](str(task))

    return call


@pytest.mark.parametrize("outside", ["run", "tool"])
@pytest.mark.parametrize("back", ["tool", "arun"])
def test_two_trees_that_call_each_other_are_refused_with_the_chain(outside: str, back: str) -> None:
    first: list[Any] = []
    second: list[Any] = []
    with start(_spec(_calling(second), "a")) as a, start(_spec(_calling(first), "b")) as b:
        first.append(as_tool(a) if back == "tool" else a.arun)
        second.append(as_tool(b))
        refused: list[Any] = []
        a.subscribe(lambda event: refused.append(event) if isinstance(event, RecursionRefused) else None)

        with pytest.raises(TaskFailedError, match="a > a/w > b > b/w > a: 'a' would wait for itself"):
            a.run("round", 30) if outside == "run" else asyncio.run(as_tool(a)("round"))
        settle(a)

        assert len(a.tasks()) == len(b.tasks()) == 1
        assert [each.chain for each in refused] == [("a", "a/w", "b", "b/w", "a")]
