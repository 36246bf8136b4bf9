"""Fair queues: waiting makes a ready subtask more urgent, and what it has waited counts where slots are short (S14)."""

from __future__ import annotations

import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors import ConfigError
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


def test_waiting_counts_one_step_for_every_age_s_and_nothing_before() -> None:
    counter, clock = Counter(), ManualClock()
    with start(tree_of(counter.execute, age_s=60.0), clock=clock) as tree:
        handles = [submitted(tree, "running")]
        assert counter.begun.get(timeout=LONG_S) == "running"
        handles.append(submitted(tree, "low", priority=1))
        clock.advance(58)
        handles += [submitted(tree, "urgent"), submitted(tree, "also urgent")]
        before = counter.next()
        clock.advance(2)
        after = counter.next()
        counter.rest(1)
        for handle in handles:
            handle.result(timeout=LONG_S)

    assert (before, after) == ("urgent", "low")


# -- slots and preemption --------------------------------------------------------------------------------------


def goals(script: AsyncScriptedExecutable) -> list[str]:
    return [call.goal for call in script.calls]


def test_one_that_has_waited_gives_way_only_to_what_is_more_urgent_than_it_was_when_begun() -> None:
    """Three steps behind, it waits for ninety seconds; put back for what is more urgent it keeps what it waited."""
    clock = ManualClock()
    with Hang() as first, Hang() as second:
        script = AsyncScriptedExecutable(first, second, "done", by="call")
        with start(tree_of(script.execute), clock=clock) as tree:
            handles = [submitted(tree, "running", priority=-9)]
            first.wait_until_entered()
            low = submitted(tree, "low", priority=3)
            clock.advance(90)
            first.release()
            second.wait_until_entered()
            handles.append(submitted(tree, "urgent"))
            held = goals(script)
            handles.append(submitted(tree, "very urgent", priority=-9))
            for handle in (*handles, low):
                handle.result(timeout=LONG_S)
            told = kinds(low, "a")

    assert held == ["running", "low"]
    assert goals(script) == ["running", "low", "very urgent", "low", "urgent"]
    assert told.count("SubtaskPreempted") == 1


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
    assert told.count("SubtaskPreempted") == 1


def test_a_step_of_priority_is_counted_over_all_the_time_that_a_subtask_has_waited() -> None:
    """Forty seconds before it was put back, and twenty after that: two steps of thirty."""
    clock = ManualClock()
    with Hang() as first, Hang() as second, Hang() as third:
        script = AsyncScriptedExecutable(first, second, third, "done", by="call")
        with start(tree_of(script.execute), clock=clock) as tree:
            handles = [submitted(tree, "running", priority=-9)]
            first.wait_until_entered()
            handles.append(submitted(tree, "low", priority=2))
            clock.advance(40)
            first.release()
            second.wait_until_entered()
            handles.append(submitted(tree, "very urgent", priority=-9))
            third.wait_until_entered()
            clock.advance(20)
            handles.append(submitted(tree, "urgent"))
            third.release()
            for handle in handles:
                handle.result(timeout=LONG_S)

    assert goals(script) == ["running", "low", "very urgent", "low", "urgent"]


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


def test_set_priority_of_a_task_whose_orchestrator_is_down_counts_when_that_is_up_again() -> None:
    counter = Counter()
    with start(tree_of(counter.execute), clock=ManualClock()) as tree:
        handles = [submitted(tree, "running")]
        counter.begun.get(timeout=LONG_S)
        handles += [submitted(tree, "first"), submitted(tree, "second")]
        tree.terminate_child("shop/orchestrator")
        handles[2].set_priority(-1)
        tree.restart_child("shop/orchestrator")
        heard(tree)
        order = counter.rest(2)
        for handle in handles:
            handle.result(timeout=LONG_S)

    assert order == ["second", "first"]


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


def test_what_was_waited_before_a_resume_counts_after_it(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path / 'tasks.db'}", ManualClock()
    with Hang() as hang:
        script = AsyncScriptedExecutable(hang)
        with start(tree_of(script.execute), clock=clock, store=url) as tree:
            submitted(tree, "running", priority=-9)
            hang.wait_until_entered()
            submitted(tree, "low", priority=1)
            clock.advance(45)
            submitted(tree, "urgent")
    again = AsyncScriptedExecutable("done")
    with start(tree_of(again.execute), clock=ManualClock(clock.now()), store=url) as tree:
        for handle in tree.resumed():
            handle.result(timeout=LONG_S)

    assert goals(again) == ["running", "low", "urgent"]


def test_set_priority_of_a_task_that_has_ended_changes_nothing() -> None:
    with start(tree_of(AsyncScriptedExecutable("done").execute)) as tree:
        handle = tree.submit("go")
        handle.result(timeout=LONG_S)
        count = len(list(handle.events()))
        handle.set_priority(3)
        heard(tree)

        assert handle.task.priority == 0
        assert len(list(handle.events())) == count


@pytest.mark.parametrize("odd", ["1", 1.5, None, True])
def test_set_priority_refuses_what_is_no_whole_number(odd: Any) -> None:
    with start(tree_of(AsyncScriptedExecutable("done").execute)) as tree:
        handle = tree.submit("go")
        with pytest.raises(ConfigError, match=r"Task\.priority"):
            handle.set_priority(odd)
        handle.result(timeout=LONG_S)
