"""A worker that is a program runs, is restarted when it fails, is stopped, and is checked and shown as one."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from actors import ChildExited, ConfigError
from trees import SupervisorSpec, WorkerSpec, start
from trees.declaration.check import require_valid
from trees.views.declaration_text import draw

CODE = """
import pathlib, sys
file = pathlib.Path("runs")
file.write_text(file.read_text() + "x")
sys.exit(len(file.read_text()) < 3)
"""
RUNS = Path("runs")
RUNS.write_text("", encoding="ascii")
given: dict[str, Any] = {"script": [sys.executable, "-c", CODE]}
worker = WorkerSpec(id="w", restart="transient", **given)
exits, over = list[str](), threading.Event()


def note(event: Any) -> None:
    if isinstance(event, ChildExited):
        exits.append(event.reason.value)
        if event.reason.clean:
            over.set()


with start(SupervisorSpec(id="p", children=[])) as tree:
    tree.subscribe(note)
    tree.start_child("p", worker)
    assert over.wait(60)
    assert exits == ["crashed", "crashed", "normal"], exits
    assert "last exit: normal" in tree.dump(), tree.dump()
assert RUNS.read_text(encoding="ascii") == "xxx"
assert f"script {sys.executable}" in draw(SupervisorSpec(id="p", children=[worker]))


def problems_of(**fields: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        require_valid(SupervisorSpec(id="p", children=[WorkerSpec(id="w", **fields)]))
    return str(caught.value)


assert "an empty program" in problems_of(script=[])
both = problems_of(script=["ls"], handle=print)
assert "together" in both, both
assert "script" in both.partition("together")[0], both
nothing = problems_of()
assert "script" in nothing.partition("Give exactly one of")[2], nothing
print("works")
