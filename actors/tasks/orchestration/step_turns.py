"""When a step or an undo begins: it has a slot, no other suspect runs, and a record says that it begins.

Planners, reviewers, synthesizers and undos are user code that may kill its process. So each goes the same way::

    wanted -> no other suspect runs -> it has a slot -> its start is recorded -> called -> its end is recorded

* What waits for a slot is not yet the suspect that runs, and what waits for another suspect holds no slot. When it has
  waited for the one, it looks for the other again.
* *Wanted* to *recorded*: nothing is in the journal. A process that ends has not died of it; the next wants it again.
* *Recorded*: a process that ends may have died of it. The next one finds the start without an end, and counts a loss.
  After ``max_losses`` of them, one after the other, it has failed.
* An incarnation of the orchestrator that ends changes nothing: what was wanted lives in the tree and keeps its place or
  its slot, and the next incarnation goes on with it from where it stood.
* A tree that is stopped says so in the journal for all that was begun (``put_back``): that is no loss.

An undo that a team does is not counted here: the team's own journal says what of it was under way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.tasks.journal.subtask_state import LOST
from actors.tasks.model import task_events
from actors.tasks.model.task_errors import AttemptLostError
from actors.tasks.orchestration.messages import TimerFired

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.journal.task_state import TaskState
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.recording import Recording

STOPPED = "its tree was stopped"
"""Why a step that had begun will be called again."""
ENDED = "it was ended for reasons of others"


class Turns:
    """The steps and undos of one orchestrator, up to their beginning."""

    def __init__(self, core: OrchestratorCore, recording: Recording, end: Callable[[Attempt, str], None]) -> None:
        """Make them for one incarnation; ``end`` ends an attempt from outside."""
        self._core, self._recording, self._end = core, recording, end

    def want(
        self,
        state: TaskState,
        attempt: Attempt,
        start: Callable[[], object],
        begin: Callable[[Attempt], None] | None = None,
    ) -> None:
        """Have it begin when its turn has come.

        Args:
            state: its task, which has one at a time.
            attempt: has a detached call, unless a worker or a team does it.
            start: records that it begins.
            begin: has it begin, once that is kept; None: its detached call is started.
        """
        core = self._core
        if attempt.done:
            core.port.post(attempt)  # its outcome may have come while there was no mailbox for it
        elif core.begins_nothing_of(state.id):
            return
        elif state.step:
            core.suspects.passes(state.step_losses, attempt)
            core.act(
                None if state.step_losses else state.id, begin or self._call, attempt
            )  # an incarnation that is gone has recorded it
        elif not core.is_open:
            core.when_open(state.id, partial(self.want, state, attempt, start, begin))
        elif not self._must_wait(state, attempt, partial(self.want, state, attempt, start, begin)):
            start()
            self._begin(state, attempt, begin)

    def _begin(self, state: TaskState, attempt: Attempt, begin: Callable[[Attempt], None] | None) -> None:
        core = self._core
        core.act(core.suspects.waits_for(state.step_losses, state.id), begin or self._call, attempt)

    def _must_wait(self, state: TaskState, attempt: Attempt, again: Callable[[], None]) -> bool:
        """Wait for other suspects, or for a slot, and hold neither meanwhile."""
        core, call = self._core, attempt.call
        if core.suspects.must_wait(state.step_losses, attempt, again):
            if call is not None:
                call.leave_slot()
            return True
        due: Any = TimerFired(core.incarnation, again, state.id)
        if call is not None and not call.has_slot(lambda: core.port.post(due)):
            return True
        core.suspects.passes(state.step_losses, attempt)
        return False

    def _call(self, attempt: Attempt) -> None:
        """Call a step; its time counts from here."""
        core, call, limit = self._core, attempt.call, self._core.settings.step_timeout_s
        if call is not None and call.start() and limit is not None:
            attempt.watch(core.at(core.time() + limit, lambda: self._end(attempt, "timeout")))

    def lost(self, state: TaskState, what: str, name: str) -> AttemptLostError | None:
        """Count that a process is gone with what it had begun; its error, where that was once too often."""
        losses = state.step_losses + 1
        if losses >= self._core.settings.max_losses:
            return AttemptLostError(name, losses, what)
        self.put_back(state, LOST)
        return None

    @property
    def is_ending(self) -> bool:
        """True once all is being stopped: helpers may be down."""
        return self._core.is_ending

    def begins_nothing_of(self, state: TaskState) -> bool:
        """True if nothing more of a task begins here."""
        return self._core.begins_nothing_of(state.id)

    def put_back(self, state: TaskState, why: str = "") -> None:
        """Record that a step that was begun, and has not ended by itself, will be called again."""
        self._core.is_broken_off(state.id)
        why = why or (STOPPED if self._core.is_ending else ENDED)
        if state.step and state.final is None:
            subtask = state.undoing or ""
            self._recording.emit(state, task_events.StepPutBack, state.step, why, subtask)
