"""Threads of the alerts, on which the code of users runs: predicates and targets.

Whatever that code raises is told, and the thread goes on with the next thing.

Locking: each thread sleeps at an ``Event``. What others hand it is in a deque: one appends, another takes away, and
each is one step of C.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from actors.concurrency.thread_state import join_thread, start_thread
from actors.concurrency.wakeup import Flag
from actors.model.clock import monotonic
from actors.validation.introspection import not_awaited
from trees.observe.alerts import Webhook
from trees.observe.webhook_post import StatusError

if TYPE_CHECKING:
    from trees.observe.alert_conditions import Look
    from trees.observe.alerts import AlertNotice

Item = TypeVar("Item")
HANGS_S: Final = 30.0
"""Seconds after which a predicate is said to hang."""
TRIES: Final = 5
"""Tries of a webhook for one notice."""
FIRST_WAIT_S: Final = 1.0
"""Pause after the first try; each next one is twice as long."""
_MOST_WAITING: Final = 100
_FINAL_STATUS: Final = range(300, 500)
_PASSING_STATUS: Final = frozenset({408, 425, 429})


class TakingThread(Generic[Item]):
    """Does something with whatever it is given, one after the other, on a daemon thread.

    What a subclass needs is there before it calls this ``__init__``.
    """

    def __init__(self, name: str, raised: Callable[[BaseException], object], most: int) -> None:
        self._raised = raised
        self._waiting: deque[Item] = deque(maxlen=most)
        """Things that wait, the newest ones."""
        self._wake, self._ending = Flag(), Flag()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        start_thread(self._thread)

    def give(self, item: Item) -> None:
        """Have it taken."""
        self._waiting.append(item)
        self._wake.set()

    def end(self) -> None:
        """Take what waits, and end."""
        self._ending.set()
        self._wake.set()

    def join(self, within_s: float) -> None:
        """Wait for that."""
        join_thread(self._thread, within_s)

    def _main(self) -> None:
        while True:
            while self._waiting:
                try:
                    self._take(self._waiting.popleft())
                except BaseException as error:  # noqa: BLE001 - code of a user has no part in the tree
                    self._raised(error)
            if self._ending.is_set() and not self._waiting:
                return
            self._wake.wait()
            self._wake.clear()

    def _take(self, item: Item) -> None:
        """Do it."""
        raise NotImplementedError


class Judge(TakingThread["Look"]):
    """Asks one predicate of a user. While it has not answered, the newest look waits for it, and no other alert does.

    Args:
        name: of its thread.
        decide: asks it, and has whoever must know told.
        failed: is told of an error.
    """

    def __init__(self, name: str, decide: Callable[[Look], object], failed: Callable[[BaseException], object]) -> None:
        self._decide, self._failed = decide, failed
        self._since: float | None = None
        """When it was asked, by the clock of this machine; None: it has answered."""
        self._told_since: float | None = None
        """Which of these was said to hang."""
        super().__init__(name, failed, 1)

    def give(self, item: Look) -> None:
        """Have it asked. One that hangs is told, once."""
        since = self._since
        if since is not None and since != self._told_since and monotonic() - since >= HANGS_S:
            self._told_since = since
            self._failed(TimeoutError(f"its predicate has not answered for {HANGS_S:g} s; nothing else waits for it"))
        super().give(item)

    def _take(self, item: Look) -> None:
        self._since = monotonic()
        try:
            self._decide(item)
        finally:
            self._since = None


class Courier(TakingThread["AlertNotice"]):
    """Tells one target of its alerts, one after the other; what waits at the end has one try each."""

    def __init__(
        self, name: str, target: Callable[[AlertNotice], Any], failed: Callable[[str, BaseException], None]
    ) -> None:
        self._target, self._failed = target, failed
        super().__init__(name, lambda error: failed("", error), _MOST_WAITING)

    def _take(self, item: AlertNotice) -> None:
        pause_s = FIRST_WAIT_S
        for number in range(1, TRIES + 1):
            try:
                not_awaited(self._target(item))
            except BaseException as error:  # noqa: BLE001 - a target of a user has no part in the tree
                is_last = number == TRIES or not _may_pass(self._target, error)
                if is_last or self._ending.wait(pause_s):
                    self._failed(item.name, error)
                    return
                pause_s *= 2
            else:
                return


def _may_pass(target: object, error: BaseException) -> bool:
    """Say whether it is worth another try: a webhook that may answer later."""
    if not isinstance(target, Webhook) or not isinstance(error, OSError):
        return False
    return not isinstance(error, StatusError) or error.status not in _FINAL_STATUS or error.status in _PASSING_STATUS
