"""Child calls to a supervisor that is not running are refused at once, as OTP's ``noproc``; messages to workers wait.

A call that waited for the next incarnation could wait for itself: the handler that makes it may stand in the group that
has to be stopped first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors import ActorStoppedError, TreeDownError
from actors.messaging.inbox import Refusal
from actors.messaging.reply import Reply
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.supervision.supervisor_incarnation import Ping, SupervisorIncarnation
from actors.testing import Fault, Hang, ManualClock, settle
from tests.support.crew import faulty
from tests.support.hardening import LONG_S, Gate, crash, eventually, in_thread, root, stop_at, tree_of, worker
from trees import Backoff, SupervisorSpec, Tree, start

WAITING = Backoff(initial_s=60.0, factor=1.0, max_s=60.0, jitter=0.0)
CALLS: dict[str, Callable[[Tree], object]] = {
    "start_child": lambda tree: tree.start_child("t/team", worker("new")),
    "terminate_child": lambda tree: tree.terminate_child("t/team/w"),
    "restart_child": lambda tree: tree.restart_child("t/team/w"),
    "delete_child": lambda tree: tree.delete_child("t/team/w"),
}


def team(**fields: Any) -> SupervisorSpec:
    """A supervisor that gives up at the first crash of its only worker."""
    return SupervisorSpec(id="team", children=[worker("w")], max_restarts=0, **fields)


@contextmanager
def in_backoff() -> Iterator[Tree]:
    with start(root(team(backoff=WAITING)), clock=ManualClock()) as tree:
        tree.ref("t/team/w").tell(crash)
        settle(tree)
        yield tree


@contextmanager
def waits_its_turn() -> Iterator[Tree]:
    """Its group is stopped newest first, and ``slow`` is not down yet."""
    slow = Gate()
    with tree_of(worker("slow", shutdown="infinity"), team(), worker("last"), strategy="one_for_all") as tree:
        tree.ref("t/slow").tell(slow)
        slow.wait_reached()
        tree.ref("t/last").tell(crash)
        eventually(lambda: tree.child("t/team").state == "restarting")
        try:
            yield tree
        finally:
            slow.open.set()
        settle(tree)
        assert tree.ref("t/team/w").ask("again") == "again"


@contextmanager
def behind_a_slow_start() -> Iterator[Tree]:
    """Its group is down, and the child before it takes its time to start."""
    hang = Hang()
    first = faulty("first", on_start=Fault(hang, after=1))
    with hang, tree_of(first, team(), strategy="one_for_all") as tree:
        tree.ref("t/first").tell("raise ValueError")
        hang.wait_until_entered()
        yield tree


@contextmanager
def stopped() -> Iterator[Tree]:
    with tree_of(team()) as tree:
        tree.terminate_child("t/team")
        yield tree


@contextmanager
def being_stopped() -> Iterator[Tree]:
    slow = Gate()
    with tree_of(SupervisorSpec(id="team", children=[worker("w", shutdown="infinity")])) as tree:
        tree.ref("t/team/w").tell(slow)
        slow.wait_reached()
        stop = in_thread(lambda: tree.terminate_child("t/team"))
        eventually(lambda: tree._system.supervisors["t/team"].shutdown is not None)
        try:
            yield tree
        finally:
            slow.open.set()
        stop()


STATES = {each.__name__: each for each in (in_backoff, waits_its_turn, behind_a_slow_start, stopped, being_stopped)}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("state", STATES)
def test_a_call_to_a_supervisor_that_is_not_running_is_refused_at_once(state: str, call: str) -> None:
    with STATES[state]() as tree:
        made = in_thread(lambda: CALLS[call](tree))
        with pytest.raises(ActorStoppedError, match="t/team") as caught:
            made()

        assert not isinstance(caught.value, TreeDownError)


@pytest.mark.parametrize("call", CALLS)
def test_a_handler_without_a_limit_that_calls_a_supervisor_of_its_stopping_group_is_no_deadlock(call: str) -> None:
    """``w`` has to end before the team is started again; OTP's call exits with noproc there."""
    gate, outcome = Gate(), list[Exception]()
    with tree_of(worker("w", shutdown="infinity"), team(), worker("last"), strategy="one_for_all") as tree:

        def handle() -> None:
            gate()
            try:
                CALLS[call](tree)
            except ActorStoppedError as error:
                outcome.append(error)

        tree.ref("t/w").tell(handle)
        gate.wait_reached()
        tree.ref("t/last").tell(crash)
        eventually(lambda: tree.child("t/team").state == "restarting")
        gate.open.set()

        eventually(lambda: tree.child("t/team").incarnation == 2)
        assert len(outcome) == 1
        assert tree.ref("t/team/w").ask("again", timeout=LONG_S) == "again"


