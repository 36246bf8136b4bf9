"""Records of the steps of attempts: made by the orchestrator, and acknowledged once the store has them.

The state machine of a step, and who may record when, is told in ``actors.tasks.execution.attempt_steps``. Threads: a
record is made on the tree's loop only, by ``_record``: for an order that lies at the port, or at once for code that
runs on that loop, where nothing lies there that came before. An orchestrator that fails at that begins anew, and the
step goes by the port.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.messaging.reply import Reply
from actors.tasks.execution.attempt_steps import StepCall
from actors.tasks.model import task_events
from actors.tasks.model.attempt_end import AttemptEnded
from actors.tasks.model.task import NO_USAGE, SubtaskStatus
from actors.tasks.orchestration.messages import EffectFailed, StepMade

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
    from actors.tasks.orchestration.recording import Recording


def keep_step(port: OrchestratorPort, attempt: Attempt, step: StepCall, value: Any) -> Reply | None:
    """Have a step recorded. None: it is kept; else what is returned is completed when it is. From any thread.

    Raises:
        AttemptEnded: the attempt is over.
    """
    recording = port.at_work
    if recording is None or port.orders or not port.system.loop.is_here:
        return _by_port(port, attempt, step, value)
    core = recording.core
    if core.closing or core.incarnation.is_over:
        return _by_port(port, attempt, step, value)
    kept = None if port.runtime.durable is None else Reply()
    try:
        _record(recording, attempt, step, value)
        if kept is not None:
            port.runtime.expect(kept)
            core.act(attempt.task, kept.complete)
            core.flush()
    except AttemptEnded:
        raise
    except Exception as error:  # noqa: BLE001 - a bug of ours, and the orchestrator dies of it, not the worker
        port.at_work = None
        port.post(EffectFailed(error, attempt.task))
        return _by_port(port, attempt, step, value)
    return kept


def _by_port(port: OrchestratorPort, attempt: Attempt, step: StepCall, value: Any) -> Reply:
    kept = Reply()
    port.runtime.expect(kept)
    port.tell(StepMade(attempt.task, attempt, step, value, kept))
    return kept


def record_made(recording: Recording, made: StepMade) -> None:
    """Record a step that lay at the port; acknowledge it when that is kept."""
    try:
        _record(recording, made.attempt, made.step, made.value)
    except AttemptEnded as ended:
        made.kept.fail(ended)
    else:
        recording.core.act(made.task, made.kept.complete)


def _record(recording: Recording, attempt: Attempt, step: StepCall, value: Any) -> None:
    """Record a step of an attempt that goes on, where it is not recorded yet."""
    core = recording.core
    state = core.states.get(attempt.task)
    node = state.nodes.get(attempt.subtask.id) if state is not None else None
    is_current = core.runtime.attempts.get(attempt.key) is attempt and not attempt.done
    if state is None or node is None or not is_current or node.run != attempt.spec.start_number:
        raise AttemptEnded(f"the attempt is over: step {step.name!r} is not recorded")
    known = None if node.steps is None else node.steps.by_key.get(step.key)
    is_known = known is not None and known.fingerprint == step.fingerprint  # else it had taken another way before
    if not is_known and node.status is SubtaskStatus.RUNNING:
        if attempt.unrecorded is not NO_USAGE:
            recording.count(attempt)  # with it: what its result has cost counts exactly where the result is kept
        fields = (node.worker or "", node.attempt, step.name, step.number, step.fingerprint, value)
        recording.emit(state, task_events.SubtaskStepped, node.id, *fields, is_of_subtask=step.keep == "subtask")
