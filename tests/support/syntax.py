"""The files of the library as syntax: each parsed once in a process, with its nodes by kind.

Tests that look at all files are marked ``TOGETHER``, so one process runs them: to parse all takes seconds.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

Node = TypeVar("Node", bound=ast.AST)
ROOT = Path(__file__).parents[2]
TOGETHER = pytest.mark.together("syntax")
_PARTS = ("body", "orelse", "handlers", "finalbody", "cases")
"""Fields in which a statement has others."""


def _modules() -> dict[str, str]:
    names = [
        path.relative_to(ROOT).as_posix() for package in ("actors", "trees") for path in (ROOT / package).rglob("*.py")
    ]
    return {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in names}


MODULES = _modules()
"""The file of each module of the library."""


@dataclass(frozen=True)
class Source:
    """One file of the library."""

    name: str
    """Its path from the root, with slashes: ``actors/model/spec.py``."""
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        """Its syntax. Nobody changes it."""
        return ast.parse(self.text, self.name)

    @functools.cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[Any]]:
        found: dict[type[ast.AST], list[Any]] = defaultdict(list)
        for node in ast.walk(self.tree):
            found[type(node)].append(node)
        return found

    def of(self, kind: type[Node]) -> list[Node]:
        """All nodes of exactly this kind, also inside functions."""
        return self._by_kind.get(kind, [])

    def imports(self, *, when_run: bool = False) -> Iterator[tuple[int, str]]:
        """Line and dotted name of everything it imports; ``from a import b`` gives ``a.b``.

        ``when_run`` leaves out what stands under ``if TYPE_CHECKING:``, which only names types.
        """
        return ((line, name) for line, name, is_run in self._imports if is_run or not when_run)

    @functools.cached_property
    def _imports(self) -> list[tuple[int, str, bool]]:
        return [(node.lineno, name, is_run) for node, is_run in _statements(self.tree) for name in self._names(node)]

    def _names(self, node: ast.AST) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            here = self.name.split("/")[: -node.level] if node.level else []
            module = ".".join([*here, *([node.module] if node.module else [])])
            return [f"{module}.{alias.name}" for alias in node.names]
        return []

    @functools.cached_property
    def arrows(self) -> list[tuple[str, int]]:
        """The files of the library that it imports or names in an annotation, and the line where."""
        return list(self._arrows())

    def _arrows(self) -> Iterator[tuple[str, int]]:
        for line, name in self.imports():
            for module in (name, name.rpartition(".")[0]):
                target = MODULES.get(module)
                if target is not None:
                    yield target, line
                    break

    def stands_in(self, files: dict[str, str]) -> bool:
        """True where the table names this file, or a folder around it."""
        return any(self.name == entry or (entry[-1] == "/" and self.name.startswith(entry)) for entry in files)


def _statements(tree: ast.Module) -> Iterator[tuple[Any, bool]]:
    """All statements, also inside functions; False with those that stand under ``if TYPE_CHECKING:``."""
    left: list[tuple[ast.AST, bool]] = [(tree, True)]
    while left:
        node, is_run = left.pop()
        yield node, is_run
        only_types = isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        for part in _PARTS:
            runs = is_run and not (only_types and part == "body")
            left += [(each, runs) for each in reversed(getattr(node, part, ()))]


@functools.cache
def library() -> list[Source]:
    """Every file of the two packages that is there."""
    return [Source(name, (ROOT / name).read_text(encoding="utf-8")) for name in sorted(MODULES.values())]
