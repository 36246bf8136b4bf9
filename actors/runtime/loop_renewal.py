"""The tree's own event loop, and the next one where somebody blocks it for too long.

One ``time.sleep(3600)`` in an async worker holds up every async worker of the tree, and its orchestrators. After
``loop_stall_s`` without a turn the loop is given up, in this order, on the thread of its watchdog:

1. the culprit is found: the incarnation whose task the blocked thread runs;
2. the loop is closed to all: who schedules or calls there does so in vain (``Loop.give_up``);
3. a fresh one is opened and takes its place: whatever is started from now on is born there;
4. each supervisor hears of it (``LoopLost``), ends all children that were born on the old one, and starts them anew
   in start order. What runs there and is no child (a planner's call, a lifespan of a sync worker) is ended here.

So an incarnation that is made between 3 and 4 knows the fresh loop already and is left in peace; one that was made
before, and started after, waits on a loop that never runs it until 4 ends it. An incarnation ends once, by the
test-and-set of every end: what the late loop still does, should it wake, is done by code whose incarnation is over.

*The loop wakes between 2 and 4*: it begins nothing more, and cancels what runs there. That is no crash of theirs: each
ends as in 4, and its supervisor starts it anew (``ControlledIncarnation.is_cut_off``).

The blocked thread is counted as abandoned at the culprit's path until it comes back; then its loop cancels all that it
holds, before any of it goes on, and ends. The others had done nothing wrong: their ends are ``killed``, and their
restarts stand in no window. An attempt among them was ended from outside, which is nobody's failure: it runs again, and
costs no try.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.execution.incarnation import Exited, Incarnation
from actors.execution.loop import Loop
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.model.errors import StalledError
from actors.supervision.hung_children import LoopLost

if TYPE_CHECKING:
    from actors.runtime.system import System


class LoopRenewal:
    """Maker of the event loops of one tree."""

    def __init__(self, system: System, stall_s: float | None) -> None:
        self._system = system
        self._stall_s = stall_s

    def loop(self) -> Loop:
        """Make one. Its thread is started when it is needed, or opened."""
        reports = self._system.reports
        return Loop(
            f"{self._system.root_path}-loop",
            blocked=reports.loop_blocked,
            failed=reports.internal_error,
            stall_s=self._stall_s,
            given_up=self._given_up,
            remains=self._system.disposal,
        )

    def _given_up(self, lost: Loop, culprit: Incarnation | None, silent_s: float) -> None:
        """Have the tree go on with a fresh loop. On the thread of the old one's watchdog."""
        system = self._system
        fresh = self.loop()
        fresh.open()
        system.loop = fresh
        system.dispatchers.renew(fresh)
        message = LoopLost(lost, culprit, silent_s)
        for supervisor in list(system.supervisors.values()):
            supervisor.incarnation.mailbox.post(message)
        for incarnation in lost.residents():
            if not isinstance(incarnation.owner, SupervisorMailbox):
                error = StalledError(incarnation.mailbox.path, silent_s) if incarnation is culprit else None
                ended = incarnation.lose_place(error)
                if ended is not None:
                    incarnation.owner.post(Exited(incarnation, ended))
