"""Errors of work that is done in another process: what cannot cross, and what came back and cannot be rebuilt.

They belong to the tree of errors in ``actors.model.errors``, and pickle as those do.
"""

from __future__ import annotations

from actors.model.errors import ActorsError, MessageError, ProcessDiedError


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


class RemoteError(ActorsError):
    """An exception of a worker's process that cannot be rebuilt here; ``__cause__`` has its traceback."""

    def __init__(self, type_name: str, text: str) -> None:
        super().__init__(type_name, text)
        self.type_name = type_name
        self.text = text

    def __str__(self) -> str:
        return f"{self.type_name}: {self.text}" if self.text else self.type_name


class RemoteTraceback(Exception):  # noqa: N818 - it is no error, but where one was born
    """Frames of an exception in the process that raised it, as text: the ``__cause__`` of that exception here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"
