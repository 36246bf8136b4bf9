"""A graph with a checkpointer, and an agent of the OpenAI Agents SDK, whose process is killed go on where they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import python
from tests.trees.agents.mortal_agents import STEPS

ROOT = Path(__file__).parents[3]


LIFE_S = 110.0


def incarnation(kind: str, folder: Path, at: int) -> tuple[int, str, str]:
    """Its exit code, and what it has said."""
    with python("-m", "tests.trees.agents.mortal_agents", kind, folder, at, cwd=ROOT) as process:
        shown, errors = process.communicate(timeout=LIFE_S)
        return process.wait(LIFE_S), shown, errors


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "at"), [("graph", 2), ("agent", 4)])
def test_what_is_killed_in_a_step_repeats_that_one_only(tmp_path: Path, kind: str, at: int) -> None:
    killed, _, errors = incarnation(kind, tmp_path, at)
    assert killed == -9, errors

    again, shown, errors = incarnation(kind, tmp_path, 0)
    assert again == 0, errors
    result, tokens = json.loads(shown)
    assert result == f"step {STEPS}"
    assert tokens == STEPS * 10  # each answer counts once, also where only the checkpointer had it by then
    steps = [int(each) for each in (tmp_path / "steps").read_text().split()]
    assert sorted(steps) == sorted([*range(1, STEPS + 1), at])


def test_two_tasks_on_a_thread_of_the_users_own_are_both_run_and_each_counts_its_own() -> None:
    """The second one was given the answer of the first."""
    pytest.importorskip("langgraph", reason="graphs")
    from langchain_core.messages import AIMessage  # noqa: PLC0415 - it is optional
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415 - the same
    from langgraph.graph import START, MessagesState, StateGraph  # noqa: PLC0415 - the same

    from tests.trees.agents.one_agent import tree_of  # noqa: PLC0415 - the same
    from trees import start  # noqa: PLC0415 - the same
    from trees.agents import LangChain  # noqa: PLC0415 - the same

    def node(state: Any) -> Any:
        usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
        return {"messages": [AIMessage(f"after {len(state['messages'])}", usage_metadata=usage)]}  # type: ignore[arg-type]

    graph = StateGraph(MessagesState).add_node("say", node).add_edge(START, "say").compile(InMemorySaver())
    worker = LangChain(graph, config={"configurable": {"thread_id": "bob"}})
    with start(tree_of(worker)) as tree:
        reports = [tree.run("go on", timeout=LIFE_S) for _ in range(2)]

    assert [report.results["w"] for report in reports] == ["after 1", "after 3"]
    assert [report.usage.tokens for report in reports] == [10, 10]
