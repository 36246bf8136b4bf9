"""A short soak of tasks, and that it finds what it looks for.

``python -m tests.faults.task_soak --minutes 10`` is the long one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.task_soak import TaskSoak

pytestmark = pytest.mark.usefixtures("quiet_log")
SECONDS = 2.0


@pytest.fixture
def soak(tmp_path: Path) -> Callable[..., TaskSoak]:
    def make(patience_s: float = 60.0) -> TaskSoak:
        return TaskSoak(f"sqlite:///{tmp_path / 'tasks.db'}", secrets.randbelow(10**6), SECONDS, patience_s)

    return make


@pytest.mark.slow
def test_every_task_ends_and_nothing_is_done_twice_without_need_while_everything_breaks(
    soak: Callable[..., TaskSoak],
) -> None:
    run = soak()

    problems = run.run()

    assert problems == [], f"{run}: {run.ledger.examples}"
    assert run.ledger.ends["succeeded"] > 0, "nothing succeeded: the soak shows nothing"
    assert {"kill_worker", "crash_orchestrator"} <= set(run.faults)


# -- planted in the product --------------------------------------------------------------------------------


# -- planted in the books ----------------------------------------------------------------------------------
