"""Where the sockets of this user's trees are: ``<pid>-<root id>-<n>.sock`` in a folder that nobody else may look into.

The folder is ``$XDG_RUNTIME_DIR/regrow``, or ``regrow-<uid>`` in the folder for temporary files; its mode is 0700.
"""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Final

from actors.validation.validation_messages import PlacedError

LONGEST_ID: Final = 32
_KNOCK_S: Final = 0.5


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
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.lstat()
    except OSError as error:
        hint = "Point XDG_RUNTIME_DIR to a folder of your own."
        raise ConsoleError(
            str(place), f"the folder for sockets cannot be made ({type(error).__name__})", hint
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        hint = "Remove it, or point XDG_RUNTIME_DIR to a folder of your own."
        raise ConsoleError(str(place), "the folder for sockets is not yours alone (owner, or mode 0700)", hint)
    return place


def find(pid: int) -> list[Path]:
    """The sockets of the trees that a process has opened, in the order in which it did."""
    found = folder().glob(f"{pid}-*.sock")
    return sorted((path for path in found if not _is_stale(path)), key=lambda path: int(path.stem.rpartition("-")[2]))


def root_of(path: Path) -> str:
    """Id of the root behind a socket, as its name has it: cut where it is long."""
    return path.stem.rpartition("-")[0].partition("-")[2]


def open_consoles() -> list[str]:
    """Return the processes whose trees can be looked at, each as ``4711 (shop)``."""
    found = [path for path in folder().glob("*.sock") if not _is_stale(path)]
    return sorted({f"{path.stem.partition('-')[0]} ({root_of(path)})" for path in found})


def sweep(place: Path) -> None:
    """Remove the sockets that processes left behind which were killed."""
    for path in place.glob("*.sock"):
        if _is_stale(path):
            path.unlink(missing_ok=True)


def _is_stale(path: Path) -> bool:
    """True where nobody listens any more. A process id says too little: it may be of another container, or reused."""
    with socket.socket(socket.AF_UNIX) as knock:
        knock.settimeout(_KNOCK_S)
        try:
            knock.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:  # too busy to answer: alive
            return False
    return False
