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


STEPS = {
    "trees": "import trees",
    "trees.agents": "import trees.agents",
    "render_prompt": "from trees.agents import render_prompt",
    "a declaration": DECLARE,
    "a task of look-alikes": RUN,
}


def test_no_framework_is_loaded_by_an_import_a_declaration_or_a_task_of_look_alikes() -> None:
    """One after the other in one interpreter: none is loaded after any of them."""
    checked = [f"{program}\n{CHECK}\nprint({step!r})" for step, program in STEPS.items()]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(checked)],
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
    )

    assert (done.stdout.splitlines(), done.returncode) == ([*STEPS], 0), done.stderr


@pytest.mark.parametrize("name", sorted(trees.agents._MODULES))
def test_each_public_name_is_there_and_is_listed(name: str) -> None:
    assert getattr(trees.agents, name).__name__ == name
    assert name in dir(trees.agents)


def test_a_name_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(AttributeError, match="Did you mean PydanticAI"):
        trees.agents.PydanticAi  # noqa: B018
