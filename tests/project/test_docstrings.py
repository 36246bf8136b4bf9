"""Docstrings open with a verb or a noun: a reader who comes from a search knows what they speak of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.syntax import TOGETHER, Source, library

pytestmark = [pytest.mark.always, TOGETHER]
RIDDLES = frozenset(
    (
        *("anybody", "everybody", "nobody", "somebody", "whoever", "who", "whom", "whose", "what", "whether"),
        *("he", "she", "it", "its", "they", "them", "their", "this", "that", "these", "those", "there"),
        *("same", "so", "such", "of"),
    )
)
"""First words that stand for a noun somewhere else."""


def docstrings(file: Source) -> Iterator[tuple[int, str]]:
    """Every string that stands as a statement, with its line: of modules, classes, functions and fields."""
    for statement in file.of(ast.Expr):
        value = statement.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield statement.lineno, value.value


def is_riddle(text: str) -> bool:
    """True where the first word needs another docstring to be understood."""
    words = [word.strip("*.,:;").lower() for word in text.split()[:2]]
    return bool(words) and (words[0] in RIDDLES or words in (["the", "same"], ["the", "other"], ["the", "one"]))


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    found = [(file.name, *each) for file in library() for each in docstrings(file)]
    riddles = [f"{name}:{line}: {text.splitlines()[0]}" for name, line, text in found if is_riddle(text)]

    assert not riddles, "\n".join(["", *riddles])
    assert len(found) > 1_000


@pytest.mark.parametrize("text", ["It ends.", "The same for one.", "What it does.", "Whether it runs.", "Of one task."])
def test_riddles_are_found(text: str) -> None:
    found = [line for line, each in docstrings(Source("a.py", f'x = 1\n"""{text}"""')) if is_riddle(each)]

    assert found == [2]


@pytest.mark.parametrize("text", ["True if it runs.", "The root.", "End the life.", "Names of workers."])
def test_nouns_and_verbs_are_no_riddles(text: str) -> None:
    assert not is_riddle(text)
