"""Language of the console, version 1: lines of JSON, one request on each connection.

A request is ``{"version": 1, "do": NAME, "given": {...}}``. ``CALLS`` has the names: the methods of a ``Source`` with
their arguments, and ``dump`` with those of ``Tree.dump``. The answer is one line, and then the connection ends:
``{"version": 1, "answer": {...}}`` or ``{"version": 1, "error": "one sentence", "status": 404}``. ``subscribe`` alone
is answered by many lines, until one side ends it: ``{"version": 1, "event": {...}}`` for each event,
``{"version": 1, "lost": 7}`` in the place of those that a slow caller has lost, and ``{"version": 1, "ended": "..."}``
as the last one where the tree has ended.

Only the owner of a tree can say anything here. So a request is checked against another version of regrow, and no more:
one that is wrong otherwise fails where it is carried out.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from trees.observe.source import Shape, SourceError
from trees.views.snapshot import Only
from trees.views.tree_text import Format

PROTOCOL: Final = 1
ACTS: Final = ("cancel", "answer", "act")
"""Calls that change something: they are told who calls (``by``)."""
CALLS: Final = ("dump", "snapshot", "child", "stack", "tasks", "task", "questions", "subscribe", *ACTS)
SAME: Final = "Use the regrow of the same version."


class ConsoleRequest(NamedTuple):
    """Arguments of a dump: what is to be seen."""

    format: Format = "text"
    path: str | None = None
    """None: the whole tree."""
    stacks: bool = False
    verbose: bool = False
    only: Only | None = None
    depth: int | None = None


def line_of(**said: Any) -> bytes:
    """Return a line that says this. What JSON has no form for is its text, a set a list."""

    def form(value: object) -> object:
        return list(value) if isinstance(value, (set, frozenset)) else str(value)

    return json.dumps({"version": PROTOCOL, **said}, default=form).encode() + b"\n"


def read_line(line: bytes) -> Shape:
    """Return what a line says.

    Raises:
        ValueError: it is none of this version.
    """
    said: object = json.loads(line)
    if not isinstance(said, dict) or said.get("version") != PROTOCOL:
        raise ValueError("another version")
    return said


def read_request(line: bytes) -> tuple[str, Shape]:
    """Return what a line asks for, with its arguments.

    Raises:
        SourceError: the line is no request; says why.
    """
    try:
        request = read_line(line)
    except ValueError:
        text = f"the console does not understand the request: it speaks version {PROTOCOL}. {SAME}"
        raise SourceError(400, text) from None
    do = request.get("do")
    if do not in CALLS:
        raise SourceError(400, f"the console cannot do that: it knows {', '.join(CALLS)}.")
    return do, request.get("given", {})
