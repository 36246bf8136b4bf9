"""Metrics of trees for Prometheus, read as Prometheus reads them."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from actors import ConfigError, Escalated, Later, Rejected, ReplyTimeoutError, RestartLimitError, Worker
from actors.execution.handling_times import BatchTimes
from actors.messaging.dead_letters import DeadLetterOffice
from actors.messaging.handled import MOST_BELOW
from actors.runtime.dispatch_reports import DispatchReports
from actors.testing import ManualClock, settle
from tests.support.asking import LONG_S
from tests.support.hardening import Gate, eventually, in_thread
from trees import (
    HA,
    Approve,
    Breaker,
    Escalate,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskStatus,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)
from trees.agents.tree_gauges import GAUGES
from trees.agents.tree_meter import COUNTERS, HISTOGRAMS, UNLABELLED, TreeMeter
from trees.host.tree_source import TreeSource
from trees.observe import metrics as door
from trees.observe.metrics import metrics


def read(registry: CollectorRegistry) -> dict[str, dict[tuple[str, ...], float]]:
    """By the name of a sample: its values, by the values of its labels in the order of their names."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


def all_running(number: int) -> dict[tuple[str, ...], float]:
    """Children by state, where all of them are running."""
    return {("running",): number, ("restarting",): 0, ("stopped",): 0, ("parked",): 0}


def faulty(message: Any) -> Any:
    if message == "die":
        raise ValueError(message)
    return message


def test_children_are_counted_with_members_of_a_pool_as_their_pool() -> None:
    registry = CollectorRegistry()
    children = [WorkerSpec(id="w", handle=faulty), WorkerSpec(id="pool", handle=faulty, pool=3)]
    with start(SupervisorSpec(id="p", max_restarts=10, children=children)) as tree:
        assert metrics(tree, registry) is registry
        for path in ("p/w", "p/pool", "p/pool#1"):
            tree.ref(path).tell("die")
            settle(tree)
        found = read(registry)
    assert found["regrow_child_exits_total"] == {("p/w", "crashed"): 1, ("p/pool", "crashed"): 2}
    assert found["regrow_child_restarts_total"] == {("p/w",): 1, ("p/pool",): 2}
    assert found["regrow_children"] == all_running(5)
    assert found["regrow_restarts_left"] == {("p",): 7}
    assert found["regrow_busy_threads"] == {(): 0}


def test_tasks_are_counted_with_retries_times_and_tokens() -> None:
    registry, clock, left = CollectorRegistry(), ManualClock(), iter([ValueError("no"), "done"])

    async def works(_: Any, context: Any) -> Any:
        context.use(tokens=7)
        clock.advance(3.0)
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    worker = WorkerSpec(id="w", execute=works, on_failure=[Retry(max_attempts=2)], expected=(ValueError,))
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])
    with start(spec, clock=clock) as tree:
        metrics(tree, registry)
        handle = tree.submit("go")
        while handle.report is None:
            settle(tree)
            clock.advance(1.0)
        settle(tree)
        found = read(registry)
    assert found["regrow_tasks_total"] == {("succeeded",): 1}
    assert found["regrow_subtasks_total"] == {("succeeded", "w"): 1}
    assert found["regrow_retries_total"] == {("w",): 1}
    assert found["regrow_tokens_total"] == {("w",): 14}
    assert found["regrow_attempt_seconds_sum"] == {("failed", "w"): 3.0, ("succeeded", "w"): 3.0}
    assert found["regrow_attempt_seconds_bucket"]["2.5", "failed", "w"] == 0
    assert found["regrow_attempt_seconds_bucket"]["5.0", "failed", "w"] == 1
    assert found["regrow_attempt_seconds_bucket"]["+Inf", "failed", "w"] == 1
    assert found["regrow_task_seconds_count"] == {("succeeded",): 1}
    assert found["regrow_queue_wait_seconds_count"]["w",] >= 1
    assert found["regrow_breaker_state"] == {("w",): 0}
    assert found["regrow_tasks_unfinished"] == {("p",): 0}


