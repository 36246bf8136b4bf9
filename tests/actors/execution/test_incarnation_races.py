"""The races that the docstrings of incarnation, crash_boundary, mailbox, pool and reply name, each in both orders.

A ``Stop`` at a seam of the code holds the thread that comes there until the test lets it go.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from actors import (
    ActorsError,
    ActorStoppedError,
    ChildAbandoned,
    ChildError,
    ChildExited,
    ChildStarted,
    InternalError,
    Reply,
    StartError,
)
from actors.execution.crash_boundary import WorkerIncarnation
from actors.execution.incarnation import Started
from actors.messaging.mailbox import Mailbox as Box
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.model.spec import Reason
from actors.supervision.supervisor_incarnation import Ping
from actors.supervision.time_limits import LIMITS_DUE
from actors.testing import ManualClock, settle
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
    life_of,
    obey_async,
    root,
    stop_at,
    switching_fast,
    tree_of,
    worker,
)
from trees import SupervisorSpec, start


def _terminate_if_listed(tree: Any, path: str) -> None:
    with suppress(ChildError):
        tree.terminate_child(path)


# -- the end of a life -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Ours, Stock])
@pytest.mark.parametrize(("thread_first", "reason"), [(True, Reason.CRASHED), (False, Reason.KILLED)])
def test_a_kill_and_a_crash_at_the_same_moment_make_one_exit(
    kind: type[Any], thread_first: bool, reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tree_of(worker("w", kind, shutdown="brutal_kill", restart="temporary")) as tree:
        seen, on = Witness(tree), threading.get_ident()

        def when(incarnation: Any, exit_: Any) -> bool:
            return exit_.reason is Reason.CRASHED and threading.get_ident() != on

        with stop_at(WorkerIncarnation, "_end", when, after=thread_first, patch=monkeypatch) as gate:
            tree.ref("t/w").tell(crash)
            gate.wait_reached()
            stopped = in_thread(lambda: _terminate_if_listed(tree, "t/w"))
            if not thread_first:
                stopped()
        stopped()
        settle(tree)
        eventually(lambda: not tree._system.abandoned_by_path)

        assert [event.reason for event in seen.of(ChildExited)] == [reason]


@pytest.mark.parametrize("run_first", [True, False])
def test_a_run_that_begins_between_the_order_of_a_kill_and_the_end_is_no_error_of_ours(
    run_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill has seen nobody run it, so it drops the worker's object; the run has seen no end."""
    with tree_of(worker("w", shutdown="brutal_kill", restart="temporary")) as tree:
        seen, incarnation = Witness(tree), life_of(tree, "t/w")

        def ours(found: Any, *_: Any) -> bool:
            return found is incarnation

        def seam(name: str) -> Any:
            return stop_at(WorkerIncarnation, name, ours, after=False, patch=monkeypatch)

        with seam("begin_run") as begins, seam("_work") as works, seam("_end") as ends:
            tree.ref("t/w").tell("never handled")
            begins.wait_reached()
            killed = in_thread(lambda: tree.terminate_child("t/w"))
            ends.wait_reached()
            begins.open.set()
            works.wait_reached()
            if run_first:
                works.open.set()
                eventually(lambda: incarnation.running_on is None)
            ends.open.set()
            eventually(lambda: incarnation.is_over)
            works.open.set()
            killed()
        settle(tree)

        assert [event.reason for event in seen.of(ChildExited)] == [Reason.KILLED]
        assert seen.of(InternalError) == []
        assert not tree._system.abandoned_by_path


