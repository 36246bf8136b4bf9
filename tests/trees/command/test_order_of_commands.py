"""What was ordered from outside while the tree was down is carried out in the order in which it was given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from actors import Escalated
from actors.testing import settle
from trees import Escalate, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start


@pytest.mark.slow
def test_of_two_priorities_the_one_that_was_given_last_counts(tmp_path: Path) -> None:
    def ask(_task: str, _context: Any) -> str:
        raise Escalated("May I?")

    worker = WorkerSpec(id="w", execute=ask, on_failure=[Escalate()])
    spec = SupervisorSpec(id="t", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    with start(spec, store=url) as tree:
        tree.submit(Task("go", id="one"))
        settle(tree, 60.0)
    for number in ("5", "9"):
        words = ["tasks", "priority", "one", number, "--store", url, "--wait", "0"]
        subprocess.run([sys.executable, "-m", "trees", *words], check=True, timeout=100.0, capture_output=True)
    with start(spec, store=url) as tree:
        settle(tree, 60.0)
        assert tree.task("one").task.priority == 9
