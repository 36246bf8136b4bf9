"""The console of a running tree: a unix socket through which its owner, and nobody else, asks for a dump.

Two sides, one file: ``Console`` is opened by ``start(..., console=True)`` and answers on a daemon thread of its own;
``find`` and ``ask`` are what ``regrow dump`` does. A request is one line of JSON (``ConsoleRequest``), an answer
another one (``ConsoleAnswer``), then the connection ends. Nothing can be changed through it, and it tells what
``Tree.dump`` tells.

The socket is ``<pid>-<root id>-<n>.sock``, mode 0600, in a folder of mode 0700: ``$XDG_RUNTIME_DIR/regrow``, or
``regrow-<uid>`` in the folder for temporary files. On Linux the kernel says in addition who is calling.
"""

from __future__ import annotations

import atexit
import itertools
import os
import selectors
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actors.concurrency.thread_state import after_fork, join_thread
from actors.model.errors import ActorsError
from actors.validation.validation_messages import PlacedError
from trees.views.snapshot import Only
from trees.views.tree_text import Format

PATIENCE_S = 2.0
"""How long the console waits for a caller that is slow to say, or to take, something."""
CLOSE_S = 5.0
_LONGEST_REQUEST = 64 * 1024
_LONGEST_ID = 32
_KNOCK_S = 0.5

_numbers = itertools.count()


class ConsoleError(PlacedError):
    """A console could not be opened, found or asked."""


class ConsoleRequest(BaseModel):
    """Request of a caller: what it wants to see."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format = "text"
    path: str | None = None
    """None: the whole tree."""
    stacks: bool = False
    verbose: bool = False
    only: Only | None = None
    depth: Annotated[int, Field(ge=0)] | None = None


class ConsoleAnswer(BaseModel):
    """Answer of the console: one of the two."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dump: str | None = None
    error: str | None = None


# -- where the sockets are ---------------------------------------------------------------------------------


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


def open_consoles() -> list[str]:
    """Return the processes whose trees can be looked at, each as ``4711 (shop)``."""
    found = [path.stem.rpartition("-")[0].partition("-") for path in folder().glob("*.sock") if not _is_stale(path)]
    return sorted({f"{pid} ({root})" for pid, _, root in found})


def _sweep(place: Path) -> None:
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


# -- the side of the tree ----------------------------------------------------------------------------------


