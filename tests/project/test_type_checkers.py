"""Code of users is free of errors: ``tests/typing/api.py`` for mypy and pyright, the examples for mypy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = "tests/typing/api.py"


def checked(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False, cwd=ROOT, timeout=110
    )
    return f"{done.returncode}\n{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_mypy_finds_nothing_in_code_of_users() -> None:
    pytest.importorskip("mypy")

    said = checked("mypy", "--strict", CODE, "examples")

    assert "Success: no issues found" in said


@pytest.mark.slow
def test_pyright_finds_nothing_in_code_of_users() -> None:
    pytest.importorskip("pyright")

    said = checked("pyright", "--pythonpath", sys.executable, CODE)

    assert "0 errors" in said
