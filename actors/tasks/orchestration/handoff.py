"""Attempts on their way to whoever does them: made, given, and after an orchestrator or a process has ended taken up.

What became of an attempt that was under way is found in three ways. It is in the tree still: it is waited for, however
it ends. It was lost with its process, and a team has it: the same attempt is given to the team once more, so what the
team has finished of it stays finished. It was lost, and a worker had it: its subtask is queued again and anybody who
can do it may have it; that is no failure and no attempt, and the idempotency key stays what it was.

But perhaps its process died of it (a segmentation fault, no memory left): then every next process would, too. So losses
are counted in the journal, for every attempt that was under way, and after ``max_losses`` of them, one after the other,
the attempt has failed as ``lost`` and its ladder goes on. Which of several that were under way was the culprit nobody
can tell. Those on their last chance therefore run one at a time (``actors.tasks.scheduling.suspects``): the process can
die of one of them only, and the others get through. A process that is stopped and says so loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.messaging.envelope import MessageContext
from actors.messaging.mailbox import Refusal
from actors.tasks.execution import attempt as ending
from actors.tasks.execution.attempt import Attempt, AttemptEnded
from actors.tasks.execution.attempt_spec import AttemptSpec
from actors.tasks.execution.attempt_steps import NO_STEPS
from actors.tasks.execution.context import ContextValues, notes_of_member, results_of_member
from actors.tasks.execution.revision import NO_REVISION, Revision, revision_of_member, work_of
from actors.tasks.journal.effect_record import UNBEGUN
from actors.tasks.journal.reporting import kept_results, total_usage
from actors.tasks.journal.subtask_state import LOST, SubtaskState, part_id_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.outcome import Failure, FailureKind
from actors.tasks.model.policy import answer_of
from actors.tasks.model.task import NO_USAGE, Budget, Subtask, instructed
from actors.tasks.model.task_errors import AttemptLostError, StoreError
from actors.tasks.orchestration.attempt_table import RunningAttempt, attempt_key
from actors.tasks.orchestration.task_results import notes_of
from actors.tasks.scheduling.worker_registry import RegistryEntry

if TYPE_CHECKING:
    from actors.tasks.orchestration.attempt_control import AttemptControl
    from actors.tasks.orchestration.breaker_records import BreakerRecords
    from actors.tasks.orchestration.deciding import Deciding
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.recording import Recording
    from actors.tasks.orchestration.task_results import TaskResults
    from actors.tasks.orchestration.team_calls import TeamCalls


@dataclass(frozen=True, slots=True)
class HandoffParts:
    """Parts that the handoff of attempts works with."""

    recording: Recording
    results: TaskResults
    control: AttemptControl
    breakers: BreakerRecords
    deciding: Deciding
    team_calls: TeamCalls


class AttemptHandoff:
    """The attempts of one orchestrator, before they begin."""

    def __init__(self, core: OrchestratorCore, parts: HandoffParts) -> None:
        self._core, self._parts = core, parts
        self._kept_back: list[tuple[Attempt, RegistryEntry]] = []
        """For teams that are not up yet."""
        self._earlier: tuple[AttemptSpec | None, dict[str, Any]] = None, {}
        """Results of the earlier part of the team's attempt that was last asked for."""

    # -- making one ----------------------------------------------------------------------------------------

    def make(self, state: TaskState, node: SubtaskState, entry: RegistryEntry, losses: int = 0) -> AttemptSpec:
        """Specify the attempt that was recorded last."""
        core, spec, executable, task = self._core, node.spec, entry.executable, state.task
        goal, inputs, own, timeout_s = task.goal, task.inputs, spec.inputs, spec.timeout_s
        ask = core.runtime.asks.get(node.ask) if node.ask is not None else None
        variables = ask.variables if ask is not None else None  # else those of its task
        team = core.runtime.attempt_of(state) if state.parent is not None else None
        results = self._parts.results.of(state, spec.depends_on) if spec.depends_on else {}
        values = ContextValues(
            goal if team is None else team.spec.values.goal,
            node.attempt,
            f"{state.id}/{node.id}/{node.act}",
            {**inputs, **own} if inputs or own else {},
            results if team is None else results_of_member(team.spec.values, results),
            state.metadata_of(node.id) if state.has_metadata else state.task.metadata,
            NO_REVISION if team is None and node.is_new else self._revision(state, node, team, entry),
            "" if team is None else goal,
            notes_of_member(None if team is None else team.spec.values, notes_of(state, results)),
        )
        return AttemptSpec(
            attempt_key(state, node, node.attempt),
            core.port,
            state.id,
            instructed(spec, goal),
            entry.id,
            entry.path,
            values,
            core.port.waiting_for(state, node),
            (*state.lineage, *node.lineage) if node.lineage or state.lineage else (),
            None if state.deadline is None and ask is None else core.due_of(state, ask),
            timeout_s if timeout_s is not None else executable.timeout_s,
            start_number=node.run,
            hops=state.hops,
            priority=task.priority,
            preemptible=_is_preemptible(spec, entry),
            budget=_budget_of(state, node) if entry.is_team else None,
            part=part_id_of(state.id, node, node.acts[-1], state.ids) if entry.is_team and node.acts else "",
            done_before=_done_before(state, node) if entry.is_team else "",
            adapter=entry.adapter,
            variables=variables if variables is not None else core.runtime.variables_of(state),
            steps=NO_STEPS if node.steps is None else self._parts.results.steps(state, node.steps),
            losses=losses,
            counted=node.acts[-1].told if entry.is_team and node.acts else None,
            used_before=node.used_in_act,
        )

    def _revision(self, state: TaskState, node: SubtaskState, team: Attempt | None, entry: RegistryEntry) -> Revision:
        """Facts about what was done before: by this subtask, and where its team was sent back by the team, too."""
        own, so_far = NO_REVISION, node.revisions
        if not node.is_new:
            previous = node.value
            answers = tuple(answer_of(each.answer, each.value) for each in so_far.answers)
            asked_with = self._parts.results.asked_with(state, node.state_for(entry.id))
            work = work_of(previous, asked_with)
            own = Revision(
                so_far.number, so_far.feedback, so_far.earlier, work, answers, node.answer_to_state(so_far.answers)
            )
        if team is None:
            return own
        earlier = None
        if own.previous is None and team.spec.done_before:
            earlier = self._earlier_results(team.spec).get(node.id)
        return revision_of_member(team.spec.values, own, earlier)

    def _earlier_results(self, team: AttemptSpec) -> dict[str, Any]:
        """Results that members of a team have had in an earlier part, which was sent back.

        Those of one revision ask one after the other. The next task of an id has parts of the same ids.
        """
        known, done = self._earlier
        if known is not team:
            try:
                done = kept_results(self._core.runtime.outline(team.done_before))
            except StoreError:
                done = {}  # its journal is damaged, or gone: its members begin without
            self._earlier = team, done
        return done

    # -- giving it -----------------------------------------------------------------------------------------

    def give(self, attempt: Attempt, entry: RegistryEntry) -> None:
        """Put an attempt into the mailbox of its worker or team. Nothing else happens to it here before its end.

        A team whose orchestrator is down takes it over when that is up, or it ends with the news that the team is gone.
        """
        if entry.is_team and not entry.is_up and not entry.is_gone:
            self._kept_back.append((attempt, entry))
            return
        if attempt.done or not self._core.runtime.may_start() or not attempt.give_once():
            return
        box: Any = attempt.target
        if entry.is_team:
            present = self._core.port.workers.get(entry.id)  # as a later incarnation knows it, where there is one
            if not self._parts.team_calls.give(attempt, entry) and (present is None or present.is_gone):
                attempt.refuse(self._core.port.down())
        elif (refusal := box.put_unbounded((attempt, attempt, attempt.origin(MessageContext)))) is not None:
            attempt.refuse(self._core.system.stopped_error(box.path, refusal))

    def changed(self, entry: RegistryEntry) -> None:
        """A team stands somewhere else now: what it could not be given before it gets, or hears that it cannot."""
        if self._kept_back:
            kept_back, self._kept_back = self._kept_back, []
            for attempt, team in kept_back:
                self.give(attempt, entry if team.id == entry.id else team)

    # -- taking it up again --------------------------------------------------------------------------------

    def adopt(self, state: TaskState, node: SubtaskState) -> None:
        """A subtask whose attempt was under way when the last incarnation ended: wait for it, or run it again."""
        core = self._core
        attempt = core.runtime.attempts.get(attempt_key(state, node, node.attempt))
        if attempt is not None and attempt.spec.start_number != node.run:
            attempt = None  # one from before, of which all is recorded
        entry = core.workers.get(node.worker if attempt is None else attempt.spec.worker)
        if attempt is not None and entry is not None and entry.is_team is not bool(attempt.spec.part):
            entry = None  # a worker has the id of the team that it was made for, or a team that of the worker
        if attempt is not None and (entry is not None or attempt.was_given):
            self._wait_for(node, attempt, entry)
        elif entry is not None and entry.is_team and not entry.is_gone and not core.is_idle(node):
            self._give_again(state, node, entry)
        elif attempt is not None:
            self._queue_again(state, node, UNBEGUN)  # it was never given to the worker that is gone
        elif node.losses + 1 < core.settings.max_losses:
            self._queue_again(state, node, LOST)
        else:
            self._give_up(state, node, entry)

    def _queue_again(self, state: TaskState, node: SubtaskState, why: str) -> None:
        ended_at = self._core.runtime.heard_last(state) if why == LOST else 0.0
        fields = (node.id, why, NO_USAGE, node.worker or "", ended_at)
        self._parts.recording.emit(state, task_events.SubtaskPutBack, *fields)

    def _give_up(self, state: TaskState, node: SubtaskState, entry: RegistryEntry | None) -> None:
        """Fail an attempt whose process has ended with it once too often."""
        core, losses = self._core, node.losses + 1
        if entry is None:
            self._parts.deciding.failed(state, node, Failure(FailureKind.LOST, AttemptLostError(node.id, losses)))
            return
        attempt = Attempt(self.make(state, node, entry, losses))
        attempt.end_for(ending.LOST)
        attempt.fail(AttemptEnded(ending.LOST))
        row = self._parts.control.hold(attempt, node)
        self._parts.breakers.begin(row, entry, core.time())

    def _give_again(self, state: TaskState, node: SubtaskState, entry: RegistryEntry) -> None:
        """A team had it: what it has of it may be finished, under way, or not even begun."""
        spec, now = self.make(state, node, entry), self._core.system.now()
        attempt = Attempt(spec, now)  # the time that it may take starts anew
        row = self._parts.control.hold(attempt, node)
        entry.reassign(attempt.key, None)
        self._resume_limits(row, entry)
        self._core.act(self._core.suspects.waits_for(node.losses, state.id), self.give, attempt, entry)

    def _wait_for(self, node: SubtaskState, attempt: Attempt, entry: RegistryEntry | None) -> None:
        core = self._core
        row = self._parts.control.hold(attempt, node)
        core.suspects.passes(node.losses, attempt)
        if attempt.spec.part and attempt.was_given and (entry is None or entry.is_gone):
            attempt.fail(core.system.stopped_error(attempt.spec.path, Refusal.STOPPED))  # nobody has heard of its stop
        if entry is not None:
            box: Any = attempt.target
            entry.reassign(attempt.key, box, was_refused=attempt.was_refused)
            self._resume_limits(row, entry)
            if not attempt.was_given:
                core.act(core.suspects.waits_for(node.losses, attempt.task), self.give, attempt, entry)
        if attempt.done:
            core.port.post(attempt)  # its outcome may have come while there was no mailbox for it
        elif attempt.ended_by is not None and not attempt.spec.part:  # a team takes its time
            self._parts.control.replace_after_grace(attempt)

    def _resume_limits(self, row: RunningAttempt, entry: RegistryEntry) -> None:
        self._parts.breakers.resume(row, entry)
        self._parts.control.watch(row.attempt, row.node, entry)


def _is_preemptible(spec: Subtask, entry: RegistryEntry) -> bool:
    """True where it may be interrupted: no payment is cut in half, and a thread cannot be."""
    if not (entry.is_async or entry.is_team) or not spec.preemptible:
        return False
    has_undo = spec.undo is not None or entry.executable.undo is not None
    return not has_undo or "preemptible" in spec.model_fields_set


def _budget_of(state: TaskState, node: SubtaskState) -> Budget | None:
    """Budget of a team's attempt: the rest of its own, and no more than the rest of the whole task's."""
    left = state.task.budget.left(total_usage(state)) if state.task.budget is not None else None
    own = node.spec.budget.left(node.total_usage) if node.spec.budget is not None else None
    return left if own is None else own if left is None else own.within(left)


def _done_before(state: TaskState, node: SubtaskState) -> str:
    """Return the id of the last part that a team has done of a subtask before the present one; else nothing."""
    for act in reversed((node.acts or ())[:-1]):
        if act.done:
            return part_id_of(state.id, node, act, state.ids)
    return ""
