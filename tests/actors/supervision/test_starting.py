"""SEMANTICS.md 1 to 4: how a tree starts, and how it does not."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pykka
import pytest

import actors
from actors import ConfigError, Ignore, StartError, UnknownPathError, Worker
from actors.testing import Fault, FaultyWorker, Hang, ManualClock, settle
from tests.support.crew import LONG_S, faulty, hooks, meanwhile, running, shop, states, until
from trees import SupervisorSpec, WorkerSpec, start

BOTH = pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])


def causes(error: BaseException | None) -> list[BaseException]:
    chain = []
    while error is not None:
        chain.append(error)
        error = error.__cause__
    return chain


# -- 1 -----------------------------------------------------------------------------------------------------


def test_every_mistake_of_a_tree_is_reported_at_once_and_nothing_has_run() -> None:
    diary: list[str] = []
    spec = shop(
        faulty("good", diary=diary),
        WorkerSpec(id="lost", run="no_such_module:body"),
        SupervisorSpec(id="team", children=[faulty("twin"), faulty("twin")]),
    )

    with pytest.raises(ConfigError) as caught:
        start(spec)

    assert {problem.path for problem in caught.value.problems} >= {"shop/lost.run", "shop/team/twin"}
    assert diary == []


# -- 2 -----------------------------------------------------------------------------------------------------


@BOTH
def test_children_start_in_list_order_and_a_nested_supervisor_brings_up_its_subtree_first(dispatch: str) -> None:
    diary: list[str] = []
    team = SupervisorSpec(id="team", children=[faulty("x", diary=diary), faulty("y", diary=diary)])
    spec = shop(faulty("a", diary=diary, dispatch=dispatch), team, faulty("b", diary=diary, dispatch=dispatch))

    with running(spec) as tree:
        started = hooks(diary)
        listed = [child.id for child in tree.which_children("shop")]

    assert started == ["on_start a", "on_start team/x", "on_start team/y", "on_start b"]
    assert listed == ["a", "team", "b"]


@BOTH
def test_a_child_does_not_start_before_the_one_in_front_of_it_is_up(dispatch: str) -> None:
    diary: list[str] = []
    hang = Hang()
    spec = shop(faulty("a", diary=diary, on_start=hang, dispatch=dispatch), faulty("b", diary=diary))

    with meanwhile(start, spec) as starting:
        hang.wait_until_entered()
        before = hooks(diary)
        hang.release()
        with starting.result(LONG_S):
            after = hooks(diary)

    assert before == ["on_start a"]
    assert after == ["on_start a", "on_start b"]


def test_a_body_is_up_while_it_runs() -> None:
    entered = threading.Event()

    def body() -> None:
        entered.set()
        while not actors.sleep(LONG_S):
            pass

    with running(shop(WorkerSpec(id="body", run=body), faulty("next"))) as tree:
        assert entered.wait(LONG_S)
        assert states(tree) == {"body": "running", "next": "running"}


# -- 3 -----------------------------------------------------------------------------------------------------


@BOTH
def test_a_failed_start_stops_those_before_it_in_reverse_and_touches_none_after_it(dispatch: str) -> None:
    diary: list[str] = []
    spec = shop(
        faulty("a", diary=diary, dispatch=dispatch),
        faulty("b", diary=diary, dispatch=dispatch),
        faulty("c", diary=diary, dispatch=dispatch, on_start="raise ValueError"),
        faulty("d", diary=diary, dispatch=dispatch),
    )

    with pytest.raises(StartError):
        start(spec)

    assert hooks(diary) == [
        "on_start a",
        "on_start b",
        "on_start c",
        "on_failure c",
        "on_stop b",
        "on_stop a",
    ]
    assert pykka.ActorRegistry.get_all() == []


def test_an_exception_of_init_is_a_failed_start_and_runs_no_hook() -> None:
    diary: list[str] = []

    with pytest.raises(StartError) as caught:
        start(shop(faulty("a", diary=diary, in_init="raise OSError no disk")))

    assert isinstance(caught.value.__cause__, OSError)
    assert diary == ["__init__ shop/a"]


@BOTH
def test_a_start_error_names_each_level_down_to_the_original_exception(dispatch: str) -> None:
    original = ValueError("no price list")
    team = SupervisorSpec(id="team", children=[faulty("x", on_start=original, dispatch=dispatch)])

    with pytest.raises(StartError) as caught:
        start(shop(faulty("a"), team))

    *errors, last = causes(caught.value)
    assert [error.path for error in errors if isinstance(error, StartError)] == ["shop/team", "shop/team/x"]
    assert last is original


def test_the_roll_back_gives_each_child_its_own_shutdown_limit() -> None:
    hang, clock = Hang(deaf=True), ManualClock()
    spec = shop(
        faulty("patient", shutdown=1e6),
        faulty("stuck", on_stop=hang, shutdown=0.05),
        faulty("bad", on_start="raise ValueError"),
    )

    with meanwhile(start, spec, clock=clock) as starting:
        hang.wait_until_entered()
        until(starting.done, clock, by=0.05)
        with pytest.raises(StartError):
            starting.result()
        hang.release()


# An __init__ that hangs on the loop holds up the loop: that is what LoopBlocked reports.
@pytest.mark.parametrize(
    ("dispatch", "hook"),
    [
        ("pool", "in_init"),
        ("thread", "in_init"),
        ("pool", "on_start"),
        ("loop", "on_start"),
        ("thread", "on_start"),
    ],
)
def test_a_start_that_takes_too_long_is_ended_whatever_its_shutdown_is(dispatch: str, hook: str) -> None:
    diary: list[str] = []
    hang = Hang(deaf=dispatch != "loop")
    slow = faulty("slow", diary=diary, dispatch=dispatch, start_timeout_s=0.1, shutdown="infinity", **{hook: hang})
    before = time.monotonic()

    with pytest.raises(StartError) as caught:
        start(shop(faulty("a", diary=diary), slow))
    took = time.monotonic() - before
    hang.release()

    assert caught.value.path == "shop/slow"
    assert "did not start within 0.1 s" in str(caught.value)
    assert hooks(diary)[-1] == "on_stop a"
    assert took < LONG_S


class StopsItsSibling(Worker):
    """Ends a sibling in its own on_start, so that the exit is there before this start is over."""

    def __init__(self, sibling: str, fault: object = None) -> None:
        self.sibling = sibling
        self.fault = fault

    def on_start(self) -> None:
        actors.ref(self.sibling).stop()
        if self.fault is not None:
            raise ValueError


def test_exits_during_the_first_pass_are_treated_when_it_is_over() -> None:
    diary: list[str] = []
    killer = WorkerSpec(id="killer", actor=StopsItsSibling, args=("shop/a",))

    with running(shop(faulty("a", diary=diary), killer, faulty("z", diary=diary))) as tree:
        settle(tree)
        child = tree.child("shop/a")

    assert (child.state, child.incarnation, child.restarts) == ("running", 2, 1)
    assert hooks(diary)[:4] == ["on_start a", "on_stop a", "on_start z", "on_start a"]


def test_exits_during_a_first_pass_that_fails_are_part_of_the_roll_back() -> None:
    diary: list[str] = []
    killer = WorkerSpec(id="killer", actor=StopsItsSibling, args=("shop/a", "and fail"))

    with pytest.raises(StartError) as caught:
        start(shop(faulty("a", diary=diary), killer))

    assert caught.value.path == "shop/killer"
    assert hooks(diary) == ["on_start a", "on_stop a"]


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


class PressesCtrlC(FaultyWorker):
    def on_start(self) -> None:
        interrupt()
        super().on_start()


def test_ctrl_c_during_start_stops_what_is_up() -> None:
    diary: list[str] = []
    pressing = WorkerSpec(id="pressing", actor=PressesCtrlC, kwargs={"on_start": Hang()})

    with pytest.raises(KeyboardInterrupt):
        start(shop(faulty("a", diary=diary), pressing, faulty("z", diary=diary)))

    assert hooks(diary) == ["on_start a", "on_stop a"]


def test_a_restart_is_not_tried_where_the_first_start_fails() -> None:
    diary: list[str] = []
    team = SupervisorSpec(id="team", children=[faulty("x", diary=diary, on_start=Fault("raise ValueError", times=1))])

    with pytest.raises(StartError):
        start(shop(team))

    assert hooks(diary) == ["on_start team/x", "on_failure team/x"]


# -- 4 -----------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("restart", ["permanent", "transient"])
def test_ignore_keeps_a_child_as_stopped(dispatch: str, restart: str) -> None:
    ignoring: Any = faulty("a", on_start=Ignore, restart=restart, dispatch=dispatch)

    with running(shop(ignoring, faulty("b"))) as tree:
        assert states(tree) == {"a": "stopped", "b": "running"}
        with pytest.raises(actors.ActorStoppedError):
            tree.ref("shop/a").ask("anybody there?")


@BOTH
def test_ignore_of_a_temporary_child_leaves_nothing(dispatch: str) -> None:
    with running(shop(faulty("a", on_start=Ignore, restart="temporary", dispatch=dispatch), faulty("b"))) as tree:
        assert states(tree) == {"b": "running"}
        with pytest.raises(UnknownPathError):
            tree.ref("shop/a")


def test_a_child_that_ignored_its_start_can_be_started_later() -> None:
    with running(shop(faulty("a", on_start=Fault(Ignore, times=1)))) as tree:
        reply = tree.restart_child("shop/a").ask("hello")

        assert reply == "hello"


def test_ignore_in_a_restart_ends_the_restarting() -> None:
    with running(shop(faulty("a", on_start=Fault(Ignore, after=1)))) as tree:
        tree.ref("shop/a").tell("raise ValueError")
        settle(tree)

        assert states(tree) == {"a": "stopped"}
