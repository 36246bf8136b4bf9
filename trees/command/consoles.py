"""Finding the tree that a command is about: by its process, or by its socket."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trees.host.console import ConsoleError, ConsoleGoneError, ConsoleSource, find, open_consoles
from trees.host.console.protocol import LONGEST_ID, root_of
from trees.observe.source import SourceError

_RUNS_SO: Final = (
    "It must run as you, with 'regrow run' or start(..., console=True), and with the same XDG_RUNTIME_DIR."
)


def open_here() -> str:
    """Say whose trees can be looked at."""
    return f"Open here: {', '.join(open_consoles()) or 'none'}."


def only_process() -> int:
    """The process whose trees can be looked at, where there is one.

    Raises:
        ConsoleError: there is none, or several.
    """
    found = {int(each.partition(" ")[0]) for each in open_consoles()}
    if len(found) == 1:
        return found.pop()
    what = "has several programs with an open console" if found else "has no program with an open console"
    raise ConsoleError("this machine", what, f"Say which with --pid PID. {open_here()}" if found else _RUNS_SO)


def sockets_of(pid: int) -> list[Path]:
    """The sockets of a process, one for each of its trees.

    Raises:
        ConsoleGoneError: it has none.
    """
    sockets = find(pid)
    if not sockets:
        raise ConsoleGoneError(f"process {pid}", "has no open console", f"{_RUNS_SO} {open_here()}")
    return sockets


def the_socket(pid: int | None, root: str | None) -> Path:
    """The socket of one tree of a process; None: of the only one there is.

    Raises:
        ConsoleError: it has none, or several and the name of the root does not say which.
    """
    pid = only_process() if pid is None else pid
    sockets = sockets_of(pid)
    roots = {each: _root(each) for each in sockets} if len(sockets) > 1 or root is not None else {}
    found = [each for each in sockets if root is None or roots[each] == root]
    if len(found) == 1:
        return found[0]
    names = ", ".join(roots.values())
    what = f"has no tree {root!r}" if root is not None and not found else "has several trees"
    raise ConsoleError(f"process {pid}", what, f"Say which with --root: {names}.")


def _root(socket: Path) -> str:
    """Id of the root behind a socket; where its name may have cut it, and the tree does not answer, what is left."""
    name = root_of(socket)
    if len(name) < LONGEST_ID:
        return name
    try:
        return str(ConsoleSource(socket).snapshot(limit=1)["name"])
    except SourceError:
        return name
