"""A pinned thread for one life: sync ``run=`` bodies, code with thread affinity, stock Pykka actors."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.dispatch import start_thread
from actors.dispatch.disposal import let_go
from actors.dispatch.wakeup import Wakeup

if TYPE_CHECKING:
    from actors.boundary import WorkerLife

_numbers = itertools.count()


class Threads:
    """Gives each life a daemon thread of its own, from its start to its end."""

    def __init__(self, *, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed

    def schedule(self, life: WorkerLife) -> None:
        """Start the life's thread, or wake it. Its supervisor starts it; nobody can wake it before."""
        gate = life.gate
        if gate is not None:
            gate.give()
            return
        life.gate = gate = Wakeup()
        name = f"{life.mailbox.path}-{next(_numbers)}"
        thread = threading.Thread(target=self._main, args=(life, gate), name=name, daemon=True)
        try:
            start_thread(thread)
        except RuntimeError as error:
            life.never_ran(error)

    def cancel(self, life: WorkerLife) -> None:
        """A thread cannot be cancelled: its supervisor abandons it."""

    def _main(self, life: WorkerLife, gate: Wakeup) -> None:
        try:
            while True:
                more = life.run()
                if life.is_over:
                    return
                if not more:
                    gate.sleep()
        except BaseException as error:
            self._failed(error)
        finally:
            remains, life.remains = life.remains, None
            let_go(remains or [])


def stack_of(ident: int) -> str:
    """The stack of the thread with this identity, innermost call last; empty when it has ended."""
    frame = sys._current_frames().get(ident)  # noqa: SLF001 - the documented way to a thread's stack
    return "".join(traceback.format_stack(frame)) if frame is not None else ""


def after_fork(callback: Callable[[], None]) -> None:
    """Have ``callback`` called in the child of every fork: there its tree has no threads, and its store no writer."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=callback)


def in_background(name: str, function: Callable[[], object]) -> None:
    """Run a short errand on a daemon thread of its own; here and now where the machine gives no more threads."""
    try:
        start_thread(threading.Thread(target=function, name=name, daemon=True))
    except RuntimeError:
        function()
