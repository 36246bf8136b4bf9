"""``regrow run`` with a store: what it keeps, what goes on after a kill, and who may use it."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.command import SHOP, WAIT_S, Process, file, out, regrow, runtime
from tests.support.programs import started
from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec
from trees.command.resume import store_choice
from trees.store.database import Database
from trees.store.schema import take_token

__all__ = ["runtime"]
pytestmark = pytest.mark.usefixtures("runtime")

PROGRAM = """
import asyncio
import os

from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec


def a(task, context):
    print("a runs", flush=True)
    return "one"


async def b(task, context):
    print("b runs\\n", end="", flush=True)  # in one piece: the command prints lines of its own at the same time
    if os.environ.get("HOLD"):
        await asyncio.sleep(600)
    if os.environ.get("FAIL"):
        raise LookupError("b broke")
    return "two"


TREE = SupervisorSpec(
    id="p",
    tasks=Tasks(planner=StaticPlan([Subtask("a"), Subtask("b", depends_on=["a"])]), on_failure=[]),
    children=[WorkerSpec(id="a", execute=a), WorkerSpec(id="b", execute=b)],
)


def main(tree, id="t"):
    print(f"main {tree.run(Task('do it well', id=id)).results}", flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return file(tmp_path, "program.py", PROGRAM)


@contextmanager
def held(program: Path, *args: object) -> Iterator[Process]:
    """A run in which ``a`` is done and ``b`` runs."""
    with started("run", program, *args, cwd=program.parent, env={**os.environ, "HOLD": "1"}) as process:
        try:
            while out(process).readline() != "b runs\n":
                assert process.poll() is None
            yield process
        finally:
            process.kill()


def kill_half_way(program: Path, *args: object) -> None:
    with held(program, *args) as process:
        process.kill()
        process.communicate(timeout=WAIT_S)


def run(program: Path, *args: object) -> subprocess.CompletedProcess[str]:
    return regrow("run", program, *args, cwd=program.parent)


# -- what is kept ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_tree_with_tasks_keeps_them_in_a_file_of_this_folder_and_says_so(program: Path) -> None:
    ran = run(program)
    database = program.parent / "regrow.db"
    again = run(program)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[1] == "p: tasks are kept in regrow.db ('--store memory:' keeps none)"
    assert "main {'a': 'one', 'b': 'two'}" in ran.stdout
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    assert "a runs" not in again.stdout, "the id is known: it is there, and is not done again"
    assert "main {'a': 'one', 'b': 'two'}" in again.stdout


@pytest.mark.slow
def test_a_tree_without_tasks_makes_no_file(tmp_path: Path) -> None:
    shop = file(tmp_path, "shop.py", SHOP + "\n\ndef main(tree):\n    print('main')\n")
    plain, asked = run(shop), run(shop, "--store", "sqlite:///asked.db")

    assert plain.returncode == asked.returncode == 0
    assert plain.stdout.splitlines()[1] == "main"
    assert asked.stdout.splitlines()[1] == "shop: has no tasks, --store is not used"
    assert list(tmp_path.glob("*.db*")) == []


def test_without_sqlalchemy_tasks_are_in_memory_unless_a_store_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = WorkerSpec(id="a", execute=print)
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a")])), children=[worker])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    default = store_choice(spec, None, "process", resume=False)
    asked = store_choice(spec, "sqlite:///x.db", "power", resume=False)

    assert default.url is None
    assert default.said.endswith(
        "regrow.db needs SQLAlchemy. Install the extra 'sql': in a clone of regrow, pip install '.[sql]'"
    )
    assert (asked.url, asked.durability, asked.said) == ("sqlite:///x.db", "power", "")


# -- going on --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("store", [(), ("--store", "sqlite:///mine.db", "--durability", "power")])
def test_a_run_that_was_killed_goes_on_with_resume_and_does_nothing_twice(
    program: Path, store: tuple[str, ...]
) -> None:
    kill_half_way(program, *store)
    ran = run(program, "--resume", *store)

    assert ran.returncode == 0, ran.stderr
    assert "task t: do it well: done already, not done again: a" in ran.stdout.splitlines()
    assert "a runs" not in ran.stdout
    assert "b runs" in ran.stdout
    assert "\nmain" not in ran.stdout
    assert '\noutput of task t:\n{\n  "a": "one",\n  "b": "two"\n}\n' in ran.stdout
    assert re.search(r"└─ b +b +succeeded +after a", ran.stdout)


@pytest.mark.slow
def test_without_resume_what_is_unfinished_goes_on_beside_main(program: Path) -> None:
    kill_half_way(program)
    ran = run(program, "--input", "id=other")
    left = run(program, "--resume")

    assert ran.returncode == 0, ran.stderr
    assert "p: 1 unfinished task of an earlier run goes on" in ran.stdout.splitlines()
    assert ran.stdout.count("a runs") == 1
    assert ran.stdout.count("b runs") == 2
    assert "main {'a': 'one', 'b': 'two'}" in ran.stdout
    assert left.returncode == 0
    assert "a runs" not in left.stdout


@pytest.mark.slow
def test_ctrl_c_leaves_what_is_unfinished_for_the_next_run(program: Path) -> None:
    with held(program) as process:
        process.send_signal(signal.SIGINT)
        shown, _ = process.communicate(timeout=WAIT_S)
    ran = run(program, "--resume")

    assert process.returncode == 0
    assert "p: stopping" in shown
    assert "done already, not done again: " in ran.stdout


# -- who may use it --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_process_is_refused_with_who_has_the_store(program: Path) -> None:
    with held(program) as process:
        refused = run(program)
        process.kill()
        process.communicate(timeout=WAIT_S)

    assert refused.returncode == 1
    assert f"'p' is in use by {os.uname().nodename}, process {process.pid}." in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
def test_a_store_that_is_taken_over_is_exit_code_5_and_said(program: Path) -> None:
    with held(program) as process:
        with Database(f"sqlite:///{program.parent / 'regrow.db'}").transaction() as connection:
            take_token(connection, "p", "somebody else")
        _, errors = process.communicate(timeout=WAIT_S)

    assert process.returncode == 5
    assert "somebody else has taken over 'p'" in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("--resume", "--store", "memory:"), 2, "--store memory: keeps nothing that could be resumed"),
        (("--durability", "much"), 2, "'much' is none of process, power"),
        (("--store", "mysql://me@here/db"), 1, "is not a known kind of store. Use sqlite:///FILE or postgresql://"),
        (("--store", "sqlite:///no/such/folder/x.db"), 1, "Check that its directory exists"),
    ],
)
def test_a_store_that_cannot_be_used_is_said_to_be_so(
    program: Path, args: tuple[str, ...], code: int, said: str
) -> None:
    ran = run(program, *args)

    assert ran.returncode == code
    assert said in " ".join(ran.stderr.replace("│", "").split())
    assert "Traceback" not in ran.stderr
