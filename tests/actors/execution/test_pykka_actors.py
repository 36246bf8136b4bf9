"""The hazards of Pykka 4.5 that concern the life of an actor: how it starts, crashes, stops and comes back.

Each test repeats the experiment of one row of the hazard table on supervised actors, ours and stock ones.
"""

import asyncio
import threading
from typing import Any

import pykka
import pytest

from actors import (
    ChildAbandoned,
    ChildExited,
    ChildRestarting,
    ChildStarted,
    StartError,
    WorkerCrashedError,
)
from actors.testing import settle
from tests.support.hardening import (
    BOTH,
    LONG_S,
    Gate,
    Stock,
    Witness,
    crash,
    eventually,
    in_thread,
    kind_with,
    life_of,
    root,
    switching_fast,
    tree_of,
    worker,
)
from trees import start

NO_EXCEPTIONS = [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit, pytest.fail.Exception]


@BOTH
def test_a_crash_on_ask_is_as_much_a_crash_as_one_on_tell(kind: type[Any]) -> None:
    """Row 01."""
    failures = []
    victim = kind_with(kind, on_failure=lambda self, *info: failures.append(info[0]))
    with tree_of(worker("w", victim)) as tree:
        seen = Witness(tree)
        with pytest.raises(ValueError, match="boom"):
            tree.ref("t/w").ask(crash)
        seen.wait(ChildStarted, incarnation=2)
        tree.ref("t/w").tell(crash)
        seen.wait(ChildStarted, incarnation=3)

    assert failures == [ValueError, ValueError]


@BOTH
@pytest.mark.parametrize("error", NO_EXCEPTIONS)
def test_a_base_exception_in_one_actor_ends_that_actor_only(kind: type[Any], error: type[BaseException]) -> None:
    """Row 02."""

    def end(_: object) -> None:
        raise error

    bystander = Stock.start()
    try:
        with tree_of(worker("w", kind), worker("x", kind), worker("y")) as tree:
            seen = Witness(tree)
            tree.ref("t/w").tell(end)
            seen.wait(ChildStarted, path="t/w", incarnation=2)

            assert tree.ref("t/w").ask("again") == "again"
            assert [tree.child(f"t/{id_}").incarnation for id_ in "xy"] == [1, 1]
            assert bystander.is_alive()
    finally:
        bystander.stop()


@BOTH
@pytest.mark.parametrize("error", NO_EXCEPTIONS)
def test_the_asker_of_a_base_exception_gets_an_ordinary_error_at_once(
    kind: type[Any], error: type[BaseException]
) -> None:
    """Row 03."""

    def end(_: object) -> None:
        raise error

    with tree_of(worker("w", kind)) as tree:
        with pytest.raises(WorkerCrashedError) as caught:
            tree.ref("t/w").ask(end, timeout=None)

        assert isinstance(caught.value.__cause__, error)


@BOTH
def test_a_base_exception_below_an_asker_wedges_neither_of_them(kind: type[Any]) -> None:
    """Row 03b."""

    def end(_: object) -> None:
        raise SystemExit

    with tree_of(worker("b", kind), worker("c", kind)) as tree:
        below = tree.ref("t/b")
        with pytest.raises(WorkerCrashedError):
            tree.ref("t/c").ask(lambda _: below.ask(end, timeout=None))

        assert below.ask("b") == "b"
        assert tree.ref("t/c").ask("c") == "c"
        assert tree.child("t/c").incarnation == 1


@BOTH
def test_tells_behind_a_crash_are_handled_by_the_next_incarnation(kind: type[Any]) -> None:
    """Row 05."""
    gate, handled = Gate(), []
    with tree_of(worker("w", kind)) as tree:
        ref = tree.ref("t/w")
        ref.tell(gate)
        gate.wait_reached()
        ref.tell(crash)
        for number in range(100):
            ref.tell(lambda _, number=number: handled.append(number))
        gate.open.set()
        settle(tree)

    assert handled == list(range(100))


@BOTH
def test_start_returns_after_on_start_and_raises_what_it_raised(kind: type[Any]) -> None:
    """Row 06."""
    order = []

    def on_start(self: object) -> None:
        order.append("on_start")

    def bad_start(self: object) -> None:
        raise OSError("no such port")

    hooks = {"on_failure": lambda self, *info: order.append("on_failure")}
    with tree_of(worker("w", kind_with(kind, on_start=on_start))):
        order.append("started")
    with pytest.raises(StartError) as caught:
        start(root(worker("w", kind_with(kind, on_start=bad_start, **hooks))))

    assert order == ["on_start", "started", "on_failure"]
    assert isinstance(caught.value.__cause__, OSError)