def test_an_attempt_that_is_put_off_or_refused_is_measured_as_that_and_not_as_failed() -> None:
    registry, clock, ends = CollectorRegistry(), ManualClock(), iter([Later(1.0), "done"])

    def works(_: Any) -> Any:
        clock.advance(3.0)
        end = next(ends)
        if isinstance(end, Later):
            raise end
        return end

    def refuses(_: Any) -> Any:
        clock.advance(3.0)
        raise Rejected("not mine")

    children = [
        WorkerSpec(id="first", execute=refuses, capabilities={"work"}),
        WorkerSpec(id="second", execute=works, capabilities={"work"}),
    ]
    plan = [Subtask("a", capability="work")]
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan(plan)), children=children)
    with start(spec, clock=clock) as tree:
        metrics(tree, registry)
        handle = tree.submit("go")
        while handle.report is None:
            settle(tree)
            clock.advance(1.0)
        settle(tree)
        found = read(registry)
    assert found["regrow_attempt_seconds_count"] == {
        ("rejected", "first"): 1,
        ("later", "second"): 1,
        ("succeeded", "second"): 1,
    }


ENDS: dict[str, tuple[dict[tuple[str, ...], float], int]] = {
    "cancelled": ({("cancelled", "w"): 1}, 1),
    "preempted": ({("preempted", "w"): 1, ("succeeded", "w"): 2}, 3),
    "put back": ({("succeeded", "w"): 1}, 2),
    "escalated": ({("escalated", "w"): 1, ("succeeded", "w"): 1}, 2),
    "nobody to ask": ({("failed", "w"): 1}, 1),
}
"""By what becomes of the first attempt: the attempts that are measured, and how many have used something up."""


@pytest.mark.parametrize("end", ENDS)
def test_an_attempt_is_measured_with_its_time_in_line_and_what_it_used_however_it_ends(end: str) -> None:
    registry, calls, gate = CollectorRegistry(), itertools.count(), Gate()

    async def works(_: Any, context: Any) -> str:
        context.use(tokens=5)
        if next(calls) == 0:
            if end in {"escalated", "nobody to ask"}:
                raise Escalated("which?")
            await asyncio.to_thread(gate)
        return "done"

    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), max_parallel=1)
    worker = WorkerSpec(id="w", execute=works, on_failure=[] if end == "nobody to ask" else [Escalate()])
    with start(SupervisorSpec(id="p", tasks=tasks, children=[worker])) as tree:
        metrics(tree, registry)
        handle = tree.submit(Task("go", priority=5))
        if end == "escalated":
            eventually(lambda: handle.escalations, "a person is asked")
            handle.respond(handle.escalations[0].id, Approve())
        elif end != "nobody to ask":
            gate.wait_reached()
            if end == "cancelled":
                handle.cancel()
            elif end == "preempted":
                tree.run(Task("now", priority=1), LONG_S)
            else:
                tree.ref("p/w").stop(timeout=LONG_S)
            gate.open.set()
        with suppress(TaskCancelledError, TaskFailedError):
            handle.result(LONG_S)
        settle(tree)
        found = read(registry)
    measured, used = ENDS[end]
    assert found["regrow_attempt_seconds_count"] == measured
    assert found["regrow_queue_wait_seconds_count"] == {("w",): sum(measured.values())}
    assert found["regrow_tokens_total"] == {("w",): 5 * used}


def test_workers_of_tasks_beyond_the_first_ones_share_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.messaging.handled.MOST_LABELS", 2)
    registry, ids = CollectorRegistry(), ["a", "b", "c", "d"]
    plan = [Subtask(id_, worker=id_, depends_on=ids[:n]) for n, id_ in enumerate(ids)]
    children = [WorkerSpec(id=id_, execute=lambda _: "done", breaker=Breaker()) for id_ in ids]
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan(plan)), children=children)
    with start(spec) as tree:
        metrics(tree, registry)
        tree.run("go", timeout=LONG_S)
        settle(tree)
        found = read(registry)
    assert found["regrow_subtasks_total"] == {("succeeded", "a"): 1, ("succeeded", "b"): 1, ("succeeded", "*"): 2}
    assert set(found["regrow_attempt_seconds_count"]) == {("succeeded", "a"), ("succeeded", "b"), ("succeeded", "*")}
    assert found["regrow_breaker_state"] == {("a",): 0, ("b",): 0, ("*",): 0}