@pytest.mark.parametrize("dispatch", ["pool", "thread"])
@pytest.mark.parametrize("claimed", [True, False])
def test_one_that_is_killed_before_the_first_line_of_its_start_runs_nothing(
    dispatch: str, claimed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    kind = kind_with(Ours, on_start=lambda self: ran.append("on_start"))
    with tree_of(worker("other")) as tree:
        seen = Witness(tree)
        settle(tree)

        with stop_at(
            WorkerIncarnation,
            "begin_run",
            lambda incarnation: "w" in incarnation.mailbox.path,
            after=claimed,
            patch=monkeypatch,
        ) as gate:
            spec = worker("w", kind, dispatch=dispatch, shutdown="brutal_kill")
            started = in_thread(lambda: tree.start_child("t", spec))
            gate.wait_reached()
            tree.terminate_child("t/w")
        with pytest.raises(StartError):
            started()
        settle(tree)
        eventually(lambda: not tree._system.abandoned_by_path)

        assert ran == []
        assert seen.of(InternalError) == []
        assert [(event.reason, event.started) for event in seen.of(ChildExited)] == [(Reason.KILLED, False)]


@pytest.mark.parametrize("dispatch", ["pool", "thread"])
@pytest.mark.parametrize("after", ["its start", "a message"])
@pytest.mark.parametrize("idle_first", [True, False])
def test_one_that_is_killed_as_it_looks_for_more_leaves_its_lifespan_all_the_same(
    dispatch: str, after: str, idle_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill finds it at work, and gives its thread up, or finds it idle, and wakes it."""
    steps: list[str] = []

    @contextmanager
    def held() -> Iterator[None]:
        steps.append("entered")
        try:
            yield
        finally:
            steps.append("left")

    with tree_of(worker("other")) as tree:
        seen, handled = Witness(tree), threading.Event()
        if after == "its start":
            handled.set()
        spec = worker(
            "w", lambda _: handled.set(), lifespan=held, dispatch=dispatch, shutdown="brutal_kill", restart="temporary"
        )

        def when(incarnation: Any) -> bool:
            return handled.is_set() and "w" in incarnation.mailbox.path

        with stop_at(WorkerIncarnation, "next_work", when, after=idle_first, patch=monkeypatch) as gate:
            tree.start_child("t", spec)
            if after == "a message":
                tree.ref("t/w").tell("m")
            gate.wait_reached()
            incarnation = life_of(tree, "t/w")
            stopped = in_thread(lambda: _terminate_if_listed(tree, "t/w"))
            eventually(lambda: incarnation.was_killed)
        stopped()
        settle(tree)
        eventually(lambda: not tree._system.abandoned_by_path)

        assert steps == ["entered", "left"]
        assert [event.reason for event in seen.of(ChildExited)] == [Reason.KILLED]


@pytest.mark.parametrize("kind", [Ours, kind_with(Ours, on_stop=lambda self: None), Stock])
@pytest.mark.parametrize("idle_first", [True, False])
def test_a_stop_finds_a_worker_that_goes_idle_or_the_worker_finds_the_stop(
    kind: type[Any], idle_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tree_of(worker("w", kind)) as tree:
        seen = Witness(tree)
        settle(tree)
        incarnation = life_of(tree, "t/w")

        def when(box: Box, taker: Any) -> bool:
            return taker is incarnation and not box.depth

        with stop_at(Box, "take", when, after=idle_first, patch=monkeypatch) as gate:
            tree.ref("t/w").tell("m")
            gate.wait_reached()
            stopped = in_thread(lambda: tree.terminate_child("t/w"))
            eventually(lambda: incarnation.must_stop)
        stopped()
        settle(tree)

        assert [event.reason for event in seen.of(ChildExited)] == [Reason.SHUTDOWN]


@pytest.mark.parametrize("closed", [True, False])
def test_what_an_abandoned_thread_had_just_taken_is_handled_by_its_successor_or_answered(closed: bool) -> None:
    """Between two messages: taken out of the batch, and not yet marked as the current one."""
    gate, between, order = Gate(), Gate(), []
    with tree_of(worker("w", shutdown="brutal_kill")) as tree:
        system, ref = tree._system, tree.ref("t/w")
        seen = Witness(tree)
        ref.tell(gate)
        gate.wait_reached()
        thread = system.children["t/w"].incarnation.running_on
        first = ref.ask(lambda: order.append(1), timeout=None, block=False)
        second = ref.ask(lambda: order.append(2), timeout=None, block=False)
        clock = system.now

        def now() -> float:
            if threading.get_ident() == thread and order == [1] and not between.reached.is_set():
                between()
            return clock()

        system.now = now
        gate.open.set()
        between.wait_reached()
        tree.terminate_child("t/w")
        if not closed:
            tree.restart_child("t/w")
            settle(tree)
        between.open.set()
        first.get(timeout=LONG_S)
        if closed:
            with pytest.raises(ActorStoppedError):
                second.get(timeout=LONG_S)
        else:
            second.get(timeout=LONG_S)
        eventually(lambda: not system.abandoned_by_path)

        assert order == ([1] if closed else [1, 2])
        assert seen.wait(ChildExited).lost == 0


def test_an_abandoned_thread_takes_nothing_from_its_successor() -> None:
    """Trap 7: it comes back in the middle of a batch, of which its successor has handled a part."""
    first, stuck, hold, between, handled = Gate(), Gate(), Gate(), Gate(), []
    spec = root(worker("w", shutdown="brutal_kill"), worker("x"), strategy="one_for_all")
    with start(spec) as tree:
        system, ref = tree._system, tree.ref("t/w")
        for message in (first, stuck, hold, *(lambda n=n: handled.append(n) for n in range(10))):
            ref.tell(message)
        first.wait_reached()
        first.open.set()
        stuck.wait_reached()
        thread, clock = life_of(tree, "t/w").running_on, system.now

        def now() -> float:
            if threading.get_ident() == thread and hold.reached.is_set():
                between()
            return clock()

        system.now = now
        tree.ref("t/x").tell(crash)
        hold.wait_reached()
        stuck.open.set()
        eventually(lambda: not system.abandoned_by_path or between.reached.is_set())
        hold.open.set()
        eventually(lambda: len(handled) >= 9)
        between.open.set()
        settle(tree)

        assert handled == list(range(10))


@pytest.mark.parametrize("in_time", [True, False])
def test_a_start_that_ends_as_its_time_runs_out_is_up_or_abandoned_and_never_both(in_time: bool) -> None:
    gate, clock = Gate(), ManualClock()
    slow = kind_with(Ours, on_start=lambda self: gate())
    with start(root(worker("other")), clock=clock) as tree:
        seen = Witness(tree)
        started = in_thread(lambda: tree.start_child("t", worker("w", slow, start_timeout_s=5, restart="temporary")))
        gate.wait_reached()
        eventually(lambda: tree._system.children["t/w"] in tree._system.supervisors["t"].control.limits)
        if in_time:
            gate.open.set()
            started()
            clock.advance(10)
        else:
            clock.advance(10)
            eventually(lambda: seen.of(ChildExited))
            gate.open.set()
            with pytest.raises(Exception, match="did not start within"):
                started()
        settle(tree)
        eventually(lambda: not tree._system.abandoned_by_path)

        assert len(seen.of(ChildStarted, path="t/w")) == in_time
        assert len(seen.of(ChildExited, path="t/w")) == (not in_time)


def test_news_of_a_limit_that_was_lifted_meanwhile_hurts_nobody() -> None:
    """The time of a start ran out, and it came up, before its supervisor heard of either: up comes first."""
    with tree_of(worker("w", kind_with(Ours, on_start=lambda self: None))) as tree:
        seen = Witness(tree)
        tree._system.boxes["t"].post(LIMITS_DUE)
        settle(tree)

        assert seen.of(ChildExited) == []
        assert tree.ref("t/w").ask("alive") == "alive"


def test_news_of_the_limit_of_a_start_does_not_shorten_the_limit_of_the_stop_that_followed() -> None:
    gate, clock = Gate(), ManualClock()
    with start(root(worker("w", kind_with(Ours, on_stop=lambda self: gate()), shutdown=5.0)), clock=clock) as tree:
        seen = Witness(tree)
        stopped = in_thread(lambda: tree.terminate_child("t/w"))
        gate.wait_reached()
        tree._system.boxes["t"].post(LIMITS_DUE)
        settle_supervisor(tree)
        early = seen.of(ChildAbandoned)
        gate.open.set()
        stopped()

        assert early == []
        assert seen.wait(ChildExited).reason is Reason.SHUTDOWN


def settle_supervisor(tree: Any) -> None:
    """A round trip through the root's mailbox."""
    pong = Reply()
    tree._system.boxes["t"].post(Ping(), pong)
    assert pong.wait(LONG_S)


def test_a_life_that_is_ended_before_its_supervisor_heard_that_it_is_up_has_started_and_exited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tree_of(worker("w", Stock, shutdown="brutal_kill")) as tree:
        seen = Witness(tree)
        tree.terminate_child("t/w")
        with stop_at(
            SupervisorMailbox,
            "post",
            lambda _, message, *__: isinstance(message, Started),
            after=False,
            patch=monkeypatch,
        ) as gate:
            restarted = in_thread(lambda: tree.restart_child("t/w"))
            gate.wait_reached()
            tree.terminate_child("t/w")
            with pytest.raises(StartError):
                restarted()
        settle(tree)
        eventually(lambda: not tree._system.abandoned_by_path)

        assert [type(event) for event in seen.events if not isinstance(event, ChildAbandoned)] == [
            ChildExited,
            ChildStarted,
            ChildExited,
        ]
        assert [event.started for event in seen.of(ChildExited)] == [True, True]


@pytest.mark.parametrize("cancel_first", [True, False])
def test_an_async_handler_that_ends_as_it_is_killed_makes_one_exit(cancel_first: bool) -> None:
    reached, done = threading.Event(), threading.Event()

    async def wait() -> str:
        reached.set()
        while not done.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.001)
        return "in time"

    with tree_of(worker("w", obey_async, shutdown="brutal_kill", restart="temporary")) as tree:
        seen = Witness(tree)
        reply = tree.ref("t/w").ask(wait, timeout=None, block=False)
        assert reached.wait(LONG_S)
        if not cancel_first:
            done.set()
            reply.wait(LONG_S)
        tree.terminate_child("t/w")
        settle(tree)

        assert [event.reason for event in seen.of(ChildExited)] == [Reason.KILLED]
        if cancel_first:
            with pytest.raises(ActorStoppedError):
                reply.get(timeout=LONG_S)
        else:
            assert reply.get() == "in time"


# -- all of them, by chance --------------------------------------------------------------------------------


@pytest.mark.stress
@pytest.mark.parametrize("handler", [lambda message: message, obey_async, Stock])
def test_asks_stops_kills_and_crashes_at_random_leave_nothing_unanswered(handler: Any) -> None:
    outcomes, enough = [], threading.Event()

    def ask_on() -> None:
        while not enough.is_set():
            try:
                outcomes.append(ref.ask(3, timeout=LONG_S))
            except ActorStoppedError:
                outcomes.append(3)

    with tree_of(worker("w", handler, shutdown="brutal_kill")) as tree, switching_fast():
        seen, ref = Witness(tree), tree.ref("t/w")
        askers = [in_thread(ask_on) for _ in range(2)]
        for _ in range(40):
            tree.terminate_child("t/w")
            tree.restart_child("t/w")
            ref.stop(block=False)
        enough.set()
        for asker in askers:
            asker()
        settle(tree)
        eventually(lambda: not tree._system.abandoned_by_path)
        starts, ends = seen.of(ChildStarted), seen.of(ChildExited, started=True)  # a kill may also hit a start

        assert set(outcomes) == {3}
        assert len(starts) == len(ends)


@pytest.mark.stress
def test_a_reply_is_completed_once_by_many_and_wakes_all_who_wait() -> None:
    with switching_fast():
        for _ in range(200):
            reply, wins = Reply(), []
            waiters = [in_thread(lambda reply=reply: reply.get(timeout=LONG_S)) for _ in range(2)]
            completers = [in_thread(lambda n=n, reply=reply, wins=wins: wins.append(reply.complete(n))) for n in (1, 2)]
            for done in completers:
                done()

            assert sorted(wins) == [False, True]
            assert len({waiter() for waiter in waiters}) == 1


@pytest.mark.parametrize("call_first", [True, False])
def test_a_worker_that_waits_for_the_end_of_a_sibling_is_not_waited_for_by_that(call_first: bool) -> None:
    """Their supervisor is stopped meanwhile: the sibling is down long before its turn, and the call is answered."""
    ending, called, answers = Gate(), Gate(), []
    sibling = kind_with(Ours, on_stop=lambda self: ending())
    with tree_of(
        SupervisorSpec(id="s", children=[worker("sibling", sibling, shutdown=LONG_S), worker("w", shutdown="infinity")])
    ) as tree:

        def call() -> None:
            called()
            with suppress(ActorsError):
                tree.terminate_child("t/s/sibling")
            answers.append("an answer")

        tree.ref("t/s/w").tell(call)
        called.wait_reached()
        if call_first:
            called.open.set()
            ending.wait_reached()
        stopped = in_thread(lambda: tree.terminate_child("t/s"))
        eventually(lambda: life_of(tree, "t/s/w").must_stop)
        called.open.set()
        ending.open.set()
        stopped()

        assert answers == ["an answer"]
