"""Prompts of workers, planners, reviewers and synthesizers fit ``context_tokens``; what is important is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors import Context, Done, Work
from trees import (
    ModelPlanner,
    ModelReviewer,
    ModelSynthesizer,
    Report,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)

LONG = "word " * 20_000
FOUND = {"rows": ["row"] * 20_000}
PLAN = [
    Subtask("small", worker="w"),
    Subtask("told", worker="w"),
    Subtask("vital", worker="w"),
    Subtask("plain", worker="w"),
    Subtask("last", "Use them", worker="agent", depends_on=["small", "told", "vital", "plain"]),
]


def work(task: Work, _context: Context) -> Any:
    """Give results that say different things of themselves."""
    results = {
        "small": "a small one",
        "told": Done(FOUND, summary="20,000 rows, all alike"),
        "vital": Done("vital " * 400, importance=0.95),
        "plain": LONG,
    }
    return results[task.id]


class Agent:
    """An agent that answers with its prompt."""

    def run(self, prompt: str) -> str:
        return prompt


class Model:
    """A model that keeps its prompts, and gives its answers one after the other, the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self.prompts: list[str] = []
        self._answers = answers

    def __call__(self, prompt: str, schema: Any = None) -> Any:
        self.prompts.append(prompt)
        return self._answers[min(len(self.prompts), len(self._answers)) - 1]


def run(plan: list[Subtask], code: Any = work, goal: str = "Find it", **settings: Any) -> Report:
    settings = {"planner": StaticPlan(plan), "on_failure": [], **settings}
    children = [WorkerSpec(id="w", execute=code), WorkerSpec(id="agent", execute=Agent())]
    with start(SupervisorSpec(id="t", tasks=Tasks(**settings), children=children)) as tree:
        return tree.run(Task(goal, inputs={"notes": LONG}), timeout=60)


@pytest.mark.parametrize("dispatch", ["pool", "process"])
def test_a_worker_is_told_the_goal_and_what_is_important_whole_and_the_rest_cut_to_what_is_left(dispatch: Any) -> None:
    children = [WorkerSpec(id="w", execute=work), WorkerSpec(id="agent", execute=Agent(), dispatch=dispatch)]
    tasks = Tasks(planner=StaticPlan(PLAN), context_tokens=1_500)
    with start(SupervisorSpec(id="t", tasks=tasks, children=children)) as tree:
        prompt = tree.run(Task("Find it", inputs={"notes": LONG}), timeout=60).results["last"]

    assert prompt.startswith("Use them\n\n# Goal of the whole task\n\nFind it\n\n# Inputs\n\n## notes\n\nword ")
    assert "## small\n\na small one\n" in prompt
    assert "## told\n\n20,000 rows, all alike\n[summary: the whole text has 140,010 characters]" in prompt
    assert prompt.count("vital ") == 400
    assert prompt.count("[cut: ") == 2, "notes and plain"
    assert 1_000 * 5 < len(prompt) < 1_700 * 6


def test_what_has_room_is_shown_whole_whatever_its_summary() -> None:
    prompt = run(PLAN).results["last"]

    assert json.dumps(FOUND) in prompt
    assert "summary" not in prompt


def test_prompts_of_planners_reviewers_and_synthesizers_fit_as_well() -> None:
    plan = {"subtasks": [{"id": id_, "instruction": LONG[:2_000], "worker": "w"} for id_ in ("told", "plain")]}
    planner, reviewer, writer = Model(json.dumps(plan)), Model('{"passed": true}'), Model("written")
    goal = "Find it " * 4_000
    roles: dict[str, Any] = {"planner": ModelPlanner(planner), "reviewer": ModelReviewer(reviewer)}
    roles["synthesizer"] = ModelSynthesizer(writer)

    assert run([], goal=goal, context_tokens=2_000, **roles).output == "written"

    for model in (planner, reviewer, writer):
        (prompt,) = model.prompts
        assert "[cut: " in prompt
        assert prompt.count("Find it ") > 500
        assert prompt.count("word ") < 1_500
    assert "20,000 rows, all alike" in reviewer.prompts[0]
    assert "20,000 rows, all alike" in writer.prompts[0]


def test_what_has_passed_a_review_is_shown_to_the_next_one_as_its_summary() -> None:
    def code(task: Work, context: Context) -> Any:
        values = {"a": Done("all of a", summary="a in short"), "c": "long c " * 500}
        return values.get(task.id, f"all of b, {context.revision}")

    reviewer = Model(
        {"a": True, "b": {"passed": False, "feedback": "more"}, "c": True},
        {"a": True, "b": {"passed": False, "feedback": "more"}, "c": True},
        {"passed": True},
    )
    plan = [Subtask(id_, worker="w") for id_ in "abc"]
    run(plan, code, reviewer=ModelReviewer(reviewer))

    first, second, third = reviewer.prompts
    assert "Result:\nall of a" in first
    assert first.count("long c") == 500
    for later, revision in ((second, 1), (third, 2)):
        assert "Result:\na in short" in later
        assert f"Result:\nall of b, {revision}" in later
        assert 10 < later.count("long c") < 40


def test_a_member_of_a_team_is_told_the_goal_of_the_whole_task_and_its_teams_part() -> None:
    def both(_task: str, context: Context) -> list[str]:
        return [context.goal, context.part]

    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("m", "Look", worker="agent"), Subtask("n", worker="both")])),
        children=[WorkerSpec(id="agent", execute=Agent()), WorkerSpec(id="both", execute=both)],
    )
    plan = StaticPlan([Subtask("p", "Find the facts", worker="team"), Subtask("o", "Alone", worker="both")])
    alone = WorkerSpec(id="both", execute=both)
    with start(SupervisorSpec(id="t", tasks=Tasks(planner=plan), children=[team, alone])) as tree:
        results = tree.run("Write a book").results

    told = "Look\n\n# Goal of the whole task\n\nWrite a book\n\n# Your team's part of it\n\nFind the facts"
    assert results == {"p": {"m": told, "n": ["Write a book", "Find the facts"]}, "o": ["Write a book", ""]}


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"summary": 3}, "a summary of at most 2,000 characters"),
        ({"summary": "x" * 2_001}, "a summary of at most 2,000 characters"),
        ({"importance": 2}, "an importance from 0 to 1"),
        ({"importance": "high"}, "an importance from 0 to 1"),
    ],
)
def test_a_wrong_summary_or_importance_is_a_failed_attempt(said: dict[str, Any], error: str) -> None:
    with pytest.raises(TaskFailedError, match=error):
        run([Subtask("a", worker="w")], lambda _task, _context: Done("x", **said))
