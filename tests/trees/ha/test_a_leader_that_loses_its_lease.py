"""A leader that cannot renew its lease stops, and says so as an error."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from actors import Event
from trees import HA, RoleChanged, RoleLost, SupervisorSpec, WorkerSpec, start


def test_a_store_that_somebody_else_keeps_locked_costs_the_lease_and_that_is_an_error(tmp_path: Path) -> None:
    file, lost, seen = tmp_path / "tasks.db", threading.Event(), list[RoleChanged]()

    def hear(event: Event) -> None:
        if isinstance(event, RoleChanged) and event.role == "stopped":
            seen.append(event)
            lost.set()

    spec = SupervisorSpec(id="t", children=[WorkerSpec(id="w", handle=print)])
    tree = start(spec, store=f"sqlite:///{file}", ha=HA(lease_s=4.0))
    try:
        assert tree.wait_for_role("leader", 60.0)
        tree.subscribe(hear)
        with closing(sqlite3.connect(file, isolation_level=None, timeout=60.0)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert lost.wait(60.0)
            other.execute("ROLLBACK")
    finally:
        tree.stop()

    assert isinstance(seen[0], RoleLost)
    assert seen[0].severity == "ERROR"
    assert "could not be renewed" in seen[0].reason
