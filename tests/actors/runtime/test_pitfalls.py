"""The traps that the trial of this library fell into, each forced again: lives, plans, contexts and memory.

Those of the pool are in test_traps_pool.py; 7 is in test_life_races.py too.
"""

import contextvars
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from actors import (
    ActorStoppedError,
    ChildExited,
    ChildStarted,
    RestartLimitError,
    StartError,
)
from actors.execution.timers import Timers
from actors.messaging.envelope import CURRENT
from actors.model.spec import Reason
from actors.testing import ManualClock, settle
from tests.support.hardening import (
    LONG_S,
    Gate,
    Ours,
    Stock,
    Witness,
    crash,
    eventually,
    gone,
    in_thread,
    kind_with,
    life_of,
    obey_async,
    root,
    switching_fast,
    tree_of,
    worker,
)
from trees import Backoff, Tree, WorkerSpec, start

VALUE = contextvars.ContextVar("VALUE", default="clean")


# -- 5: every operation answers whoever waits for it -------------------------------------------------------


@pytest.mark.parametrize("by", ["terminate", "stop"])
def test_a_start_that_a_stop_replaces_answers_whoever_waited_for_it(by: str) -> None:
    """Trap 5."""
    gate = Gate()
    slow = kind_with(Ours, on_start=lambda self: gate())
    with tree_of() as tree:
        started = in_thread(lambda: tree.start_child("t", worker("w", slow, shutdown="brutal_kill")))
        gate.wait_reached()
        stopped = in_thread(tree.stop if by == "stop" else lambda: tree.terminate_child("t/w"))
        with pytest.raises(StartError):
            started()
        stopped()
        gate.open.set()
        eventually(lambda: not tree._system.abandoned_by_path)


def test_every_one_of_many_stops_of_the_same_child_is_answered() -> None:
    """Trap 5: the second joins the first."""
    gate = Gate()
    with tree_of(worker("w", kind_with(Ours, on_stop=lambda self: gate()))) as tree:
        stops = [in_thread(lambda: tree.terminate_child("t/w"))]
        gate.wait_reached()
        stops += [in_thread(lambda: tree.terminate_child("t/w")) for _ in range(3)]
        stops.append(in_thread(tree.stop))
        gate.open.set()
        for stopped in stops:
            _ended_or_down(stopped)


def _ended_or_down(stopped: object) -> None:
    try:
        stopped()
    except ActorStoppedError:
        return  # the tree went down while the call waited, and said so


# -- 6: exit races -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Ours, Stock])
def test_starts_stops_and_kills_at_random_make_one_exit_for_each_start(kind: type[Any]) -> None:
    """Trap 6."""
    with tree_of(worker("w", kind, shutdown="brutal_kill")) as tree, switching_fast():
        seen, ref = Witness(tree), tree.ref("t/w")
        for n in range(60):
            ref.tell(crash)
            if n % 3 == 0:
                ref.stop(block=False)
            tree.terminate_child("t/w")
            tree.restart_child("t/w")
        settle(tree)
        eventually(lambda: not tree._system.abandoned_by_path)
        exits = [event.incarnation for event in seen.of(ChildExited, started=True)]

        assert len(exits) == len(set(exits)) == len(seen.of(ChildStarted))


# -- 8: contexts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", [lambda message: message(), obey_async])
def test_a_contextvar_that_one_worker_sets_is_not_seen_by_another(handler: Any) -> None:
    """Trap 8: they run on the same threads, and on the same loop."""
    with tree_of(worker("a", handler), worker("b", handler)) as tree:
        tree.ref("t/a").ask(lambda: VALUE.set("of a") and None)

        assert [tree.ref("t/b").ask(VALUE.get) for _ in range(20)] == ["clean"] * 20
        assert VALUE.get() == "clean"


def test_the_ancestry_of_who_woke_an_async_worker_does_not_leak_into_it() -> None:
    """Trap 8: ``call_soon_threadsafe`` and ``create_task`` copy the waker's context."""
    chains = []

    async def look() -> None:
        chains.append([address.path for address in CURRENT.get().waiting()])

    with tree_of(worker("a"), worker("b", obey_async)) as tree:
        b = tree.ref("t/b")
        tree.ref("t/a").ask(lambda: b.tell(look))
        settle(tree)
        b.tell(look)
        settle(tree)

    assert chains == [["t/b"], ["t/b"]]


