"""The side of the caller: ``ask`` for a dump, and ``ConsoleSource``, a tree of another process as a ``Source``.

Each call is a connection of its own, so calls may come from any thread, and one that waits holds up no other. So does a
subscription: a daemon thread reads it, until its tree ends or it is let go of.
"""

from __future__ import annotations

import inspect
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import IO, Any, Concatenate, Final, ParamSpec

from actors.concurrency.thread_state import start_thread
from actors.messaging.reply import Reply
from actors.model.errors import ActorsError
from trees.host.console.protocol import ConsoleError, ConsoleGoneError, ConsoleRequest, line_of, read_line, root_of
from trees.observe.source import VERSION, Shape, Source, SourceError, SourceKind

Given = ParamSpec("Given")
TIMEOUT_S: Final = 30.0
ENDED: Final = "source_ended"
"""Name of the last that a subscriber is told."""


def ask(path: Path, request: ConsoleRequest, timeout_s: float = TIMEOUT_S) -> str:
    """Return what the tree behind a socket shows.

    Raises:
        ConsoleError: nobody listens there, it does not answer, or it refused; then ``what`` is the tree's own text.
    """
    try:
        with _asked(path, "dump", request._asdict(), timeout_s) as (answer, _, _):
            return str(answer["dump"])
    except SourceError as error:
        raise ConsoleError(str(path), error.text.rstrip("."), "Look at the whole tree first.") from error


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
            raise ConsoleGoneError(str(path), "nobody listens there", hint) from error
        except TimeoutError as error:
            hint = "Its process is stopped, or very busy. Try again."
            raise ConsoleError(str(path), f"no answer in {timeout_s:g} s", hint) from error
        except (OSError, ValueError) as error:
            hint = "It ended meanwhile, runs as another user, or is no regrow tree of this version."
            raise ConsoleError(str(path), f"no answer ({type(error).__name__})", hint) from error
        if "answer" not in reply:
            raise SourceError(reply.get("status", 503), reply.get("error", "the console gave no answer."))
        yield reply["answer"], caller, lines


def _carried_out_there(call: Callable[Concatenate[Any, Given], Shape]) -> Callable[Concatenate[Any, Given], Shape]:
    """Return a method that has the console of its object carry out this call of a source."""
    signature = inspect.signature(call)

    @wraps(call)
    def carried_out(self: ConsoleSource, /, *args: Given.args, **kwargs: Given.kwargs) -> Shape:
        given = signature.bind(self, *args, **kwargs).arguments
        del given["self"]
        if "by" in signature.parameters:
            given["by"] = ": ".join(filter(None, (f"console uid {os.getuid()} pid {os.getpid()}", given.get("by"))))
        try:
            with _asked(self._path, call.__name__, given, self._timeout_s) as (answer, _, _):
                return answer
        except ConsoleError as error:
            raise SourceError(503, str(error)) from error

    return carried_out


class ConsoleSource:
    """The tree behind a socket, looked at and operated from another process.

    Of an act the tree is told which process asks; ``by`` is told beside it.
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
        try:
            caller = begun.get()
        except ConsoleError as error:
            raise SourceError(503, str(error)) from error
        return lambda: self._end(caller)

    def _end(self, caller: socket.socket) -> None:
        self._subscriptions.discard(caller)
        with suppress(OSError):
            caller.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all subscriptions; the tree goes on."""
        for caller in tuple(self._subscriptions):
            self._end(caller)
