"""Each rule in the table of a folder page names tests that show it, and each of these is there."""

import ast
import functools
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGES = {"actors/dispatch/README.md": 50, "trees/observe/README.md": 35}
"""Each page, and how many rules it has at least."""
HEADING = "## What holds, and the tests that show it"


def rules(page: str) -> list[list[str]]:
    """The rows of the table of a page: number, rule, tests."""
    table = (TESTS.parent / page).read_text(encoding="utf-8").partition(HEADING)[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    return rows[2:]


def faults(tests: str) -> list[str]:
    """What is wrong with the tests that a rule names."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", tests)
    return [f"{file}::{name}" for file, name in named if name not in _functions(TESTS / file)] or [""] * (not named)


@functools.cache
def _functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.exists() else ast.Module([], [])
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("page", PAGES)
def test_each_rule_names_tests_that_are_there(page: str) -> None:
    wrong = {rule: found for _, rule, tests in rules(page) if (found := faults(tests))}
    assert not wrong
    assert len(rules(page)) > PAGES[page]


@pytest.mark.parametrize("page", PAGES)
def test_the_rules_are_numbered_in_order(page: str) -> None:
    numbers = [tuple(map(int, number.split("."))) for number, _, _ in rules(page) if number]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("tests", ["", "`no/file.py::test_it`", "`project/test_rules_have_tests.py::test_nothing`"])
def test_a_rule_without_a_test_is_found(tests: str) -> None:
    assert faults(tests)
