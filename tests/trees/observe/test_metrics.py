"""Metrics of trees for Prometheus, read as Prometheus reads them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from actors import ConfigError, Later, Rejected
from actors.testing import ManualClock, settle
from tests.support.asking import LONG_S
from tests.support.hardening import eventually
from trees import (
    HA,
    Escalate,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskStatus,
    SupervisorSpec,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)
from trees.agents.tree_gauges import GAUGES
from trees.agents.tree_meter import COUNTERS, HISTOGRAMS
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


def test_every_metric_of_the_table_is_told_by_its_name() -> None:
    registry = CollectorRegistry()
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=faulty)])) as tree:
        metrics(tree, registry)
        told = {family.name for family in text_string_to_metric_families(generate_latest(registry).decode())}
    assert told == {f"regrow_{name}" for name in COUNTERS} | {f"regrow_{name}_seconds" for name in HISTOGRAMS} | {
        *GAUGES
    }


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


def test_states_of_children_and_of_subtasks_are_told_where_nothing_is_in_them() -> None:
    registry = CollectorRegistry()
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=faulty)])) as tree:
        metrics(tree, registry)
        found = read(registry)
    assert found["regrow_children"] == all_running(3)
    assert found["regrow_subtasks_unfinished"]["queued",] == 0
    assert set(found["regrow_subtasks_unfinished"]) == {(str(status),) for status in SubtaskStatus}


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


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "PROMETHEUS", ("no-such-package", "metrics", "0.20"))
    with small("one") as tree, pytest.raises(ConfigError, match=r"the extra .metrics."):
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