def test_a_message_to_a_worker_below_a_supervisor_that_waits_to_be_restarted_waits() -> None:
    clock = ManualClock()
    with start(root(team(backoff=WAITING)), clock=clock) as tree:
        tree.ref("t/team/w").tell(crash)
        settle(tree)
        reply = tree.ref("t/team/w").ask("later", timeout=None, block=False)
        settle(tree)
        assert not reply.done

        clock.advance(61)
        assert reply.get(timeout=LONG_S) == "later"


# -- a call against the end of the incarnation, in both orders ----------------------------------------------


def a_call(tree: Tree) -> Callable[[], object]:
    return in_thread(lambda: tree.terminate_child("t/team/w"))


def test_a_call_that_came_before_the_end_of_the_incarnation_is_refused_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor has handled its last message, and the call stands in its mailbox when it ends."""
    with start(root(team(backoff=WAITING)), clock=ManualClock()) as tree:
        box = tree._system.boxes["t/team"]
        of_team = lambda incarnation, *_: incarnation.mailbox is box  # noqa: E731
        with stop_at(SupervisorIncarnation, "finish", of_team, after=False, patch=monkeypatch) as gate:
            tree.ref("t/team/w").tell(crash)
            gate.wait_reached()
            call = a_call(tree)
            eventually(lambda: box.depth == 1)
        with pytest.raises(ActorStoppedError, match="not running"):
            call()

        assert box.depth == 0
        eventually(lambda: tree.child("t/team").state == "restarting")


def test_a_call_that_was_overtaken_by_the_end_of_the_incarnation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller has seen an open mailbox, and puts its call in when the incarnation is over."""
    with start(root(team(backoff=WAITING)), clock=ManualClock()) as tree:
        box = tree._system.boxes["t/team"]
        with stop_at(SupervisorMailbox, "call", lambda here, *_: here is box, after=False, patch=monkeypatch) as gate:
            call = a_call(tree)
            gate.wait_reached()
            tree.ref("t/team/w").tell(crash)
            eventually(lambda: tree.child("t/team").state == "restarting")
        with pytest.raises(ActorStoppedError, match="not running"):
            call()

        assert box.depth == 0


def test_what_one_incarnation_leaves_unheard_is_no_message_for_the_next() -> None:
    box = SupervisorMailbox("t/team")
    first, second = Life(), Life()
    assert box.call(Ping(), Reply()) is Refusal.NOT_RUNNING
    box.attach(first, idle=False)  # type: ignore[arg-type]
    heard, unheard = Reply(), Reply()
    assert box.call(Ping(), heard) is None
    assert box.call(Ping(), unheard) is None
    batch = iter(box.take(first))  # type: ignore[arg-type]
    next(batch)
    with box.lock:
        box.detach(first, abandon=False)
    assert not box.post("report of an old child")
    box.attach(second, idle=True)  # type: ignore[arg-type]

    assert [reply for _, reply, _ in first.unheard] == [unheard]
    assert box.depth == 0
    assert box.post("report of a new child")
    assert second.woken == 1


class Life:
    """As much of an incarnation as a mailbox looks at."""

    order = running_on = None
    held = False

    def __init__(self) -> None:
        self.unheard: list[Any] = []
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1
