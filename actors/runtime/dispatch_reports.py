"""Events of the tree made of what the places where things run have to report."""

from __future__ import annotations

from actors.model import events
from actors.model.spec import Reason
from actors.validation.introspection import type_name


class Reports:
    """The part of a tree's shared ground that makes events of what it is told."""

    root_path: str

    def publish(self, event: events.Event) -> None:
        """Something happened."""
        raise NotImplementedError

    def request_failed(self, path: str, error: BaseException, *, asked: bool) -> None:
        """A handler answered with an error, and lives."""
        self.publish(events.RequestFailed(path, error, asked))

    def callback_raised(self, path: str, error: BaseException) -> None:
        """A callback that somebody had added to a reply raised."""
        self.publish(events.CallbackRaised(path, error))

    def hook_raised(self, path: str, hook: str, error: BaseException) -> None:
        """A last hook raised on the way out of a crash."""
        self.publish(events.ChildStopAbnormal(path, Reason.CRASHED, f"{hook} raised {type_name(type(error))}"))

    def internal_error(self, error: BaseException) -> None:
        """A bug of ours: make it impossible to miss."""
        self.publish(events.InternalError(self.root_path, error))

    def near_cap(self, threads: int, max_threads: int) -> None:
        """The pool has almost as many threads as it may have."""
        self.publish(events.PoolNearCap(self.root_path, threads, max_threads))

    def loop_blocked(self, path: str | None, blocked_s: float, stack: str) -> None:
        """A handler holds up the event loop."""
        self.publish(events.LoopBlocked(path or self.root_path, blocked_s, stack))
