"""A command is given the environment of the program, and what env= says goes before that."""

from __future__ import annotations

import queue
import sys

import pytest

from trees import Command, SupervisorSpec, WorkerSpec, start


def test_env_goes_before_what_the_environment_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGROW_TEST_PLACE", "outside")
    lines = queue.SimpleQueue[str]()
    code = "import os; print(os.environ['REGROW_TEST_PLACE'])"
    command = Command([sys.executable, "-c", code], env={"REGROW_TEST_PLACE": "inside"}, on_line=lines.put)
    worker = WorkerSpec(id="c", command=command, restart="transient")
    with start(SupervisorSpec(id="t", children=[worker])):
        assert lines.get(timeout=60.0) == "inside"
