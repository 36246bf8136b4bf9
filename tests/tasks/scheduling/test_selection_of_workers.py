"""Selection: who is given the next subtask of those who could do it, and when a backup is (point 10)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import (
    AsyncScriptedExecutable,
    Hang,
    InTurn,
    ManualClock,
    ScriptedExecutable,
    settle,
)
from tests.tasks.dispatching import LONG_S, kinds, one, shop, submitted
from trees import Breaker, Failover, Retry, SupervisorSpec, TaskFailedError, WorkerSpec, start

AT_ONCE = Retry(max_attempts=2, initial_s=0.0, max_s=0.0, jitter=0.0)


def test_the_candidate_with_the_fewest_attempts_is_given_the_next_one() -> None:
    plan = [one("named", "x")] + [one(f"s{n}", capability="able") for n in range(3)]
    with Hang() as hang:
        x, y = AsyncScriptedExecutable(hang), AsyncScriptedExecutable(hang)
        tree_of = shop(
            WorkerSpec(id="x", execute=x, capabilities={"able"}, pool=4),
            WorkerSpec(id="y", execute=y, capabilities={"able"}, pool=4),
            plans={"go": plan},
        )
        with start(tree_of, clock=ManualClock()) as tree:
            handle = submitted(tree, "go")
            x.wait_for_calls(2)
            y.wait_for_calls(2)
            loads = {row.id: row.load for row in tree.registry()}
            hang.release()
            handle.result(timeout=LONG_S)

    assert loads == {"x": 2, "y": 2}
    assert y.calls[0].subtask == "s0"


def with_backup(primary: Any, backup: Any, **words: Any) -> SupervisorSpec:
    on_failure = words.pop("on_failure", [])
    return shop(
        WorkerSpec(id="primary", execute=primary, capabilities={"able"}, backup="backup", **words),
        WorkerSpec(id="backup", execute=backup, capabilities={"able"}),
        plans={"go": [one("s", capability="able")], "named": [one("s", "primary")]},
        on_failure=on_failure,
    )


@pytest.mark.parametrize("goal", ["go", "named"])
def test_a_backup_gets_nothing_while_its_primary_is_only_busy(goal: str) -> None:
    with Hang() as hang:
        primary, backup = ScriptedExecutable(InTurn(hang, "primary")), ScriptedExecutable("backup")
        with start(with_backup(primary, backup), clock=ManualClock()) as tree:
            handles = [submitted(tree, goal) for _ in range(2)]
            hang.wait_until_entered()
            hang.release()
            reports = [handle.result(timeout=LONG_S) for handle in handles]

    assert [report.results["s"] for report in reports] == ["primary", "primary"]
    assert backup.calls == []


@pytest.mark.parametrize("goal", ["go", "named"])
def test_a_backup_is_given_work_while_the_breaker_of_its_primary_is_open(goal: str) -> None:
    primary, backup, clock = ScriptedExecutable(OSError("down")), ScriptedExecutable("backup"), ManualClock()
    spec = with_backup(primary, backup, breaker=Breaker(failure_threshold=1, cooldown_s=30))

    with start(spec, clock=clock) as tree:
        with pytest.raises(TaskFailedError):
            tree.run(goal, timeout=LONG_S)
        during = tree.run(goal, timeout=LONG_S).results
        calls = len(primary.calls)
        clock.advance(30)
        with pytest.raises(TaskFailedError):
            tree.run(goal, timeout=LONG_S)

    assert during == {"s": "backup"}
    assert calls == 1
    assert len(primary.calls) == 2


@pytest.mark.parametrize("goal", ["go", "named"])
def test_a_backup_is_given_work_when_its_primary_is_stopped_for_good(goal: str) -> None:
    primary, backup = ScriptedExecutable("primary"), ScriptedExecutable("backup")

    with start(with_backup(primary, backup), clock=ManualClock()) as tree:
        tree.terminate_child("shop/primary")
        settle(tree)
        report = tree.run(goal, timeout=LONG_S)

    assert report.results == {"s": "backup"}


def test_a_backup_takes_over_when_the_attempts_of_its_primary_are_used_up() -> None:
    primary, backup = ScriptedExecutable(OSError("down")), ScriptedExecutable("backup")

    with start(with_backup(primary, backup, on_failure=[AT_ONCE, Failover()]), clock=ManualClock()) as tree:
        handle = tree.submit("named")
        report = handle.result(timeout=LONG_S)

    assert report.results == {"s": "backup"}
    assert [call.attempt for call in primary.calls] == [1, 2]
    assert [call.attempt for call in backup.calls] == [3]
    assert kinds(handle, "s").count("SubtaskStarted") == 3


def test_a_worker_that_is_added_takes_what_waits_for_busy_ones() -> None:
    new = AsyncScriptedExecutable("new")
    with Hang() as hang:
        spec = shop(
            WorkerSpec(id="old", execute=AsyncScriptedExecutable(hang), capabilities={"able"}),
            plans={"go": [one("a", capability="able"), one("b", capability="able")]},
        )
        with start(spec, clock=ManualClock()) as tree:
            handle = submitted(tree, "go")
            hang.wait_until_entered()
            tree.start_child("shop", WorkerSpec(id="new", execute=new, capabilities={"able"}))
            new.wait_for_calls(1)
            hang.release()
            report = handle.result(timeout=LONG_S)

    assert report.results["b"] == "new"


def test_what_waits_for_a_worker_that_is_deleted_goes_to_another_one_or_fails_by_name() -> None:
    with Hang() as hang, Hang() as other_hang:
        spec = shop(
            WorkerSpec(id="x", execute=AsyncScriptedExecutable(hang), capabilities={"able"}),
            WorkerSpec(id="y", execute=AsyncScriptedExecutable(InTurn(other_hang, "y")), capabilities={"able"}),
            plans={
                "go": [one("a", "x"), one("b", "y")],
                "any": [one("c", capability="able", required=False), one("d", "x", required=False)],
            },
        )
        with start(spec, clock=ManualClock()) as tree:
            busy = submitted(tree, "go")
            hang.wait_until_entered()
            other_hang.wait_until_entered()
            handle = submitted(tree, "any")
            tree.terminate_child("shop/x")
            tree.delete_child("shop/x")
            other_hang.release()
            report = handle.result(timeout=LONG_S)
            busy.cancel()
            settle(tree)

    assert report.results == {"c": "y"}
    assert "NoCapableWorkerError" in report.failed["d"]
    assert "x" in report.failed["d"]
