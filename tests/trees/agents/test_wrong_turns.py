"""Wrong turns of somebody who gives agents, tools and models to a tree for the first time: each says what to type."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAI
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from loguru import logger
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

import trees.agents
from actors import ConfigError, StartError
from trees import SupervisorSpec, Tasks, WorkerSpec, start
from trees.agents import MCP, LangChain, OpenAIAgent, PydanticAI

AGENT = Agent(TestModel())
CHAT = FakeListChatModel(responses=["yes"])
CLERK = OpenAI(name="clerk")
TYPED: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "the address of a server without its name": (
        lambda: {"execute": MCP("http://127.0.0.1:9/mcp")},
        r"MCP\.server: a str is no server object. Write MCP\(url='http://...'\)",
    ),
    "a command that is one text": (
        lambda: {"execute": MCP("python server.py")},
        r"MCP\.server: a str is no server object. Write MCP\(command=\['server', ...\]\)",
    ),
    "a command without its name": (
        lambda: {"execute": MCP(["python", "server.py"])},
        r"MCP\.server: a list is no server object. Write MCP\(command=\['server', ...\]\)",
    ),
    "the class of a wrapper": (
        lambda: {"execute": MCP},
        r"a\.execute: the class MCP is a class. Give an object of it: MCP\(...\)",
    ),
    "the class of an agent": (
        lambda: {"execute": Agent},
        r"a\.execute: the class Agent has no method execute. Give an object of it: Agent\(...\)",
    ),
    "a model where an agent belongs": (
        lambda: {"execute": PydanticAI(TestModel())},
        r"a\.execute: a TestModel is no agent of pydantic-ai. Write PydanticAI\(Agent\(...\)\)",
    ),
    "a name where an agent belongs": (
        lambda: {"execute": PydanticAI("openai:gpt-5-mini")},
        r"a\.execute: a str is no agent of pydantic-ai",
    ),
    "an agent in the wrapper of another framework": (
        lambda: {"execute": LangChain(AGENT)},
        r"a\.execute: an Agent cannot be called. Give a chat model, a chain or a graph",
    ),
    "the class of an agent in its wrapper": (
        lambda: {"execute": PydanticAI(Agent)},
        r"a\.execute: the class Agent is no agent, but makes some. Give an object of it: Agent\(...\)",
    ),
    "a prompt that is a text": (
        lambda: {"execute": PydanticAI(AGENT, prompt="Be brief.")},
        r"a\.execute: prompt= cannot be called: got a str. Give a function of \(task, context\)",
    ),
    "a prompt that is told too little": (
        lambda: {"execute": LangChain(CHAT, prompt=lambda task: f"Do {task}")},
        r"a\.execute: prompt= cannot be called with \(task, context\). It takes \(task\)",
    ),
    "deps that are told nothing": (
        lambda: {"execute": PydanticAI(AGENT, deps=lambda: 1)},
        r"a\.execute: deps= cannot be called with \(context\). It takes \(\)",
    ),
    "an input that is no function": (
        lambda: {"execute": LangChain(CHAT, input={"x": 1})},
        r"a\.execute: input= cannot be called: got a dict. Give a function of \(task, context\)",
    ),
    "an output that is no function": (
        lambda: {"execute": LangChain(CHAT, output="answer")},
        r"a\.execute: output= cannot be called: got a str. Give a function of \(result\)",
    ),
    "a config that is no dict": (
        lambda: {"execute": LangChain(CHAT, config="fast")},
        r"LangChain\.config: expected a dict, got 'fast'. Write config=",
    ),
    "a context that is no function": (
        lambda: {"execute": OpenAIAgent(CLERK, context={"user": 1})},
        r"a\.execute: context= cannot be called: got a dict. Give a function of \(context\)",
    ),
    "no turns": (
        lambda: {"execute": OpenAIAgent(CLERK, max_turns=0)},
        r"a\.execute: max_turns= got 0. Give a whole number from 1 on, or None for no limit",
    ),
    "a switch that is a word": (
        lambda: {"execute": PydanticAI(AGENT, durable="no")},
        r"a\.execute: durable= got 'no'. Write True or False",
    ),
    "limits that are a number": (
        lambda: {"execute": PydanticAI(AGENT, usage_limits=5)},
        r"a\.execute: usage_limits= got 5. Give a UsageLimits of pydantic_ai",
    ),
    "a history that is a text": (
        lambda: {"execute": PydanticAI(AGENT, message_history="hello")},
        r"a\.execute: message_history= got 'hello'. Give a list of messages of pydantic-ai",
    ),
    "a model that is none": (
        lambda: {"execute": PydanticAI(AGENT, model=CLERK)},
        r"a\.execute: model= got .*. Give a Model of pydantic_ai",
    ),
    "a config of a run that is a text": (
        lambda: {"execute": OpenAIAgent(CLERK, run_config="fast")},
        r"a\.execute: run_config= got 'fast'. Give a RunConfig of agents",
    ),
    "an agent as handle": (lambda: {"handle": AGENT}, r"a\.handle: an Agent cannot be called. Write execute= "),
    "an agent as run": (lambda: {"run": AGENT}, r"a\.run: an Agent cannot be called. Write execute= "),
}


def up(**fields: Any) -> None:
    with start(SupervisorSpec(id="s", tasks=Tasks(), children=[WorkerSpec(id="a", **fields)])):
        pass


@pytest.mark.parametrize("what", TYPED)
def test_what_is_typed_wrong_is_told_with_what_to_type(what: str) -> None:
    typed, said = TYPED[what]

    with pytest.raises(ConfigError, match=said):
        up(**typed())


def test_a_planner_that_is_no_name_of_a_model_is_told_how_one_is_written() -> None:
    said = r"planner: 'gpt-5' is no name of a model. Write 'PROVIDER:NAME', such as 'openai:gpt-5-mini'"
    with pytest.raises(ConfigError, match=said):
        Tasks(planner="gpt-5")


def test_a_server_that_does_not_answer_says_what_its_start_waits_for() -> None:
    silent = MCP(command=[sys.executable, "-c", "import time; time.sleep(600)"])

    with pytest.raises(StartError) as refused:
        up(execute=silent, start_timeout_s=0.2)

    assert str(refused.value) == (
        "s/a: did not start within 0.2 s (its MCP server has not answered 'initialize' and 'tools/list'). "
        "Raise start_timeout_s, or see what it waits for."
    )


def test_a_program_that_is_missing_is_logged_in_a_line_that_says_what_to_do_without_frames() -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, level="WARNING", format="{message}")
    try:
        with pytest.raises(StartError, match="is not installed or not on the PATH"):
            up(execute=MCP(command=["no-such-server"]))
        logger.complete()
    finally:
        logger.remove(sink)

    said = [line for line in lines if "no-such-server" in line]
    assert [line.count("\n") for line in said] == [1]
    assert "Install the server, or write the full path" in said[0]


def test_a_star_import_has_every_public_name() -> None:
    names: dict[str, Any] = {}
    exec("from trees.agents import *", names)  # noqa: S102 - as a user types it
    page = (Path(trees.agents.__file__).parent / "README.md").read_text(encoding="utf-8")

    assert set(trees.agents.__all__) <= set(names)
    assert [name for name in trees.agents.__all__ if f"`{name}" not in page and name not in page] == []
    with pytest.raises(AttributeError, match="no attribute 'MPC'"):
        trees.agents.MPC  # noqa: B018 - it is asked for
