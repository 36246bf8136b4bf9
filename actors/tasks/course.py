"""The course of a task: plan, run, review, combine, and how it ends.

Comes in: what happened to one task. Goes out: records, and what is to be started. Every change goes through ``advance``, which
looks at where the task stands and does the next thing; it is idempotent, so that a new incarnation calls it for every task
that it has folded. Failing a subtask may end its task: so the end is looked for after every change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.errors import Later
from actors.tasks import events, ladder
from actors.tasks.attempt import Attempt
from actors.tasks.classify import NEUTRAL, Neutral
from actors.tasks.errors import EscalationError, SubtaskFailedError
from actors.tasks.holding import Holding
from actors.tasks.node import Act, Node
from actors.tasks.outcome import Done, Failure, Kind
from actors.tasks.policy import Ladder
from actors.tasks.report import Report, reported
from actors.tasks.schedule import LaneKey
from actors.tasks.selection import chain_of
from actors.tasks.state import UNBEGUN, TaskState, with_dependants
from actors.tasks.steps import Steps
from actors.tasks.task import SubtaskStatus, TaskStatus

if TYPE_CHECKING:
    from actors.tasks.hears import Responded
    from actors.tasks.orchestrator import Orchestrator


class Course:
    """Takes tasks through their phases."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator
        self._steps = Steps(orchestrator, self)
        self._holding = Holding(orchestrator)

    # -- beginning -----------------------------------------------------------------------------------------

    def begin(self, state: TaskState) -> None:
        """A task that is new here."""
        if state.deadline is not None:
            self._to.at(state.deadline, lambda: self.end(state, TaskStatus.FAILED, "deadline", "its time is up"))
        self.advance(state)

    def resume(self, state: TaskState) -> None:
        """A task from the journal: what it waits for is waited for again."""
        for node in list(state.nodes.values()):
            status = node.status
            if status is SubtaskStatus.QUEUED:
                self._to.launching.put_in_queue(state, node)
            elif status is SubtaskStatus.RUNNING:
                self._to.launching.adopt(state, node)
            elif status is SubtaskStatus.RETRYING and node.due is not None:
                self._wait_for(state, node, node.due)
            if node.ask is not None and not node.is_done:
                self._to.delegating.known(state, node)
            if node.escalation is not None:
                self.limit_escalation(state, node)
        if state.ending is not None and state.ending.kind != "subtask":
            self._end_all(state)
        self.begin(state)

    def advance(self, state: TaskState) -> None:
        """Do what follows from where a task stands now."""
        if state.final is not None:
            return
        if state.ready:
            ready, state.ready = state.ready, []
            for node in ready:
                if node.status is SubtaskStatus.PENDING:
                    self._became_ready(state, node)
        if state.phase == "planning":
            if state.ending is None:
                self._steps.plan(state)
            else:
                self.finish(state, state.ending.status)
        elif state.phase == "undoing":
            self._to.undoing.advance(state)
        elif not state.open:
            self._all_done(state)

    def _became_ready(self, state: TaskState, node: Node) -> None:
        if state.ending is not None:
            self._skip(state, node, f"the task ended before: {state.ending.kind}")
        else:
            self._to.launching.enqueue(state, node)

    def _all_done(self, state: TaskState) -> None:
        """Every subtask has ended, and nothing has ended the task yet."""
        if state.ending is not None:
            return
        missing = [
            node
            for node in state.nodes.values()
            if node.parent is None and node.spec.required and node.status is not SubtaskStatus.SUCCEEDED
        ]
        if missing:
            culprit = next((node for node in missing if node.status is SubtaskStatus.FAILED), missing[0])
            self.end(state, TaskStatus.FAILED, "subtask", f"{culprit.id}: {culprit.error}")
        elif not state.reviewed and self._to.settings.reviewer is not None:
            self._steps.review(state)
        elif not state.combined and self._to.settings.synthesizer is not None:
            self._steps.combine(state)
        else:
            self.finish(state, TaskStatus.SUCCEEDED)

    # -- attempts ------------------------------------------------------------------------------------------

    def attempt_over(self, state: TaskState, node: Node, attempt: Attempt, outcome: Done | Failure | Neutral | Later) -> None:
        """An attempt at a subtask has ended."""
        to, now = self._to, self._to.time()
        if isinstance(outcome, Done):
            event = events.SubtaskSucceeded(
                to.path, state.id, now, node.id, attempt.worker, node.attempt, outcome.value, outcome.usage
            )
            to.record(state, event)
            self._succeeded(state, node)
        elif outcome is NEUTRAL:
            self._neutral(state, node, attempt)
        elif isinstance(outcome, Later):
            self._later(state, node, attempt, outcome)
        else:
            self.attempt_failed(state, node, outcome, attempt)
        self.advance(state)
        if state.paused:
            to.teamwork.paused(state)

    def _succeeded(self, state: TaskState, node: Node) -> None:
        self._holding.hold(state, node)
        if node.ask is not None:
            self._to.act(self._to.delegating.answer, node.ask, node.value)
        budget = state.task.budget
        over = budget.exceeded_by(state.usage) if budget is not None and state.ending is None else ""
        if over:
            self.end(state, TaskStatus.FAILED, "budget", over)

    def _neutral(self, state: TaskState, node: Node, attempt: Attempt) -> None:
        """Ended for reasons of others: it counts for nothing, and goes on as soon as it can."""
        to, began = self._to, attempt.started is not None
        if state.ending is not None:
            reason = state.ending.kind
            to.record(state, events.SubtaskCancelled(to.path, state.id, to.time(), node.id, reason, unknown=began))
            self._ask_failed(state, node, f"cancelled: {reason}")
        elif attempt.ended_by == "withdrawn":
            to.record(state, events.SubtaskCancelled(to.path, state.id, to.time(), node.id, "", unknown=began))
        elif attempt.ended_by == "preempt" and began:
            to.record(state, events.SubtaskPreempted(to.path, state.id, to.time(), node.id, attempt.worker))
            to.launching.put_in_queue(state, node)
        else:
            to.launching.enqueue(state, node, f"{attempt.worker} was stopped" if began else UNBEGUN)

    def _later(self, state: TaskState, node: Node, attempt: Attempt, later: Later) -> None:
        laters = node.standing.laters + 1
        if laters > ladder.MAX_LATERS:
            self.attempt_failed(state, node, Failure(Kind.FAILED, later, retryable=False), attempt)
            return
        due = self._to.time() + max(0.0, float(later.after_s))
        self._try_again(state, node, attempt, "later", "not now", due, replace(node.standing, laters=laters))

    def attempt_failed(self, state: TaskState, node: Node, failure: Failure, attempt: Attempt | None) -> None:
        """An attempt has failed, or could not even be made: the ladder says what follows."""
        to = self._to
        worker = attempt.worker if attempt is not None else node.standing.target or node.spec.worker
        if state.ending is not None:
            self._fails(state, node, failure, attempt)
        elif failure.kind is Kind.REJECTED and attempt is not None:
            rejected = (*node.standing.rejected, attempt.worker)
            standing = replace(node.standing, rejected=rejected, target=None)
            self._try_again(state, node, attempt, Kind.REJECTED.value, failure.text, to.time(), standing)
        else:
            rungs = self._ladder_of(node, worker)
            if failure.kind is Kind.ESCALATED:
                rung = ladder.asks_at_once(rungs, node.standing)
                if rung is not None:
                    standing = ladder.rung_of(rungs, rung, node.standing)
                    question = rung.question or failure.question
                    self._escalate(state, node, failure, attempt, question, rung.timeout_s, standing)
                    return
            self._decide(state, node, failure, attempt, worker, rungs, node.standing)
        if attempt is None:
            self.advance(state)

    def _decide(
        self,
        state: TaskState,
        node: Node,
        failure: Failure,
        attempt: Attempt | None,
        worker: str | None,
        rungs: Ladder,
        standing: events.Standing,
    ) -> None:
        to = self._to
        lane = LaneKey(node.spec.worker, None if node.spec.worker is not None else node.spec.capability)

        def successor(tried: tuple[str, ...]) -> str | None:
            return to.staff.successor(lane, tried, standing.rejected, to.time())

        decision = ladder.decide(rungs, standing, failure, worker, successor, to.system.random)
        if isinstance(decision, ladder.TryAgain):
            due = to.time() + decision.delay_s
            feedback = failure.text if failure.kind is Kind.INVALID else ""
            self._try_again(
                state, node, attempt, failure.kind.value, failure.text, due, decision.standing, feedback=feedback
            )
        elif isinstance(decision, ladder.AskPerson):
            self._escalate(
                state, node, failure, attempt, decision.question, decision.timeout_s, decision.standing
            )
        else:
            self._fails(state, node, failure, attempt)

    def _ladder_of(self, node: Node, worker: str | None) -> Ladder:
        """Of the worker that it was first given to; of the supervisor where that has none."""
        first = node.standing.tried[0] if node.standing.tried else worker
        entry = self._to.staff.get(first)
        own = entry.executable.on_failure if entry is not None else None
        return own if own is not None else self._to.settings.on_failure

    def _try_again(
        self,
        state: TaskState,
        node: Node,
        attempt: Attempt | None,
        kind: str,
        text: str,
        due: float,
        standing: events.Standing,
        *,
        feedback: str = "",
    ) -> None:
        to = self._to
        number = node.made + 1
        event = events.SubtaskRetrying(
            to.path,
            state.id,
            to.time(),
            node.id,
            attempt.worker if attempt is not None else None,
            number,
            kind,
            text,
            due,
            standing,
            _used(attempt),
            feedback,
        )
        to.record(state, event)
        self._wait_for(state, node, due)

    def _wait_for(self, state: TaskState, node: Node, due: float) -> None:
        def try_now() -> None:
            if node.status is SubtaskStatus.RETRYING and node.due == due and state.final is None:
                self._to.launching.enqueue(state, node, "another attempt")

        if due <= self._to.time():
            try_now()
        else:
            self._to.at(due, try_now)

    def _fails(self, state: TaskState, node: Node, failure: Failure, attempt: Attempt | None) -> None:
        to = self._to
        worker = attempt.worker if attempt is not None else node.worker
        number = max(node.attempt, node.made + (attempt is not None or node.status is SubtaskStatus.QUEUED))
        event = events.SubtaskFailed(
            to.path, state.id, to.time(), node.id, worker, number, failure.kind.value, failure.text, _used(attempt)
        )
        to.record(state, event)
        self._ask_failed(state, node, failure.text)
        self._skip_dependants(state, node)

    def _skip_dependants(self, state: TaskState, failed: Node) -> None:
        """What needs it cannot run. Whatever can do without it goes on."""
        left = [failed]
        while left:
            gone = left.pop()
            if not gone.spec.required:
                continue
            for node in gone.dependants:
                if node.status is SubtaskStatus.PENDING:
                    self._record_skip(state, node, f"needs {gone.id!r}, which {_ended(gone)}")
                    left.append(node)

    def _skip(self, state: TaskState, node: Node, reason: str) -> None:
        self._record_skip(state, node, reason)
        self._ask_failed(state, node, reason)

    def _record_skip(self, state: TaskState, node: Node, reason: str) -> None:
        to = self._to
        to.record(state, events.SubtaskSkipped(to.path, state.id, to.time(), node.id, reason))

    def _ask_failed(self, state: TaskState, node: Node, text: str) -> None:
        if node.ask is not None:
            error = SubtaskFailedError(state.id, node.id, text)
            self._to.act(self._to.delegating.answer, node.ask, None, error)

    # -- people --------------------------------------------------------------------------------------------

    def _escalate(
        self,
        state: TaskState,
        node: Node,
        failure: Failure,
        attempt: Attempt | None,
        question: str,
        timeout_s: float | None,
        standing: events.Standing,
    ) -> None:
        to, now = self._to, self._to.time()
        due = None if timeout_s is None else now + timeout_s
        id_ = f"{state.id}:{node.id}:{state.raised + 1}"
        text = question or f"{node.id} failed. What now?"
        event = events.EscalationRaised(
            to.path,
            state.id,
            now,
            node.id,
            id_,
            text,
            failure.text,
            due,
            standing,
            usage=_used(attempt),
            kind=failure.kind.value,
            worker=attempt.worker if attempt is not None else None,
        )
        to.record(state, event)
        self.limit_escalation(state, node)
        if attempt is None:
            self.advance(state)

    def limit_escalation(self, state: TaskState, node: Node) -> None:
        """See to it that an open question ends when its time is up."""
        escalation = node.escalation
        if escalation is None or escalation.due is None:
            return
        id_ = escalation.id

        def too_late() -> None:
            if id_ in state.escalations and state.final is None:
                self._expired(state, node, id_)

        self._to.at(escalation.due, too_late)

    def _expired(self, state: TaskState, node: Node, id_: str) -> None:
        to, undoing = self._to, state.escalations[id_].undoing
        to.record(state, events.EscalationExpired(to.path, state.id, to.time(), node.id, id_))
        if undoing:
            to.undoing.given_up(state, node, "nobody answered in time")
        else:
            failure = Failure(Kind.UNANSWERED, EscalationError(id_, f"nobody answered in time; it had failed: {node.error}"))
            standing = replace(node.standing, rung=node.standing.rung + 1)
            self._decide(state, node, failure, None, node.worker, self._ladder_of(node, node.worker), standing)
        self.advance(state)

    def responded(self, state: TaskState, responded: Responded) -> None:
        """A person answered."""
        escalation = state.escalations.get(responded.escalation)
        if escalation is None:
            return
        to, node = self._to, state.nodes[escalation.subtask]
        answer, value = responded.answer, responded.value
        event = events.EscalationAnswered(to.path, state.id, to.time(), node.id, escalation.id, answer, value)
        to.record(state, event)
        if escalation.undoing:
            to.undoing.answered(state, node, answer, value)
        elif answer in {"approve", "respond"}:
            to.launching.enqueue(state, node, f"a person said: {answer}")
        elif answer == "edit":
            done = events.SubtaskSucceeded(to.path, state.id, to.time(), node.id, "person", node.attempt, value)
            to.record(state, done)
            self._succeeded(state, node)
        else:
            denied = EscalationError(escalation.id, f"a person said no: {value}" if value else "a person said no")
            self._fails(state, node, Failure(Kind.DENIED, denied), None)
        self.advance(state)

    # -- ending --------------------------------------------------------------------------------------------

    def cancel(self, state: TaskState, reason: str) -> None:
        """Somebody does not want it any more. What is being undone goes on being undone."""
        self.end(state, TaskStatus.CANCELLED, "cancel", reason or "somebody cancelled it")

    def end(self, state: TaskState, status: TaskStatus, kind: str, error: str) -> None:
        """It cannot succeed any more: nothing new begins, and what runs is ended (but after a failure it finishes)."""
        if state.final is not None or state.ending is not None:
            return
        to = self._to
        to.record(state, events.TaskEnding(to.path, state.id, to.time(), status, kind, error))
        self._steps.end(state)
        self._end_all(state)
        self.advance(state)

    def _end_all(self, state: TaskState) -> None:
        to = self._to
        kind = state.ending.kind if state.ending is not None else ""
        for node in list(state.nodes.values()):
            if node.is_done:
                continue
            if node.status is SubtaskStatus.RUNNING:
                if node.live is not None and kind != "budget":
                    to.launching.end(node.live, "cancel")
                continue
            to.launching.queue.withdraw(node.ticket)
            if node.made or node.status is SubtaskStatus.WAITING:
                to.record(state, events.SubtaskCancelled(to.path, state.id, to.time(), node.id, kind, unknown=False))
                self._ask_failed(state, node, f"cancelled: {kind}")
            else:
                self._skip(state, node, f"the task ended before: {kind}")

    def withdraw(self, state: TaskState, node: Node) -> None:
        """Nobody waits any longer for a subtask that was asked for."""
        to = self._to
        if node.is_done:
            return
        if node.status is SubtaskStatus.RUNNING:
            if node.live is not None:
                to.launching.end(node.live, "withdrawn")
            return
        to.launching.queue.withdraw(node.ticket)
        event = events.SubtaskCancelled(to.path, state.id, to.time(), node.id, "nobody waits for it", unknown=False)
        to.record(state, event)
        self.advance(state)

    def finish(self, state: TaskState, status: TaskStatus) -> None:
        """The end: the report is told to whoever waits."""
        to = self._to
        if state.final is not None:
            return
        to.record(state, events.TaskFinished(to.path, state.id, to.time(), status, state.best_effort))
        report = self.report_of(state)
        self._holding.forget(state)
        to.store.finish(state.id)
        self._steps.forget(state)
        to.act(to.desk.keep, report)
        if state.parent is not None:
            to.act(to.teamwork.answer, state.parent, report)
        to.states.pop(state.id, None)

    def report_of(self, state: TaskState) -> Report:
        """What became of a task that has ended."""
        return reported(state, lambda: self._to.store.read(state.id))

    # -- what an attempt sees ------------------------------------------------------------------------------

    def results_for(self, state: TaskState, node: Node) -> dict[str, Any]:
        """The results of what it depends on."""
        if not node.spec.depends_on:
            return {}
        return self._holding.results(state, node.spec.depends_on)

    def results(self, state: TaskState) -> dict[str, Any]:
        """All results of the plan, also those that are not held any more."""
        return self._holding.results(state, [node.id for node in state.nodes.values() if node.parent is None])

    def result_of(self, state: TaskState, node: Node, act: Act) -> Any:
        """What an undo is told of what is to be undone; None where that is not known."""
        return self._holding.result_of(state, node, act.result) if act.done else None

    def addresses(self, state: TaskState, node: Node) -> tuple[Any, ...]:
        """Who stands in the ancestry of an attempt: those who wait for its task, and the team; never an orchestrator."""
        if node.chain:
            return self._to.desk.addresses(node.chain)
        return self._to.desk.addresses((*chain_of(state, node), self._to.path))

    def step_ended(self, attempt: Attempt, state: TaskState) -> None:
        """A planner, a reviewer or a synthesizer has come back."""
        self._steps.ended(attempt, state)


def _used(attempt: Attempt | None) -> Any:
    from actors.tasks.task import NO_USAGE  # noqa: PLC0415

    return attempt.used if attempt is not None else NO_USAGE


def _ended(node: Node) -> str:
    return "has failed" if node.status is SubtaskStatus.FAILED else "did not run"


__all__ = ["Course", "with_dependants"]
