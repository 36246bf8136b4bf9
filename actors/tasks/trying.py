"""What follows from the end of an attempt: it succeeded, it counts for nothing, or it failed and the ladder is climbed.

Comes in: an attempt's outcome (``actors.tasks.classify``). Goes out: records. What the ladder says is decided in
``actors.tasks.ladder``; asking a person is done in ``actors.tasks.people``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.errors import Failed, Later
from actors.tasks import events, ladder
from actors.tasks.attempt import Attempt
from actors.tasks.classify import NEUTRAL, Outcome
from actors.tasks.node import UNBEGUN, UNWANTED, Node
from actors.tasks.outcome import Done, Failure, Kind
from actors.tasks.policy import Ladder
from actors.tasks.schedule import LaneKey
from actors.tasks.state import TaskState
from actors.tasks.task import NO_USAGE, SubtaskStatus, Usage

if TYPE_CHECKING:
    from actors.tasks.orchestrator import Orchestrator


class Trying:
    """The attempts of one orchestrator's subtasks, after they have ended."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._to = orchestrator

    def over(self, state: TaskState, node: Node, attempt: Attempt, outcome: Outcome) -> None:
        """An attempt at a subtask has ended."""
        to = self._to
        if isinstance(outcome, Done):
            done = (attempt.worker, node.attempt, outcome.value, attempt.take_used(), attempt.tokens)
            to.emit(state, events.SubtaskSucceeded, node.id, *done)
            to.course.succeeded(state, node)
        elif outcome is NEUTRAL:
            self._neutral(state, node, attempt)
        elif not to.delegating.is_wanted(node):
            self._unwanted(state, node, attempt, outcome)
        elif isinstance(outcome, Later):
            self._later(state, node, attempt, outcome)
        else:
            self.failed(state, node, outcome, attempt)
        to.course.look_at_budget(state)
        to.course.advance(state)
        if state.paused:
            to.teamwork.paused(state)

    def _neutral(self, state: TaskState, node: Node, attempt: Attempt) -> None:
        """Ended for reasons of others: it counts for nothing, and goes on as soon as it can."""
        to, began = self._to, attempt.started is not None
        if state.ending is not None:
            reason = state.ending.kind
            self._cancelled(state, node, attempt, reason, unknown=began)
            to.course.ask_failed(state, node, f"cancelled: {reason}")
        elif not to.delegating.is_wanted(node):
            self._cancelled(state, node, attempt, UNWANTED, unknown=began)
        elif attempt.ended_by == "preempt" and began:
            usage = attempt.take_used()
            to.emit(state, events.SubtaskPreempted, node.id, attempt.worker, usage)
            to.launching.put_in_queue(state, node)
        else:
            ended = "nobody waited for it, and somebody does again" if attempt.ended_by == "withdrawn" else ""
            why = (ended or f"{attempt.worker} was stopped") if began else UNBEGUN
            to.launching.enqueue(state, node, why, attempt.take_used())

    def _cancelled(self, state: TaskState, node: Node, attempt: Attempt, reason: str, *, unknown: bool) -> None:
        to, usage = self._to, attempt.take_used()
        to.emit(state, events.SubtaskCancelled, node.id, reason, unknown, usage)

    def _unwanted(self, state: TaskState, node: Node, attempt: Attempt, outcome: Failure | Later) -> None:
        """Nobody waits for it any longer: however its attempt has ended, there will be no other one."""
        if isinstance(outcome, Failure):
            self.fails(state, node, outcome, attempt)
        else:
            self._cancelled(state, node, attempt, UNWANTED, unknown=False)

    def _later(self, state: TaskState, node: Node, attempt: Attempt, later: Later) -> None:
        laters = node.standing.laters + 1
        if laters > ladder.MAX_LATERS:
            most = ladder.MAX_LATERS
            error = Failed(f"{attempt.worker} has put it off {laters} times; {most} are the most for one subtask")
            self.failed(state, node, Failure(Kind.FAILED, error, retryable=False), attempt)
            return
        due = self._to.time() + max(0.0, float(later.after_s))
        self._try_again(state, node, attempt, "later", "not now", due, replace(node.standing, laters=laters))

    def failed(self, state: TaskState, node: Node, failure: Failure, attempt: Attempt | None) -> None:
        """An attempt has failed, or could not even be made: the ladder says what follows."""
        to = self._to
        worker = attempt.worker if attempt is not None else node.standing.target or node.spec.worker
        if state.ending is not None:
            self.fails(state, node, failure, attempt)
        elif failure.kind is Kind.REJECTED and attempt is not None and not failure.over_budget:
            rejected = (*node.standing.rejected, attempt.worker)
            standing = replace(node.standing, rejected=rejected, target=None)
            self._try_again(state, node, attempt, Kind.REJECTED.value, failure.text, to.time(), standing)
        else:
            rungs = self.ladder_of(node, worker)
            if failure.kind is Kind.ESCALATED:
                asked = ladder.asked_for(rungs, node.standing, failure.question)
                if asked is not None:
                    to.people.escalate(state, node, failure, attempt, asked)
                    return
            self.decide(state, node, failure, attempt, worker, rungs, node.standing)
        if attempt is None:
            to.course.advance(state)

    def decide(
        self,
        state: TaskState,
        node: Node,
        failure: Failure,
        attempt: Attempt | None,
        worker: str | None,
        rungs: Ladder,
        standing: events.Standing,
    ) -> None:
        """Climb the ladder from ``standing``."""
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
            to.people.escalate(state, node, failure, attempt, decision)
        else:
            self.fails(state, node, failure, attempt)

    def ladder_of(self, node: Node, worker: str | None) -> Ladder:
        """Of the worker that it was first given to, or would be; of the supervisor where that has none."""
        spec, standing = node.spec, node.standing
        given = (*standing.tried, *(act.worker for act in node.acts or () if act.worker not in standing.rejected))
        first = given[0] if given else worker
        if first is None:
            first = next((entry.id for entry in self._to.staff.primaries(LaneKey(spec.worker, spec.capability))), None)
        entry = self._to.staff.get(first)
        own = entry.executable.on_failure if entry is not None else None
        return tuple(own if own is not None else self._to.settings.on_failure)

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
        number = node.made + (kind != Kind.UNANSWERED.value)  # that was a question, and no attempt
        to.emit(
            state,
            events.SubtaskRetrying,
            node.id,
            attempt.worker if attempt is not None else None,
            number,
            kind,
            text,
            due,
            standing,
            used(attempt),
            feedback,
            attempt is not None and attempt.counted,
        )
        self.wait_for(state, node, due)

    def wait_for(self, state: TaskState, node: Node, due: float) -> None:
        """Have the next attempt queued when its time has come."""

        def try_now() -> None:
            if node.status is SubtaskStatus.RETRYING and node.due == due and state.final is None:
                self._to.launching.enqueue(state, node, "another attempt")

        if due <= self._to.time():
            try_now()
        else:
            self._to.at(due, try_now)

    def fails(self, state: TaskState, node: Node, failure: Failure, attempt: Attempt | None) -> None:
        """Nothing is left to try: what needs it is skipped, the rest goes on."""
        to = self._to
        worker = attempt.worker if attempt is not None else node.worker
        number = max(node.attempt, node.made + (attempt is not None or node.status is SubtaskStatus.QUEUED))
        counted = attempt is not None and attempt.counted
        to.emit(
            state,
            events.SubtaskFailed,
            node.id,
            worker,
            number,
            failure.kind.value,
            failure.text,
            used(attempt),
            counted,
        )
        to.course.ask_failed(state, node, failure.text)
        self.skip_dependants(state, node)

    def skip_dependants(self, state: TaskState, failed: Node) -> None:
        """What needs it cannot run. Whatever can do without it goes on."""
        left = [failed]
        while left:
            gone = left.pop()
            if not gone.spec.required:
                continue
            for node in gone.dependants:
                if node.status is SubtaskStatus.PENDING:
                    self._to.course.record_skip(state, node, f"needs {gone.id!r}, which {_ended(gone)}")
                    left.append(node)


def used(attempt: Attempt | None) -> Usage:
    """What an attempt has used up of which there is no record yet."""
    return attempt.take_used() if attempt is not None else NO_USAGE


def _ended(node: Node) -> str:
    return "has failed" if node.status is SubtaskStatus.FAILED else "did not run"
