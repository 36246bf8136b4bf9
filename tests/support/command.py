"""The command ``regrow`` in a process of its own (``tests.support.programs``), and programs for it to run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.support.programs import started

Process = subprocess.Popen[str]

WAIT_S = 60.0

SHOP = """
import sys

import actors
from trees import SupervisorSpec, WorkerSpec


def beat():
    actors.stopping(600)


def parse(line):
    return len(line)


TREE = SupervisorSpec(
    id="shop",
    children=[
        WorkerSpec(id="beat", run=beat),
        WorkerSpec(id="parse", handle=parse, pool=3, args=(), description="counts"),
        SupervisorSpec(id="team", strategy="one_for_all", children=[WorkerSpec(id="helper", handle=parse)]),
    ],
)

if __name__ == "__main__":
    sys.exit("a check must not run this")
"""

DRAWN = """\
shop                one_for_one   supervisor     up to 3 restarts in 5 s
├─ beat             permanent     run beat       thread of its own
├─ parse ×3         permanent     handle parse   on the pool   counts
└─ team             one_for_all   supervisor     up to 3 restarts in 5 s
   └─ helper        permanent     handle parse   on the pool
"""

WITH_MAIN = """
from trees import SupervisorSpec, WorkerSpec


def parse(line):
    if line == "bad":
        raise ValueError(line)
    return len(line)


def tree(n: str = "2") -> SupervisorSpec:
    return SupervisorSpec(id="made", max_restarts=0, children=[WorkerSpec(id="parse", handle=parse, pool=int(n))])


{main}
"""


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for sockets of its own, with a path short enough for one."""
    place = Path(tempfile.mkdtemp(prefix="rg"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    monkeypatch.setenv("PYTHONUTF8", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    yield place
    shutil.rmtree(place)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return file(tmp_path, "shop.py", SHOP)


def file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def regrow(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    with started(*args, cwd=cwd) as process:
        shown, errors = process.communicate(timeout=WAIT_S)
        code = process.wait(WAIT_S)
    return subprocess.CompletedProcess(["regrow", *map(str, args)], code, shown, errors)


@contextmanager
def running(*args: object) -> Iterator[tuple[Process, str]]:
    """A ``regrow run`` that is up, and the line that says so."""
    with started("run", *args) as process:
        try:
            yield process, out(process).readline()
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(WAIT_S)


def out(process: Process) -> IO[str]:
    assert process.stdout is not None
    return process.stdout