@BOTH
def test_sys_exit_in_on_start_leaves_no_zombie(kind: type[Any]) -> None:
    """Row 07."""

    def on_start(self: object) -> None:
        raise SystemExit("config missing")

    before = threading.active_count()
    with pytest.raises(StartError):
        start(root(worker("w", kind_with(kind, on_start=on_start))))

    eventually(lambda: threading.active_count() <= before, "the end of every thread")
    assert pykka.ActorRegistry.get_all() == []


@BOTH
def test_a_restart_waits_for_on_failure_so_new_never_overlaps_old(kind: type[Any]) -> None:
    """Row 08."""
    gate = Gate()
    with tree_of(worker("w", kind_with(kind, on_failure=gate))) as tree:
        seen = Witness(tree)
        tree.ref("t/w").tell(crash)
        gate.wait_reached()
        before = (tree.child("t/w").incarnation, tree.ref("t/w").is_alive(), seen.of(ChildExited))
        gate.open.set()
        seen.wait(ChildStarted, incarnation=2)

        assert before == (1, True, [])
        assert [type(event) for event in seen.events] == [ChildExited, ChildRestarting, ChildStarted]


@BOTH
def test_a_stop_returns_when_on_stop_has_ended(kind: type[Any]) -> None:
    """Row 08."""
    gate = Gate()
    with tree_of(worker("w", kind_with(kind, on_stop=gate))) as tree:
        stopped = in_thread(lambda: tree.terminate_child("t/w"))
        gate.wait_reached()
        during = tree.child("t/w").state
        gate.open.set()
        stopped()

        assert during == "running"
        assert tree.child("t/w").state == "stopped"


@BOTH
def test_exactly_one_last_hook_runs_and_it_tells_how_the_life_ended(kind: type[Any]) -> None:
    """Row 09."""
    hooks = []
    victim = kind_with(
        kind,
        on_stop=lambda self: hooks.append("on_stop"),
        on_failure=lambda self, *info: hooks.append("on_failure"),
    )
    with tree_of(worker("w", victim)) as tree:
        tree.ref("t/w").tell(crash)
        settle(tree)
        after_crash = list(hooks)
        tree.ref("t/w").ask(lambda self: self.stop())
        settle(tree)
        after_return = list(hooks)
        tree.terminate_child("t/w")

    assert after_crash == ["on_failure"]
    assert after_return == ["on_failure", "on_stop"]
    assert hooks == ["on_failure", "on_stop", "on_stop"]


@BOTH
def test_a_stop_overtakes_the_backlog(kind: type[Any]) -> None:
    """Row 10."""
    gate, handled = Gate(), []
    with tree_of(worker("w", kind)) as tree:
        ref = tree.ref("t/w")
        ref.tell(gate)
        gate.wait_reached()
        for _ in range(100):
            ref.tell(handled.append)
        stopped = in_thread(lambda: tree.terminate_child("t/w"))
        eventually(lambda: life_of(tree, "t/w").must_stop)
        gate.open.set()
        stopped()

        assert handled == []
        assert tree.snapshot().dead_letters == {"stopped": 100}


@BOTH
def test_a_blocked_actor_is_abandoned_and_the_stop_goes_on_with_the_rest(kind: type[Any]) -> None:
    """Row 11."""
    gates, stopped = [Gate(), Gate()], []
    healthy = kind_with(kind, on_stop=lambda self: stopped.append(self.actor_urn))
    blocked = [worker(f"f{n}", kind, shutdown=0.05) for n in (1, 2)]
    with tree_of(worker("first", healthy), *blocked, worker("last", healthy)) as tree:
        seen = Witness(tree)
        for n, gate in enumerate(gates, 1):
            tree.ref(f"t/f{n}").tell(gate)
            gate.wait_reached()
        in_order = tree.stop(LONG_S)
        for gate in gates:
            gate.open.set()
        eventually(lambda: not tree.snapshot().abandoned)

    assert in_order
    assert stopped == ["urn:regrow:t/last", "urn:regrow:t/first"]
    assert [event.path for event in seen.of(ChildAbandoned)] == ["t/f2", "t/f1"]


@BOTH
def test_restarts_during_stop_all_leak_no_actor(kind: type[Any]) -> None:
    """Row 14."""
    lives = []
    victim = kind_with(kind, on_start=lambda self: lives.append(self._regrow_incarnation))
    with tree_of(*(worker(f"w{n}", victim) for n in range(4))) as tree, switching_fast():
        seen = Witness(tree)
        refs = [tree.ref(f"t/w{n}") for n in range(4)]
        for ref in refs * 50:
            ref.tell(crash)
        seen.wait(ChildRestarting, count=8)
        pykka.ActorRegistry.stop_all()

        assert all(incarnation.is_over for incarnation in lives)
        assert not any(ref.is_alive() for ref in refs)
        assert tree.wait(LONG_S)
