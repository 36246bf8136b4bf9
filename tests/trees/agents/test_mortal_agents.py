"""A graph with a checkpointer, and an agent of the OpenAI Agents SDK, whose process is killed go on where they were."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trees.agents.mortal_agents import STEPS

ROOT = Path(__file__).parents[3]


def incarnation(kind: str, folder: Path, at: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.trees.agents.mortal_agents", kind, str(folder), str(at)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["graph", "agent"])
@pytest.mark.parametrize("at", [4])
def test_what_is_killed_in_a_step_repeats_that_one_only(tmp_path: Path, kind: str, at: int) -> None:
    killed = incarnation(kind, tmp_path, at)
    assert killed.returncode == -9, killed.stderr

    again = incarnation(kind, tmp_path, 0)
    assert again.returncode == 0, again.stderr
    result, tokens = json.loads(again.stdout)
    assert result == f"step {STEPS}"
    # What was told right before the kill may not have reached the store.
    assert (STEPS - at + 1) * 10 <= tokens <= STEPS * 10
    steps = [int(each) for each in (tmp_path / "steps").read_text().split()]
    assert sorted(steps) == sorted([*range(1, STEPS + 1), at])
