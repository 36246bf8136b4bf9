"""Which of the costly tests a run takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.test_lanes import run
from tests.support import turns
from tests.support.turns import choose

COSTS = {f"test_it.py::test_{n}": 1.0 + n for n in range(20)}
PROGRAM = """
import pytest


@pytest.mark.parametrize("n", range(3))
def test_costly(n): pass


@pytest.mark.always
def test_promised(): pass


def test_of_a_second(): pass


def test_light(): pass
"""
WITH_COSTS = """
from tests.support import sizes, turns

turns.FILE = pathlib.Path(__file__).parent / "costs.txt"
turns.BUDGETS_S = {sizes.LEVEL: 1.5}
sizes.MOST = %s


def pytest_configure(config):
    config.args_source = pytest.Config.ArgsSource.%s
"""


def test_every_name_in_the_file_of_costs_is_that_of_a_test() -> None:
    names = turns.read(turns.FILE)

    assert names
    for name in names:
        file, *_, function = name.split("::")
        source = (turns.ROOT / file).read_text(encoding="utf-8")
        assert f"def {function}(" in source or f"{name.split('::')[1]} = " in source, (
            f"measure again, with --costs: {name}"
        )


def test_a_turn_takes_what_its_budget_has_room_for_and_is_the_same_again() -> None:
    choice = choose(COSTS, ["test_it.py::test_19", "no costly one"], 25.0, "one")

    assert choice == choose(COSTS, ["test_it.py::test_19"], 25.0, "one")
    assert "test_it.py::test_19" in choice.taken
    assert choice.taken | choice.left == COSTS.keys()
    spent = sum(COSTS[name] for name in choice.taken - {"test_it.py::test_19"})
    assert 20.0 <= spent <= 25.0
    assert choose(COSTS, [], float("inf"), "one").left == frozenset()


def test_everything_that_a_budget_has_room_for_has_its_turn() -> None:
    choices = [choose(COSTS, [], 20.0, str(turn)).taken for turn in range(200)]

    assert frozenset().union(*choices) == COSTS.keys()


def test_the_turn_of_the_same_sources_is_the_same_and_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGROW_TURN", raising=False)
    own = turns.turn()
    assert own == turns.turn()

    monkeypatch.setenv("REGROW_TURN", "mine")
    assert turns.turn() == "mine"


@pytest.mark.parametrize(
    ("is_most", "source", "passed", "deselected"),
    [(True, "TESTPATHS", 3, 3), (False, "TESTPATHS", 2, 4), (True, "ARGS", 6, 0)],
    ids=["as in .ci/run", "a sample", "named"],
)
def test_a_run_of_everything_leaves_out_what_has_no_turn(
    tmp_path: Path, *, is_most: bool, source: str, passed: int, deselected: int
) -> None:
    costs = {"test_costly": 30.0, "test_promised": 20.0, "test_of_a_second": 1.0}
    (tmp_path / "costs.txt").write_text("".join(f"{costs[name]} test_it.py::{name}\n" for name in costs))

    done = run(tmp_path, PROGRAM, "-n", "2", more="import pathlib\n" + WITH_COSTS % (is_most, source))

    assert f"{passed} passed" in done.stdout, done.stdout
    assert (f"{deselected} deselected" in done.stdout) == bool(deselected)
    assert ("costly tests: " in done.stdout) == bool(deselected)


MEASURING = """
import pathlib
from tests.support import turns
from tests.support.costs import Costs

turns.FILE = pathlib.Path(__file__).parent / "costs.txt"


def pytest_configure(config):
    config.pluginmanager.register(Costs())
"""


def test_costs_are_measured_and_the_costly_ones_kept(tmp_path: Path) -> None:
    program = """
import time

def test_busy():
    end = time.thread_time() + 0.6
    while time.thread_time() < end: pass

def test_light(): pass
"""
    done = run(tmp_path, program, "-n", "2", more=MEASURING)

    assert "2 passed" in done.stdout, done.stdout
    measured = turns.read(tmp_path / "costs.txt")
    assert list(measured) == ["test_it.py::test_busy"]
    assert 0.6 <= measured["test_it.py::test_busy"] < 20.0


def test_what_part_of_the_tests_costs_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "costs.txt").write_text("9.0 test_it.py::test_costly\n")

    named = run(tmp_path, PROGRAM, "--costs", "-n", "0", more=MEASURING)
    assert named.returncode == pytest.ExitCode.USAGE_ERROR, named.stdout
    assert "--costs with names of folders or tests" in named.stdout + named.stderr
    ended = run(tmp_path, "def test_fails(): assert False\n" + PROGRAM, "-x", "-n", "0", more=MEASURING)
    assert "1 failed" in ended.stdout, ended.stdout

    assert turns.read(tmp_path / "costs.txt") == {"test_it.py::test_costly": 9.0}
