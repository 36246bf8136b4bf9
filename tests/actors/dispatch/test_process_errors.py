"""Errors that cross between a process and its host are what they are on a thread: for the asker, the exit, the dump."""

from __future__ import annotations

import asyncio
import signal
import threading
import traceback
from typing import Any

import pytest

from actors import (
    ActorStoppedError,
    Escalated,
    Failed,
    Later,
    ParkedError,
    ProcessDiedError,
    Rejected,
    WorkerCrashedError,
)
from actors.dispatch.remote import CAUSES, pack_error, rebuilt
from actors.model.process_errors import RemoteTraceback
from actors.model.raised import is_caught_by, origins_of
from tests.actors.dispatch import process_workers as there
from tests.actors.dispatch.process_trees import Exits, running, worker
from tests.support.hardening import eventually
from trees import WorkerSpec

NO_EXCEPTIONS = [SystemExit(7), KeyboardInterrupt(), asyncio.CancelledError("c"), GeneratorExit()]


@pytest.mark.parametrize("error", NO_EXCEPTIONS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("act", [there.do, there.async_do], ids=["sync", "async"])
@pytest.mark.parametrize("dispatch", ["auto", "process"])
def test_what_is_no_exception_is_the_cause_of_what_its_asker_gets_and_the_error_of_the_exit(
    dispatch: str, act: Any, error: BaseException
) -> None:
    with running(worker(handle=act, dispatch=dispatch)) as (tree, ask):
        exits = Exits(tree)
        with pytest.raises(WorkerCrashedError, match=type(error).__name__) as caught:
            ask(("raise", error))
        cause = caught.value.__cause__
        assert type(cause) is type(error)
        assert cause.args == error.args
        if dispatch == "process":
            assert "process_workers.py" in str(cause.__cause__), "and that has the traceback there"
        assert type(exits.one().error) is type(error)
        assert f"crashed {type(error).__name__}" in tree.dump()


@pytest.mark.parametrize("dispatch", ["auto", "process"])
def test_a_stop_iteration_of_a_handler_is_itself_and_may_be_expected(dispatch: str) -> None:
    """Where it is awaited, as everywhere, Python makes a RuntimeError of it."""
    with running(worker(dispatch=dispatch, expected=(StopIteration,))) as (tree, ask):
        with pytest.raises(StopIteration):
            ask(("raise", StopIteration(5)))
        assert ask(21) == 42
        assert tree.child("p/w").incarnation == 1
    with running(worker(dispatch=dispatch)) as (tree, ask):
        exits = Exits(tree)
        tree.ref("p/w").tell(("raise", StopIteration(5)))
        assert type(exits.one().error) is StopIteration


def test_code_in_a_process_that_asks_one_that_dies_hears_what_that_died_of() -> None:
    with running(worker(handle=there.cause_of_ask), worker("mortal"), WorkerSpec(id="thread", handle=there.do)) as (
        tree,
        ask,
    ):
        died = ask(("p/mortal", ("exit", 3)))
        assert type(died) is ProcessDiedError
        assert (died.path, died.exit_code, died.signal) == ("p/mortal", 3, None)
        assert eventually(lambda: tree.child("p/mortal").incarnation == 2)
        assert ask(("p/mortal", "segfault")).signal == signal.SIGSEGV
        left = ask(("p/thread", "leave"))
        assert type(left) is SystemExit
        assert left.code == 3


class NotNow(Later):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(0.2, f"{host}:{port} is busy")


class Shut(Rejected):
    def __init__(self, code: int) -> None:
        super().__init__(f"no, {code}", threading.Lock())


class WhoKnows(Escalated):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} or {other}?", state={"left": 2}, resumes=True)
        self.held = threading.Lock()


class Broken(Failed):
    def __init__(self, at: int, why: str) -> None:
        super().__init__(ValueError(why), retryable=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ("only one",)


def _rebuilt(error: BaseException) -> Any:
    found = rebuilt(pack_error(error))
    assert type(error).__name__ in str(found.__cause__), "the traceback names its class"
    return found


def raised(error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_a_signal_whose_class_cannot_be_rebuilt_says_what_it_says_on_a_thread() -> None:
    later, shut = _rebuilt(raised(NotNow("box", 80))), _rebuilt(raised(Shut(3)))
    asks, broken = _rebuilt(raised(WhoKnows("a", "b"))), _rebuilt(raised(Broken(1, "no disk")))

    assert (is_caught_by(later, (NotNow,)), later.after_s, later.why) == (True, 0.2, "box:80 is busy")
    assert (is_caught_by(shut, (Shut,)), shut.args[0].split(",")[0]) == (True, "('no")
    assert (asks.question, asks.state, asks.resumes) == ("a or b?", {"left": 2}, True)
    assert (repr(broken.error), broken.retryable) == ("ValueError('no disk')", False)
    for each, kind in ((later, Later), (shut, Rejected), (asks, Escalated), (broken, Failed)):
        assert isinstance(each, kind)
        assert type(each) is not kind
    assert [type(each).__name__ for each in (asks, broken)] == ["WhoKnows", "Broken"]
    assert [type(each).__name__ for each in map(_rebuilt, (later, asks))] == ["NotNow", "WhoKnows"], "on the next leg"


def test_causes_cross_with_errors_of_this_library_only_and_a_chain_that_leads_to_itself_ends() -> None:
    error = WorkerCrashedError("p/w", "SystemExit")
    error.__cause__ = ValueError("of a user")
    error.__cause__.__cause__ = KeyError("under it")
    found = rebuilt(pack_error(error))
    assert isinstance(found.__cause__, ValueError)
    assert type(found.__cause__.__cause__) is RemoteTraceback
    assert "under it" in str(found.__cause__.__cause__)
    one, other = ParkedError("p/one", ""), ParkedError("p/other", "")
    one.__cause__, other.__cause__ = other, one
    chain, step = 0, rebuilt(pack_error(one))
    while isinstance(step, ParkedError):
        chain, step = chain + 1, step.__cause__
    assert chain == CAUSES + 1


def stopped(*, asker_stops_first: bool) -> ActorStoppedError:
    error = ActorStoppedError("p/helper", "is stopped")
    error.stop_first = ("shop/x",) if asker_stops_first else ()
    return error


def raised_while_handling(error: BaseException, how: str) -> BaseException:
    try:
        try:
            raise error  # noqa: TRY301 - it is to be handled here
        except BaseException as caught:
            if how == "from it":
                raise there.OddError(1, 2) from caught
            if how == "in a group":
                raise ExceptionGroup("tools", [ValueError("odd"), raised_while_handling(caught, "from None")]) from None
            raise RuntimeError("the tool has failed") from None
    except Exception as found:  # noqa: BLE001 - what is looked at
        return found


@pytest.mark.parametrize("how", ["from it", "from None", "in a group"])
@pytest.mark.parametrize("asker_stops_first", [True, False])
def test_an_error_that_stems_from_one_who_was_stopped_says_so_where_it_arrives_and_shows_it_once(
    how: str, asker_stops_first: bool
) -> None:
    other = raised_while_handling(stopped(asker_stops_first=False), "from it")
    error = raised_while_handling(ExceptionGroup("both", [other, stopped(asker_stops_first=asker_stops_first)]), how)

    arrived = rebuilt(pack_error(error))

    found = [each for each in origins_of(arrived) if isinstance(each, ActorStoppedError)]
    assert any(each.asker_stops_first for each in found) is asker_stops_first
    assert found
    frames = "".join(traceback.format_exception(error)), "".join(traceback.format_exception(arrived))
    assert [text.count("p/helper") for text in frames] == [frames[0].count("p/helper")] * 2
