"""No framework is imported before an agent of it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import trees.agents

FRAMEWORKS = ("pydantic_ai", "langchain_core", "langgraph", "agents", "mcp", "opentelemetry", "anyio", "httpx")

CHECK = f"""
import sys
loaded = [name for name in {FRAMEWORKS!r} if name in sys.modules]
assert not loaded, loaded
"""

DECLARE = """
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

class Agent:
    async def run(self, prompt):
        return prompt

class Chain:
    def invoke(self, prompt):
        return prompt

TREE = SupervisorSpec(
    id="office",
    tasks=Tasks(planner=StaticPlan([Subtask("agent"), Subtask("chain"), Subtask("plain")])),
    children=[
        WorkerSpec(id="agent", execute=Agent()),
        WorkerSpec(id="chain", execute=Chain()),
        WorkerSpec(id="plain", execute=str.upper),
    ],
)
"""

RUN = """
with start(TREE) as tree:
    tree.run(Task("go"), timeout=60)
"""


@pytest.mark.parametrize(
    "program",
    ["import trees", "import trees.agents", "from trees.agents import render_prompt", DECLARE, DECLARE + RUN],
    ids=["trees", "trees.agents", "render_prompt", "a declaration", "a task of look-alikes"],
)
def test_no_framework_is_loaded_by(program: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", program + CHECK], check=True, timeout=60)


@pytest.mark.parametrize("name", sorted(trees.agents._MODULES))
def test_each_public_name_is_there_and_is_listed(name: str) -> None:
    assert getattr(trees.agents, name).__name__ == name
    assert name in dir(trees.agents)


def test_a_name_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(AttributeError, match=r"PydanticAI, .*render_prompt"):
        trees.agents.PydanticAi  # noqa: B018
