"""Language of the console, version 1: lines of JSON, one request on each connection.

A request is ``{"version": 1, "do": NAME, "given": {...}}``. ``CALLS`` has the names: the methods of a ``Source`` with
their arguments, and ``dump`` with those of ``Tree.dump``. The answer is one line, and then the connection ends:
``{"version": 1, "answer": {...}}`` or ``{"version": 1, "error": "one sentence", "status": 404}``. ``subscribe`` alone
is followed by more lines, until one side ends it: ``{"version": 1, "event": {...}}`` for each event. The tree ends it
where it ends itself.

Only the owner of a tree can say anything here. So a request is checked against another version of regrow, and no more:
one that is wrong otherwise fails where it is carried out.

The sockets of this user's trees are ``<pid>-<root id>-<n>.sock`` in a folder that nobody else may look into:
``$XDG_RUNTIME_DIR/regrow``, or ``regrow-<uid>`` in the folder for temporary files. Its mode is 0700.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors.validation.validation_messages import PlacedError
from trees.observe.source import Shape, SourceError
from trees.views.snapshot import Only
from trees.views.tree_text import Format

PROTOCOL: Final = 1
CALLS: Final = (
    "dump", "snapshot", "child", "stack", "tasks", "task", "questions", "subscribe", "cancel", "answer", "act",
)  # fmt: skip
LONGEST_ID: Final = 32


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
        what = f"the console does not understand the request: it speaks version {PROTOCOL}"
        raise SourceError(400, f"{what}. Use the regrow of the same version.") from None
    do = request.get("do")
    if do not in CALLS:
        raise SourceError(400, f"the console cannot do that: it knows {', '.join(CALLS)}.")
    return do, request.get("given", {})


class ConsoleError(PlacedError):
    """A console could not be opened, found or asked."""


class ConsoleGoneError(ConsoleError):
    """Absence of a console: its tree has ended, or never had one. Any other error may be over at the next look."""


def folder() -> Path:
    """The folder of this user's sockets; it is made where there is none.

    Raises:
        ConsoleError: it cannot be made, or others may look into it.
    """
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    place = Path(given, "regrow") if given else Path(tempfile.gettempdir(), f"regrow-{os.getuid()}")
    hint = "Remove it, or point XDG_RUNTIME_DIR to a folder of your own."
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.lstat()
    except OSError as error:
        what = f"the folder for sockets cannot be made ({type(error).__name__})"
        raise ConsoleError(str(place), what, hint) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConsoleError(str(place), "the folder for sockets is not yours alone (owner, or mode 0700)", hint)
    return place


def find(pid: int | None = None) -> list[Path]:
    """The sockets of the trees that a process has opened, in the order in which it did; None: of all processes."""
    found = folder().glob(f"{'*' if pid is None else pid}-*.sock")
    return sorted((path for path in found if not _is_stale(path)), key=lambda path: int(path.stem.rpartition("-")[2]))


def pid_of(path: Path) -> int:
    """Process of the tree behind a socket."""
    return int(path.stem.partition("-")[0])


def root_of(path: Path) -> str:
    """Id of the root behind a socket, as its name has it: cut where it is long."""
    return path.stem.rpartition("-")[0].partition("-")[2]


def sweep(place: Path) -> None:
    """Remove the sockets that processes left behind which were killed."""
    for path in place.glob("*.sock"):
        if _is_stale(path):
            path.unlink(missing_ok=True)


def _is_stale(path: Path) -> bool:
    """True where nobody listens any more. A process id says too little: it may be of another container, or reused."""
    with socket.socket(socket.AF_UNIX) as knock:
        knock.settimeout(0)
        try:
            knock.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:  # too busy to answer: alive
            return False
    return False
