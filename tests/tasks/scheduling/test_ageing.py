"""Fair queues: waiting makes a ready subtask more urgent, and what it has waited counts where slots are short (S14)."""

from __future__ import annotations

import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.testing import AsyncScriptedExecutable, Hang, ManualClock
from tests.tasks.dispatching import LONG_S, heard, kinds, one, shop, submitted
from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start

SINGLE = StaticPlan([Subtask("a", worker="w")])


class Counter:
    """A worker that does one thing at a time, begun and let go by the test."""

    def __init__(self) -> None:
        self.begun: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._go: queue.SimpleQueue[None] = queue.SimpleQueue()

    def execute(self, _task: object, context: Any) -> str:
        self.begun.put(context.goal)
        self._go.get(timeout=LONG_S)
        return "done"

    def next(self) -> str:
        """Let go of what runs, and say what is begun then."""
        self._go.put(None)
        return self.begun.get(timeout=LONG_S)

    def rest(self, count: int) -> list[str]:
        """So many more, in order; the last of them is let go too."""
        found = [self.next() for _ in range(count)]
        self._go.put(None)
        return found


def tree_of(execute: Callable[..., Any], planner: Any = SINGLE, **tasks: Any) -> SupervisorSpec:
    settings = Tasks(planner=planner, max_parallel=1, **tasks)
    return SupervisorSpec(id="shop", tasks=settings, children=[WorkerSpec(id="w", execute=execute)])


# -- the rank of what waits ------------------------------------------------------------------------------------


def test_ready_subtasks_rank_by_priority_then_deadline_then_the_age_of_their_task() -> None:
    counter = Counter()
    with start(tree_of(counter.execute), clock=ManualClock()) as tree:
        handles = [submitted(tree, "running")]
        assert counter.begun.get(timeout=LONG_S) == "running"
        handles += [
            submitted(tree, "less urgent", priority=1, deadline_s=50),
            submitted(tree, "old"),
            submitted(tree, "young"),
            submitted(tree, "pressed", deadline_s=60),
            submitted(tree, "urgent", priority=-1),
        ]
        order = counter.rest(5)
        for handle in handles:
            handle.result(timeout=LONG_S)

    assert order == ["urgent", "pressed", "old", "young", "less urgent"]


def test_with_a_backlog_tasks_finish_one_after_the_other_and_not_all_at_the_end() -> None:
    needs = {"a": [], "b": ["a"], "c": ["b"]}
    chain = StaticPlan([Subtask(id, worker="w", depends_on=needed) for id, needed in needs.items()])
    counter = Counter()
    with start(tree_of(counter.execute, chain), clock=ManualClock()) as tree:
        handles = [submitted(tree, goal) for goal in ("first", "second", "third")]
        order = [counter.begun.get(timeout=LONG_S), *counter.rest(8)]
        for handle in handles:
            handle.result(timeout=LONG_S)

    assert order == ["first"] * 3 + ["second"] * 3 + ["third"] * 3


@pytest.mark.parametrize(("settings", "turn"), [({}, 6), ({"age_s": 15.0}, 3), ({"age_s": None}, None)])
def test_a_low_task_is_not_starved_by_a_stream_of_urgent_ones(settings: dict[str, Any], turn: int | None) -> None:
    """Its priority is two steps behind: by default it waits sixty seconds, and no urgent one more."""
    counter, clock = Counter(), ManualClock()
    with start(tree_of(counter.execute, **settings), clock=clock) as tree:
        handles = [submitted(tree, "running")]
        assert counter.begun.get(timeout=LONG_S) == "running"
        handles.append(submitted(tree, "low", priority=2))
        order = []
        for number in range(8):
            handles.append(submitted(tree, f"urgent {number}"))
            clock.advance(10)
            order.append(counter.next())
        counter.rest(1)
        for handle in handles:
            handle.result(timeout=LONG_S)

    assert (order.index("low") + 1 if "low" in order else None) == turn
    urgent = [goal for goal in order if goal != "low"]
    assert urgent == sorted(urgent)


# -- slots and preemption --------------------------------------------------------------------------------------


def goals(script: AsyncScriptedExecutable) -> list[str]:
    return [call.goal for call in script.calls]


@pytest.mark.parametrize("max_parallel", [1, 10], ids=["for a slot", "for a worker"])
def test_waiting_makes_nothing_interrupt_what_it_would_not_have_interrupted_at_first(max_parallel: int) -> None:
    clock = ManualClock()
    with Hang() as hang:
        script = AsyncScriptedExecutable(hang, "done", by="call")
        spec = shop(
            WorkerSpec(id="w", execute=script.execute),
            plans={goal: [one("a", "w")] for goal in ("running", "low", "urgent")},
            max_parallel=max_parallel,
        )
        with start(spec, clock=clock) as tree:
            handles = [submitted(tree, "running"), submitted(tree, "low", priority=1)]
            hang.wait_until_entered()
            clock.advance(600)
            handles.append(submitted(tree, "urgent", priority=-30))
            for handle in handles:
                handle.result(timeout=LONG_S)
            told = kinds(handles[0], "a")

    assert goals(script) == ["running", "urgent", "low", "running"]
    assert told.count("SubtaskRequeued") == 1


# -- another priority while it runs ----------------------------------------------------------------------------


def test_set_priority_changes_the_rank_of_what_waits() -> None:
    counter = Counter()
    with start(tree_of(counter.execute), clock=ManualClock()) as tree:
        handles = [submitted(tree, "running")]
        counter.begun.get(timeout=LONG_S)
        handles += [submitted(tree, goal) for goal in ("first", "second", "third")]
        handles[3].set_priority(-1)
        handles[1].set_priority(7)
        heard(tree)
        order = counter.rest(3)
        for handle in handles:
            handle.result(timeout=LONG_S)

    assert order == ["third", "second", "first"]
    assert [handle.task.priority for handle in handles] == [0, 7, 0, -1]


def test_set_priority_counts_for_what_runs_too() -> None:
    """What runs gives way to what waits, as soon as it is less urgent."""
    with Hang() as hang:
        script = AsyncScriptedExecutable(hang, "done", by="call")
        with start(tree_of(script.execute), clock=ManualClock()) as tree:
            handles = [submitted(tree, "running")]
            hang.wait_until_entered()
            handles.append(submitted(tree, "waits"))
            before = goals(script)
            handles[0].set_priority(1)
            for handle in handles:
                handle.result(timeout=LONG_S)

    assert before == ["running"]
    assert goals(script) == ["running", "waits", "running"]


def test_set_priority_survives_a_resume(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path / 'tasks.db'}", ManualClock()
    with Hang() as hang:
        script = AsyncScriptedExecutable(hang)
        with start(tree_of(script.execute), clock=clock, store=url) as tree:
            for goal in ("running", "first", "second"):
                submitted(tree, goal)
            hang.wait_until_entered()
            tree.tasks()[2].set_priority(-1)
            heard(tree)
            tree.tasks()[0].set_priority(-2)
            heard(tree)
    again = AsyncScriptedExecutable("done")
    with start(tree_of(again.execute), clock=ManualClock(clock.now()), store=url) as tree:
        handles = tree.resumed()
        for handle in handles:
            handle.result(timeout=LONG_S)
        priorities = {handle.task.goal: handle.task.priority for handle in handles}

    assert goals(again) == ["running", "second", "first"]
    assert priorities == {"running": -2, "first": 0, "second": -1}
