"""The thread that watches the alerts of a tree, and the threads that tell of them. The tree depends on none of them.

::

    bus --hear--> conditions <--look-- notifier --give--> couriers, one for each target --> its code

The notifier looks every second (less often where a look takes long: at most a twentieth of its time), and soon after
an event. What a condition or a target raises is an ``AlertFailed`` event; the notifier goes on with the next alert,
with all that it knows. A target that is slow or hangs holds up its own courier only: what waits for it is bounded,
the oldest goes.

With the end of the tree there is one more look, and the couriers have ``END_S`` for what they have to tell.

Locking: each thread sleeps at an ``Event``. A courier's queue is a deque: one thread appends, another takes away.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError

from actors.model.clock import monotonic
from actors.tasks.model.task import SubtaskStatus
from actors.tasks.orchestration.task_runtime import task_runtime_of
from trees.observe.alert_conditions import Condition, Look, Seen, Watch
from trees.observe.alert_state import AlertState
from trees.observe.alerts import Alert, AlertNotice, Webhook
from trees.observe.operator_events import AlertFailed

if TYPE_CHECKING:
    from actors.model.events import Event
    from actors.runtime.system import System
    from trees.views.snapshot import TreeSnapshot

LOOK_S: Final = 1.0
"""Seconds between two looks, at most."""
SOON_S: Final = 0.2
"""Seconds between an event and the look that follows: what comes at once is seen at once."""
SHARE: Final = 20
"""Times as long as a look has taken is the pause after it, at least."""
END_S: Final = 5.0
"""Seconds for what is to be told when the tree is down."""
TRIES: Final = 5
"""Tries of a webhook for one notice."""
FIRST_PAUSE_S: Final = 1.0
"""Pause after the first try; each next one is twice as long."""
_MOST_WAITING: Final = 100
_FINAL_STATUS: Final = range(400, 500)
_PASSING_STATUS: Final = frozenset({408, 425, 429})


class AlertNotifier:
    """Watches the alerts of one tree."""

    def __init__(self, system: System, alerts: Sequence[Alert], capture: Callable[[], TreeSnapshot]) -> None:
        self._system, self._capture = system, capture
        self._watched = [_Watched(alert) for alert in alerts]
        self._couriers: dict[int, Courier] = {}
        for alert in alerts:
            self._couriers.setdefault(id(alert.to), Courier(f"{system.root_path}-alert", alert.to, self._failed))
        self._wake, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"{system.root_path}-alerts", daemon=True)
        self._unsubscribe = system.bus.subscribe(self._hear, lasting=True)
        self._thread.start()

    def end(self) -> None:
        """The tree is down: look once more, tell what is to be told, and end. Returns at once."""
        self._ending.set()
        self._wake.set()

    def stop(self) -> None:
        """Do this, and wait for it."""
        self.end()
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * END_S)

    # -- the thread ----------------------------------------------------------------------------------------

    def _main(self) -> None:
        pause_s = 0.0
        while not self._ending.is_set():
            if self._wake.wait(max(LOOK_S, pause_s)):
                self._ending.wait(max(SOON_S, pause_s))
            self._wake.clear()
            began = monotonic()
            self.look()
            pause_s = SHARE * (monotonic() - began)
        self._system.bus.flush(END_S)
        self.look()
        self._unsubscribe()
        end = monotonic() + END_S
        for courier in self._couriers.values():
            courier.end()
        for courier in self._couriers.values():
            courier.join(max(0.0, end - monotonic()))

    def _hear(self, event: Event) -> None:
        """On the thread of the bus."""
        if isinstance(event, AlertFailed):
            return
        for watched in self._watched:
            try:
                watched.watch.hear(event)
            except BaseException as error:  # noqa: BLE001 - a condition of a user has no part in the tree
                self._failed(watched.alert.name, error)
        self._wake.set()

    def look(self) -> None:
        """Look at the tree, and have whoever must know told."""
        try:
            look = self._look()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the next look may be better
            self._failed("", error)
            return
        for watched in self._watched:
            try:
                holds = watched.watch.holds(look)
            except BaseException as error:  # noqa: BLE001 - as above
                if not watched.has_failed:  # said once for each time that it begins to raise
                    self._failed(watched.alert.name, error)
                watched.has_failed, holds = True, False
            else:
                watched.has_failed = False
            since = watched.state.since
            told = watched.state.step(look.at, holds=holds)
            if told is not None:
                began = watched.state.since if watched.state.since is not None else since
                at = look.at if began is None else began
                notice = AlertNotice(watched.alert.name, told, self._system.root_path, look.at, at)
                self._couriers[id(watched.alert.to)].give(notice)

    def _look(self) -> Look:
        ports = list(task_runtime_of(self._system).ports.values())
        nodes = (node for port in ports for state in list(port.states.values()) for node in list(state.nodes.values()))
        asked = [port.time() - each.raised_at for port in ports for each in port.escalations()]
        queued = sum(node.status is SubtaskStatus.QUEUED for node in nodes)
        return Look(self._capture(), queued, max(asked, default=None))

    def _failed(self, name: str, error: BaseException) -> None:
        self._system.publish(AlertFailed(self._system.root_path, name, error))


class _Watched:
    """An alert, and where it stands."""

    def __init__(self, alert: Alert) -> None:
        self.alert = alert
        self.watch: Watch = alert.when.begin() if isinstance(alert.when, Condition) else Seen(_of_user(alert.when))
        self.state = AlertState(alert.for_s, alert.every_s, resolve=alert.resolve)
        self.has_failed = False


def _of_user(predicate: Callable[[TreeSnapshot], object]) -> Callable[[Look], object]:
    return lambda look: predicate(look.snapshot)


class Courier:
    """Tells one target of its alerts, one after the other, on a thread of its own."""

    def __init__(
        self, name: str, target: Callable[[AlertNotice], Any], failed: Callable[[str, BaseException], None]
    ) -> None:
        self._target, self._failed = target, failed
        self._waiting: deque[AlertNotice] = deque(maxlen=_MOST_WAITING)
        self._wake, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def give(self, notice: AlertNotice) -> None:
        """Have it told."""
        self._waiting.append(notice)
        self._wake.set()

    def end(self) -> None:
        """Tell what waits, each with one try, and end."""
        self._ending.set()
        self._wake.set()

    def join(self, timeout_s: float) -> None:
        """Wait for that."""
        self._thread.join(timeout_s)

    def _main(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._waiting:
                self._tell(self._waiting.popleft())
            if self._ending.is_set() and not self._waiting:
                return

    def _tell(self, notice: AlertNotice) -> None:
        pause_s = FIRST_PAUSE_S
        for number in range(1, TRIES + 1):
            try:
                self._target(notice)
            except BaseException as error:  # noqa: BLE001 - a target of a user has no part in the tree
                is_last = number == TRIES or not _may_pass(self._target, error)
                if is_last or self._ending.wait(pause_s):
                    self._failed(notice.name, error)
                    return
                pause_s *= 2
            else:
                return


def _may_pass(target: object, error: BaseException) -> bool:
    """Say whether it is worth another try: a webhook that may answer later."""
    if not isinstance(target, Webhook) or not isinstance(error, OSError):
        return False
    return not isinstance(error, HTTPError) or error.code not in _FINAL_STATUS or error.code in _PASSING_STATUS
