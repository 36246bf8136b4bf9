"""Events of the tree made of what the places where things run have to report."""

from __future__ import annotations

from collections.abc import Callable

from actors.messaging.handled import Measures
from actors.model import events
from actors.model.spec import Reason
from actors.validation.introspection import type_name


class DispatchReports:
    """Part of a tree that makes events of what it is told."""

    def __init__(self, root_path: str, publish: Callable[[events.Event], object]) -> None:
        self._root_path = root_path
        self._publish = publish
        self.measures = Measures()

    def request_failed(self, path: str, error: BaseException, *, asked: bool) -> None:
        """A handler answered with an error, and lives."""
        self._publish(events.RequestFailed(path, error, asked))

    def callback_raised(self, path: str, error: BaseException) -> None:
        """A callback that somebody had added to a reply raised."""
        self._publish(events.CallbackRaised(path, error))

    def hook_raised(self, path: str, hook: str, error: BaseException) -> None:
        """A last hook raised on the way out of a crash."""
        what = f"{hook} raised {type_name(type(error))}"
        self._publish(events.ChildStopAbnormal(path, Reason.CRASHED, what, error))

    def internal_error(self, error: BaseException) -> None:
        """A bug of ours: make it impossible to miss."""
        self._publish(events.InternalError(self._root_path, error))

    def near_cap(self, threads: int, max_threads: int) -> None:
        """The pool has almost as many threads as it may have."""
        self._publish(events.PoolNearCap(self._root_path, threads, max_threads))

    def loop_blocked(self, path: str | None, blocked_s: float, stack: str) -> None:
        """A handler holds up the event loop."""
        self._publish(events.LoopBlocked(path or self._root_path, blocked_s, stack))

    def host_loop_blocked(self, path: str | None, blocked_s: float, stack: str) -> None:
        """A worker, or the host itself, holds up the event loop of the host."""
        self._publish(events.LoopBlocked(path or self._root_path, blocked_s, stack, "host"))
