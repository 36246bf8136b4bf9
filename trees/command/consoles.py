"""Finding the tree that a command is about: by its process, or by its socket."""

from __future__ import annotations

from pathlib import Path

from trees.host.console import ConsoleError, ConsoleGoneError, ConsoleSource, find, open_consoles
from trees.host.console.place import LONGEST_ID, root_of
from trees.observe.source import SourceError


def open_here() -> str:
    """Say whose trees can be looked at."""
    return f"Open here: {', '.join(open_consoles()) or 'none'}."


def sockets_of(pid: int) -> list[Path]:
    """The sockets of a process, one for each of its trees.

    Raises:
        ConsoleGoneError: it has none.
    """
    sockets = find(pid)
    if not sockets:
        hint = "It must run as you, with 'regrow run' or start(..., console=True), and with the same XDG_RUNTIME_DIR."
        raise ConsoleGoneError(f"process {pid}", "has no open console", f"{hint} {open_here()}")
    return sockets


def the_socket(pid: int, root: str | None) -> Path:
    """The socket of one tree of a process.

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
