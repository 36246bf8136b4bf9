"""What a snapshot tells of each child, whatever state the tree is in."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from actors import ChildAbandoned, UnknownPathError
from actors.testing import Hang, ManualClock, settle
from tests.support.crew import LONG_S, Record, crash, doomed, faulty, meanwhile, running, shop
from trees import Backoff, SupervisorSpec, Tree, WorkerSpec, start
from trees.views.capture import capture
from trees.views.snapshot import PoolSnapshot, SupervisorSnapshot, TreeSnapshot, WorkerSnapshot

SECRET = "hunter2-in-a-payload"  # noqa: S105 - that is the point


class Secret:
    def __repr__(self) -> str:
        return SECRET


def worker(tree: Tree, path: str, **how: Any) -> WorkerSnapshot:
    top = tree.snapshot(path, **how).top
    assert isinstance(top, WorkerSnapshot)
    return top


def supervisor(tree: Tree, path: str = "shop") -> SupervisorSnapshot:
    top = tree.snapshot(path).top
    assert isinstance(top, SupervisorSnapshot)
    return top


def pool(tree: Tree, path: str) -> PoolSnapshot:
    top = tree.snapshot(path).top
    assert isinstance(top, PoolSnapshot)
    return top


def _returns() -> None:
    """A body that is over at once."""


# -- one child ---------------------------------------------------------------------------------------------


def test_an_idle_worker_is_running_with_nothing_under_way() -> None:
    clock = ManualClock()
    with running(shop(faulty("ledger")), clock=clock) as tree:
        clock.advance(7)
        ledger = worker(tree, "shop/ledger")

    assert (ledger.state, ledger.doing, ledger.incarnation, ledger.restarts) == ("running", None, 1, 0)
    assert (ledger.mailbox, ledger.current, ledger.last_exit, ledger.up_s) == (0, None, None, 7.0)
    assert (ledger.stack, ledger.abandoned_stacks) == (None, None)


def test_a_busy_worker_shows_the_type_and_age_of_its_message_and_how_many_wait() -> None:
    clock, hang = ManualClock(), Hang()
    with running(shop(faulty("ledger")), clock=clock) as tree:
        ledger = tree.ref("shop/ledger")
        ledger.tell(hang)
        hang.wait_until_entered()
        ledger.tell(1)
        ledger.tell(2)
        clock.advance(3)
        seen = worker(tree, "shop/ledger")
        hang.release()

    assert seen.mailbox == 2
    assert seen.current is not None
    assert (seen.current.type, seen.current.age_s) == ("Hang", 3.0)


def test_no_payload_no_argument_and_no_text_of_an_exception_shows_in_any_format() -> None:
    hang = Hang()

    def handle(message: Any, _given: object) -> None:
        if isinstance(message, Hang):
            message.hold()
        raise ValueError(SECRET)

    spec = shop(WorkerSpec(id="w", handle=handle, args=(Secret(),)))
    with running(spec) as tree:
        tree.ref("shop/w").tell(Secret())
        settle(tree)
        tree.ref("shop/w").tell(hang)
        hang.wait_until_entered()
        tree.ref("shop/w").tell(Secret())
        shown = [tree.dump(format=each, stacks=True, verbose=True) for each in ("text", "json", "mermaid")]
        hang.release()

    assert "ValueError" in shown[0]
    assert not [text for text in shown if SECRET in text]


def test_a_crash_shows_as_the_last_exit_with_its_type_and_age() -> None:
    clock = ManualClock()
    with running(shop(faulty("ledger")), clock=clock) as tree:
        crash(tree, "shop/ledger")
        clock.advance(2)
        ledger = worker(tree, "shop/ledger")

    assert (ledger.incarnation, ledger.restarts) == (2, 1)
    assert ledger.last_exit is not None
    assert ledger.last_exit.model_dump() == {"reason": "crashed", "detail": "ValueError", "age_s": 2.0}


def test_a_child_in_backoff_shows_when_it_is_tried_again() -> None:
    clock = ManualClock()
    spec = shop(faulty("ledger", backoff=Backoff(initial_s=10, jitter=0)))
    with running(spec, clock=clock) as tree:
        crash(tree, "shop/ledger")
        clock.advance(4)
        waiting = worker(tree, "shop/ledger")
        clock.advance(6)
        settle(tree)
        back = worker(tree, "shop/ledger")

    assert (waiting.state, waiting.doing, waiting.retry_in_s, waiting.up_s) == ("restarting", "backoff", 6.0, None)
    assert (back.state, back.doing, back.retry_in_s) == ("running", None, None)


def test_a_tree_can_be_looked_at_while_one_of_its_children_hangs_in_its_start() -> None:
    hang = Hang()
    spec = shop(faulty("slow", on_start=hang), faulty("next"))
    with meanwhile(start, spec) as started:
        hang.wait_until_entered()
        (system,) = _living("shop")
        snapshot = capture(system)
        hang.release()
    with started.result() as tree:
        up = supervisor(tree)

    before = snapshot.top
    assert isinstance(before, SupervisorSnapshot)
    assert before.doing == "starting"
    assert [(child.id, child.doing) for child in before.children if isinstance(child, WorkerSnapshot)] == [  # type: ignore[comparison-overlap]
        ("slow", "starting"),
        ("next", "waiting"),
    ]
    assert up.doing is None


def _living(root: str) -> list[Any]:
    from actors.runtime.living_trees import LIVING  # noqa: PLC0415 - there is no Tree yet while it starts

    return [system for system in LIVING.snapshot() if system.root_path == root and not system.is_down]


def test_a_parked_child_shows_its_own_limit_and_does_not_use_up_its_supervisors() -> None:
    with running(shop(faulty("moody", on_exhausted="park"), max_restarts=1, period_s=60)) as tree:
        crash(tree, "shop/moody")
        crash(tree, "shop/moody")
        moody, root = worker(tree, "shop/moody"), supervisor(tree)

    assert moody.state == "parked"
    assert moody.parks
    assert moody.own_limit is not None
    assert moody.own_limit.model_dump() == {"restarts": 2, "max_restarts": 1, "period_s": 60.0}
    assert root.limit.restarts == 0


def test_dead_letters_are_counted_where_they_were_sent_and_by_reason_for_the_tree() -> None:
    with running(shop(faulty("gone"), faulty("brief", restart="temporary"))) as tree:
        gone, brief = tree.ref("shop/gone"), tree.ref("shop/brief")
        tree.terminate_child("shop/gone")
        tree.terminate_child("shop/brief")
        gone.tell(1)
        gone.tell(2)
        brief.tell(3)
        snapshot = tree.snapshot()
        letters = worker(tree, "shop/gone").dead_letters

    assert letters == 2
    assert snapshot.dead_letters == {"forgotten": 1, "stopped": 2}


def test_an_abandoned_thread_is_counted_and_its_stack_shown_until_it_ends() -> None:
    hang = Hang(deaf=True)
    with running(shop(faulty("stuck", shutdown=0.01))) as tree:
        record = Record(tree)
        tree.ref("shop/stuck").tell(hang)
        hang.wait_until_entered()
        tree.terminate_child("shop/stuck")
        record.wait_for(ChildAbandoned)
        stuck, totals = worker(tree, "shop/stuck", stacks=True), tree.snapshot().abandoned
        hang.release()
        _until(lambda: not tree.snapshot().abandoned)
        after = worker(tree, "shop/stuck", stacks=True)

    assert stuck.abandoned == 1
    assert totals == {"shop/stuck": 1}
    assert stuck.abandoned_stacks is not None
    (stack,) = stuck.abandoned_stacks
    assert "in hold" in stack
    assert (after.abandoned, after.abandoned_stacks) == (0, ())


def _until(true: Any) -> None:
    """Wait for what no event tells: that a thread has gone."""
    tick = threading.Event()
    for _ in range(int(LONG_S / 0.01)):
        if true():
            return
        tick.wait(0.01)
    pytest.fail("did not become true")


def test_the_window_shows_how_many_restarts_still_count() -> None:
    clock = ManualClock()
    with running(shop(faulty("ledger"), max_restarts=3, period_s=5), clock=clock) as tree:
        crash(tree, "shop/ledger")
        now = supervisor(tree).limit.restarts
        clock.advance(5)
        at_the_edge = supervisor(tree).limit.restarts
        clock.advance(0.1)
        later = supervisor(tree).limit.restarts

    assert (now, at_the_edge, later) == (1, 1, 0)


def test_a_root_that_gave_up_shows_why_and_its_window_as_it_was_then() -> None:
    clock = ManualClock()
    with doomed(shop(faulty("ledger"), max_restarts=1), clock=clock) as tree:
        crash(tree, "shop/ledger")
        tree.ref("shop/ledger").tell("raise OSError")
        tree._system.ended.wait(LONG_S)
        clock.advance(1000)
        snapshot = tree.snapshot()

    root = snapshot.top
    assert isinstance(root, SupervisorSnapshot)
    assert (root.state, root.limit.restarts) == ("stopped", 2)
    assert root.last_exit is not None
    assert (root.last_exit.reason, root.last_exit.detail) == ("shutdown", "RestartLimitError")
    assert "limit 1. Last: 'ledger', OSError" in (snapshot.gave_up or "")


# -- pools -------------------------------------------------------------------------------------------------


def test_a_pool_is_one_with_the_sums_of_its_members() -> None:
    hang = Hang()
    with running(shop(faulty("parse", pool=3))) as tree:
        crash(tree, "shop/parse#1")
        tree.terminate_child("shop/parse#2")
        tree.ref("shop/parse#2").tell("lost")
        tree.ref("shop/parse#0").tell(hang)
        hang.wait_until_entered()
        tree.ref("shop/parse#0").tell("waits")
        seen = pool(tree, "shop/parse")
        hang.release()

    assert (seen.size, seen.states, seen.restarts) == (3, {"running": 2, "stopped": 1}, 1)
    assert (seen.mailbox, seen.busy, seen.dead_letters, seen.abandoned) == (1, 1, 1, 0)
    assert seen.members is not None
    assert [member.id for member in seen.members] == ["parse#0", "parse#1", "parse#2"]


# -- the tree as a whole -----------------------------------------------------------------------------------


def test_a_snapshot_survives_the_way_through_json() -> None:
    ends = WorkerSpec(id="b", run=_returns, on_exhausted="park")  # again and again, till it is parked
    spec = shop(faulty("a", pool=2), SupervisorSpec(id="team", children=[ends]))
    with running(spec) as tree:
        settle(tree)
        snapshot = tree.snapshot()

    assert TreeSnapshot.model_validate_json(snapshot.model_dump_json()) == snapshot


@pytest.mark.parametrize("path", ["shop/nobody", "", "shop/", "elsewhere"])
def test_a_path_that_is_not_listed_is_an_error_with_what_is_near(path: str) -> None:
    with running(shop(faulty("somebody"))) as tree, pytest.raises(UnknownPathError) as caught:
        tree.snapshot(path)

    assert caught.value.path == path
