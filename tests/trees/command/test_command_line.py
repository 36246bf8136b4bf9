"""The words of ``regrow``: its version, its help, its inputs, and the program that is meant where only one runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trees import SupervisorSpec, WorkerSpec, __version__, start

pytestmark = pytest.mark.slow  # each test runs the command as a process


def regrow(*words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from trees.cli import main; sys.argv[0] = 'regrow'; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=cwd,
        env=os.environ | {"COLUMNS": "80"} | env,
    )


def test_the_version_is_that_of_the_packages() -> None:
    assert regrow("--version").stdout == f"regrow {__version__}\n"


@pytest.mark.parametrize("command", ["", "run", "top", "dump", "tasks"])
def test_help_has_two_names_and_is_wrapped_once(command: str) -> None:
    said = regrow(*command.split(), "-h").stdout

    assert "-h, --help" in said
    assert "<bool>" not in said
    assert max(map(len, said.splitlines())) <= 80
    paragraphs = re.findall(r"(?:^  \S.*\n)+", said.partition("Options:")[0], re.MULTILINE)
    for paragraph in paragraphs:
        *lines, _ = paragraph.splitlines()
        assert all(len(line) > 60 for line in lines), f"wrapped twice: {paragraph}"
    assert ("TARGET <str>" in said) == (command in {"run", "top"})


PROGRAM = """
from pathlib import Path
from trees import SupervisorSpec, WorkerSpec

TREE = SupervisorSpec(id="shop", children=[WorkerSpec(id="parse", handle=int)])

def main(tree, count: int, share: float = 1.0, loud: bool = False, place: Path = Path("."), name="x", n=2):
    print("got", [count, share, loud, place.name, name, n])
"""


def test_inputs_follow_the_annotations_of_main(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    given = {"count": "3", "share": "0.5", "loud": "true", "place": "a/b.txt", "name": "7", "n": "4"}
    words = [word for name, value in given.items() for word in ("--input", f"{name}={value}")]

    done = regrow("run", "shop.py", *words, cwd=tmp_path)

    assert "got [3, 0.5, True, 'b.txt', '7', 4]" in done.stdout


def test_an_input_that_does_not_fit_is_named_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)

    done = regrow("run", "shop.py", "--input", "count=many", cwd=tmp_path)

    assert done.returncode == 1
    assert "--input count: 'many' does not fit" in done.stderr
    assert "Its type is int" in done.stderr
    assert not done.stdout


def test_the_last_dump_of_a_run_shows_a_tree_that_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)

    done = regrow("run", "shop.py", "--input", "count=1", cwd=tmp_path)

    after = done.stdout.partition("shop: stopping\n")[2]
    assert after.count("stopped") == 2
    assert "running" not in after


def test_dump_and_observe_take_the_only_program_with_an_open_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    none = regrow("dump")
    with start(SupervisorSpec(id="lonely", children=[WorkerSpec(id="parse", handle=int)]), console=True):
        shown, looked = regrow("dump"), regrow("observe")

    assert none.returncode == 1
    assert "no program with an open console" in none.stderr
    assert shown.stdout.startswith("lonely "), shown.stderr
    assert "lonely" in looked.stdout, looked.stderr


def test_check_prints_a_hint_which_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(
        "from trees import Escalated, SupervisorSpec, Tasks, WorkerSpec\n"
        "def publish(task, context):\n    raise Escalated('Publish?')\n"
        "TREE = SupervisorSpec(id='p', tasks=Tasks(), children=[WorkerSpec(id='publish', execute=publish)])\n"
    )

    done = regrow("check", "asks.py", cwd=tmp_path)

    assert done.returncode == 0
    assert "hint: p/publish.on_failure: its code raises Escalated" in done.stdout
