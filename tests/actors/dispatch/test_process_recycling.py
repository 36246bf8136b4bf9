"""``Process(recycle_after=...)``: a fresh process after so many messages, which counts against nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors import ChildExited, ChildRestarting, ChildStarted, DeadLetter, Failed
from actors.testing import settle
from tests.actors.dispatch.process_trees import spec_of, worker
from tests.support.crew import Record
from tests.support.hardening import eventually
from tests.tasks.execution import process_work
from trees import Process, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start


def recycled(after: int = 1, id_: str = "w", **rules: Any) -> WorkerSpec:
    return worker(id_, dispatch=Process(recycle_after=after), **rules)


@contextmanager
def running(*children: WorkerSpec, **rules: Any) -> Iterator[tuple[Tree, Record]]:
    """A tree that restarts nothing."""
    with start(SupervisorSpec(id="p", children=children, max_restarts=0, **rules)) as tree:
        yield tree, Record(tree)


def test_after_so_many_messages_a_fresh_process_goes_on_and_no_message_is_lost() -> None:
    with running(recycled(3)) as (tree, record):
        ref = tree.ref("p/w")
        pids = [each.get(timeout=60) for each in [ref.ask("pid", timeout=60, block=False) for _ in range(7)]]
        settle(tree)
        assert [pids[0]] * 3 == pids[:3]
        assert [pids[3]] * 3 == pids[3:6]
        assert len(set(pids)) == 3
        info = tree.child("p/w")
        assert (info.incarnation, info.restarts, info.pid) == (3, 0, pids[6])
        exits = record.of(ChildExited)
        assert [(str(each.reason), each.detail, each.error, each.lost) for each in exits] == [
            ("shutdown", "recycled", None, 0)
        ] * 2
        assert [each.incarnation for each in record.of(ChildStarted)] == [2, 3]
        assert not record.of(ChildRestarting), "it counts against nothing"
        assert not record.of(DeadLetter)


def test_a_failed_request_counts_and_a_crash_stays_one() -> None:
    with start(spec_of(recycled(2, expected=(ValueError,)))) as tree:
        record, ref = Record(tree), tree.ref("p/w")
        for error, kind in ((Failed("no"), Failed), (ValueError("bad"), ValueError)):
            with pytest.raises(kind):
                ref.ask(("raise", error), timeout=60)
        ref.ask("pid", timeout=60)
        assert tree.child("p/w").restarts == 0
        ref.tell(("raise", KeyError("worse")))
        ref.ask("pid", timeout=60)
        assert record.exits("p/w") == ["shutdown", "crashed"]
        assert tree.child("p/w").restarts == 1


def test_a_stop_that_comes_while_the_last_message_is_handled_is_a_stop(tmp_path: Path) -> None:
    with running(recycled()) as (tree, record):
        up = tmp_path / "up"
        reply = tree.ref("p/w").ask(("until stopped", str(up)), timeout=None, block=False)
        assert eventually(up.exists)
        tree.terminate_child("p/w")
        assert reply.get(timeout=60) == "stopped"
        assert [each.detail for each in record.of(ChildExited)] == [""]
        assert tree.child("p/w").state == "stopped"


def test_attempts_count_and_none_is_lost() -> None:
    plan = [Subtask(f"s{n}", "see", worker="w") for n in range(5)]
    w = WorkerSpec(id="w", execute=process_work.work, dispatch=Process(recycle_after=2), on_failure=[])
    with running(w, tasks=Tasks(planner=StaticPlan(plan))) as (tree, record):
        results = tree.submit(Task("go")).result(60).results
        settle(tree)
        assert {each["attempt"] for each in results.values()} == {1}
        assert sorted(
            [each["pid"] for each in results.values()].count(pid) for pid in {each["pid"] for each in results.values()}
        ) == [1, 2, 2]
        assert record.exits("p/w") == ["shutdown"] * 2
