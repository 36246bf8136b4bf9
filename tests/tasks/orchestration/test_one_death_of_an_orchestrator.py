"""What runs is the same after its orchestrator, or that of its team, has died once: its rank, its time, its slot."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from actors import Event, Reply
from actors.tasks.model.task_events import (
    SubtaskPreempted,
    SubtaskQueued,
    SubtaskStarted,
    TaskPaused,
    TaskPriorityChanged,
)
from actors.testing import ManualClock
from tests.faults.cut_points import Cut
from tests.support.crew import faulty
from tests.support.hardening import LONG_S, Gate, eventually
from tests.tasks.journal.test_resume_storm import hardy
from tests.tasks.orchestration.test_asks_of_broken_off_attempts import FOUND, Desk, asked_again_at_6_of_10, asker, shop
from tests.tasks.resuming import Change, NotingStore, settle_orchestrators
from trees import Budget, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

DIES = pytest.mark.parametrize("dies", [False, True])


class CutOnce(NotingStore):
    """It breaks down once, at a record of a kind, and with it the orchestrator that makes it."""

    def __init__(self, stream: str, kind: str, *, dies: bool, subtask: str = "") -> None:
        super().__init__()
        self._at = (stream, kind, subtask)
        self.is_to_come = dies

    def append(self, stream: str, record: Event) -> None:
        at = (stream, type(record).__name__, getattr(record, "subtask", "") if self._at[2] else "")
        if self.is_to_come and at == self._at:
            self.is_to_come = False
            raise Cut
        super().append(stream, record)


def waits_for(done: Reply) -> tuple[threading.Event, list[int], Callable[..., Any]]:
    """An async worker that waits: what says that it has begun, how often it has, and it."""
    began, begun = threading.Event(), list[int]()

    async def work(*_: Any) -> str:
        begun.append(1)
        began.set()
        await done
        return "done"

    return began, begun, work


def tree_of(plan: dict[str, str], *children: Any, **tasks: Any) -> SupervisorSpec:
    """A root that does one subtask for each goal, by the worker that the plan has for that."""

    def planned(task: Any, *_: Any) -> list[Subtask]:
        return [Subtask(plan[task.goal])]

    return hardy(SupervisorSpec(id="p", tasks=Tasks(planner=planned, on_failure=[], **tasks), children=list(children)))


FAST = WorkerSpec(id="fast", execute=lambda *_: "fast")


def queued(tree: Any, store: NotingStore, task: str) -> None:
    """Wait until a subtask of a task is in line, and that has had its effect."""
    store.changes_when(SubtaskQueued, task)
    settle_orchestrators(tree)


@DIES
def test_a_priority_that_was_changed_protects_what_runs(*, dies: bool) -> None:
    done, store = Reply(), CutOnce("u", "Planned", dies=dies)
    began, begun, slow = waits_for(done)
    spec = tree_of({"later": "slow", "now": "fast"}, WorkerSpec(id="slow", execute=slow), FAST, max_parallel=1)
    with start(spec, store=store) as tree:
        later = tree.submit(Task("later", id="t", priority=5))
        assert began.wait(LONG_S)
        later.set_priority(1)
        store.changes_when(TaskPriorityChanged, "t")
        now = tree.submit(Task("now", id="u", priority=3))
        queued(tree, store, "u")
        done.complete()
        later.result(LONG_S)
        now.result(LONG_S)

    assert not store.is_to_come
    assert begun == [1]


@DIES
def test_a_part_of_a_team_has_the_priority_that_it_was_given_last(*, dies: bool) -> None:
    done, store = Reply(), CutOnce("t@team:1.1", "SubtaskSucceeded", dies=dies)
    began, _, slow = waits_for(done)
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("m")]), on_failure=[], max_parallel=1),
        children=[WorkerSpec(id="m", execute=slow)],
    )
    with start(tree_of({"go": "team"}, team), store=store) as tree:
        handle = tree.submit(Task("go", id="t", priority=5))
        assert began.wait(LONG_S)
        handle.set_priority(1)
        store.changes_when(TaskPriorityChanged, "t@team:1.1")
        done.complete()
        handle.result(LONG_S)

    kept = [each for each in store.journals["t@team:1.1"] if isinstance(each, TaskPriorityChanged)]
    assert [each.priority for each in kept] == [1]


@DIES
def test_what_was_begun_for_what_it_had_waited_is_protected_by_that(*, dies: bool) -> None:
    first, done, clock = Reply(), Reply(), ManualClock()
    store = CutOnce("u", "Planned", dies=dies)
    blocks, _, block = waits_for(first)
    began, begun, slow = waits_for(done)
    children = [WorkerSpec(id="block", execute=block), WorkerSpec(id="slow", execute=slow), FAST]
    spec = tree_of({"b": "block", "t": "slow", "u": "fast"}, *children, max_parallel=1, age_s=10.0)
    with start(spec, store=store, clock=clock) as tree:
        handles = [tree.submit(Task("b", id="b", priority=0))]
        assert blocks.wait(LONG_S)
        handles.append(tree.submit(Task("t", id="t", priority=5)))
        queued(tree, store, "t")
        clock.advance(35)  # it is begun as one of priority 2
        first.complete()
        assert began.wait(LONG_S)
        handles.append(tree.submit(Task("u", id="u", priority=3)))
        queued(tree, store, "u")
        done.complete()
        for handle in handles:
            handle.result(LONG_S)

    assert begun == [1]


@DIES
def test_for_one_slot_one_gives_way(*, dies: bool) -> None:
    """The team takes its time, because its member may not be interrupted."""
    done, other, store = Reply(), Reply(), CutOnce("v", "Planned", dies=dies)
    in_team, _, hard = waits_for(done)
    beside, begun, work = waits_for(other)
    plan = [Subtask("hard"), Subtask("more", worker="hard", depends_on=["hard"])]
    team = SupervisorSpec(
        id="a",
        tasks=Tasks(planner=StaticPlan(plan), on_failure=[]),
        children=[WorkerSpec(id="hard", execute=hard, undo=lambda *_: None)],
    )
    goals = {"a": "a", "b": "b", "u": "fast", "v": "fast"}
    with start(tree_of(goals, team, WorkerSpec(id="b", execute=work), FAST, max_parallel=2), store=store) as tree:
        handles = [tree.submit(Task("a", id="a", priority=9))]
        assert in_team.wait(LONG_S)
        handles.append(tree.submit(Task("b", id="b", priority=5)))
        assert beside.wait(LONG_S)
        handles.append(tree.submit(Task("u", id="u", priority=0)))
        store.changes_when(TaskPaused, "a@a:1.1")
        handles.append(tree.submit(Task("v", id="v", priority=8)))
        queued(tree, store, "v")
        done.complete()
        other.complete()
        for handle in handles:
            handle.result(LONG_S)

    assert begun == [1]
    assert not [each for each in store.journals["b"] if isinstance(each, SubtaskPreempted)]


@DIES
def test_a_part_has_the_time_that_it_was_given_last(*, dies: bool) -> None:
    """Its asker was broken off at 6 of 10 seconds, and has asked again: the part has until 16."""
    desk, clock = Desk(), ManualClock()
    store = CutOnce("t@asker.1:1.1", "SubtaskSucceeded", dies=dies, subtask="look")
    spec = hardy(shop(desk.spec(), faulty("culprit"), asker(timeout_s=10.0), strategy="rest_for_one"))
    with start(spec, clock=clock, store=store) as tree:
        report = asked_again_at_6_of_10(tree, desk, clock)

    assert report.results == {"asker": FOUND}
    assert (desk.counts["pay"], desk.counts["refund"]) == (1, 0)
    assert not store.is_to_come


# -- what gives way ---------------------------------------------------------------------------------------------


@DIES
@pytest.mark.parametrize("limit", ["timeout_s", "idle_timeout_s"])
def test_a_team_that_is_to_give_way_and_does_not_has_the_limits_that_it_had(limit: str, *, dies: bool) -> None:
    clock, gate, store = ManualClock(), Gate(), CutOnce("v", "Planned", dies=dies)
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("m")]), on_failure=[]),
        children=[WorkerSpec(id="m", execute=lambda *_: gate())],
    )

    def planned(task: Any, *_: Any) -> list[Subtask]:
        return [Subtask("team", on_failure=[], **{limit: 10.0}) if task.goal == "later" else Subtask("fast")]  # type: ignore[arg-type]

    tasks = Tasks(planner=planned, max_parallel=1, on_failure=[])
    spec = hardy(SupervisorSpec(id="p", tasks=tasks, children=[team, FAST]))
    with start(spec, store=store, clock=clock) as tree:
        later = tree.submit(Task("later", id="t", priority=5))
        gate.wait_reached()
        settle_orchestrators(tree)
        clock.advance(5)
        now = tree.submit(Task("now", id="u", priority=0))
        store.changes_when(TaskPaused, "t@team:1.1")
        last = tree.submit(Task("now", id="v", priority=0))
        queued(tree, store, "v")
        clock.advance(3)  # nobody takes it for hung in what it is told
        settle_orchestrators(tree)
        assert later.report is None
        clock.advance(3)

        def is_over() -> bool:
            clock.advance(1)
            return later.report is not None

        eventually(is_over, "its time is up")
        reports = [each.result(LONG_S) for each in (now, last)]
        gate.open.set()

    assert [report.results for report in reports] == [{"fast": "fast"}] * 2
    assert not store.is_to_come
    assert "AttemptTimeoutError" in str(later.report.failed)  # type: ignore[union-attr]


@pytest.mark.parametrize("number", [1, 2])
def test_what_nobody_waits_for_any_longer_gives_way_to_something_urgent(number: int) -> None:
    done, begun = Reply(), threading.Semaphore(0)

    async def ask(_: Any, context: Any) -> str:
        found = await asyncio.gather(*(context.ask("look", f"n{at}") for at in range(number)))
        return f"{len(found)} answers"

    async def look(*_: Any) -> str:
        begun.release()
        await done
        return "looked"

    def team(id_: str, execute: Any) -> SupervisorSpec:
        worker = WorkerSpec(id="m", execute=execute, pool=4)
        return SupervisorSpec(id=id_, tasks=Tasks(planner=StaticPlan([Subtask("m")]), on_failure=[]), children=[worker])

    spec = tree_of({"later": "team", "now": "fast"}, team("team", ask), team("look", look), FAST, max_parallel=1)
    with start(spec) as tree:
        later = tree.submit(Task("later", id="t", priority=5))
        for _ in range(number):
            assert begun.acquire(timeout=LONG_S)
        report = tree.run(Task("now", id="u", priority=0), LONG_S)
        done.complete()
        found = later.result(LONG_S)

    assert report.results == {"fast": "fast"}
    assert found.results == {"team": {"m": f"{number} answers"}}


# -- what its process was down ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["one worker", "two workers", "a team"])
def test_the_time_for_which_a_process_was_down_is_not_what_its_attempts_have_run(shape: str) -> None:
    number = 2 if shape == "two workers" else 1
    begun, hangs = threading.Semaphore(0), [True]

    async def work(*_: Any) -> str:
        begun.release()
        if hangs[0]:
            await Reply()
        return "done"

    workers = [WorkerSpec(id=f"w{at}", execute=work) for at in range(number)]
    plan = [Subtask(worker.id) for worker in workers]
    root = Tasks(planner=StaticPlan(plan), on_failure=[])
    children: list[Any] = list(workers)
    if shape == "a team":
        children = [SupervisorSpec(id="team", tasks=root, children=workers)]
        root = Tasks(planner=StaticPlan([Subtask("team", timeout_s=100.0)]), on_failure=[])
    spec = SupervisorSpec(id="p", tasks=root, children=children)
    before: list[Change] = []
    store, clock = NotingStore(), ManualClock()
    with start(spec, store=store, clock=clock) as tree:
        tree.submit(Task("go", id="t", budget=Budget(seconds=60.0)))
        for _ in range(number):
            assert begun.acquire(timeout=LONG_S)
        before += store.changes_when(SubtaskStarted, "t@team:1.1" if shape == "a team" else "t", plan[-1].id)
    hangs[0] = False
    later = ManualClock()
    later.advance(3600.0)
    with start(spec, store=NotingStore(before), clock=later) as tree:
        report = tree.task("t").result(LONG_S)

    assert report.usage.seconds == 0.0
