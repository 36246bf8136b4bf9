"""What the README's table says of each fault, by the test that brings it about.

``@cell(row, column, says=...)`` makes a test the proof of one cell, or of several that say the same: then it is run
once for each, with ``column``. ``tests/survival/test_table.py`` compares all of them with the README.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

HEADING = "## What survives what"
MEMORY, SQLITE, POSTGRES, STANDBY = "memory", "SQLite", "PostgreSQL", "with `ha=HA()`"
COLUMNS = (MEMORY, SQLITE, POSTGRES, STANDBY)
WORKER, ORCHESTRATOR, SUPERVISOR = "a worker crashes", "the orchestrator crashes", "a supervisor restarts"
KILLED, POWER, FROZEN = "the process is killed (`kill -9`)", "the power is cut", "the process is frozen (`SIGSTOP`)"
FULL, UNREACHABLE = "the disk is full", "the store is locked or unreachable"
ROWS = (WORKER, ORCHESTRATOR, SUPERVISOR, KILLED, POWER, FULL, UNREACHABLE, FROZEN)
TestT = TypeVar("TestT", bound=Callable[..., Any])


@dataclass(frozen=True)
class Cell:
    """What one cell says, and what shows that it is so."""

    says: str
    test: Callable[..., Any]


CELLS: dict[tuple[str, str], Cell] = {}
"""By row and column."""


def cell(row: str, *columns: str, says: str) -> Callable[[TestT], TestT]:
    """This test is what stands behind these cells."""

    def register(test: TestT) -> TestT:
        for column in columns:
            if (row, column) in CELLS and CELLS[row, column].test.__qualname__ != test.__qualname__:
                raise ValueError(f"{row!r} {column!r} has a test already: {CELLS[row, column].test.__name__}")
            CELLS[row, column] = Cell(says, test)
        return pytest.mark.parametrize("column", columns)(test) if len(columns) > 1 else test

    return register


def table(page: str) -> dict[tuple[str, str], str]:
    """The table of a page, by row and column.

    Raises:
        LookupError: there is none.
        ValueError: a row has more or fewer cells than the head.
    """
    _, found, rest = page.partition(f"\n{HEADING}\n")
    if not found:
        raise LookupError(f"no section {HEADING!r}")
    section = rest.partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    if not lines:
        raise LookupError(f"no table in the section {HEADING!r}")
    (_, *columns), (*_,), *rows = ([each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    cells: dict[tuple[str, str], str] = {}
    for row, *said in rows:
        cells |= {(row, column): text for column, text in zip(columns, said, strict=True)}
    return cells
