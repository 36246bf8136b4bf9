"""How many of the held-out goals the planner for words gets right, with descriptions only (rule S15)."""

from __future__ import annotations

from typing import Final

import pytest

from tests.tasks.planning.further_goals import FURTHER_GOALS
from tests.tasks.planning.held_out_goals import GOALS, Held
from tests.tasks.planning.test_planners import row
from trees import ExecutableInfo, KeywordPlanner, NoCapableWorkerError, Plan, Task


def catalogue(registry: dict[str, str]) -> tuple[ExecutableInfo, ...]:
    return tuple(row(name, description=said) for name, said in registry.items())


def outcome(registry: dict[str, str], goal: str) -> Plan | None:
    try:
        return KeywordPlanner().plan(Task(goal), catalogue(registry), "")
    except NoCapableWorkerError:
        return None


def is_right(held: Held, plan: Plan | None) -> bool:
    """A worker that comes twice counts once; what it waits for of itself does not count."""
    if plan is None:
        return not held.who
    whose = {subtask.id: subtask.worker for subtask in plan.subtasks}
    if held.unsure:
        return set(whose.values()) <= set(held.who) and bool(plan.warnings)
    if set(whose.values()) != set(held.who):
        return False
    for subtask in plan.subtasks:
        waits = {whose[name] for name in subtask.depends_on} - {subtask.worker}
        expected = held.who[str(subtask.worker)]
        if expected is not None and waits != set(expected):
            return False
    return True


EVERY_GOAL: Final = [(who, held) for who, goals in (*GOALS, *FURTHER_GOALS) for held in goals]


@pytest.mark.parametrize(("registry", "held"), EVERY_GOAL, ids=[held.goal for _, held in EVERY_GOAL])
def test_a_goal_as_people_word_it_comes_out_right_or_the_plan_says_that_it_is_unsure(
    registry: dict[str, str], held: Held
) -> None:
    plan = outcome(registry, held.goal)

    shown = plan and [(one.worker, one.instruction, one.depends_on) for one in plan.subtasks]
    assert is_right(held, plan), f"{held.goal}: {shown} {plan and plan.warnings}"
