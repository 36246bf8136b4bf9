"""Shipped conditions of alerts, each by what a tree has really come to: a breaker, a store, a lease, a stall."""

from __future__ import annotations

import queue
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors import TreeDownError
from actors.testing import ManualClock, settle
from tests.support.asking import LONG_S
from tests.support.hardening import Gate, in_thread, obey
from tests.trees.ha.test_standby_trees import take_away
from trees import (
    HA,
    Alert,
    AlertNotice,
    Breaker,
    StaticPlan,
    StoreError,
    Subtask,
    SupervisorSpec,
    Tasks,
    WorkerSpec,
    start,
)
from trees.observe import alert_notifier, alerts
from trees.observe.alert_conditions import HOLD_S


class Told:
    """What is told of one alert."""

    def __init__(self, when: Any) -> None:
        self._told = queue.SimpleQueue[AlertNotice]()
        self.alerts = [Alert("it", when, self._told.put)]

    @property
    def next(self) -> str:
        return self._told.get(timeout=LONG_S).state

    @property
    def nothing(self) -> bool:
        return self._told.empty()


@pytest.fixture(autouse=True)
def _looks_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_notifier, "LOOK_S", 0.05)
    monkeypatch.setattr(alert_notifier, "SOON_S", 0.01)


def working(execute: Any, **words: Any) -> SupervisorSpec:
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), on_failure=[])
    return SupervisorSpec(id="shop", tasks=tasks, children=[WorkerSpec(id="w", execute=execute, **words)])


def fails(*_: object) -> None:
    raise ValueError("no")


def test_breaker_open_holds_until_a_probe_may_go() -> None:
    told, clock = Told(alerts.breaker_open()), ManualClock()
    spec = working(fails, breaker=Breaker(failure_threshold=2, cooldown_s=30.0))
    with start(spec, clock=clock, alerts=told.alerts) as tree:
        tree.submit("once")
        settle(tree)
        (row,) = tree.registry()
        assert (row.breaker, told.nothing) == ("closed", True)
        tree.submit("twice")
        assert told.next == "firing"
        clock.advance(31.0)
        assert told.next == "resolved"


def test_store_paused_holds_while_another_process_locks_the_file(tmp_path: Path) -> None:
    told, file = Told(alerts.store_paused()), tmp_path / "tasks.db"
    with (
        start(working(lambda *_: "done"), store=f"sqlite:///{file}", alerts=told.alerts) as tree,
        closing(sqlite3.connect(file, isolation_level=None)) as other,
    ):
        tree.run("go", LONG_S)
        assert told.nothing
        other.execute("BEGIN IMMEDIATE")
        taken = in_thread(lambda: tree.submit("waits"))
        assert told.next == "firing"
        other.execute("ROLLBACK")
        assert told.next == "resolved"
        assert taken().result(LONG_S).status == "succeeded"


def test_lease_lost_tells_that_another_process_has_taken_over(tmp_path: Path) -> None:
    told, url = Told(alerts.lease_lost()), f"sqlite:///{tmp_path / 'tasks.db'}"
    tree = start(working(lambda *_: "done"), store=url, alerts=told.alerts, ha=HA(lease_s=30.0))
    try:
        assert tree.wait_for_role("leader", LONG_S)
        tree.run("go", LONG_S)
        assert told.nothing
        take_away(url, tree)
        with pytest.raises((StoreError, TreeDownError)):
            tree.submit("refused")
        assert told.next == "firing"
    finally:
        tree.stop()


def test_stalled_holds_for_a_minute_after_a_worker_was_silent_for_too_long() -> None:
    told, clock, gate = Told(alerts.stalled()), ManualClock(), Gate()
    spec = SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=obey, stall_s=10.0)])
    with start(spec, clock=clock, alerts=told.alerts) as tree:
        tree.ref("p/w").tell(gate)
        gate.wait_reached()
        for _ in range(9):
            clock.advance(1.0)
        assert told.nothing
        for _ in range(20):
            clock.advance(1.0)
        assert told.next == "firing"
        gate.open.set()
        clock.advance(HOLD_S + 1.0)
        assert told.next == "resolved"
