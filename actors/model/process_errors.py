"""Errors of work that is done in another process: what cannot cross, and what came back and cannot be rebuilt.

They belong to the tree of errors in ``actors.model.errors``, and pickle as those do.
"""

from __future__ import annotations

from actors.model.errors import ActorsError, MessageError, WorkerCrashedError
from actors.model.raised import StandIn, is_a


class NotPicklableError(MessageError):
    """A message to, or a reply from, a worker in a process cannot be pickled. Its type is named, never its value."""

    def __init__(self, path: str, type_name: str, why: str = "") -> None:
        super().__init__(path, type_name, why)
        self.path = path
        self.type_name = type_name
        self.why = why

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return (
            f"{self.path}: {self.type_name} cannot cross to or from its process: it cannot be pickled{why}. "
            "Send plain data, or objects of classes that stand in a module."
        )


class ProcessDiedError(ActorsError):
    """The process of a worker has ended: with an exit code that is not among those that are all right, or by a signal.

    ``exit_code`` is None where a signal has ended it, and ``signal`` where it ended by itself. The latter is a
    ``signal.Signals``; of a signal of real time it is the number: those have no names. ``pid`` is the number of
    the process; None: unknown.
    """

    def __init__(self, path: str, exit_code: int | None, signal: int | None = None, pid: int | None = None) -> None:
        super().__init__(path, exit_code, signal, pid)
        self.path = path
        self.exit_code = exit_code
        self.signal = signal
        self.pid = pid

    @property
    def exit_detail(self) -> str:
        """How it ended, in the words of a dump."""
        if self.signal is not None:
            return f"died {getattr(self.signal, 'name', f'of signal {self.signal}')}"
        if self.exit_code is None:
            return "died"
        return f"died exit code {self.exit_code}"

    def __str__(self) -> str:
        process = "a process" if self.pid is None else f"process {self.pid}"
        if self.signal is not None:
            by = getattr(self.signal, "name", f"signal {self.signal}")
            return f"{process} of worker {self.path} was ended by {by}"
        if self.exit_code is None:
            return f"{process} of worker {self.path} has ended"
        return f"{process} of worker {self.path} ended by itself with exit code {self.exit_code}"


class WorkerLostError(ProcessDiedError):
    """The node of a cluster that a worker ran on is gone, or cannot be reached: the worker is given up with it."""

    def __init__(self, path: str, node: str) -> None:
        super().__init__(path, None)
        self.args = (path, node)
        self.node = node

    @property
    def exit_detail(self) -> str:
        """How it ended, in the words of a dump."""
        return f"lost with node {self.node}"

    def __str__(self) -> str:
        return f"{self.path}: the node {self.node}, which it ran on, is lost. It is started again on another one."


class RemoteError(ActorsError, StandIn):
    """An exception of a worker's process that cannot be rebuilt here; ``__cause__`` has its traceback.

    Where its class is known here, ``expected=`` and ``retry_on=`` take it for one of that class.
    """

    def __init__(self, type_name: str, text: str, stands_for: type[BaseException] | None = None) -> None:
        super().__init__(type_name, text)
        self.stands_for = stands_for
        self.type_name = type_name
        self.text = text

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.type_name, self.text))  # where it crosses to, nobody may know that class

    def __str__(self) -> str:
        return f"{self.type_name}: {self.text}" if self.text else self.type_name


class RemoteTraceback(Exception):  # noqa: N818 - it is no error, but where one was born
    """Frames of an exception in the process that raised it, as text: the ``__cause__`` of that exception here."""

    def __init__(self, text: str, place: tuple[str, str, str, int] | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.place = place
        """Module, file, function and line of the user's code that raised it there."""

    def __str__(self) -> str:
        return f"\n\n{self.text}"


def for_asker(path: str, error: BaseException) -> BaseException:
    """Return what the asker gets for an error that left the code of the worker at ``path``."""
    if is_a(error, Exception) and not is_a(error, ProcessDiedError):
        return error
    wrapped = WorkerCrashedError(path, type(error).__name__)
    wrapped.__cause__ = error
    return wrapped
