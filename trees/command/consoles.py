"""Finding the tree that a command is about: by its process, or by its socket."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trees.host.console import LONGEST_ID, ConsoleError, ConsoleGoneError, ConsoleSource, find, pid_of, root_of
from trees.observe.source import SourceError

_RUNS_SO: Final = (
    "It must run as you, with 'regrow run' or start(..., console=True), and with the same XDG_RUNTIME_DIR."
)


def open_here() -> str:
    """Say whose trees can be looked at."""
    found = sorted({f"{pid_of(path)} ({root_of(path)})" for path in find()})
    return f"Open here: {', '.join(found) or 'none'}."


def sockets_of(pid: int | None) -> list[Path]:
    """The sockets of a process, one for each of its trees; None: of the only process that has any.

    Raises:
        ConsoleError: there are several processes.
        ConsoleGoneError: there are no sockets.
    """
    sockets = find(pid)
    if len({pid_of(path) for path in sockets}) > 1:
        what = "has several programs with an open console"
        raise ConsoleError("this machine", what, f"Say which with --pid PID. {open_here()}")
    if not sockets and pid is None:
        raise ConsoleGoneError("this machine", "has no program with an open console", _RUNS_SO)
    if not sockets:
        raise ConsoleGoneError(f"process {pid}", "has no open console", f"{_RUNS_SO} {open_here()}")
    return sockets


def the_socket(pid: int | None, root: str | None) -> Path:
    """The socket of one tree of a process; None: of the only one there is.

    Raises:
        ConsoleError: it has none, or several and the name of the root does not say which.
    """
    sockets = sockets_of(pid)
    roots = {each: _root(each) for each in sockets} if len(sockets) > 1 or root is not None else {}
    found = [each for each in sockets if root is None or roots[each] == root]
    if len(found) == 1:
        return found[0]
    names = ", ".join(roots.values())
    what = f"has no tree {root!r}" if root is not None and not found else "has several trees"
    raise ConsoleError(f"process {pid_of(sockets[0])}", what, f"Say which with --root: {names}.")


def _root(socket: Path) -> str:
    """Id of the root behind a socket; where its name may have cut it, and the tree does not answer, what is left."""
    name = root_of(socket)
    if len(name) < LONGEST_ID:
        return name
    try:
        return str(ConsoleSource(socket).snapshot(limit=1)["name"])
    except SourceError:
        return name
