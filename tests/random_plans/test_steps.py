"""Random plans with reviews that send back, undos and replans, whose orchestrator dies at a random record.

What is wrong with a result, and what fails, is part of the run, and so is every answer: the same run ends alike,
whoever dies in it. Of every act with an undo there is one more than there are undos of it in the end, or as many where
all was undone: what a revision makes void is undone once, and what is kept is not.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors import Failed
from actors.tasks.planning.replanning import ReplanFeedback
from actors.testing import settle
from tests.faults.cut_points import CuttingStore, require_whole, started, twice
from tests.support.sizes import size
from trees import (
    Approve,
    Check,
    EscalationError,
    Plan,
    Report,
    Retry,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    TaskStatus,
    TaskTimeoutError,
    WorkerSpec,
)

pytestmark = pytest.mark.usefixtures("quiet_log")
PLANS = int(os.environ.get("REGROW_PLANS", size(80, 25)))
AGAIN = Retry(max_attempts=2, initial_s=0.001, max_s=0.001, jitter=0.0)


@dataclass(frozen=True)
class Sub:
    """A subtask: whether it can be undone, how many of its results do not pass, and whether it fails."""

    id: str
    needs: tuple[str, ...]
    undo: bool
    wrong: int
    fails: bool


@dataclass(frozen=True)
class Run:
    """A plan, the settings of its supervisor, and the record at which the orchestrator dies."""

    subs: tuple[Sub, ...]
    review: str
    on_rejected: str
    max_iterations: int
    replan: int
    step_fails: bool
    at: int
    before: bool


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Any of them."""
    subs = []
    for number in range(draw(st.integers(1, 6))):
        earlier = [f"s{each}" for each in range(number)]
        needs = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True)) if earlier else []
        wrong = draw(st.sampled_from([0, 0, 1, 1, 2, 9]))
        fails = draw(st.integers(0, 4)) == 0
        subs.append(Sub(f"s{number}", tuple(sorted(needs)), draw(st.booleans()), wrong, fails))
    review = draw(st.sampled_from(["end", "each"]))
    # Where a task fails while others of it run, how far those come is a matter of time.
    rejected = draw(st.sampled_from(["best_effort", "escalate", *(["fail"] if review == "end" else [])]))
    return Run(
        tuple(subs),
        review,
        rejected,
        draw(st.integers(1, 3)),
        draw(st.integers(0, 2)),
        draw(st.booleans()),
        draw(st.integers(0, 150)),
        draw(st.booleans()),
    )


class World:
    """The tree of one run, and what was done in it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.subs = {sub.id: sub for sub in run.subs}
        self.done: Counter[tuple[str, str]] = Counter()
        """Effects and undos, by subtask."""
        self.keys: Counter[tuple[str, str, int]] = Counter()
        self._lock = threading.Lock()
        self._failed: set[str] = set()

    def _note(self, what: str, id_: str, context: Any) -> None:
        with self._lock:
            self.done[what, id_] += 1
            self.keys[what, context.idempotency_key, context.attempt] += 1

    def execute(self, task: Any, context: Any) -> str:
        if self.subs[task.id[:2]].fails and not task.id.endswith("r"):
            raise Failed("it cannot be done", retryable=False)
        self._note("do", task.id, context)
        return f"{task.id}:{context.revision}"

    def undo(self, task: Any, result: Any, context: Any) -> None:
        self._note("undo", task.id, context)

    def _stumbles(self, step: str) -> None:
        with self._lock:
            first = step not in self._failed
            self._failed.add(step)
        if self.run.step_fails and first:
            raise ConnectionError("no route")

    def plan(self, task: Any, catalogue: Any, feedback: Any) -> Plan:
        self._stumbles("plan")
        if not isinstance(feedback, ReplanFeedback):
            return Plan([self._subtask(sub.id, sub.needs) for sub in self.run.subs])
        other = {id_: f"{id_}r" for id_ in feedback.failed}
        left = [sub for sub in self.run.subs if sub.id in feedback.failed or sub.id in feedback.skipped]
        return Plan(
            [self._subtask(other.get(sub.id, sub.id), tuple(other.get(id_, id_) for id_ in sub.needs)) for sub in left]
        )

    def _subtask(self, id_: str, needs: tuple[str, ...]) -> Subtask:
        return Subtask(id_, worker="undoable" if self.subs[id_[:2]].undo else "plain", depends_on=list(needs))

    def review(self, task: Any, plan: Any, results: dict[str, str]) -> list[Check]:
        self._stumbles("review")
        bad = {id_ for id_, text in results.items() if int(text.partition(":")[2]) < self.subs[id_[:2]].wrong}
        return [Check(id_, id_ not in bad, "again" if id_ in bad else "") for id_ in results]

    def combine(self, task: Any, results: dict[str, str]) -> list[str]:
        self._stumbles("combine")
        return sorted(results)

    def tree(self) -> SupervisorSpec:
        run: Any = self.run
        tasks = Tasks(
            planner=self.plan,
            reviewer=self.review,
            synthesizer=self.combine,
            review=run.review,
            on_rejected=run.on_rejected,
            max_iterations=run.max_iterations,
            replan=run.replan,
            step_retry=AGAIN,
            on_failure=[],
        )
        children = [
            WorkerSpec(id="plain", execute=self.execute, pool=2, breaker=None),
            WorkerSpec(id="undoable", execute=self.execute, undo=self.undo, pool=2, breaker=None),
        ]
        return SupervisorSpec(id="p", max_restarts=1000, tasks=tasks, children=children)

    def play(self, store: CuttingStore) -> Report:
        """The whole run; a person vouches for whatever they are asked about."""
        with started(self.tree(), store) as tree:
            handle = tree.submit(Task("the goal", id="t"))
            for _ in range(400):
                with suppress(EscalationError):  # its orchestrator has just died of it, and is not up again
                    for question in tree.escalations():
                        tree.respond(question.id, Approve())
                with suppress(TaskTimeoutError, TaskFailedError):
                    handle.result(0.05)
                if handle.report is not None:
                    break
            settle(tree)
            require_whole(tree)
        assert handle.report is not None
        return handle.report


def told(report: Report) -> dict[str, Any]:
    """What of a report is the same each time."""
    graph = sorted((each.id, str(each.status), each.attempts) for each in report.graph)
    names = ("status", "output", "results", "failed", "skipped", "iterations", "replans", "best_effort", "undo_errors")
    return {"graph": graph, "compensated": sorted(report.compensated)} | {name: getattr(report, name) for name in names}


def wrong_with(world: World, report: Report, store: CuttingStore) -> list[Any]:
    """What must not be."""
    found: list[Any] = [key for key, count in world.keys.items() if count > 1]
    found += twice(store)
    for each in report.graph:
        if world.subs[each.id[:2]].undo:
            left = world.done["do", each.id] - world.done["undo", each.id]
            if left != (report.status is TaskStatus.SUCCEEDED and each.status == "succeeded"):
                found.append((each.id, each.status, left))
    return found


@pytest.mark.timeout(120 + PLANS)
@settings(max_examples=PLANS, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(run=runs())
def test_whoever_dies_a_revised_and_replanned_task_ends_alike_and_nothing_is_left_or_done_twice(run: Run) -> None:
    undisturbed, whole = World(run), CuttingStore()
    report = undisturbed.play(whole)
    assert wrong_with(undisturbed, report, whole) == []

    world, store = World(run), CuttingStore(1 + run.at % max(1, whole.written), before=run.before)
    found = world.play(store)

    assert told(found) == told(report)
    assert wrong_with(world, found, store) == []
