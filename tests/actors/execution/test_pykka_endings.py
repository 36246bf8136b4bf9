"""The hazards of Pykka 4.5 that concern refs over restarts, last hooks and kills, repeated on supervised actors."""

from typing import Any

import pytest

from actors import (
    ActorStoppedError,
    ChildExited,
)
from actors.testing import settle
from tests.support.hardening import (
    BOTH,
    LONG_S,
    Gate,
    Ours,
    Witness,
    crash,
    eventually,
    in_thread,
    kind_with,
    threads_named,
    tree_of,
    worker,
)


@BOTH
def test_refs_and_proxies_outlive_restarts(kind: type[Any]) -> None:
    """Row 25."""
    with tree_of(worker("w", kind)) as tree:
        ref = tree.ref("t/w")
        proxy, inner = ref.proxy(), ref.ask(lambda self: self.actor_ref)
        first = (ref.actor_urn, ref.ask(id))
        with pytest.raises(ValueError, match="boom"):
            ref.ask(crash)

        assert ref.ask("same ref") == inner.ask("same ref") == "same ref"
        assert proxy.total().get(timeout=LONG_S) == 42
        assert ref.actor_urn == first[0] == inner.actor_urn


@BOTH
def test_a_slow_constructor_does_not_hold_up_its_supervisor(kind: type[Any]) -> None:
    """Row 28."""
    gate = Gate()

    def slow(self: object) -> None:
        super(victim, self).__init__()
        gate()

    victim = kind_with(kind, __init__=slow)
    with tree_of(worker("other", kind)) as tree:
        started = in_thread(lambda: tree.start_child("t", worker("slow", victim)))
        gate.wait_reached()
        tree.terminate_child("t/other")
        tree.restart_child("t/other")
        states = {child.id: child.state for child in tree.which_children("t")}
        gate.open.set()

        assert started().ask("up") == "up"
        assert states == {"other": "running", "slow": "restarting"}


@BOTH
def test_a_stop_through_a_proxy_is_done_when_on_stop_is(kind: type[Any]) -> None:
    """Row 31."""
    gate, done = Gate(), []
    victim = kind_with(kind, on_stop=lambda self: done.append(gate()))
    with tree_of(worker("w", victim, restart="temporary")) as tree:
        stopped = tree.ref("t/w").proxy().stop()
        gate.wait_reached()
        before = stopped.done
        gate.open.set()
        stopped.get(timeout=LONG_S)

        assert not before
        assert done == ["through"]


@BOTH
@pytest.mark.parametrize("busy", [False, True])
def test_a_kill_leaves_no_zombie_whether_the_actor_is_idle_or_blocked(kind: type[Any], busy: bool) -> None:
    """Row 41: no exception is injected into the thread; it is left to itself, or ends at once where it is idle."""
    gate = Gate()
    with tree_of(worker("w", kind, shutdown="brutal_kill")) as tree:
        seen = Witness(tree)
        ref = tree.ref("t/w")
        ref.tell(gate if busy else "idle")
        if busy:
            gate.wait_reached()
        else:
            settle(tree)
        tree.terminate_child("t/w")
        killed = seen.wait(ChildExited, path="t/w")
        gate.open.set()
        eventually(lambda: not threads_named("t/w-"), "the end of its thread")
        eventually(lambda: not tree.snapshot().abandoned)

        assert killed.reason == "killed"
        assert not ref.is_alive()
        with pytest.raises(ActorStoppedError):
            ref.ask("anybody?")


def test_an_actor_that_never_calls_super_init_works() -> None:
    """Smaller: Pykka's assert guards ``super().__init__()``, and is gone under -O."""

    class Forgetful(Ours):
        def __init__(self) -> None:
            self.count = 7

    with tree_of(worker("w", Forgetful)) as tree:
        assert tree.ref("t/w").proxy().count.get() == 7
