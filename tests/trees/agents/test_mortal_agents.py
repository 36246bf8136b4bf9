"""A graph with a checkpointer, and an agent of the OpenAI Agents SDK, whose process is killed go on where they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.hatchery import python
from tests.trees.agents.mortal_agents import STEPS

ROOT = Path(__file__).parents[3]


LIFE_S = 110.0


def incarnation(kind: str, folder: Path, at: int) -> tuple[int, str, str]:
    """Its exit code, and what it has said."""
    with python("-m", "tests.trees.agents.mortal_agents", kind, folder, at, cwd=ROOT) as process:
        shown, errors = process.communicate(timeout=LIFE_S)
        return process.wait(LIFE_S), shown, errors


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["graph", "agent"])
@pytest.mark.parametrize("at", [2, 4])
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
