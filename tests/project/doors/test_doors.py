"""The doors stay open: each of these changes is made on a copy of the packages, in few files, and works end to end."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.doors.changes import CHANGES, Change
from tests.support.sizes import only_in_all

pytestmark = pytest.mark.always

ROOT = Path(__file__).parents[3]
PROOFS = Path(__file__).parent / "proofs"
PATIENCE_S = 120.0


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the packages, with what Python has compiled of them."""
    for package in ("actors", "trees"):
        shutil.copytree(ROOT / package, tmp_path / package)
    return tmp_path


BEGINS = """
import os, runpy, sys
import actors, trees
house, proofs, *names = sys.argv[1:]
assert house in actors.__file__ and house in trees.__file__
del sys.argv[1:]
"""
ALONE = f"""{BEGINS}
runpy.run_path(f"{{proofs}}/{{names[0]}}.py", run_name="__main__")
"""
TOGETHER = f"""{BEGINS}
import pytest
for name in names:
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        os.mkdir(name)
        os.chdir(name)
        runpy.run_path(f"{{proofs}}/{{name}}.py", run_name="__main__")
        sys.exit()
    print(name, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def _proved(house: Path, change: Change) -> subprocess.CompletedProcess[str]:
    """Run the proof of a change on a copy."""
    return _run(house, ALONE, [change.proof])


def _run(house: Path, text: str, names: list[str]) -> subprocess.CompletedProcess[str]:
    """Run proofs on a copy; the tests' own support comes from here, ``actors`` and ``trees`` do not."""
    place = house / "run"
    place.mkdir()
    program = place / "proof.py"
    program.write_text(text, encoding="utf-8")
    path = os.pathsep.join([str(house), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, str(program), str(house), str(PROOFS), *names],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("change", CHANGES, ids=[change.name for change in CHANGES])
def test_a_change_costs_few_files(change: Change) -> None:
    assert len(change.files) <= change.most_files


def test_all_changes_work_together(house: Path) -> None:
    """On one copy, imported once: each proof runs in a fork of that process."""
    for change in CHANGES:
        change.make(house)

    done = _run(house, TOGETHER, [change.proof for change in CHANGES])

    assert done.returncode == 0, done.stderr[-4000:]
    said = [line for change in CHANGES for line in ("works", f"{change.proof} 0")]
    assert done.stdout.splitlines()[-len(said) :] == said, done.stderr[-4000:]


@only_in_all
@pytest.mark.parametrize("change", CHANGES, ids=[change.name for change in CHANGES])
def test_a_change_works_by_itself(house: Path, change: Change) -> None:
    change.make(house)

    done = _proved(house, change)

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1:] == ["works"]


@only_in_all
@pytest.mark.parametrize("change", CHANGES, ids=[change.name for change in CHANGES])
def test_without_the_change_its_proof_fails(house: Path, change: Change) -> None:
    done = _proved(house, change)

    assert done.returncode != 0
    assert "works" not in done.stdout


def test_the_page_that_says_where_a_change_goes_names_these_changes_and_files_that_exist() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    table = page.partition("| to add | write |")[2].split("\n\n")[0]
    rows = {row.split("|")[1].strip(): row for row in table.splitlines()[2:]}

    assert list(rows) == [change.name for change in CHANGES]
    for row in rows.values():
        named = re.findall(r"`((?:actors|trees|tests)/[A-Za-z_/]+\.py)`", row)
        assert named, row
        assert all(list(ROOT.glob(file.replace("NAME", "*"))) for file in named), named
