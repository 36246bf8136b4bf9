"""The side of the caller: ``ask`` for a dump, and ``ConsoleSource``, a tree of another process as a ``Source``.

Each call is a connection of its own, so calls may come from any thread, and one that waits holds up no other. So does a
subscription: a daemon thread reads it, until its tree ends or it is let go of.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from pydantic import ValidationError

from actors.concurrency.thread_state import start_thread
from trees.host.console.place import ConsoleError, ConsoleGoneError, root_of
from trees.host.console.protocol import ConsoleReply, ConsoleRequest, read_reply, request_line
from trees.observe.source import ROWS, TASKS, VERSION, Shape, SourceError, SourceKind

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
        shown: str = exchange(path, "dump", request.model_dump(), timeout_s)["dump"]
    except SourceError as error:
        raise ConsoleError(str(path), error.text.rstrip("."), "Look at the whole tree first.") from error
    return shown


def exchange(path: Path, do: str, given: Shape, timeout_s: float = TIMEOUT_S) -> Shape:
    """Make one call of the console behind a socket, and return its answer.

    Raises:
        ConsoleError: nobody listens there, or it does not answer.
        SourceError: it refused.
    """
    caller, lines, answer = _asked(path, do, given, timeout_s)
    with caller, lines:
        return answer


def _asked(path: Path, do: str, given: Shape, timeout_s: float) -> tuple[socket.socket, IO[bytes], Shape]:
    """Connect and send a request; return the connection and the first answer. Raises as ``exchange``."""
    line = request_line(do, given)
    with _trouble(path, timeout_s), ExitStack() as stack:
        caller = stack.enter_context(socket.socket(socket.AF_UNIX))
        caller.settimeout(timeout_s)
        caller.connect(str(path))
        with suppress(BrokenPipeError):  # a console with no room for us says so, and reads nothing
            caller.sendall(line)
        lines = stack.enter_context(caller.makefile("rb"))
        answer = lines.readline()
        if not answer.endswith(b"\n"):
            hint = "The tree ended meanwhile, or runs as another user."
            raise ConsoleError(str(path), "no answer: the connection ended before it was whole", hint)
        reply = read_reply(answer)
        if reply.answer is None:
            raise SourceError(reply.status or 503, reply.error or reply.ended or "the console gave no answer.")
        stack.pop_all()
    return caller, lines, reply.answer


@contextmanager
def _trouble(path: Path, timeout_s: float) -> Iterator[None]:
    """Say what is wrong with a connection, and what to do."""
    try:
        yield
    except (ConnectionRefusedError, FileNotFoundError) as error:
        hint = "The tree has ended, or was started without console=True."
        raise ConsoleGoneError(str(path), "nobody listens there", hint) from error
    except PermissionError as error:
        raise ConsoleError(str(path), "is not yours", "Ask as the user that the program runs as.") from error
    except TimeoutError as error:
        hint = "Its process is stopped, or very busy. Try again."
        raise ConsoleError(str(path), f"no answer in {timeout_s:g} s", hint) from error
    except ValidationError as error:
        hint = "What listens there is no regrow tree, or one of another version."
        raise ConsoleError(str(path), "no answer that can be read", hint) from error
    except OSError as error:
        hint = "The tree ended meanwhile, or runs as another user."
        raise ConsoleError(str(path), f"no answer ({type(error).__name__})", hint) from error


class ConsoleSource:
    """The tree behind a socket, looked at and operated from another process."""

    kind: SourceKind = "console"

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S) -> None:
        self.name = root_of(path)
        self._path = path
        self._timeout_s = timeout_s
        self._subscriptions: set[_Subscription] = set()

    def __repr__(self) -> str:
        return f"<ConsoleSource {self._path}>"

    def _call(self, do: str, **given: Any) -> Shape:
        try:
            return exchange(self._path, do, given, self._timeout_s)
        except ConsoleError as error:
            raise SourceError(503, str(error)) from error

    def snapshot(
        self, unfold: Collection[str] = (), limit: int = ROWS, text: str = "", troubled: bool = False
    ) -> Shape:
        """The tree as rows."""
        given: dict[str, Any] = {"text": text} if text else {}  # a console of an older version knows neither
        given |= {"troubled": True} if troubled else {}
        return self._call("snapshot", unfold=sorted(unfold), limit=limit, **given)

    def child(self, path: str) -> Shape:
        """One child."""
        return self._call("child", path=path)

    def stack(self, path: str) -> Shape:
        """Where the code of a child stands now."""
        return self._call("stack", path=path)

    def tasks(self, status: str | None = None, text: str = "", limit: int = TASKS) -> Shape:
        """The tasks, the newest first."""
        return self._call("tasks", status=status, text=text, limit=limit)

    def task(self, id: str) -> Shape:
        """One task."""
        return self._call("task", id=id)

    def questions(self) -> Shape:
        """All that waits for a person."""
        return self._call("questions")

    def cancel(self, id: str, reason: str = "", by: str = "") -> Shape:
        """Cancel a task. Which process asks, the kernel tells the tree; ``by`` is told beside it."""
        return self._call("cancel", id=id, reason=reason, by=by)

    def answer(self, id: str, answer: str, text: str | None = None, value: Any = None, by: str = "") -> Shape:
        """Answer a question."""
        return self._call("answer", id=id, answer=answer, text=text, value=value, by=by)

    def act(self, path: str, act: str, by: str = "") -> Shape:
        """Restart, terminate or unpark a child."""
        return self._call("act", path=path, act=act, by=by)

    def metrics(self) -> str | None:
        """None: a program tells its metrics itself."""
        return None

    def subscribe(self, callback: Callable[[Shape], object]) -> Callable[[], None]:
        """Have ``callback(event)`` called, on a thread of its own, for all that happens from now on.

        Those that were lost because it was slow are one event ``events_lost`` with their ``count``; the last event is
        ``source_ended`` with a ``text``, unless the subscription was ended from here.

        Raises:
            SourceError: nobody listens there, or it refused.
        """
        caller: socket.socket | None = None
        try:
            caller, lines, _ = _asked(self._path, "subscribe", {}, self._timeout_s)
            caller.settimeout(None)
            reader = _Subscription(caller, lines, callback)
            start_thread(threading.Thread(target=reader.run, name=f"{self.name}-console-events", daemon=True))
        except (ConsoleError, RuntimeError) as error:
            if caller is not None:
                caller.close()
            raise SourceError(503, str(error)) from error
        self._subscriptions.add(reader)

        def end() -> None:
            self._subscriptions.discard(reader)
            reader.end()

        return end

    def close(self) -> None:
        """End all subscriptions; the tree goes on."""
        while self._subscriptions:
            self._subscriptions.pop().end()


class _Subscription:
    """Lines of one subscription, read until the tree ends or it is let go of."""

    def __init__(self, caller: socket.socket, lines: IO[bytes], callback: Callable[[Shape], object]) -> None:
        self._caller = caller
        self._lines = lines
        self._callback = callback
        self._over = False

    def run(self) -> None:
        """Read, and tell; a callback that raises ends it."""
        why = "the console has gone."
        with self._caller, self._lines:
            with suppress(OSError, ValidationError):
                for line in self._lines:
                    reply = read_reply(line)
                    if self._over:
                        return
                    if reply.ended is not None:
                        why = reply.ended
                        break
                    self._callback(_told(reply))
            if not self._over:
                self._callback({"version": VERSION, "name": ENDED, "text": why})

    def end(self) -> None:
        """Tell nothing more."""
        self._over = True
        with suppress(OSError):
            self._caller.shutdown(socket.SHUT_RDWR)


def _told(reply: ConsoleReply) -> Shape:
    return reply.event if reply.event is not None else {"version": VERSION, "name": LOST, "count": reply.lost or 0}
