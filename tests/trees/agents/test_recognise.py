"""A bare agent is known by its class, whatever it derives from, and wrapped; everything else is left alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent as OpenAI
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.models.test import TestModel

from actors import ConfigError
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.agents import LangChain, OpenAIAgent, PydanticAI
from trees.agents.recognise import wrapped
from trees.agents.wrapper import AgentWrapper


class Mine(WrapperAgent[Any, Any]):
    """An agent of a user's own class."""


class Own(WrapperAgent[Any, Any]):
    """One that says itself how it is called."""

    def execute(self, task: Any, _context: Any) -> str:
        return f"own {task}"


def plain() -> Agent[None, str]:
    return Agent(TestModel(custom_output_text="hello"))


@pytest.mark.parametrize("make", [plain, lambda: WrapperAgent(plain()), lambda: Mine(plain())])
def test_an_agent_of_pydantic_ai_is_wrapped(make: Any) -> None:
    agent = make()
    found = wrapped(agent)

    assert isinstance(found, PydanticAI)
    assert found.agent is agent
    assert wrapped(found) is found


def graph() -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: state)
    builder.add_edge(START, "say")
    return builder.compile()


class Third(OpenAI[Any]):
    """An agent of the OpenAI Agents SDK of a user's own class."""


@pytest.mark.parametrize(
    ("make", "wrapper"),
    [
        (lambda: FakeListChatModel(responses=["a"]), LangChain),
        (lambda: RunnableLambda(str.upper), LangChain),
        (lambda: RunnableLambda(str.upper) | str.lower, LangChain),
        (graph, LangChain),
        (lambda: OpenAI(name="a"), OpenAIAgent),
        (lambda: Third(name="a"), OpenAIAgent),
    ],
)
def test_agents_chains_and_graphs_of_other_frameworks_are_wrapped(make: Any, wrapper: type[Any]) -> None:
    assert type(wrapped(make())) is wrapper


def _look_alike(package: str, name: str, **methods: Any) -> Any:
    return type(name, (), {"__module__": f"{package}.agent", **methods})()


@pytest.mark.parametrize(
    "target",
    [
        len,
        str.upper,
        Agent,
        plain().run,
        Own(plain()),
        object(),
        SimpleNamespace(run=len),
        _look_alike("agents", "Agent", run=lambda _self, prompt: prompt),
        _look_alike("pydantic_ai", "AbstractAgent"),
        _look_alike("mine", "Runnable", ainvoke=lambda _self, prompt: prompt),
    ],
)
def test_everything_else_is_left_alone(target: Any) -> None:
    assert wrapped(target) is target


def tree(**fields: Any) -> SupervisorSpec:
    return SupervisorSpec(
        id="office", tasks=Tasks(planner=StaticPlan([Subtask("w")])), children=[WorkerSpec(id="w", **fields)]
    )


def row(**fields: Any) -> Any:
    with start(tree(**fields)) as running:
        (found,) = running.registry("office")
        return found


class Report(BaseModel):
    title: str


def described() -> Agent[None, Report]:
    return Agent(TestModel(), output_type=Report, name="scribe", description="Writes reports")


def test_what_an_agent_says_of_itself_stands_in_the_registry() -> None:
    found = row(execute=described())

    assert (found.type, found.description) == ("agent", "Writes reports")
    assert found.output_schema == described().output_json_schema()
    assert found.input_schema is None


def test_an_agent_with_a_name_only_is_described_by_it() -> None:
    assert row(execute=Agent(TestModel(), name="scribe")).description == "scribe"
    assert row(execute=plain()).description == ""
    assert row(execute=plain()).output_schema is None


def test_what_the_spec_says_wins() -> None:
    found = row(execute=described(), type="tool", description="Mine", output=dict[str, int], capabilities={"write"})

    assert (found.type, found.description, found.capabilities) == ("tool", "Mine", {"write"})
    assert found.output_schema == {"additionalProperties": {"type": "integer"}, "type": "object"}


class Odd(AgentWrapper):
    """One whose framework is missing."""

    requires = ("regrow-has-no-such-package", "odd", "3.1")

    def execute(self, task: Any, _context: Any) -> str:
        return str(task)


def test_a_framework_that_is_missing_is_a_problem_of_the_check_that_names_extra_and_version() -> None:
    with pytest.raises(ConfigError) as caught, start(tree(execute=Odd())):
        pass

    (problem,) = caught.value.problems
    assert problem.path == "office/w.execute"
    assert "3.1" in problem.what
    assert "'.[odd]'" in problem.hint


BARE = plain()


@pytest.mark.parametrize("target", [BARE, f"{__name__}:BARE"])
def test_a_bare_agent_and_one_that_is_named_do_the_work(target: Any) -> None:
    with start(tree(execute=target)) as running:
        assert running.run(Task("Say hello")).results == {"w": "hello"}
