"""Compensation: what was done, or may have been done, is undone, the newest first, once, and whatever else happens.

It begins when a task cannot succeed any more and nothing of it runs; and for what is void, before that runs again. That
an undo is about to be called is recorded before it is (``actors.tasks.orchestration.step_turns``); what is undone, and
what follows from the end of an undo, is decided in ``actors.tasks.recovery.compensation``. Nothing cancels it.
``advance`` says what is next from where the task stands, after each record and after a resume alike.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messaging.envelope import MessageContext
from actors.model.errors import Failed
from actors.tasks.execution.attempt import STOP, Attempt, AttemptEnded
from actors.tasks.execution.attempt_spec import AttemptSpec
from actors.tasks.execution.context import ContextValues
from actors.tasks.execution.detached_call import DetachedCall
from actors.tasks.execution.revision import NO_REVISION, Revision, work_of
from actors.tasks.journal.effect_record import EffectRecord
from actors.tasks.journal.fold import fold
from actors.tasks.journal.subtask_state import SubtaskState, part_id_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.outcome import Done, Failure, FailureKind
from actors.tasks.model.policy import Answer, Respond, answer_of
from actors.tasks.model.task import SubtaskStatus, instructed
from actors.tasks.model.task_errors import AttemptTimeoutError, NoCapableWorkerError, StoreError
from actors.tasks.orchestration.step_turns import ENDED, STOPPED, Turns
from actors.tasks.recovery import compensation
from actors.tasks.recovery.classify import Neutral, classify
from actors.tasks.scheduling.worker_registry import RegistryEntry
from actors.validation.introspection import is_async

if TYPE_CHECKING:
    from actors.tasks.orchestration.attempt_control import AttemptControl
    from actors.tasks.orchestration.handoff import AttemptHandoff
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore
    from actors.tasks.orchestration.recording import Recording
    from actors.tasks.orchestration.task_results import TaskResults


@dataclass(frozen=True, slots=True)
class UndoParts:
    """Parts that the undoing works with."""

    recording: Recording
    turns: Turns
    results: TaskResults
    control: AttemptControl
    handoff: AttemptHandoff


class UndoDispatch:
    """The compensations of one orchestrator's tasks; one act at a time of each."""

    def __init__(self, core: OrchestratorCore, parts: UndoParts) -> None:
        self._core, self._parts = core, parts
        self._live: dict[str, Attempt] = {}
        """By task."""
        self._left: dict[str, tuple[object, list[tuple[int, SubtaskState, EffectRecord]]]] = {}
        """By task: why it is undone, and what may have to be, the one that was begun last at the end. Made once for
        each end, and for each rework."""

    def advance(self, state: TaskState) -> None:
        """Undo the next act; where there is none left, the task ends, or what is void runs again."""
        if state.id in self._live:
            return
        under_way = state.nodes[state.undoing] if state.undoing is not None else None
        if under_way is not None:
            if under_way.escalation is None:
                self._go_on(state, under_way)
            return
        found = self._next(state)
        if found is None:
            self._left.pop(state.id, None)
            self._parts.recording.record(state, compensation.all_undone(state))
            return
        node, act = found
        self._begin(state, node, act, 1)

    def _next(self, state: TaskState) -> tuple[SubtaskState, EffectRecord] | None:
        """Act that was begun last, of those that are to be undone and can be."""
        why: object = state.ending or state.rework
        kept = self._left.get(state.id)
        if kept is None or kept[0] is not why:
            acts = [
                (act.seq, node, act)
                for node in compensation.void(state)
                for act in node.acts or ()
                if act.needs_compensation
            ]
            kept = self._left[state.id] = why, sorted(acts, key=lambda each: each[0])
        left = kept[1]
        while left:
            _, node, act = left.pop()
            if act.needs_compensation and self._how(state, node, act) is not None:
                return node, act
        return None

    def _how(
        self, state: TaskState, node: SubtaskState, act: EffectRecord
    ) -> Callable[..., Any] | RegistryEntry | str | None:
        """Find what undoes an act: code, a worker, the team that did it; a text where that is gone; None: nothing."""
        entry = self._who_did(act)
        declared = node.spec.undo
        if declared is None and entry is not None:
            declared = entry.executable.undo
        if declared is None and (entry.is_team if entry is not None else act.part):
            # What a team finished is done, also where the act is open (it gave way) or its result was refused above.
            return self._by_team(state, node, act, entry) if act.needs_compensation else None
        if declared is None:
            is_gone = entry is None and act.undoable
            return f"{act.worker!r}, which knew how to undo it, is gone" if is_gone else None
        code: Callable[..., Any]
        if not isinstance(declared, str):
            code = declared
            return code
        if ":" not in declared:
            by = self._core.workers.get(declared)
            return by if by is not None and not by.is_gone else f"{declared!r}, which is to undo it, is gone"
        return partial(_imported, declared)

    def _who_did(self, act: EffectRecord) -> RegistryEntry | None:
        """Find who did it, as the registry knows that one. An older record does not say whether a team did."""
        known = self._core.workers.get_including_removed
        if act.part:
            return known(act.worker, is_team=True)
        return known(act.worker, is_team=False) or known(act.worker, is_team=True)

    def _by_team(
        self, state: TaskState, node: SubtaskState, act: EffectRecord, team: RegistryEntry | None
    ) -> RegistryEntry | str | None:
        """The team that did it; where that is gone, a text if its members had done what only they could undo."""
        if team is not None and not team.is_gone:
            return team
        try:
            nodes = self._in_part(state, node, act)
            is_needed = any(
                each.needs_compensation and (each.undoable or of.spec.undo) for of in nodes for each in of.acts or ()
            )
        except StoreError:
            is_needed = True  # nobody can tell
        return f"The team {act.worker!r}, whose members knew how to undo it, is gone" if is_needed else None

    def _in_part(self, state: TaskState, node: SubtaskState, act: EffectRecord) -> list[SubtaskState]:
        """Subtasks of the part that a team had, by its journal."""
        part = part_id_of(state.id, node, act, state.ids)
        kept = self._core.runtime.outline(part)
        return list(fold(part, kept).nodes.values()) if kept else []

    def holds(self, attempt: Attempt) -> bool:
        """True if a task waits for the end of this attempt."""
        return self._live.get(attempt.task) is attempt

    # -- one act -------------------------------------------------------------------------------------------

    def _go_on(self, state: TaskState, node: SubtaskState) -> None:
        """Go on, in a new incarnation, with an undo that was under way, or waited for its time."""
        act = node.compensating
        if act is None:
            return
        if node.due is not None:
            self._wait_for(state, node, act, node.due)
        else:
            self._begin(state, node, act, node.undo_attempt)

    def _wait_for(self, state: TaskState, node: SubtaskState, act: EffectRecord, due: float) -> None:
        """Call it again when its time has come."""
        number = node.undo_attempt + 1

        def again() -> None:
            if node.compensating is act and node.due == due and state.final is None:
                self._begin(state, node, act, number)

        if due <= self._core.time():
            again()
        else:
            self._core.at(due, again)

    def _begin(self, state: TaskState, node: SubtaskState, act: EffectRecord, number: int) -> None:
        """Have it called when its turn has come; or go on with a call that another incarnation had begun."""
        core, parts, how = self._core, self._parts, self._how(state, node, act)

        def start() -> None:
            parts.recording.emit(state, task_events.Compensating, node.id, act.worker, act.number, number)

        key = f"{state.id}/{node.id}#{act.number}.{act.worker}~undo.{number}"
        attempt = core.runtime.attempts.get(key)
        if attempt is None and how is None and act.part:
            self._is_undone_by_team(state, node, act)
            return
        if attempt is None:
            failure = self._hindered(state, node, how)
            if failure is not None:
                if state.undoing is None or node.undo_attempt != number:
                    start()
                parts.recording.record(
                    state, compensation.given_to_a_person(state, node, act, failure, self._core.facts())
                )
                return
            if parts.turns.begins_nothing_of(state):
                return  # nothing new begins; whoever comes next makes it
            attempt = core.runtime.attempts[key] = Attempt(self._spec(state, node, act, number, key, how))
            if not isinstance(how, RegistryEntry):
                code: Any = how
                DetachedCall(core.runtime, attempt, partial(_undo, code, node.id), is_async=is_async(code))
        self._live[state.id] = attempt
        if attempt.done or attempt.call is not None:
            parts.turns.want(state, attempt, start)
        elif isinstance(how, RegistryEntry):
            parts.turns.want(state, attempt, start, partial(self._give, entry=how))
        else:
            attempt.fail(AttemptEnded(STOP))  # whoever had it is gone

    def _is_undone_by_team(self, state: TaskState, node: SubtaskState, act: EffectRecord) -> None:
        """Record it for a team that is gone and has undone all that was to be: nobody is left to say so."""
        done = any(each.status is SubtaskStatus.COMPENSATED for each in self._in_part(state, node, act))
        draft = compensation.after(state, node, act, Done(None), self._core.facts(), nothing=not done)
        self._parts.recording.record(state, draft)

    def _hindered(self, state: TaskState, node: SubtaskState, how: object) -> Failure | None:
        """Why it is not called: nobody can do it, or it has perhaps killed its process once too often."""
        if how is None or isinstance(how, str):
            gone = "" if how is None else f"{how}; when it is back, Approve() has it undone"
            nobody = NoCapableWorkerError((f"the undo of {node.id}",), task=state.id, hint=gone)
            return Failure(FailureKind.NOBODY, nobody)
        if not state.step or (isinstance(how, RegistryEntry) and how.is_team):
            return None
        lost = self._parts.turns.lost(state, "undo of subtask", node.id)
        return Failure(FailureKind.LOST, lost) if lost is not None else None

    def _limit(self, attempt: Attempt) -> None:
        """As long as a step, from when it has begun: it may have to wait for a worker that has something else to do."""
        if self._core.settings.step_timeout_s is not None:
            self._parts.control.watch_limits(attempt, self._core.settings.step_timeout_s, None)

    def _spec(
        self, state: TaskState, node: SubtaskState, act: EffectRecord, number: int, key: str, how: object
    ) -> AttemptSpec:
        core = self._core
        doer = how.id if isinstance(how, RegistryEntry) else act.worker
        is_by_team = isinstance(how, RegistryEntry) and how.is_team
        result = act.result if act.done else None
        asked_with = self._parts.results.asked_with(state, node.state_for(act.worker, undoing=True))
        values = ContextValues(
            state.task.goal,
            number,
            f"{state.id}/{node.id}/{act.number}/undo",
            inputs={**state.task.inputs, **node.spec.inputs},
            results={node.id: result},
            metadata=state.metadata_of(node.id),
            revision=_told(act, work_of(None, asked_with), node.answer_to_state(act.answers)),
        )
        return AttemptSpec(
            key,
            core.port,
            state.id,
            instructed(node.spec, state.task.goal),
            doer,
            f"{core.path}/{doer}",
            values,
            core.port.waiting_for(state, node),
            role="undo",
            part=part_id_of(state.id, node, act, state.ids) if is_by_team else "",
            counted=act.told if is_by_team else None,
            variables=core.runtime.variables_of(state),
        )

    def _give(self, attempt: Attempt, entry: RegistryEntry) -> None:
        self._limit(attempt)
        if entry.is_team:
            self._parts.handoff.give(attempt, entry)
            return
        if not self._core.runtime.may_start() or not attempt.give_once():
            return
        running = (box for path, box in entry.boxes.items() if entry.members.get(path) == "running")
        box = next(iter(entry.free), None) or next(running, None) or next(iter(entry.boxes.values()))
        attempt.goes_to(box)
        refusal = box.put_unbounded((attempt, attempt, attempt.origin(MessageContext)))
        if refusal is not None:
            attempt.fail(self._core.system.stopped_error(box.path, refusal))

    # -- its end -------------------------------------------------------------------------------------------

    def ended(self, attempt: Attempt, state: TaskState) -> None:
        """An undo has come back."""
        if self._live.get(state.id) is not attempt:
            return
        del self._live[state.id]
        self._parts.recording.count(attempt)
        node = state.nodes[attempt.subtask.id]
        act = node.compensating
        if act is None:  # it was ended before it had begun, with what an incarnation before had wanted
            self._core.runtime.forget(attempt)
            self._left.pop(state.id, None)
            if not self._core.closing:
                self.advance(state)
            return
        outcome = classify(attempt, is_ending=self._core.is_ending)
        if isinstance(outcome, Neutral):
            self._parts.turns.put_back(state, STOPPED if self._core.is_ending else ENDED)
            self._core.runtime.forget(attempt)
            self._core.at(self._core.time() + self._core.pause_s(act), lambda: self.advance(state))
            return
        self._core.goes_on(act)
        if isinstance(outcome, Failure) and outcome.kind is FailureKind.TIMEOUT:
            limit = self._core.settings.step_timeout_s or 0.0
            outcome = Failure(FailureKind.TIMEOUT, AttemptTimeoutError(node.id, node.undo_attempt, "step", limit))
        nothing = attempt.code_outcome.undone is not None and not attempt.code_outcome.undone
        facts = self._core.facts()
        self._parts.recording.record(state, compensation.after(state, node, act, outcome, facts, nothing=nothing))

    def answered(
        self,
        state: TaskState,
        node: SubtaskState,
        event: task_events.EscalationAnswered | task_events.EscalationExpired,
    ) -> None:
        """A person said what is to be done about an undo that failed, or nobody did in time."""
        act = node.compensating
        decided = compensation.answered(node, act, event) if act is not None else None
        if decided is not None:
            self._parts.recording.record(state, decided)
        elif act is not None:
            self._begin(state, node, act, node.undo_attempt + 1)


def _undo(how: Callable[..., Any], subtask: str, task: Any, context: Any) -> Any:
    """Call code that undoes: with the result, which it may change."""
    return how(task, context.results[subtask], context)


def _imported(name: str, task: Any, result: Any, context: Any) -> Any:
    """Call ``module:attr``; importing it runs code of the user's, so it is done where that runs."""
    try:
        found: Any = pkgutil.resolve_name(name)
    except Exception as error:
        said = f"{name!r}, which is to undo it, could not be imported: {type(error).__name__}"
        raise Failed(said, retryable=False) from error
    return found(task, result, context)


def _told(act: EffectRecord, work: dict[str, Any], answer: Answer | None) -> Revision:
    """Facts that an undo sees: what people have answered about it, and the state that it has asked with."""
    if not act.answers and not work:
        return NO_REVISION
    answers = tuple(answer_of(each.answer, each.value) for each in act.answers)
    texts = ("", *(answer.text for answer in answers if isinstance(answer, Respond)))
    return Revision(feedback=texts[-1], history=texts[1:-1], work=work, answers=answers, answer=answer)