def test_of_all_events_only_those_are_delivered_to_the_metrics_that_count_for_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What they hear costs the tree: a start of a child counts for nothing, its end and its restart do."""
    heard: list[str] = []
    hear = TreeMeter.hear
    monkeypatch.setattr(TreeMeter, "hear", lambda self, event: (heard.append(event.name), hear(self, event))[1])
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), on_failure=[])
    children = [WorkerSpec(id="w", execute=lambda *_: "done"), WorkerSpec(id="h", handle=faulty)]
    with start(SupervisorSpec(id="p", tasks=tasks, children=children)) as tree:
        metrics(tree, CollectorRegistry())
        tree.ref("p/h").tell("die")
        tree.ref("p/h").ask("x", timeout=LONG_S)
        tree.run("go", timeout=LONG_S)
        assert tree._system.bus.flush(LONG_S)
        told = list(heard)
    assert sorted(told) == sorted(
        [
            *("child_exited", "child_restarting", "planned", "task_submitted", "task_finished"),
            "subtask_succeeded",
        ]
    )


MOST_STEPS = 20
"""Calls for each child at a scrape. 100,000 children take 0.13 s of CPU with 13 of them; the promise is 0.5 s."""


@pytest.mark.parametrize("as_pool", [True, False], ids=["a pool", "one by one"])
def test_a_scrape_costs_a_few_steps_for_each_child_and_waits_for_none(as_pool: bool) -> None:
    """Of 2,000 that hang: nobody is asked, so nobody is waited for."""
    number, gate, steps = 2000, Gate(), [0]

    def count(_: object, kind: str, __: object) -> None:
        steps[0] += kind in {"call", "c_call"}

    crowd = [WorkerSpec(id="w", handle=faulty, pool=number)]
    if not as_pool:
        crowd = [WorkerSpec(id=f"w{at}", handle=faulty) for at in range(number)]
    hung = WorkerSpec(id="hung", handle=gate, shutdown="brutal_kill")
    with start(SupervisorSpec(id="p", children=[*crowd, hung])) as tree:
        tree.ref("p/hung").tell("go")
        gate.wait_reached()
        registry = metrics(tree, CollectorRegistry())
        sys.setprofile(count)
        try:
            text = generate_latest(registry)  # type: ignore[arg-type]
        finally:
            sys.setprofile(None)
        gate.open.set()
    assert f'regrow_children{{state="running"}} {number + 2}.0'.encode() in text
    assert number < steps[0] < MOST_STEPS * number
    assert text.count(b"\n") < 500


def test_every_metric_of_the_table_is_told_by_its_name() -> None:
    registry = CollectorRegistry()
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=faulty)])) as tree:
        metrics(tree, registry)
        told = {family.name for family in text_string_to_metric_families(generate_latest(registry).decode())}
    assert told == {f"regrow_{name}" for name in COUNTERS} | {f"regrow_{name}_seconds" for name in HISTOGRAMS} | {
        *GAUGES
    }


def test_counters_without_labels_are_told_before_their_first_event() -> None:
    """Prometheus computes differences: of a counter that appears with 1 the first supervisor that gives up is lost."""
    registry = CollectorRegistry()
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=faulty)])) as tree:
        metrics(tree, registry)
        before = read(registry)
        for name in UNLABELLED:
            assert before[f"regrow_{name}_total"] == {(): 0.0}
    spec = SupervisorSpec(id="q", max_restarts=0, children=[WorkerSpec(id="w", handle=faulty)])
    tree = start(spec)
    metrics(tree, registry)
    tree.ref("q/w").tell("die")
    with pytest.raises(RestartLimitError):
        tree.wait(LONG_S)
    eventually(lambda: read(registry)["regrow_supervisor_gave_up_total"] == {(): 1.0}, "it is counted")


def test_each_commit_of_a_store_is_measured(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    worker = WorkerSpec(id="w", execute=lambda *_: "done")
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])
    with start(spec, store=f"sqlite:///{tmp_path / 'tasks.db'}") as tree:
        metrics(tree, registry)
        tree.run("go", LONG_S)
        found = read(registry)
    assert found["regrow_commit_seconds_count"][()] >= 1
    assert 0 < found["regrow_commit_seconds_sum"][()] < LONG_S


def test_a_meter_that_raises_at_a_commit_is_told_no_more_and_the_store_goes_on(tmp_path: Path) -> None:
    told, events = [], list[Any]()

    def raises(seconds: float) -> None:
        told.append(seconds)
        raise SystemExit

    worker = WorkerSpec(id="w", execute=lambda *_: "done")
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])
    with start(spec, store=f"sqlite:///{tmp_path / 'tasks.db'}") as tree:
        tree.subscribe(events.append)
        tree._system.services["tasks"].commits["it"] = raises
        for _ in range(2):
            assert tree.run("go", LONG_S).results == {"a": "done"}
        settle(tree)
    assert len(told) == 1
    assert [each.name for each in events].count("callback_raised") == 1


def test_what_waits_for_a_free_member_of_a_pool_counts() -> None:
    registry, gate, begun = CollectorRegistry(), threading.Event(), threading.Semaphore(0)

    def waits(_: Any) -> None:
        begun.release()
        gate.wait(LONG_S)

    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=waits, pool=2)])) as tree:
        metrics(tree, registry)
        for number in range(5):
            tree.ref("p/w").tell(number)
        for _ in range(2):
            assert begun.acquire(timeout=LONG_S)
        assert read(registry)["regrow_mailbox_depth"] == {("p/w",): 3.0}
        gate.set()


def test_a_gauge_that_was_told_once_is_0_when_nothing_waits_any_more_and_ends_with_its_child() -> None:
    """A series that disappears is no number: an alert on it neither holds nor ends."""
    registry, gate = CollectorRegistry(), Gate()
    waiting = ("regrow_mailbox_depth", "regrow_oldest_message_seconds")
    team = SupervisorSpec(id="team", children=[WorkerSpec(id="x", handle=faulty)])
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=gate), team])) as tree:
        metrics(tree, registry)
        before = read(registry)
        assert [before[name].get(("p/w",)) for name in waiting if name in before] == []
        tree.ref("p/w").tell("go")
        gate.wait_reached()
        tree.ref("p/w").tell("go")
        assert read(registry)["regrow_mailbox_depth"]["p/w",] == 1
        gate.open.set()
        settle(tree)
        after = read(registry)
        assert [after[name]["p/w",] for name in waiting] == [0, 0]
        tree.terminate_child("p/w")
        stopped = read(registry)
        assert [stopped[name]["p/w",] for name in waiting] == [0, 0]
        assert stopped["regrow_children"] == {**all_running(3), ("stopped",): 1}
        tree.delete_child("p/w")
        assert [("p/w",) in read(registry).get(name, {}) for name in waiting] == [False, False]


def test_what_waits_in_a_crowd_is_told_as_0_afterwards_too() -> None:
    registry, gate = CollectorRegistry(), Gate()
    crowd = [WorkerSpec(id=f"w{number}", handle=faulty) for number in range(MOST_BELOW)]
    with start(SupervisorSpec(id="p", children=[*crowd, WorkerSpec(id="last", handle=gate)])) as tree:
        metrics(tree, registry)
        for each in crowd:
            tree.ref(f"p/{each.id}").ask("all of them come first", timeout=LONG_S)
        tree.ref("p/last").tell("go")
        gate.wait_reached()
        tree.ref("p/last").tell("go")
        assert read(registry)["regrow_mailbox_depth"]["p/*",] == 1
        gate.open.set()
        settle(tree)
        found = read(registry)
    assert (found["regrow_mailbox_depth"]["p/*",], found["regrow_oldest_message_seconds"]["p/*",]) == (0, 0)
    assert len(found["regrow_mailbox_depth"]) == MOST_BELOW + 1


def test_states_of_children_and_of_subtasks_are_told_where_nothing_is_in_them() -> None:
    registry = CollectorRegistry()
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=faulty)])) as tree:
        metrics(tree, registry)
        found = read(registry)
    assert found["regrow_children"] == all_running(3)
    assert found["regrow_subtasks_unfinished"]["queued",] == 0
    assert set(found["regrow_subtasks_unfinished"]) == {(str(status),) for status in SubtaskStatus}


class Timed(Worker):
    """Lets the clock go on by what it is sent: a number, or what it raises after a second."""

    clock: ManualClock
    gate: Gate

    def on_receive(self, message: Any) -> None:
        if message == "wait":
            Timed.gate()
        elif isinstance(message, float):
            Timed.clock.advance(message)
        else:
            Timed.clock.advance(1.0)
            raise message


class TimedOnLoop(Worker):
    """The same, async."""

    async def on_receive(self, message: Any) -> None:
        if message == "wait":
            await asyncio.to_thread(Timed.gate)
        elif isinstance(message, float):
            Timed.clock.advance(message)
        else:
            Timed.clock.advance(1.0)
            raise message


@pytest.fixture
def timed() -> Iterator[tuple[ManualClock, Gate]]:
    """Clock and gate of the workers that take their time."""
    Timed.clock, Timed.gate = ManualClock(), Gate()
    yield Timed.clock, Timed.gate
    Timed.gate.open.set()


def handled(found: dict[str, dict[tuple[str, ...], float]], path: str) -> tuple[dict[str, float], float, float]:
    """The buckets that hold something, not added up; the number, and the sum."""
    rows = [(at, n) for (at, where), n in found["regrow_handling_seconds_bucket"].items() if where == path]
    below = [0.0, *(n for _, n in rows)]
    each = {at: n - before for (at, n), before in zip(rows, below, strict=False) if n > before}
    return each, found["regrow_handling_seconds_count"][path,], found["regrow_handling_seconds_sum"][path,]


@pytest.mark.parametrize("kind", [Timed, TimedOnLoop])
def test_each_message_is_measured_wherever_it_stands_in_its_batch(
    kind: type[Worker], timed: tuple[ManualClock, Gate]
) -> None:
    clock, gate = timed
    registry = CollectorRegistry()
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", actor=kind)]), clock=clock) as tree:
        metrics(tree, registry)
        tree.ref("p/w").tell("wait")
        gate.wait_reached()
        for seconds in (2.0, 0.0, 0.0, 0.05, 0.0, 7.0):  # they come in one batch: the first, the last and one between
            tree.ref("p/w").tell(seconds)
        gate.open.set()
        settle(tree)
        found = read(registry)
    assert handled(found, "p/w") == ({"0.0001": 4, "0.05": 1, "2.5": 1, "10.0": 1}, 7, pytest.approx(9.05))


@pytest.mark.parametrize("kind", [Timed, TimedOnLoop])
def test_a_failed_request_and_a_crash_are_measured_and_what_comes_after_them(
    kind: type[Worker], timed: tuple[ManualClock, Gate]
) -> None:
    clock, gate = timed
    registry = CollectorRegistry()
    worker = WorkerSpec(id="w", actor=kind, expected=(KeyError,))
    with start(SupervisorSpec(id="p", children=[worker]), clock=clock) as tree:
        metrics(tree, registry)
        tree.ref("p/w").tell("wait")
        gate.wait_reached()
        for message in (KeyError("failed"), 0.0, 5.0, ValueError("crashed"), 20.0):
            tree.ref("p/w").tell(message)
        gate.open.set()
        settle(tree)
        found = read(registry)
    assert found["regrow_child_restarts_total"] == {("p/w",): 1}
    assert handled(found, "p/w") == ({"0.0001": 2, "1.0": 2, "5.0": 1, "30.0": 1}, 6, pytest.approx(27.0))


def test_each_of_several_batches_has_its_own_slow_messages_when_somebody_asks_after_all_of_them(
    timed: tuple[ManualClock, Gate],
) -> None:
    registry = CollectorRegistry()
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", actor=Timed)]), clock=timed[0]) as tree:
        metrics(tree, registry)
        for seconds in (0.0, 5.0, 0.0, 20.0):
            tree.ref("p/w").tell(seconds)
            settle(tree)
        found = read(registry)
    assert handled(found, "p/w") == ({"0.0001": 2, "5.0": 1, "30.0": 1}, 4, 25.0)


def test_what_nobody_waits_for_any_more_and_what_an_order_leaves_is_not_measured(
    timed: tuple[ManualClock, Gate],
) -> None:
    clock, gate = timed
    registry = CollectorRegistry()
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", actor=Timed)]), clock=clock) as tree:
        metrics(tree, registry)
        tree.ref("p/w").tell("wait")
        gate.wait_reached()
        with pytest.raises(ReplyTimeoutError):
            tree.ref("p/w").ask(3.0, timeout=0.01)
        clock.advance(61.0)
        tree.ref("p/w").tell(4.0)
        over = in_thread(lambda: tree.terminate_child("p/w"))
        eventually(lambda: tree._system.children["p/w"].incarnation.order is not None)
        gate.open.set()
        over()
        tree.restart_child("p/w")
        settle(tree)
        found = read(registry)
    assert handled(found, "p/w")[1:] == (1, 61.0)


@pytest.mark.parametrize(
    ("slow", "odd"),
    [
        ((BatchTimes, "begin"), None),
        ((DeadLetterOffice, "expired"), "expired"),
        ((DispatchReports, "request_failed"), KeyError("failed")),
    ],
)
def test_what_passes_between_two_messages_is_the_time_of_none(
    monkeypatch: pytest.MonkeyPatch, timed: tuple[ManualClock, Gate], slow: tuple[type[Any], str], odd: Any
) -> None:
    """Else it is one more slow message than there are, and the count of the quick ones falls."""
    clock, gate = timed
    registry, act = CollectorRegistry(), getattr(*slow)

    def takes_long(*args: Any, **more: Any) -> Any:
        done = act(*args, **more)
        clock.advance(2.0)
        return done

    monkeypatch.setattr(*slow, takes_long)
    worker = WorkerSpec(id="w", actor=Timed, expected=(KeyError,))
    with start(SupervisorSpec(id="p", children=[worker]), clock=clock) as tree:
        metrics(tree, registry)
        tree.ref("p/w").tell("wait")
        gate.wait_reached()
        tree.ref("p/w").tell(5.0)
        if odd == "expired":
            with pytest.raises(ReplyTimeoutError):
                tree.ref("p/w").ask(7.0, timeout=0.01)
        elif odd is not None:
            tree.ref("p/w").tell(odd)
        for _ in range(3):
            tree.ref("p/w").tell(0.0)
        gate.open.set()
        settle(tree)
        each, number, _ = handled(read(registry), "p/w")
    failed = {"1.0": 1} if isinstance(odd, KeyError) else {}
    assert each == {"0.0001": 4, "5.0": 1, **failed}
    assert number == sum(each.values())


def test_members_of_a_pool_are_measured_as_their_pool_and_what_was_measured_stays_when_the_tree_is_down(
    timed: tuple[ManualClock, Gate],
) -> None:
    registry = CollectorRegistry()
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", actor=Timed, pool=3)]), clock=timed[0]) as tree:
        metrics(tree, registry)
        for path in ("p/w", "p/w#0", "p/w#2"):
            tree.ref(path).tell(2.0)
            settle(tree)
        found = read(registry)
    assert handled(found, "p/w") == ({"2.5": 3}, 3, 6.0)
    assert {path for _, path in found["regrow_handling_seconds_bucket"]} == {"p/w"}
    assert handled(read(registry), "p/w") == ({"2.5": 3}, 3, 6.0)


def test_what_a_hung_worker_does_after_it_was_given_up_is_not_measured(timed: tuple[ManualClock, Gate]) -> None:
    clock, gate = timed
    registry = CollectorRegistry()
    child = WorkerSpec(id="w", actor=Timed, shutdown="brutal_kill")
    with start(SupervisorSpec(id="p", children=[child]), clock=clock) as tree:
        metrics(tree, registry)
        tree.ref("p/w").tell("wait")
        gate.wait_reached()
        given_up = tree._system.children["p/w"].incarnation
        tree.terminate_child("p/w")
        tree.restart_child("p/w")
        tree.ref("p/w").tell(2.0)
        settle(tree)
        gate.open.set()
        eventually(lambda: given_up.running_on is None)
        found = read(registry)
    assert handled(found, "p/w") == ({"2.5": 1}, 1, 2.0)


def test_a_crowd_of_short_lived_children_is_few_series_and_all_of_it_is_counted() -> None:
    registry = CollectorRegistry()
    with start(SupervisorSpec(id="p", max_restarts=1000)) as tree:
        metrics(tree, registry)
        for number in range(MOST_BELOW + 30):
            tree.start_child("p", WorkerSpec(id=f"job-{number}", handle=faulty, restart="temporary"))
            tree.ref(f"p/job-{number}").ask("hello", timeout=LONG_S)
            tree.ref(f"p/job-{number}").tell("die")
            settle(tree)
        found = read(registry)
    assert found["regrow_child_exits_total"]["p/*", "crashed"] == 30
    assert len(found["regrow_child_exits_total"]) == MOST_BELOW + 1
    assert found["regrow_handling_seconds_count"]["p/*",] == 60
    assert sum(found["regrow_handling_seconds_count"].values()) == 2 * (MOST_BELOW + 30)


def test_while_nobody_asks_nothing_is_measured() -> None:
    with small("one") as tree:
        tree.ref("one/w").ask("hello", timeout=LONG_S)
        box = tree._system.boxes["one/w"]
        assert (tree._system.reports.measures.rows, box.marks) == ({}, ())
        assert tree._system.children["one/w"].incarnation.times is None


def test_the_oldest_message_has_waited_since_a_look_has_found_it(timed: tuple[ManualClock, Gate]) -> None:
    clock, gate = timed
    registry = CollectorRegistry()
    children = [WorkerSpec(id="w", actor=Timed), WorkerSpec(id="pool", actor=Timed, pool=2)]
    with start(SupervisorSpec(id="p", children=children), clock=clock) as tree:
        metrics(tree, registry)
        assert "regrow_oldest_message_seconds" not in read(registry)
        busy = ("p/w", "p/pool#0", "p/pool#1")
        for path in busy:
            tree.ref(path).tell("wait")
        eventually(lambda: all(tree._system.children[each].incarnation.current for each in busy))
        for path in ("p/w", "p/pool"):
            tree.ref(path).tell(0.0)
        assert read(registry)["regrow_oldest_message_seconds"] == {("p/w",): 0, ("p/pool",): 0}
        clock.advance(40.0)
        tree.ref("p/pool#0").tell(0.0)
        assert read(registry)["regrow_oldest_message_seconds"] == {("p/w",): 40, ("p/pool",): 40}
        gate.open.set()
        settle(tree)
        assert read(registry)["regrow_oldest_message_seconds"] == {("p/w",): 0, ("p/pool",): 0}


def test_what_is_left_of_a_batch_has_waited_since_the_present_message_began(timed: tuple[ManualClock, Gate]) -> None:
    clock, gate = timed
    registry = CollectorRegistry()
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", actor=Timed)]), clock=clock) as tree:
        metrics(tree, registry)
        box = tree._system.boxes["p/w"]
        with box.lock:  # the worker takes nothing until all three have come
            for message in ("wait", 0.0, 0.0):
                tree.ref("p/w").tell(message)
        gate.wait_reached()
        clock.advance(15.0)
        waited = read(registry).get("regrow_oldest_message_seconds")
        gate.open.set()
    assert waited == {("p/w",): 15}


def test_tasks_are_told_by_status_and_the_part_that_this_process_plays(tmp_path: Path) -> None:
    of_leader, of_standby = CollectorRegistry(), CollectorRegistry()

    def fails(*_: Any) -> Any:
        raise ValueError("no")

    worker = WorkerSpec(id="w", execute=fails, on_failure=[Escalate()])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    with start(spec, store=url, ha=HA(name="one")) as leader, start(spec, store=url, ha=HA(name="two")) as standby:
        metrics(leader, of_leader)
        metrics(standby, of_standby)
        leader.submit("go")
        eventually(lambda: read(of_leader)["regrow_tasks_by_status"]["waiting",] == 1)
        assert read(of_leader)["regrow_tasks_by_status"]["running",] == 0
        assert read(of_leader)["regrow_role"] == {("leader",): 1, ("standby",): 0}
        assert read(of_standby)["regrow_role"] == {("leader",): 0, ("standby",): 1}


def test_a_subtask_that_waits_with_its_team_is_told_as_waiting_by_gauges_rows_and_what_is_slowest() -> None:
    registry = CollectorRegistry()
    team = SupervisorSpec(
        id="t",
        tasks=Tasks(planner=StaticPlan([Subtask("b", worker="w")]), on_failure=[Escalate()]),
        children=[WorkerSpec(id="w", execute=lambda *_: asked())],
    )
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="t")])), children=[team])

    def asked() -> Any:
        raise ValueError("no")

    with start(spec) as tree:
        metrics(tree, registry)
        tree.submit("go")
        eventually(lambda: bool(tree.escalations()))
        found = read(registry)
        with closing(TreeSource(tree._system, tree._leadership, [])) as source:
            attempts, now = source.child("p/t")["attempts"], source.snapshot()["now"]

    assert (found["regrow_subtasks_unfinished"]["running",], found["regrow_subtasks_unfinished"]["waiting",]) == (0, 2)
    assert (found["regrow_tasks_by_status"]["running",], found["regrow_tasks_by_status"]["waiting",]) == (0, 2)
    assert [(each["status"], each["running_s"]) for each in attempts] == [("waiting", None)]
    assert now["slowest"] == []


def small(name: str) -> Tree:
    return start(SupervisorSpec(id=name, children=[WorkerSpec(id="w", handle=faulty)]))


def test_twice_is_as_once_and_several_trees_share_a_registry() -> None:
    registry = CollectorRegistry()
    with small("one") as one, small("two") as two:
        for tree in (one, one, two):
            metrics(tree, registry)
        for tree in (one, two):
            tree.ref(f"{tree.spec.id}/w").tell("die")
            settle(tree)
        found = read(registry)
    assert found["regrow_child_exits_total"] == {("one/w", "crashed"): 1, ("two/w", "crashed"): 1}
    assert found["regrow_children"] == all_running(4)


def test_of_trees_that_share_labels_the_worst_state_is_told_and_no_sum_of_states() -> None:
    """Two open breakers are 4 when they are added, which is no state of a breaker."""

    def fails(*_: Any) -> Any:
        raise ValueError("no")

    def failing(name: str) -> SupervisorSpec:
        worker = WorkerSpec(id="w", execute=fails, on_failure=[], breaker=Breaker(failure_threshold=1))
        return SupervisorSpec(id=name, tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])

    registry = CollectorRegistry()
    with start(failing("one")) as one, start(failing("two")) as two, start(failing("two")) as other:
        for tree in (one, two, other):
            metrics(tree, registry)
        for tree in (one, two):
            with pytest.raises(TaskFailedError):
                tree.submit("go").result()
            settle(tree)
        found = read(registry)
    assert found["regrow_breaker_state"] == {("w",): 2}
    assert found["regrow_role"] == {("leader",): 1, ("standby",): 0}
    assert found["regrow_restarts_left"] == {("one",): 3, ("two",): 3}
    assert found["regrow_tasks_unfinished"] == {("one",): 0, ("two",): 0}


def test_what_a_tree_counts_while_it_goes_is_counted_also_where_somebody_looks_meanwhile() -> None:
    """To answer what waits in the mailboxes of a tree that is down may take a while, and each is a dead letter."""
    registry, looked = CollectorRegistry(), list[bool]()

    def looks() -> None:
        found = read(registry)
        looked.append(tree._system.is_down and "regrow_children" not in found)
        tree.ref("one/w").tell("too late")

    with small("one") as tree:
        metrics(tree, registry)
        tree._system.before_end(looks)
    assert looked == [True]
    found = read(registry)
    assert sum(found["regrow_dead_letters_total"].values()) == 1
    assert found["regrow_child_exits_total"] == {("one/w", "shutdown"): 1}
    assert door._collector_of(registry)._trees == {}


def test_counters_stay_when_a_tree_is_down_and_nothing_holds_the_tree() -> None:
    registry = CollectorRegistry()
    with small("one") as tree:
        metrics(tree, registry)
        tree.ref("one/w").tell("die")
        settle(tree)
    ended = read(registry)
    assert ended["regrow_child_exits_total"]["one/w", "crashed"] == 1
    assert "regrow_children" not in ended
    assert door._collector_of(registry)._trees == {}
    assert read(registry)["regrow_child_exits_total"]["one/w", "crashed"] == 1


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "PROMETHEUS", ("no-such-package", "metrics", "0.20"))
    with small("one") as tree, pytest.raises(ConfigError, match=r"regrow\[metrics\]"):
        metrics(tree)


def test_a_page_shows_them_from_the_first_look_on() -> None:
    with small("one") as tree:
        page = tree.serve(port=0)
        url = page.url.partition("/?")[0]
        first = httpx.get(f"{url}/metrics", timeout=LONG_S)
        tree.ref("one/w").tell("die")
        settle(tree)
        second = httpx.get(f"{url}/metrics", timeout=LONG_S)
    assert first.status_code == 200
    assert first.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'regrow_child_exits_total{path="one/w",reason="crashed"} 1.0' in second.text
    assert 'regrow_children{state="running"} 2.0' in second.text


def test_however_often_a_tree_is_asked_for_its_metrics_it_is_measured_once() -> None:
    """A page asks at each scrape: what measures the commits of its store would become more and more."""
    registry = CollectorRegistry()
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])),
        children=[WorkerSpec(id="w", execute=lambda _: "done")],
    )
    with start(spec) as tree:
        with closing(TreeSource(tree._system, tree._leadership, [])) as source:
            for _ in range(5):
                metrics(tree, registry)
                source.metrics()
        assert len(tree._system.services["tasks"].commits) == 2
