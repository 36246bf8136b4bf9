"""``actors.testing``: workers that fail on command, and what finds strays."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pykka
import pytest

from actors import ActorStoppedError, Failed, ReplyTimeoutError, StartError, WorkerCrashedError
from actors.testing import Fault, Hang, ManualClock, leaving_nothing_behind, settle
from tests.support.crew import LONG_S, Record, crash, faulty, hooks, incarnations, running, shop
from trees import start

BOTH = pytest.mark.parametrize("dispatch", ["pool", "loop", "thread"])


def ask(message: object, dispatch: str = "pool") -> Any:
    with running(shop(faulty("a", dispatch=dispatch))) as tree:
        return tree.ref("shop/a").ask(message, timeout=LONG_S)


@BOTH
@pytest.mark.parametrize("message", ["hello", "", None, 7, ("raise", "ValueError"), "raised eyebrows", "hangar"])
def test_what_is_no_fault_is_echoed(dispatch: str, message: object) -> None:
    assert ask(message, dispatch) == message


@BOTH
@pytest.mark.parametrize("fault", ["raise ValueError no price", ValueError("no price")])
def test_an_exception_is_raised_by_name_or_as_it_is(dispatch: str, fault: object) -> None:
    with pytest.raises(ValueError, match="no price"):
        ask(fault, dispatch)


@BOTH
@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "CancelledError", "GeneratorExit"])
def test_what_is_no_exception_is_raised_too(dispatch: str, name: str) -> None:
    with pytest.raises(WorkerCrashedError) as caught:
        ask(f"raise {name}", dispatch)

    assert type(caught.value.__cause__).__name__ == name


def test_a_name_of_no_exception_says_so() -> None:
    with pytest.raises(LookupError, match="Flibbertigibbet"):
        ask("raise Flibbertigibbet")


@BOTH
def test_a_failed_request_is_no_crash(dispatch: str) -> None:
    with running(shop(faulty("a", dispatch=dispatch))) as tree:
        with pytest.raises(Failed, match="sold out"):
            tree.ref("shop/a").ask("fail sold out")

        assert incarnations(tree) == {"a": 1}


@BOTH
def test_a_hang_ends_when_it_is_released(dispatch: str) -> None:
    hang = Hang()
    with running(shop(faulty("a", dispatch=dispatch))) as tree:
        reply = tree.ref("shop/a").ask(hang, block=False)
        hang.wait_until_entered()
        before = reply.done
        hang.release()

        assert reply.get() is hang
        assert not before


@pytest.mark.parametrize("dispatch", ["pool", "thread"])
def test_a_hang_on_a_thread_ends_when_the_worker_is_asked_to_stop(dispatch: str) -> None:
    hang = Hang()
    with running(shop(faulty("a", dispatch=dispatch))) as tree:
        reply = tree.ref("shop/a").ask(hang, block=False)
        hang.wait_until_entered()
        tree.terminate_child("shop/a")

        assert reply.get() is hang


def test_a_hang_on_the_loop_ends_when_the_worker_is_cancelled() -> None:
    hang = Hang()
    with running(shop(faulty("a", dispatch="loop", shutdown=0.05))) as tree:
        reply = tree.ref("shop/a").ask(hang, block=False)
        hang.wait_until_entered()
        tree.terminate_child("shop/a")

        with pytest.raises(ActorStoppedError):
            reply.get()


def test_a_hang_is_released_on_leaving_its_block() -> None:
    with running(shop(faulty("a"))) as tree, Hang(deaf=True) as hang:
        reply = tree.ref("shop/a").ask(hang, block=False)
        hang.wait_until_entered()

    assert reply.get() is hang


def test_waiting_for_a_hang_that_nobody_enters_times_out() -> None:
    with pytest.raises(TimeoutError):
        Hang().wait_until_entered(timeout_s=0.0)


@BOTH
def test_slow_takes_time_on_the_clock_of_the_tree(dispatch: str) -> None:
    clock = ManualClock()
    with running(shop(faulty("a", dispatch=dispatch)), clock=clock) as tree:
        reply = tree.ref("shop/a").ask("slow 60", timeout=None, block=False)
        while not reply.done:
            clock.advance(60.0)

        assert reply.get() == "slow 60"


@BOTH
def test_sleep_takes_real_time(dispatch: str) -> None:
    assert ask("sleep 0.01", dispatch) == "sleep 0.01"


@BOTH
def test_late_answers_when_the_asker_has_lost_patience(dispatch: str) -> None:
    with running(shop(faulty("a", dispatch=dispatch))) as tree:
        with pytest.raises(ReplyTimeoutError):
            tree.ref("shop/a").ask("late", timeout=0.05)
        settle(tree)

        assert incarnations(tree) == {"a": 1}


@BOTH
def test_stop_ends_the_worker_by_itself(dispatch: str) -> None:
    with running(shop(faulty("a", dispatch=dispatch, restart="transient"))) as tree:
        record = Record(tree)
        tree.ref("shop/a").tell("stop")
        settle(tree)

        assert record.exits("shop/a") == ["normal"]


@BOTH
def test_a_fault_counts_over_incarnations(dispatch: str) -> None:
    diary: list[str] = []
    a = faulty("a", diary=diary, dispatch=dispatch, on_start=Fault("raise OSError", times=2, after=1))
    with running(shop(a)) as tree:
        crash(tree, "shop/a")

        assert hooks(diary).count("on_start a") == 4
        assert incarnations(tree) == {"a": 2}


@BOTH
def test_a_fault_of_init_fails_the_start(dispatch: str) -> None:
    with pytest.raises(StartError):
        start(shop(faulty("a", dispatch=dispatch, in_init="raise OSError")))


@BOTH
def test_a_fault_of_on_failure_comes_on_top_of_the_crash(dispatch: str) -> None:
    diary: list[str] = []
    with running(shop(faulty("a", dispatch=dispatch, on_failure="raise OSError", diary=diary))) as tree:
        record = Record(tree)
        crash(tree, "shop/a")

        assert hooks(diary) == ["on_start a", "on_failure a", "on_start a"]
        assert record.exits("shop/a") == ["crashed"]


# -- strays ------------------------------------------------------------------------------------------------


def test_a_tree_that_is_left_is_named_and_ended() -> None:
    with pytest.raises(AssertionError, match="the tree shop"), leaving_nothing_behind():
        tree = start(shop(faulty("a")))

    assert tree.wait(LONG_S)


def test_an_actor_that_is_left_is_named_and_ended() -> None:
    class Left(pykka.ThreadingActor):
        pass

    with pytest.raises(AssertionError, match="Left"), leaving_nothing_behind():
        Left.start()


def test_a_thread_that_is_left_is_named() -> None:
    go = threading.Event()
    with pytest.raises(AssertionError, match="'lingering'"), leaving_nothing_behind(patience_s=0.05):
        threading.Thread(target=go.wait, name="lingering", daemon=True).start()

    go.set()


def test_what_was_there_before_and_what_is_just_ending_is_no_stray() -> None:
    with running(shop(faulty("a"))) as tree, leaving_nothing_behind():
        threading.Thread(target=tree.ref("shop/a").ask, args=("sleep 0.05",)).start()
        with start(shop(faulty("b"))):
            pass


def test_an_exception_of_the_block_is_not_replaced() -> None:
    with pytest.raises(ZeroDivisionError), leaving_nothing_behind():
        raise ZeroDivisionError


WITHOUT_PYTEST = """
import sys
sys.modules["pytest"] = None
from actors.testing import FaultyWorker, settle
try:
    from actors.testing import no_stray_actors
except ImportError:
    print("only the fixture is missing")
"""


def test_only_the_fixture_needs_pytest() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYTEST], capture_output=True, text=True, check=False)

    assert done.stdout == "only the fixture is missing\n", done.stderr