def test_the_ancestry_of_who_started_a_body_does_not_leak_into_it() -> None:
    """Trap 8."""
    seen = []

    async def body() -> None:
        current = CURRENT.get()
        seen.append((current.incarnation.mailbox.path, current.origin))

    with tree_of(worker("a")) as tree:
        spec = WorkerSpec(id="b", run=body, restart="temporary")
        tree.ref("t/a").ask(lambda: tree.start_child("t", spec) and None)
        eventually(lambda: seen)

    assert seen == [("t/b", None)]


def test_the_context_of_one_message_does_not_stay_for_the_next() -> None:
    """Trap 8: a task that outlives its message does not make the next message a part of it."""
    with tree_of(worker("a"), worker("b")) as tree:
        b = tree.ref("t/b")
        inner = tree.ref("t/a").ask(lambda: b.ask(lambda: CURRENT.get().origin.sender))
        outer = b.ask(lambda: CURRENT.get().origin.sender)

        assert (inner, outer) == ("t/a", None)


# -- 9, 13: cost -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [False, True])
def test_thousands_of_children_stop_without_recursion(parallel: bool) -> None:
    """Trap 9."""
    children = [worker(f"w{n}") for n in range(5_000)]
    with tree_of(*children, parallel_stop=parallel) as tree:
        tree._system.bus.silence()
        assert tree.stop(LONG_S)


def test_a_group_restart_of_many_children_that_are_down_already_does_not_recurse() -> None:
    """Trap 9."""
    children = [worker(f"w{n}", restart="transient") for n in range(3000)]
    with tree_of(*children, strategy="one_for_all") as tree:
        for n in range(1, 3000):
            tree.ref(f"t/w{n}").stop(block=False)
        settle(tree)
        tree.ref("t/w0").tell(crash)
        eventually(lambda: tree.count_children("t").active == 3000)


def test_rest_for_one_looks_at_the_children_after_the_culprit_only() -> None:
    """Trap 13."""
    looked = 0

    class Counting(dict):
        def __reversed__(self) -> Iterator[Any]:
            nonlocal looked
            for value in super().values().__reversed__():
                looked += 1
                yield value

        def values(self) -> Any:
            return self

    with tree_of(*(worker(f"w{n}") for n in range(500)), strategy="rest_for_one") as tree:
        seen = Witness(tree)
        roster = tree._system.supervisors["t"].table
        roster.children = Counting(roster.children)
        tree.ref("t/w497").tell(crash)
        seen.wait(ChildStarted, path="t/w499")
        roster.children = dict(roster.children.items())

    assert looked <= 4


# -- 10: what is over keeps nothing alive ------------------------------------------------------------------


def test_a_cancelled_timer_lets_go_of_its_callback_at_once() -> None:
    """Trap 10."""

    class Child:
        def late(self) -> None: ...

    timers = Timers("t", ManualClock(), failed=lambda error: None)
    child = Child()
    kept = weakref.ref(child)
    timer = timers.call_at(2000.0, child.late)
    del child
    alive = kept() is not None
    timer.cancel()

    assert alive
    assert gone(kept)
    timers.close(0)


def test_a_thousand_cancelled_timers_leave_the_heap_short() -> None:
    """Trap 10."""
    timers = Timers("t", ManualClock(), failed=lambda error: None)
    for _ in range(20_000):
        timers.call_at(2000.0, bool).cancel()

    assert len(timers._heap) < 3000
    timers.close(0)


def test_nothing_keeps_a_crashed_actor_its_error_or_a_forgotten_child() -> None:
    """Trap 10: exit records are text."""
    kept = []

    class Temporary(Ours):
        def on_receive(self, message: object) -> None:
            error = ValueError("boom")
            kept.extend([weakref.ref(self), weakref.ref(life_of(tree, "t/w"))])
            raise error

    with tree_of(worker("x")) as tree:
        tree.start_child("t", worker("w", Temporary, restart="temporary"))
        tree._system.boxes["t/w"].put(("crash", None, None))
        settle(tree)

        eventually(lambda: gone(*kept), "the end of the actor and its life")
        assert "t/w" not in tree._system.children
        assert "t/w" not in tree._system.boxes


