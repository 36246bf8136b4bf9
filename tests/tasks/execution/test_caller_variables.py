"""Contextvars of the caller reach the attempts of a task that is submitted in this process."""

from __future__ import annotations

import asyncio
import contextvars
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from actors import Failed
from tests.support.crew import LONG_S
from tests.support.setting import setting
from tests.tasks.task_crew import GOAL, team
from trees import (
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Verdict,
    WorkerSpec,
    start,
)

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST", default="none")


def seen(*_: Any) -> str:
    return REQUEST.get()


async def seen_async(*_: Any) -> str:
    await asyncio.sleep(0)
    return REQUEST.get()


class Agent:
    """An agent whose model a test replaces by a contextvar, as pydantic-ai's ``Agent.override`` does."""

    model: contextvars.ContextVar[str] = contextvars.ContextVar("model", default="THE REAL MODEL")

    def run(self, prompt: str) -> str:
        return f"{self.model.get()}: {prompt}"


@pytest.mark.parametrize("code", [seen, seen_async])
def test_contextvars_of_the_caller_reach_the_attempts_of_a_task_that_is_submitted_in_this_process(code: Any) -> None:
    with start(team(Subtask("a"), workers={"a": code})) as tree:
        with setting(REQUEST, "mine"):
            handles = [tree.submit(Task(GOAL))]
        handles.append(tree.submit(Task(GOAL)))
        assert [handle.result(LONG_S).results["a"] for handle in handles] == ["mine", "none"]


def test_they_reach_each_attempt_each_step_and_each_undo() -> None:
    found: list[tuple[str, str]] = []

    def note(what: str) -> None:
        found.append((what, REQUEST.get()))

    def flaky(_: Any, context: Any) -> str:
        note(f"attempt {context.attempt}")
        if context.attempt == 1:
            raise Failed("once more", retryable=True)
        return "done"

    def plan(*_: Any) -> list[Subtask]:
        note("plan")
        return [Subtask("a"), Subtask("b", depends_on=["a"])]

    def fail(*_: Any) -> None:
        raise Failed("for good")

    def review(*_: Any) -> Verdict:
        note("review")
        return Verdict(passed=True)

    retry = [Retry(initial_s=0.001)]
    works = WorkerSpec(id="a", execute=flaky, on_failure=retry, undo=lambda *_: note("undo"))
    spec = SupervisorSpec(
        id="shop",
        tasks=Tasks(planner=plan, reviewer=review),
        children=[works, WorkerSpec(id="b", execute=fail, on_failure=[])],
    )
    with start(spec) as tree, setting(REQUEST, "mine"), pytest.raises(TaskFailedError):
        tree.run(Task(GOAL), timeout=LONG_S)
    assert [each for each in found if each[1] != "mine"] == []
    assert {what for what, _ in found} >= {"plan", "attempt 1", "attempt 2", "undo"}


def test_they_reach_the_members_of_a_team_and_whoever_is_asked() -> None:
    async def ask(_: Any, context: Any) -> Any:
        REQUEST.set("of the asker")
        return await context.ask("see", "look")

    inner = SupervisorSpec(
        id="crew",
        tasks=Tasks(planner=StaticPlan([Subtask("see"), Subtask("ask")])),
        children=[WorkerSpec(id="see", execute=seen), WorkerSpec(id="ask", execute=ask)],
    )
    with start(team(Subtask("crew"), workers={"crew": inner})) as tree:
        with setting(REQUEST, "mine"):
            result = tree.run(Task(GOAL), timeout=LONG_S).results["crew"]
        assert result == {"see": "mine", "ask": "of the asker"}


def test_a_resumed_task_has_none(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/tasks.db"
    held = asyncio.Event()

    async def hold(*_: Any) -> str:
        await held.wait()
        return "never"

    tree = start(team(Subtask("a"), workers={"a": hold}), store=store)
    with setting(REQUEST, "mine"):
        tree.submit(Task(GOAL, id="t1"))
    tree.stop()
    with start(team(Subtask("a"), workers={"a": seen}), store=store) as again:
        assert again.task("t1").result(LONG_S).results["a"] == "none"


@pytest.mark.skipif(importlib.util.find_spec("pydantic_ai") is None, reason="pydantic-ai is not installed")
def test_the_override_of_a_pydantic_ai_agent_holds_in_a_tree() -> None:
    pydantic_ai = importlib.import_module("pydantic_ai")
    fake = importlib.import_module("pydantic_ai.models.test").TestModel
    agent = pydantic_ai.Agent(fake(custom_output_text="THE REAL MODEL"))
    tree = team(Subtask("a"), workers={"a": WorkerSpec(id="a", execute=agent)})
    with agent.override(model=fake(custom_output_text="the fake")), start(tree) as running:
        assert running.run(Task("x")).results["a"] == "the fake"
