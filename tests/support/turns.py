"""Chooses which of the costly tests a run takes: another part for each state of the sources, so all have their turn.

One function in six needs four fifths of the work of all tests. ``tests/data/costs.txt`` names those functions, with
the seconds of CPU time that all rows of each need. A run of everything takes all other tests, and of the costly ones as
many as its budget has room for, in an order that a digest of the sources decides: the same sources are tested in the
same way again, and a change of a line brings others. Those that are marked ``always`` have no turn: ``.ci/run`` takes
them each time.

``REGROW_TESTS=all`` takes all of them, and so does a run of named folders or files. ``REGROW_TURN`` names a turn, as
the head of a run shows it. ``REGROW_TESTS=most python -m pytest --costs`` measures, and writes the file anew.
"""

from __future__ import annotations

import collections
import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support import sizes

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "tests" / "data" / "costs.txt"
LEAST_S: Final = 0.15
"""A function that needs less is no costly one."""
BUDGETS_S: Final = {"sample": 5.0, "most": 35.0, "all": math.inf}
"""Seconds of CPU time for costly tests in a run, but for those that are taken always."""
ALWAYS: Final = "always"
SOURCES: Final = ("actors", "trees", "tests", "examples")


def function_of(nodeid: str) -> str:
    """Return the name of the function of which a test is a row."""
    return nodeid.partition("[")[0]


def read(file: Path) -> dict[str, float]:
    """Return the costly functions, each with its seconds."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return {name: float(seconds) for seconds, _, name in (line.partition(" ") for line in lines)}


def write(spent: Mapping[str, float], file: Path) -> None:
    """Keep the costly ones of these tests, whose names are those of their rows."""
    total: dict[str, float] = collections.defaultdict(float)
    for nodeid, seconds in spent.items():
        total[function_of(nodeid)] += seconds
    costly = sorted(name for name, seconds in total.items() if seconds >= LEAST_S)
    file.write_text("".join(f"{total[name]:.1f} {name}\n" for name in costly), encoding="utf-8")


def turn() -> str:
    """Return the turn of these sources."""
    named = os.environ.get("REGROW_TURN")
    if named:
        return named
    digest = hashlib.sha256()
    for place in sorted(place for folder in SOURCES for place in (ROOT / folder).rglob("*.py")):
        digest.update(place.relative_to(ROOT).as_posix().encode() + b"\0" + place.read_bytes())
    return digest.hexdigest()[:8]


@dataclass(frozen=True)
class Choice:
    """The costly functions of a run."""

    turn: str
    """What decided their order."""
    taken: frozenset[str]
    left: frozenset[str]

    def __str__(self) -> str:
        of = len(self.taken) + len(self.left)
        return f"costly tests: {len(self.taken)} of {of} functions, in turn {self.turn} (REGROW_TURN, REGROW_TESTS=all)"


def choose(costs: Mapping[str, float], always: Iterable[str], budget_s: float, turn_: str) -> Choice:
    """Return those that are taken always, and others in the order of the turn as long as the budget has room."""
    first = frozenset(always) & frozenset(costs)
    order = sorted(costs.keys() - first, key=lambda name: hashlib.sha256(f"{turn_} {name}".encode()).digest())
    taken = first | frozenset(_within(budget_s, order, costs))
    return Choice(turn_, taken, frozenset(costs) - taken)


def _within(budget_s: float, order: Iterable[str], costs: Mapping[str, float]) -> Iterator[str]:
    for name in order:
        if costs[name] <= budget_s:
            budget_s -= costs[name]
            yield name


def apply(items: list[pytest.Item]) -> tuple[Choice, list[pytest.Item]]:
    """Take the tests of a run of everything out of those that were collected.

    Returns:
        What was chosen, and the tests that are left out.
    """
    always = [item for item in items if sizes.MOST and item.get_closest_marker(ALWAYS) is not None]
    choice = choose(read(FILE), (function_of(item.nodeid) for item in always), BUDGETS_S[sizes.LEVEL], turn())
    taken: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (left if function_of(item.nodeid) in choice.left else taken).append(item)
    items[:] = taken
    return choice, left
