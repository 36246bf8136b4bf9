"""The side of the caller: ``ask`` for a dump, and ``ConsoleSource``, a tree of another process as a ``Source``.

Each call is a connection of its own, so calls may come from any thread, and one that waits holds up no other. So does a
subscription: a daemon thread reads it, until its tree ends or it is let go of.
"""

from __future__ import annotations

import inspect
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial, wraps
from pathlib import Path
from typing import IO, Any, Concatenate, Final, ParamSpec

from actors.concurrency.thread_state import start_thread
from trees.host.console.protocol import ConsoleError, ConsoleGoneError, ConsoleRequest, line_of, read_line, root_of
from trees.observe.source import VERSION, Shape, Source, SourceError, SourceKind

Given = ParamSpec("Given")
TIMEOUT_S: Final = 30.0
LOST: Final = "events_lost"
ENDED: Final = "source_ended"
"""Names of what a subscriber is told beside the events of the tree; the second one is the last."""


def ask(path: Path, request: ConsoleRequest, timeout_s: float = TIMEOUT_S) -> str:
    """Return what the tree behind a socket shows.

    Raises:
        ConsoleError: nobody listens there, it does not answer, or it refused; then ``what`` is the tree's own text.
    """
    try:
        answer = _exchange(path, "dump", request._asdict(), timeout_s)
    except SourceError as error:
        raise ConsoleError(str(path), error.text.rstrip("."), "Look at the whole tree first.") from error
    return str(answer["dump"])


def _exchange(path: Path, do: str, given: Shape, timeout_s: float) -> Shape:
    with socket.socket(socket.AF_UNIX) as caller, caller.makefile("rb") as lines:
        return _asked(caller, lines, path, do, given, timeout_s)


def _asked(caller: socket.socket, lines: IO[bytes], path: Path, do: str, given: Shape, timeout_s: float) -> Shape:
    """Make one call of the console behind a socket; return the answer.

    Args:
        caller: a new socket.
        lines: what it will read.
        path: of the console's socket.
        do: name of the call.
        given: its arguments.
        timeout_s: seconds for the answer.

    Raises:
        ConsoleError: nobody listens there, or it does not answer.
        SourceError: it refused.
    """
    try:
        caller.settimeout(timeout_s)
        caller.connect(str(path))
        with suppress(BrokenPipeError):  # a console that ends may have said so, and reads nothing
            caller.sendall(line_of(do=do, given=given))
        line = lines.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError
        reply = read_line(line)
    except (ConnectionRefusedError, FileNotFoundError) as error:
        hint = "The tree has ended, or was started without console=True."
        raise ConsoleGoneError(str(path), "nobody listens there", hint) from error
    except TimeoutError as error:
        hint = "Its process is stopped, or very busy. Try again."
        raise ConsoleError(str(path), f"no answer in {timeout_s:g} s", hint) from error
    except (OSError, ValueError) as error:
        hint = "It ended meanwhile, runs as another user, or is no regrow tree of this version."
        raise ConsoleError(str(path), f"no answer ({type(error).__name__})", hint) from error
    if "answer" not in reply:
        raise SourceError(reply.get("status", 503), reply.get("error", "the console gave no answer."))
    answer: Shape = reply["answer"]
    return answer


def _carried_out_there(call: Callable[Concatenate[Any, Given], Shape]) -> Callable[Concatenate[Any, Given], Shape]:
    """Return a method that has the console of its object carry out this call of a source."""
    signature = inspect.signature(call)

    @wraps(call)
    def carried_out(self: ConsoleSource, /, *args: Given.args, **kwargs: Given.kwargs) -> Shape:
        given = signature.bind(self, *args, **kwargs).arguments
        del given["self"]
        try:
            return _exchange(self._path, call.__name__, given, self._timeout_s)
        except ConsoleError as error:
            raise SourceError(503, str(error)) from error

    return carried_out


class ConsoleSource:
    """The tree behind a socket, looked at and operated from another process.

    Of an act the kernel tells the tree which process asks; ``by`` is told beside it.
    """

    kind: SourceKind = "console"

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

    def metrics(self) -> str | None:
        """None: a program tells its metrics itself."""
        return None

    def subscribe(self, callback: Callable[[Shape], object]) -> Callable[[], None]:
        """Have ``callback(event)`` called, on a thread of its own, for all that happens from now on.

        Those that were lost because it was slow are one event ``events_lost`` with their ``count``; the last event is
        ``source_ended`` with a ``text``, unless the subscription was ended from here. A callback that raises ends it.

        Raises:
            SourceError: nobody listens there, or it refused.
        """
        with ExitStack() as stack:
            caller = stack.enter_context(socket.socket(socket.AF_UNIX))
            lines = stack.enter_context(caller.makefile("rb"))
            try:
                _asked(caller, lines, self._path, "subscribe", {}, self._timeout_s)
                caller.settimeout(None)
                self._subscriptions.add(caller)
                reading = partial(self._read, caller, lines, callback)
                start_thread(threading.Thread(target=reading, name=f"{self.name}-console-events", daemon=True))
            except (ConsoleError, RuntimeError) as error:
                raise SourceError(503, str(error)) from error
            stack.pop_all()
        return lambda: self._end(caller)

    def _read(self, caller: socket.socket, lines: IO[bytes], callback: Callable[[Shape], object]) -> None:
        """Tell what a subscription says, until it ends."""

        def tell(event: Shape) -> None:
            if caller in self._subscriptions:
                callback(event)

        why = "the console has gone."
        with caller, lines:
            with suppress(OSError, ValueError):
                for said in map(read_line, lines):
                    if "event" in said:
                        tell(said["event"])
                    elif "lost" in said:
                        tell({"version": VERSION, "name": LOST, "count": said["lost"]})
                    else:
                        why = said["ended"]
            tell({"version": VERSION, "name": ENDED, "text": why})

    def _end(self, caller: socket.socket) -> None:
        self._subscriptions.discard(caller)
        with suppress(OSError):
            caller.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all subscriptions; the tree goes on."""
        for caller in tuple(self._subscriptions):
            self._end(caller)
