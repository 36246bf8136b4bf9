"""Language of the console, version 1: lines of JSON, one request on each connection.

A request is ``{"version": 1, "do": NAME, "given": {...}}``; ``CALLS`` has the names, and what is given with each. They
are the methods of a ``Source``, and ``dump``. The answer is one line, and then the connection ends:
``{"version": 1, "answer": {...}}`` or ``{"version": 1, "error": "one sentence", "status": 404}``. ``subscribe`` alone
is answered by many lines, until one side ends it: ``{"version": 1, "event": {...}}`` for each event,
``{"version": 1, "lost": 7}`` in the place of those that a slow caller has lost, and ``{"version": 1, "ended": "..."}``
as the last one where the tree has ended.

Nothing here talks to anybody: lines become requests and answers become lines. Requests are checked strictly, and are
bounded; what is wrong with one is said in one sentence that never repeats what was given.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trees.observe.source import ROWS, TASKS, Act, AnswerWord, Shape, SourceError, Status
from trees.views.snapshot import Only
from trees.views.tree_text import Format

PROTOCOL: Final = 1
LONGEST_REQUEST: Final = 1024 * 1024
"""Bytes of a request, at most: an answer to a question may be the result of a task."""
MOST: Final = 10_000
"""Rows or tasks that one request may ask for."""
LONGEST_NAME: Final = 4096
"""Characters of a path, an id or a reason."""

Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Number = Annotated[int, Field(ge=1, le=MOST)]


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ConsoleRequest(_Given):
    """Arguments of a dump: what is to be seen."""

    format: Format = "text"
    path: Name | None = None
    """None: the whole tree."""
    stacks: bool = False
    verbose: bool = False
    only: Only | None = None
    depth: Annotated[int, Field(ge=0, le=MOST)] | None = None


class _Nothing(_Given):
    """Arguments of a call that takes none."""


class _Snapshot(_Given):
    unfold: Annotated[tuple[Name, ...], Field(max_length=MOST)] = ()
    limit: Number = ROWS
    text: Name = ""
    troubled: bool = False


class _Path(_Given):
    path: Name


class _Tasks(_Given):
    status: Name | None = None
    text: Name = ""
    limit: Number = TASKS


class _Id(_Given):
    id: Name


class _Operating(_Given):
    by: Name = ""
    """Name of whoever does it, as the process that asks knows; which process that is, the kernel says."""


class _Cancel(_Operating, _Id):
    reason: Name = ""


class _Answer(_Operating, _Id):
    answer: AnswerWord
    text: str | None = None
    value: Any = None


class _Act(_Operating, _Path):
    act: Act


CALLS: Final[dict[str, type[BaseModel]]] = {
    "dump": ConsoleRequest,
    "snapshot": _Snapshot,
    "child": _Path,
    "stack": _Path,
    "tasks": _Tasks,
    "task": _Id,
    "questions": _Nothing,
    "subscribe": _Nothing,
    "cancel": _Cancel,
    "answer": _Answer,
    "act": _Act,
}


class _Request(_Given):
    version: int
    do: Name
    given: dict[str, Any] = {}


class ConsoleReply(_Given):
    """One line of the console; exactly one of its fields beside the version and the status is not None."""

    version: Literal[1] = 1
    answer: Shape | None = None
    error: str | None = None
    status: Status | None = None
    """Kind of the error; see ``SourceError``."""
    event: Shape | None = None
    lost: int | None = None
    ended: str | None = None


def request_line(do: str, given: Shape) -> bytes:
    """A request as a line.

    Raises:
        SourceError: it is longer than a console takes, or no JSON can be made of it.
    """
    try:
        line = json.dumps({"version": PROTOCOL, "do": do, "given": given}).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise SourceError(400, f"{do}: JSON cannot be made of what is given.") from error
    if len(line) > LONGEST_REQUEST:
        raise SourceError(400, TOO_LONG)
    return line


def read_request(line: bytes) -> tuple[str, BaseModel]:
    """Return what a line asks for, with its checked arguments.

    Raises:
        SourceError: the line is no request; says why.
    """
    if len(line) > LONGEST_REQUEST:
        raise SourceError(400, TOO_LONG)
    try:
        request = _Request.model_validate_json(line)
    except ValidationError:
        raise SourceError(400, f"the console does not understand the request. {_SAME}") from None
    if request.version != PROTOCOL:
        raise SourceError(400, f"the console speaks version {PROTOCOL}, and not that of this request. {_SAME}")
    kind = CALLS.get(request.do)
    if kind is None:
        raise SourceError(400, f"the console cannot do that: it knows {', '.join(CALLS)}.")
    try:
        return request.do, kind.model_validate(request.given)
    except ValidationError as error:
        raise SourceError(400, f"{request.do}: {_first(error)}. {_SAME}") from None


def reply_line(**said: Any) -> bytes:
    """One line of an answer: ``answer=``, ``error=`` with ``status=``, ``event=``, ``lost=`` or ``ended=``."""
    return json.dumps({"version": PROTOCOL, **said}, default=str).encode() + b"\n"


def read_reply(line: bytes) -> ConsoleReply:
    """One line of an answer.

    Raises:
        ValidationError: it is none.
    """
    return ConsoleReply.model_validate_json(line)


_SAME: Final = "Use the regrow of the same version."
TOO_LONG: Final = f"the request is longer than {LONGEST_REQUEST:,} bytes."


def _first(error: ValidationError) -> str:
    """First mistake, by the name of the field: pydantic's sentence says what is allowed, and never what was given."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    known = [part for part in first["loc"] if isinstance(part, str)]
    if first["type"] == "extra_forbidden":
        return "it takes less than was given"
    return f"{'.'.join(known[:1])}: {first['msg'][:1].lower()}{first['msg'][1:]}"
