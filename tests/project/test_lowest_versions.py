"""The lower bounds of pyproject.toml are true: with the oldest versions that they allow, what users do works.

Slow: each test makes an environment of its own and installs into it, so it needs a package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ["pytest>=8.2", "pytest-timeout>=2.3.1", "pytest-xdist>=3.6", "hypothesis>=6.100", "opentelemetry-sdk>=1.30"]
LIFE_S = 900.0


def run(*command: object, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **more}
    env.pop("PYTHONPATH", None)
    return subprocess.run(
        list(map(str, command)), cwd=ROOT, env=env, capture_output=True, text=True, timeout=LIFE_S, check=False
    )


@pytest.mark.slow
@pytest.mark.timeout(2 * LIFE_S)
@pytest.mark.parametrize(
    ("extras", "more", "tests"),
    [
        pytest.param(
            "sql",
            [],
            ["tests/trees/host/test_questions.py", "tests/tasks/planning/test_task_fields.py"],
            id="the core with a store",
        ),
        pytest.param(
            "cli,example,langchain,mcp,metrics,openai-agents,otel,pydantic-ai,sql,web",
            ["langchain>=1.2.11"],
            [
                "tests/trees/agents/test_adapters.py",
                "tests/trees/agents/test_mcp_http.py",
                "tests/trees/agents/test_tree_tool.py",
                "tests/trees/agents/test_questions.py",
            ],
            id="agents",
        ),
    ],
)
def test_the_oldest_versions_that_are_allowed_work(
    extras: str, more: list[str], tests: list[str], tmp_path: Path
) -> None:
    python = tmp_path / "env" / "bin" / "python"
    assert run(sys.executable, "-m", "venv", tmp_path / "env").returncode == 0
    uv = shutil.which("uv")
    if uv is None:
        got = run(python, "-m", "pip", "install", "-q", "uv")
        if got.returncode:
            pytest.skip(f"uv cannot be installed here: {got.stderr[-300:]}")
        uv = str(tmp_path / "env" / "bin" / "uv")
    lowest = ["--resolution", "lowest-direct", "--cache-dir", str(tmp_path / "cache")]
    installed = run(uv, "pip", "install", "--python", python, *lowest, "-e", f".[{extras}]", *more, *TOOLS)
    assert installed.returncode == 0, installed.stderr[-3000:]

    done = run(python, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin", *tests)
    assert done.returncode == 0, done.stdout[-6000:]
