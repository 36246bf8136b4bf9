"""The benchmarks run, and judge rightly. What they measure is not asserted here: the machine may be busy."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.__main__ import SUITES
from tests.bench.table import (
    BELOW,
    OK,
    UNJUDGED,
    WISH,
    Measure,
    compare,
    count,
    limit,
    seconds,
)
from tests.support.programs import ran

ROOT = Path(__file__).parents[2]
BENCH_S = 240
"""Seconds that a bench may take on a busy machine; half a minute is plenty on an idle one."""


@pytest.mark.slow
def test_one_benchmark_can_be_chosen() -> None:
    done = _bench("core", "--quick", "--only", "tell")

    assert done.returncode == 0, done.stderr
    assert "tell and handle" in done.stdout
    assert "crash to next reply" not in done.stdout


@pytest.mark.slow
def test_a_benchmark_that_does_not_exist_is_refused_with_those_that_do() -> None:
    done = _refused("core", "--only", "tall")

    assert done.returncode == 2
    assert all(name in done.stderr for name in SUITES["core"])


@pytest.mark.slow
def test_a_benchmark_of_another_suite_is_refused() -> None:
    done = _refused("tasks", "--quick", "--only", "tell")

    assert done.returncode == 2
    assert all(name in done.stderr for name in SUITES["tasks"])


def test_a_ratio_is_the_median_over_pairs_of_neighbours() -> None:
    order: list[str] = []
    ours, raw = _costs(order, "A", 1.0, 2.0, 4.0), _costs(order, "B", 3.0, 12.0, 16.0)

    row = compare("row", ours, raw, pairs=3, show=seconds, floor=3.0, wish=5.0)

    assert order == ["A", "B"] * 3
    assert row.cells() == ("row", "2.00 s", "12.00 s", "4.0x (3.0..6.0)", ">= 3x", ">= 5x", OK)


@pytest.mark.parametrize(
    ("most", "wish", "verdict"), [(None, None, UNJUDGED), (9, 5, BELOW), (10, 5, OK), (10, None, OK), (20, 10, WISH)]
)
def test_a_cost_of_ten_is_judged_by_what_it_may_be_at_most(
    most: float | None, wish: float | None, verdict: str
) -> None:
    row = limit("row", 10, show=count, floor=most, wish=wish)

    assert row.verdict == verdict


def _costs(order: list[str], name: str, *costs: float) -> Measure:
    left = itertools.chain(costs)

    def measure() -> float:
        order.append(name)
        return next(left)

    return measure


def _refused(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it where nothing is measured."""
    return ran("-m", "tests.bench", *arguments, cwd=ROOT, timeout=BENCH_S)


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BENCH_S,
        check=False,
    )