class Console:
    """An open console: the socket is there from the start, answers come once ``serve`` was called."""

    def __init__(self, root: str) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise ConsoleError(root, "a console needs unix sockets, which this system lacks", "Leave out console=True.")
        place = folder()
        _sweep(place)
        self.path = place / f"{os.getpid()}-{root[:_LONGEST_ID]}-{next(_numbers)}.sock"
        self._root = root
        self._lock = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._caller: socket.socket | None = None
        self._bell, self._button = socket.socketpair()
        self._listener = socket.socket(socket.AF_UNIX)
        unheard = self.path.with_suffix(".new")  # another process sweeps away a *.sock that does not listen yet
        try:
            self._listener.bind(str(unheard))
            unheard.chmod(0o600)
            self._listener.listen()
            unheard.rename(self.path)
        except OSError as error:
            self._let_go()
            with suppress(OSError):
                unheard.unlink(missing_ok=True)
            hint = "Point XDG_RUNTIME_DIR to a folder of your own with a short path."
            raise ConsoleError(str(self.path), f"cannot be opened ({error.strerror or error})", hint) from error
        atexit.register(self._unlink)
        after_fork(self)

    def serve(self, show: Callable[[ConsoleRequest], str]) -> None:
        """Answer with what ``show(request)`` returns, or with the text of what it raises, until closed."""
        name = f"{self._root}-console"
        thread = self._thread = threading.Thread(target=self._serve, args=(show,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._thread = None
            self.close()
            raise ConsoleError(
                str(self.path), "the machine gives no thread for it", "Leave out console=True."
            ) from error

    def close(self) -> None:
        """Let go of the socket, its file and the thread; returns when they are gone. A second call changes nothing."""
        with self._lock:
            first, self._closed = not self._closed, True
            caller = self._caller
        if first:
            self._unlink()
            with suppress(OSError):
                self._button.send(b".")
            if caller is not None:
                with suppress(OSError):
                    caller.shutdown(socket.SHUT_RDWR)
        thread = self._thread
        if thread is None:
            self._let_go()
        else:
            join_thread(thread, CLOSE_S)

    def _serve(self, show: Callable[[ConsoleRequest], str]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._bell, selectors.EVENT_READ)
            while not self._closed:
                selector.select()
                if not self._closed:
                    self._let_in(show)
        self._let_go()

    def _let_in(self, show: Callable[[ConsoleRequest], str]) -> None:
        try:
            caller, _ = self._listener.accept()
        except OSError:
            return
        with caller:
            with self._lock:
                self._caller = None if self._closed else caller
            if self._caller is not None:
                # A caller that goes away, or is too slow, is its own problem.
                with suppress(OSError):
                    caller.settimeout(PATIENCE_S)
                    if _is_owner(caller):
                        caller.sendall(_answer(_line(caller), show).model_dump_json().encode() + b"\n")
            with self._lock:
                self._caller = None

    def _unlink(self) -> None:
        atexit.unregister(self._unlink)
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _let_go(self) -> None:
        for end in (self._listener, self._bell, self._button):
            end.close()

    def forked(self) -> None:
        """In the child of a fork: its copy of the socket must not keep a dead parent's console open."""
        self._closed, self._thread = True, None
        atexit.unregister(self._unlink)
        self._let_go()


def _is_owner(caller: socket.socket) -> bool:
    """True if the caller is the user that this process runs as, where the kernel tells."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True  # the folder and the file let nobody else in
    _, uid, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return bool(uid == os.geteuid())


def _line(caller: socket.socket) -> bytes:
    parts = b""
    while not parts.endswith(b"\n") and len(parts) <= _LONGEST_REQUEST:
        part = caller.recv(4096)
        if not part:
            break
        parts += part
    return parts


def _answer(line: bytes, show: Callable[[ConsoleRequest], str]) -> ConsoleAnswer:
    try:
        return ConsoleAnswer(dump=show(ConsoleRequest.model_validate_json(line)))
    except ValidationError:
        return ConsoleAnswer(error="the console does not understand the request. Use the regrow of the same version.")
    except ActorsError as error:
        return ConsoleAnswer(error=str(error))
    except Exception as error:  # noqa: BLE001 - the console outlives whatever a dump meets
        return ConsoleAnswer(error=f"the dump failed with {type(error).__name__}. Please report it.")


# -- the side of the caller --------------------------------------------------------------------------------


def ask(path: Path, request: ConsoleRequest, timeout_s: float = 30.0) -> str:
    """Return what the tree behind a socket shows.

    Raises:
        ConsoleError: nobody listens there, it does not answer, or it refused; then ``what`` is the tree's own text.
    """
    try:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(timeout_s)
            caller.connect(str(path))
            caller.sendall(request.model_dump_json().encode() + b"\n")
            with caller.makefile("rb") as answers:
                answer = ConsoleAnswer.model_validate_json(answers.readline())
    except (ConnectionRefusedError, FileNotFoundError) as error:
        hint = "The tree has ended, or was started without console=True."
        raise ConsoleError(str(path), "nobody listens there", hint) from error
    except PermissionError as error:
        raise ConsoleError(str(path), "is not yours", "Ask as the user that the program runs as.") from error
    except TimeoutError as error:
        hint = "Its process is stopped, or very busy. Try again."
        raise ConsoleError(str(path), f"no answer in {timeout_s:g} s", hint) from error
    except (OSError, ValidationError) as error:
        hint = "The tree ended meanwhile, or runs as another user, or is not a regrow tree."
        raise ConsoleError(str(path), f"no answer ({type(error).__name__})", hint) from error
    if answer.dump is None:
        raise ConsoleError(str(path), (answer.error or "no answer").rstrip("."), "Look at the whole tree first.")
    return answer.dump