def test_the_last_exit_of_a_child_is_text() -> None:
    """Trap 10."""
    with tree_of(worker("w")) as tree:
        tree.ref("t/w").tell(crash)
        settle(tree)
        last = tree.child("t/w").last_exit

        assert (last.reason, last.detail, str(last)) == (Reason.CRASHED, "ValueError", "crashed ValueError")


# -- 11: groups --------------------------------------------------------------------------------------------


def test_a_second_crash_during_a_group_restart_does_not_stop_a_child_twice() -> None:
    """Trap 11: a child of the pass is still stopping when the next one of it crashes."""
    gate, stops = Gate(), []
    stubborn = kind_with(Ours, on_stop=lambda self: (stops.append(1), gate()))
    with start(root(worker("a"), worker("b", stubborn), worker("c"), strategy="one_for_all")) as tree:
        seen = Witness(tree)
        tree.ref("t/c").tell(crash)
        gate.wait_reached()
        tree.ref("t/a").tell(crash)
        seen.wait(ChildExited, path="t/a")
        gate.open.set()
        seen.wait(ChildStarted, path="t/c")
        settle(tree)

        assert stops == [1]
        assert [event.path for event in seen.of(ChildExited)] == ["t/c", "t/a", "t/b"]
        assert [event.path for event in seen.of(ChildStarted)] == ["t/a", "t/b", "t/c"]
        assert tree._system.supervisors["t"].restarts.window.count(tree._system.now()) == 1


def test_an_earlier_sibling_that_crashes_during_a_group_enlarges_it_and_counts_again() -> None:
    """Trap 11: rest_for_one."""
    gate = Gate()
    stubborn = kind_with(Ours, on_stop=lambda self: gate())
    spec = root(worker("a"), worker("b"), worker("c", stubborn), strategy="rest_for_one", max_restarts=2)
    with start(spec) as tree:
        seen = Witness(tree)
        tree.ref("t/b").tell(crash)
        gate.wait_reached()
        tree.ref("t/a").tell(crash)
        seen.wait(ChildExited, path="t/a")
        gate.open.set()
        seen.wait(ChildStarted, path="t/c")
        window = tree._system.supervisors["t"].restarts.window
        settle(tree)

        assert [event.path for event in seen.of(ChildStarted)] == ["t/a", "t/b", "t/c"]
        assert window.count(tree._system.now()) == 2


def test_a_backoff_of_an_old_pass_revives_nothing() -> None:
    """Trap 11: terminated while it waits; then its time comes."""
    clock = ManualClock()
    slow = Backoff(initial_s=5, jitter=0)
    with start(root(worker("w", backoff=slow)), clock=clock) as tree:
        seen = Witness(tree)
        tree.ref("t/w").tell(crash)
        seen.wait(ChildExited)
        settle(tree)
        tree.terminate_child("t/w")
        clock.advance(10)
        settle(tree)

        assert tree.child("t/w").state == "stopped"
        assert seen.of(ChildStarted) == []


# -- 12: the supervisor's own inbox ------------------------------------------------------------------------


def test_no_child_call_hangs_that_races_with_the_end_of_its_supervisor() -> None:
    """Trap 12."""
    for _ in range(15):
        with start(root(worker("w"))) as tree, switching_fast():
            calls = [in_thread(lambda: _call(tree)) for _ in range(3)]
            tree.stop()
            for call in calls:
                assert call() is True


def _call(tree: Tree) -> bool:
    while True:
        try:
            tree.terminate_child("t/w")
            tree.restart_child("t/w")
        except ActorStoppedError:
            return True
        except Exception as error:
            if type(error).__name__ not in {"ChildError", "StartError"}:
                raise


def test_a_call_that_waits_when_the_root_gives_up_is_answered_with_the_reason() -> None:
    """Trap 12."""
    gate = Gate()
    stubborn = worker("b", kind_with(Ours, on_stop=lambda self: gate()))
    tree = start(root(worker("a"), stubborn, max_restarts=0))
    tree.ref("t/a").tell(crash)
    gate.wait_reached()
    call = in_thread(lambda: tree.start_child("t", worker("c")))
    with pytest.raises(ActorStoppedError):
        call()
    gate.open.set()

    with pytest.raises(RestartLimitError):
        tree.wait(LONG_S)
