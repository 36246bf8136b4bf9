"""The traps that the trial of this library fell into, each forced again: lives, plans, contexts and memory.

Those of the pool are in test_traps_pool.py; 7 is in test_life_races.py too.
"""

import contextvars
from typing import Any

import pytest

from actors import (
    ActorStoppedError,
    ChildExited,
    ChildStarted,
    RestartLimitError,
    StartError,
)
from actors.testing import settle
from tests.support.hardening import (
    LONG_S,
    Gate,
    Ours,
    Stock,
    Witness,
    crash,
    eventually,
    in_thread,
    kind_with,
    obey_async,
    root,
    switching_fast,
    tree_of,
    worker,
)
from trees import Tree, start

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
        eventually(lambda: not tree.snapshot().abandoned)


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
        eventually(lambda: not tree.snapshot().abandoned)
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


# -- 9, 13: cost -------------------------------------------------------------------------------------------


# -- 10: what is over keeps nothing alive ------------------------------------------------------------------


def test_the_last_exit_of_a_child_is_text() -> None:
    """Trap 10."""
    with tree_of(worker("w")) as tree:
        tree.ref("t/w").tell(crash)
        settle(tree)
        last = tree.child("t/w").last_exit

        assert (last.reason, last.detail, str(last)) == ("crashed", "ValueError", "crashed ValueError")


# -- 11: groups --------------------------------------------------------------------------------------------


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
