"""Usage of the parts that teams have of a task: counted once by the orchestrator above, in whatever order things end.

A part tells all that it has used up so far, over all of its attempts. The one above knows how much of that it has
counted (``EffectRecord.told``), and counts the rest. So it does not matter which attempt is told, nor how often.

An attempt is told when its part ends, and when it gives way. A part that ends without an attempt (whoever had asked for
it has ended, its team was stopped, a process was lost) tells the orchestrator above by a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.tasks.execution.attempt import Attempt, AttemptEnded
from actors.tasks.journal.fold import fold
from actors.tasks.journal.reporting import used_so_far
from actors.tasks.journal.subtask_state import part_id_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.task import NO_USAGE, SubtaskStatus
from actors.tasks.model.task_errors import StoreError
from actors.tasks.orchestration.attempt_table import subtask_in
from actors.tasks.orchestration.messages import PartEnded

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
    from actors.tasks.orchestration.recording import Recording
    from actors.tasks.orchestration.task_runtime import TaskRuntime


def tell_usage(attempt: Attempt, state: TaskState) -> None:
    """Add to an attempt what its part has used up and nobody was told."""
    attempt.use(used_so_far(state) - ((attempt.spec.counted or NO_USAGE) + attempt.used))


def tell_of_gone(attempt: Attempt, runtime: TaskRuntime) -> None:
    """Add to an attempt what its part has used up, where its team is gone and says nothing more."""
    if attempt.spec.counted is not None and not attempt.done:
        state = _part(runtime, attempt.spec.path, attempt.spec.part)
        if state is not None:
            tell_usage(attempt, state)


def give_way(attempt: Attempt, state: TaskState) -> None:
    """End the attempt of a part of which nothing runs any more: something more urgent may have its place."""
    if not attempt.done:
        tell_usage(attempt, state)
        attempt.fail(AttemptEnded("preempt"))


def tell_end(state: TaskState, above: OrchestratorPort | None) -> None:
    """Say that a part has ended for which no attempt stands."""
    if above is not None:
        above.tell(PartEnded(*subtask_in(state.parent), state.id, used_so_far(state)))


def _part(runtime: TaskRuntime, path: str, part: str) -> TaskState | None:
    """Return a part as it stands, or as its journal says; None: it was not begun, or its journal is damaged."""
    port = runtime.ports.get(path)
    state = port.states.get(part) if port is not None else None
    if state is not None:
        return state
    try:
        kept = runtime.outline(part)
        return fold(part, kept) if kept else None
    except StoreError:
        return None  # whoever goes on with it says so


class PartUsage:
    """Counts, for one orchestrator, what parts have used up for which no attempt stands."""

    def __init__(self, core: OrchestratorCore, recording: Recording, go_on: Callable[[TaskState], None]) -> None:
        """Make it for one incarnation; ``go_on`` looks what follows for a task that has used up something."""
        self._core, self._recording, self._go_on = core, recording, go_on

    def ended(self, message: PartEnded) -> None:
        """Count the rest of a part that has ended."""
        state = self._core.states.get(message.task)
        node = state.nodes.get(message.subtask) if state is not None and state.final is None else None
        attempts = self._attempts_at(message.part)
        if state is None or node is None or not all(each.done for each in attempts):
            return  # an attempt that has not ended is told all of it
        acts = (each for each in node.acts or () if part_id_of(state.id, node, each, state.ids) == message.part)
        told = sum((each.unrecorded for each in attempts), next((act.told for act in acts), message.used))
        rest = message.used - told
        if rest is not NO_USAGE:
            self._recording.emit(state, task_events.UsageTold, rest, node.id, "", message.part, node.worker or "")
            self._go_on(state)

    def _attempts_at(self, part: str) -> list[Attempt]:
        """Return the attempts at a part, or at undoing it, whose outcome is not recorded yet."""
        attempts = self._core.runtime.attempts.copy().values()
        return [each for each in attempts if each.spec.part == part]

    def resumed(self, state: TaskState) -> None:
        """Count, in a new incarnation, what parts have used up by now that may go on elsewhere, or have ended."""
        for node in [node for node in state.nodes.values() if node.status is not SubtaskStatus.RUNNING]:
            for act in [act for act in node.acts or () if act.part and act.open]:
                part = _part(self._core.runtime, f"{self._core.path}/{act.worker}", act.part)
                if part is not None:
                    self.ended(PartEnded(state.id, node.id, act.part, used_so_far(part)))
