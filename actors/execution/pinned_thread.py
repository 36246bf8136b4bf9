"""A pinned thread for one incarnation: sync ``run=`` bodies, code with thread affinity, stock Pykka actors."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.concurrency.disposal import let_go
from actors.concurrency.thread_state import serves_others, start_thread, with_users
from actors.concurrency.wakeup import Wakeup

if TYPE_CHECKING:
    from actors.execution.crash_boundary import WorkerIncarnation

_numbers = itertools.count()


class Threads:
    """Gives each incarnation a daemon thread of its own, from its start to its end."""

    def __init__(self, *, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed

    def schedule(self, incarnation: WorkerIncarnation) -> None:
        """Start the incarnation's thread, or wake it. Its supervisor starts it; nobody can wake it before."""
        gate = incarnation.gate
        if gate is not None:
            gate.give()
            return
        incarnation.gate = gate = Wakeup()
        name = f"{incarnation.mailbox.path}-{next(_numbers)}"
        thread = threading.Thread(target=self._main, args=(incarnation, gate), name=name, daemon=True)
        try:
            start_thread(thread)
        except RuntimeError as error:
            incarnation.thread_refused(error)

    def cancel(self, incarnation: WorkerIncarnation) -> None:
        """A thread cannot be cancelled: its supervisor abandons it."""

    def _main(self, incarnation: WorkerIncarnation, gate: Wakeup) -> None:
        serves_others()  # but for code of the user: see ``WorkerIncarnation.run``
        try:
            while True:
                more = incarnation.run()
                if incarnation.is_over:
                    return
                if not more:
                    gate.sleep()
        except BaseException as error:
            self._failed(error)
        finally:
            remains, incarnation.remains = incarnation.remains, None
            with_users(let_go, remains or [])
