"""Rows of text in aligned columns, with the lines of a tree before them. Pure: knows nothing of what it draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

_GAP = "   "
_CUT = "…"
_MIN_NAME = 17
"""Columns; so that a few short ids do not squeeze the picture."""


class TableRow(NamedTuple):
    """One line of a picture."""

    name: str
    """With the lines of the tree before it."""
    kind: str
    state: str
    facts: Sequence[str] = ()
    """Further facts, each by itself."""


def lines_before(prefix: str, *, last: bool) -> tuple[str, str]:
    """Prefixes of the name of a child, and of those of its own children."""
    return (prefix + "└─ ", prefix + "   ") if last else (prefix + "├─ ", prefix + "│  ")


def one_line(text: str, width: int) -> str:
    """Any text as one line of at most so many characters, with nothing in it that a terminal would obey."""
    words = " ".join(text[: 4 * width].split())
    plain = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in words)
    fits = len(plain) <= width and len(text) <= 4 * width
    return plain if fits else plain[: width - len(_CUT)].rstrip() + _CUT


def aligned(rows: Iterable[TableRow]) -> str:
    """The rows as text, each column as wide as it must be."""
    rows = list(rows)
    name = max([_MIN_NAME, *(len(row.name) for row in rows)])
    kind = max((len(row.kind) for row in rows), default=0)
    # A row that ends with its state need not make room for what others have after theirs.
    state = max((len(row.state) for row in rows if row.facts), default=0)
    return "\n".join(
        _GAP.join((row.name.ljust(name), row.kind.ljust(kind), row.state.ljust(state), *row.facts)).rstrip()
        for row in rows
    )
