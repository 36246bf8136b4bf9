"""Ladders over levels: a team that failed is tried again only if a ladder was written for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from trees import (
    Plan,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)

WAIT_S = 30.0
TWICE = [Retry(max_attempts=2, initial_s=0.0)]


class Leaf:
    """A worker at the bottom that fails each time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, task: Any, context: Any) -> Any:
        self.calls += 1
        raise ConnectionError("no route")


def nested(leaf: Leaf, *, above: Sequence[Any] | None = None, team: Sequence[Any] | None = None) -> SupervisorSpec:
    """A leaf in a team; the ladders of the supervisor above, and of the spec of the team, if they are given."""
    tasks = {} if above is None else {"on_failure": above}
    spec = {} if team is None else {"on_failure": team}
    outer = SupervisorSpec(
        id="outer",
        tasks=Tasks(planner=StaticPlan([Subtask("leaf", worker="leaf")])),
        children=[WorkerSpec(id="leaf", execute=leaf, on_failure=TWICE, breaker=None)],
        breaker=None,
        **spec,
    )
    plan = StaticPlan([Subtask("outer", worker="outer")])
    return SupervisorSpec(id="app", tasks=Tasks(planner=plan, **tasks), children=[outer])


def calls_of(leaf: Leaf, spec: SupervisorSpec, task: Task | None = None) -> int:
    with start(spec) as tree:
        with pytest.raises(TaskFailedError):
            tree.submit(task or Task("work")).result(WAIT_S)
        return leaf.calls


def test_default_ladders_do_not_multiply() -> None:
    leaf = Leaf()
    assert calls_of(leaf, nested(leaf)) == 2


def test_a_ladder_of_the_parents_tasks_tries_its_team_again() -> None:
    leaf = Leaf()
    assert calls_of(leaf, nested(leaf, above=[Retry(max_attempts=3, initial_s=0.0)])) == 6


def test_a_ladder_of_the_teams_spec_tries_it_again() -> None:
    leaf = Leaf()
    assert calls_of(leaf, nested(leaf, team=TWICE)) == 4


def test_a_ladder_of_the_subtask_tries_its_team_again() -> None:
    leaf = Leaf()
    plan = Plan([Subtask("outer", worker="outer", on_failure=TWICE)])
    assert calls_of(leaf, nested(leaf), Task("work", plan=plan)) == 4


def test_a_ladder_of_the_task_tries_its_team_again() -> None:
    leaf = Leaf()
    assert calls_of(leaf, nested(leaf), Task("work", on_failure=TWICE)) >= 4


def test_an_empty_ladder_that_was_written_is_one_attempt() -> None:
    leaf = Leaf()
    assert calls_of(leaf, nested(leaf, above=[])) == 2


def test_by_default_another_worker_takes_over_from_a_team_all_the_same() -> None:
    leaf = Leaf()
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("leaf", worker="leaf")])),
        children=[WorkerSpec(id="leaf", execute=leaf, on_failure=TWICE)],
        backup="other",
    )
    other = WorkerSpec(id="other", execute=lambda _task, _context: "done")
    plan = StaticPlan([Subtask("x", worker="team")])
    with start(SupervisorSpec(id="app", tasks=Tasks(planner=plan), children=[team, other])) as tree:
        assert tree.run("work", WAIT_S).results == {"x": "done"}
    assert leaf.calls == 2


CHECKED = """
from trees import Escalate, Failover, Retry, SupervisorSpec, Tasks, WorkerSpec

def work(task, context):
    return "done"

def team(id, **words):
    leaf = WorkerSpec(id=f"leaf-of-{id}", execute=work)
    return SupervisorSpec(id=id, tasks=Tasks(), children=[leaf], **words)

TREE = SupervisorSpec(id="app", tasks=Tasks(on_failure=[Retry(max_attempts=4), Failover()]), children=[
    WorkerSpec(id="own", execute=work, on_failure=[Retry(max_attempts=2), Escalate()]),
    WorkerSpec(id="once", execute=work, on_failure=[]),
    team("written"),
    team("once-only", on_failure=[]),
    WorkerSpec(id="messages", handle=len),
])
DEFAULT = SupervisorSpec(id="app", tasks=Tasks(), children=[team("default")])
"""


def test_check_says_how_often_a_failing_worker_is_tried_with_all_ladders_above_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CHECKED, encoding="utf-8")

    def rows(name: str) -> dict[str, str]:
        command = [sys.executable, "-m", "trees", "check", f"app.py:{name}"]
        shown = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=True)
        return {words[0]: line for line in shown.stdout.splitlines() if (words := line.strip("│├└─ ").split())}

    tree, default = rows("TREE"), rows("DEFAULT")
    assert "up to 2 attempts" in tree["own"]
    assert "1 attempt" in tree["once"]
    assert "up to 12 attempts (3 × 4)" in tree["leaf-of-written"]
    assert "up to 3 attempts" in tree["leaf-of-once-only"]
    assert "attempt" not in tree["messages"]
    assert "up to 3 attempts" in default["leaf-of-default"]
    assert "×" not in default["leaf-of-default"]
