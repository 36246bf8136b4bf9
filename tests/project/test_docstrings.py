"""Docstrings open with a verb or a noun: a reader who comes from a search knows what they speak of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("actors", "trees")
RIDDLES = frozenset(
    (
        *("anybody", "everybody", "nobody", "somebody", "whoever", "who", "whom", "whose", "what", "whether"),
        *("he", "she", "it", "its", "they", "them", "their", "this", "that", "these", "those", "there"),
        *("same", "so", "such", "of"),
    )
)
"""First words that stand for a noun somewhere else."""


def docstrings(code: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string that stands as a statement, with its line: of modules, classes, functions and fields."""
    for node in ast.walk(code):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield statement.lineno, value.value


def is_riddle(text: str) -> bool:
    """True where the first word needs another docstring to be understood."""
    words = [word.strip("*.,:;").lower() for word in text.split()[:2]]
    return bool(words) and (words[0] in RIDDLES or words in (["the", "same"], ["the", "other"], ["the", "one"]))


def files() -> list[str]:
    """Every file of the two packages."""
    return sorted(path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("name", files())
def test_docstrings_open_with_a_verb_or_a_noun(name: str) -> None:
    code = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    riddles = [f"{name}:{line}: {text.splitlines()[0]}" for line, text in docstrings(code) if is_riddle(text)]

    assert not riddles


@pytest.mark.parametrize("text", ["It ends.", "The same for one.", "What it does.", "Whether it runs.", "Of one task."])
def test_riddles_are_found(text: str) -> None:
    found = [line for line, each in docstrings(ast.parse(f'x = 1\n"""{text}"""')) if is_riddle(each)]

    assert found == [2]


@pytest.mark.parametrize("text", ["True if it runs.", "The root.", "End the life.", "Names of workers."])
def test_nouns_and_verbs_are_no_riddles(text: str) -> None:
    assert not is_riddle(text)
