"""The table in the README says what is proved: no cell without a test, no test without a cell, the same words."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from tests.support import readme
from tests.survival import cells
from tests.survival.cells import CELLS, COLUMNS, HEADING, MEMORY, ROWS, cell, table

PAGE = f"""
{HEADING}

| what happens | memory | SQLite |
|---|---|---|
| it rains | nothing | all; it | waits |
"""


def proved() -> dict[tuple[str, str], str]:
    """What the tests of this folder say, all of them loaded."""
    for file in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(f"{__package__}.{file.stem}")
    return {place: each.says for place, each in CELLS.items()}


def test_the_table_says_what_the_tests_prove_and_nothing_else() -> None:
    said = table((readme.ROOT / "trees/store/README.md").read_text(encoding="utf-8"))

    assert said == proved()
    assert list(said) == [(row, column) for row in ROWS for column in COLUMNS]


def test_each_cell_has_a_test_that_is_found_and_run_for_it() -> None:
    proved()
    for (row, column), each in CELLS.items():
        test = each.test
        assert test.__name__.startswith("test_"), (row, column)
        assert inspect.getattr_static(inspect.getmodule(test), test.__name__) is test, (row, column)
        runs = [mark.args for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        names = {value for name, values in runs if name == "column" for value in values}
        assert not names or column in names, (row, column)


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        (PAGE.replace(HEADING, "## Else"), "no section"),
        (f"\n{HEADING}\n\nWords.\n\n## Next\n| a | b |\n|---|---|\n| c | d |\n", "no table"),
        (PAGE, "longer"),
        (PAGE.replace("| waits", "").replace("nothing |", ""), "shorter"),
    ],
)
def test_a_page_without_the_table_or_with_a_crooked_one_is_an_error(page: str, wrong: str) -> None:
    with pytest.raises((LookupError, ValueError), match=wrong):
        table(page)


def test_the_cells_of_a_table_are_found_by_row_and_column() -> None:
    page = PAGE.replace("all; it | waits", r"all; it \| waits")

    assert table(page) == {("it rains", "memory"): "nothing", ("it rains", "SQLite"): r"all; it \| waits"}


def test_a_cell_has_one_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "CELLS", {})
    cell("it rains", MEMORY, says="nothing")(test_a_cell_has_one_test)

    with pytest.raises(ValueError, match="has a test already: test_a_cell_has_one_test"):
        cell("it rains", MEMORY, says="all")(proved)
