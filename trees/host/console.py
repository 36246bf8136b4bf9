"""The console of a running tree: a unix socket through which its owner, and nobody else, looks at it and operates it.

``Console`` is the side of the tree (``start(..., console=True)``), ``ConsoleSource`` the other side: ``regrow dump``,
``top`` and ``observe`` use it.

They speak lines of JSON, version 1, one request on each connection. A request is ``{"version": 1, "do": NAME, "given":
{...}}``. ``CALLS`` has the names: the methods of a ``Source`` with their arguments, and ``dump`` with those of
``Tree.dump``. The answer is one line, and then the connection ends: ``{"version": 1, "answer": {...}}`` or
``{"version": 1, "error": "one sentence", "status": 404}``. ``subscribe`` alone is followed by more lines, until one
side ends it: ``{"version": 1, "event": {...}}`` for each event. The tree ends it where it ends itself.

Only the owner of a tree can say anything here. So a request is checked against another version of regrow, and no more:
one that is wrong otherwise fails where it is carried out.

The sockets of this user's trees are ``<pid>-<root id>-<n>.sock`` in a folder that nobody else may look into:
``$XDG_RUNTIME_DIR/regrow``, or ``regrow-<uid>`` in the folder for temporary files. Its mode is 0700.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import socket
import socketserver
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import IO, Any, Final

from actors.concurrency.thread_state import after_fork, blocking, start_thread
from actors.messaging.reply import Reply
from actors.model.errors import ActorsError
from trees.observe.source import METRICS_ELSEWHERE, VERSION, Shape, Source, SourceError

PROTOCOL: Final = 1
CALLS: Final = (
    "dump", "snapshot", "child", "stack", "tasks", "task", "questions", "subscribe", "cancel", "answer", "act",
)  # fmt: skip
LONGEST_ID: Final = 32
PATIENCE_S: Final = 2.0
"""How long a caller may take to say, or to take, something."""
LOOK_S: Final = 1.0
"""How long no caller is taken if the process has too many files open."""
TIMEOUT_S: Final = 30.0
ENDED: Final = "source_ended"
"""Name of the last that a subscriber is told."""

_numbers = itertools.count()


class ConsoleError(SourceError):
    """A console could not be opened, found or asked."""

    def __init__(self, where: object, what: str, hint: str) -> None:
        super().__init__(503, f"{where}: {what}. {hint}")


class ConsoleGoneError(ConsoleError):
    """Absence of a console: its tree has ended, or never had one. Any other error may be over at the next look."""


# -- the language ------------------------------------------------------------------------------------------


def line_of(**said: Any) -> bytes:
    """Return a line that says this. What JSON has no form for is its text, a set a list."""
    text = json.dumps(
        {"version": PROTOCOL, **said},
        default=lambda value: list(value) if isinstance(value, (set, frozenset)) else str(value),
    )
    return text.encode() + b"\n"


def read_line(line: bytes) -> Shape:
    """Return what a line says.

    Raises:
        ValueError: it is none of this version.
    """
    said: object = json.loads(line)
    if not isinstance(said, dict) or said.get("version") != PROTOCOL:
        raise ValueError("another version")
    return said


# -- the sockets ------------------------------------------------------------------------------------------


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
        raise ConsoleError(place, what, hint) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConsoleError(place, "the folder for sockets is not yours alone (owner, or mode 0700)", hint)
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


# -- the side of the tree ----------------------------------------------------------------------------------


class Console(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """An open console: the socket is there from the start, answers come once ``serve`` was called.

    Each caller has a thread. So the console answers while everything else of the tree is stuck, and a caller that is
    slow, or asks for something slow, holds up no other. A subscriber that is slow holds up nobody either: the bus of
    the tree keeps its events, and drops the oldest. When the tree ends all connections end.
    """

    daemon_threads = True
    request_queue_size = 128
    source: Source | None = None
    """What is looked at; None: nobody is answered yet."""

    def __init__(self, root: str) -> None:
        place = folder()
        for path in place.glob("*.sock"):
            if _is_stale(path):  # its process was killed
                path.unlink(missing_ok=True)
        self.path = place / f"{os.getpid()}-{root[:LONGEST_ID]}-{next(_numbers)}.sock"
        self._root = root
        self._callers: set[socket.socket] = set()
        self._closed = threading.Event()
        try:
            super().__init__(str(self.path), _Caller)
        except OSError as error:
            hint = "Point XDG_RUNTIME_DIR to a folder of your own with a short path."
            raise ConsoleError(self.path, f"cannot be opened ({error.strerror or error})", hint) from error
        after_fork(self)

    def serve(self, source: Source) -> None:
        """Answer from now on, until closed; the source is closed then, too."""
        self.source = source
        start_thread(threading.Thread(target=self.serve_forever, name=f"{self._root}-console", daemon=True))

    def close(self) -> None:
        """Let go of the socket, its file and the callers. May be called again."""
        self._closed.set()
        _shut_down(self.socket)  # so that the server looks at once whether it is to end
        if self.source is not None:
            self.shutdown()
            self.source.close()
        self.server_close()
        for caller in tuple(self._callers):
            _shut_down(caller)
        self.path.unlink(missing_ok=True)

    def forked(self) -> None:
        """In the child of a fork: its copies of the sockets must not keep a dead parent's console open."""
        self.server_close()
        for caller in self._callers:
            caller.close()
        self.close = lambda: None  # type: ignore[method-assign]  # the file is the parent's

    def get_request(self) -> tuple[socket.socket, Any]:
        """Take a caller."""
        try:
            caller, address = super().get_request()
        except OSError:
            self._closed.wait(LOOK_S)
            raise
        self._callers.add(caller)
        return caller, address

    def close_request(self, request: Any) -> None:
        """Let go of a caller."""
        self._callers.discard(request)
        super().close_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Do nothing: a caller that goes away, or is too slow, is its own problem."""


class _Caller(socketserver.StreamRequestHandler):
    """One caller, on its thread."""

    server: Console

    def handle(self) -> None:
        """Read the request, and answer it."""
        self.connection.settimeout(PATIENCE_S)
        if line := self.rfile.readline():
            self.wfile.write(self._answer(line))

    def _answer(self, line: bytes) -> bytes:
        """Carry out a request; return the line of the answer."""
        source = self.server.source
        assert source is not None  # noqa: S101 - nobody is taken before
        try:
            request = read_line(line)
        except ValueError:
            what = f"the console does not understand the request: it speaks version {PROTOCOL}"
            return line_of(error=f"{what}. Use the regrow of the same version.", status=400)
        do = request.get("do")
        if do not in CALLS:
            return line_of(error=f"the console cannot do that: it knows {', '.join(CALLS)}.", status=400)
        try:
            if do == "subscribe":
                return self._follow(source)
            return line_of(answer=getattr(source, do)(**request.get("given", {})))
        except ActorsError as error:
            return line_of(error=str(error), status=error.status if isinstance(error, SourceError) else 409)
        except Exception as error:  # noqa: BLE001 - the console outlives whatever a look at the tree meets
            # Only our own errors are quoted: the text of any other one may hold a payload.
            what = f"the console failed with {type(error).__name__}"
            return line_of(error=f"{what}. Use the regrow of the same version, or report it.", status=503)

    def _follow(self, source: Source) -> bytes:
        """Tell of events until the caller goes or the console is closed."""
        writing = threading.Lock()

        def tell(event: Shape) -> None:
            with blocking(), writing, suppress(OSError):  # a caller that has gone is let go of by its own thread
                self.wfile.write(line_of(event=event))

        self.connection.settimeout(None)
        with writing:  # the answer comes before the first event
            unsubscribe = source.subscribe(tell)
            self.wfile.write(line_of(answer={"version": VERSION, "subscribed": True}))
        try:
            self.rfile.read()
        finally:
            unsubscribe()
        return b""


def _shut_down(opened: socket.socket) -> None:
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)


# -- the side of the caller --------------------------------------------------------------------------------


@contextmanager
def _asked(path: Path, do: str, given: Shape, timeout_s: float) -> Iterator[tuple[Shape, socket.socket, IO[bytes]]]:
    """Make one call of the console behind a socket; yield the answer, and the connection with what it still says.

    Args:
        path: of the console's socket.
        do: name of the call.
        given: its arguments.
        timeout_s: seconds for the answer.

    Raises:
        ConsoleError: nobody listens there, or it does not answer.
        SourceError: it refused.
    """
    with socket.socket(socket.AF_UNIX) as caller, caller.makefile("rb") as lines:
        try:
            caller.settimeout(timeout_s)
            caller.connect(str(path))
            caller.sendall(line_of(do=do, given=given))
            reply = read_line(lines.readline())
        except (ConnectionRefusedError, FileNotFoundError) as error:
            hint = "The tree has ended, or was started without console=True."
            raise ConsoleGoneError(path, "nobody listens there", hint) from error
        except TimeoutError as error:
            hint = "Its process is stopped, or very busy. Try again."
            raise ConsoleError(path, f"no answer in {timeout_s:g} s", hint) from error
        except (OSError, ValueError) as error:
            hint = "It ended meanwhile, runs as another user, or is no regrow tree of this version."
            raise ConsoleError(path, f"no answer ({type(error).__name__})", hint) from error
        if "answer" not in reply:
            raise SourceError(reply.get("status", 503), reply.get("error", "the console gave no answer."))
        yield reply["answer"], caller, lines


def _carried_out_there(call: Callable[..., Shape]) -> Callable[..., Shape]:
    """Return a method that has the console of its object carry out this call of a source."""
    signature = inspect.signature(call)

    @wraps(call)
    def carried_out(self: ConsoleSource, /, *args: object, **kwargs: object) -> Shape:
        given = signature.bind(self, *args, **kwargs).arguments
        del given["self"]
        if "by" in signature.parameters:
            given["by"] = ": ".join(filter(None, (f"console uid {os.getuid()} pid {os.getpid()}", given.get("by"))))
        return self._call(call.__name__, given)

    return carried_out


class ConsoleSource:
    """The tree behind a socket, looked at and operated from another process.

    Each call is a connection of its own, so calls may come from any thread, and one that waits holds up no other. So
    does a subscription: a daemon thread reads it, until its tree ends or it is let go of.

    Of an act the tree is told which process asks; ``by`` is told beside it.
    """

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S) -> None:
        self.name = root_of(path)
        self._path = path
        self._timeout_s = timeout_s
        self._subscriptions: set[socket.socket] = set()

    def __repr__(self) -> str:
        return f"<ConsoleSource {self._path}>"

    snapshot = _carried_out_there(Source.snapshot)
    child = _carried_out_there(Source.child)
    stack = _carried_out_there(Source.stack)
    tasks = _carried_out_there(Source.tasks)
    task = _carried_out_there(Source.task)
    questions = _carried_out_there(Source.questions)
    cancel = _carried_out_there(Source.cancel)
    answer = _carried_out_there(Source.answer)
    act = _carried_out_there(Source.act)

    def dump(self, **shown: Any) -> str:
        """Render the tree, as ``Tree.dump`` does."""
        return str(self._call("dump", shown)["dump"])

    def _call(self, do: str, given: Shape) -> Shape:
        with _asked(self._path, do, given, self._timeout_s) as (answer, _, _):
            return answer

    def metrics(self) -> str:
        """Refused: a program tells its metrics itself."""
        raise SourceError(404, METRICS_ELSEWHERE)

    def subscribe(self, callback: Callable[[Shape], object]) -> Callable[[], None]:
        """Have ``callback(event)`` called, on a thread of its own, for all that happens from now on.

        The last event is ``source_ended`` with a ``text``, unless the subscription was ended from here. A callback that
        raises ends it.

        Raises:
            SourceError: nobody listens there, or it refused.
        """
        begun = Reply()

        def tell(caller: socket.socket, event: Shape) -> None:
            if caller in self._subscriptions:
                callback(event)

        def read() -> None:
            try:
                with _asked(self._path, "subscribe", {}, self._timeout_s) as (_, caller, lines):
                    caller.settimeout(None)
                    self._subscriptions.add(caller)
                    begun.complete(caller)
                    with suppress(OSError, ValueError):
                        for line in lines:
                            tell(caller, read_line(line)["event"])
                    tell(caller, {"version": VERSION, "name": ENDED, "text": "the tree has ended."})
            except ActorsError as error:
                begun.fail(error)

        start_thread(threading.Thread(target=read, name=f"{self.name}-console-events", daemon=True))
        caller = begun.get()
        return lambda: self._end(caller)

    def _end(self, caller: socket.socket) -> None:
        self._subscriptions.discard(caller)
        _shut_down(caller)

    def close(self) -> None:
        """End all subscriptions; the tree goes on."""
        for caller in tuple(self._subscriptions):
            self._end(caller)
