"""A mailbox that is closed with much in it: all is answered, in order, and its supervisor hears orders meanwhile."""

import threading
from typing import Any

import pytest

from actors import ActorStoppedError, DeadLetter, Event
from actors.messaging.inbox import Refusal
from actors.messaging.leftovers import PART, Leftovers
from actors.messaging.mailbox import Mailbox
from actors.model.events import TreeStopped
from actors.testing import settle
from tests.support.hardening import LONG_S, Gate, eventually, in_thread, tree_of, worker

MANY = PART * 5 + 3


class Hands:
    """A pool of which the test runs the jobs, and what was answered."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []
        self.answered: list[tuple[str, Any]] = []
        self.let_go: list[list[Any]] = []
        self.before: Any = lambda: None

    def submit(self, job: Any) -> None:
        self.jobs.append(job)

    def put(self, things: list[Any]) -> None:
        self.let_go.append(things)

    def refuse(self, path: str, box: Any, envelope: Any, refusal: Refusal) -> None:
        assert path == box.path
        assert refusal is Refusal.STOPPED
        self.before()
        self.answered.append((path, envelope[0]))

    def run_one(self) -> None:
        assert self.jobs.pop(0).run() is False

    def run_all(self) -> None:
        while self.jobs:
            self.run_one()

    def of(self, path: str) -> list[Any]:
        return [body for where, body in self.answered if where == path]


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def leftovers(hands: Hands) -> Leftovers:
    return Leftovers(hands, hands.refuse, hands)  # type: ignore[arg-type]


def messages(number: int, first: int = 0) -> list[Any]:
    return [(body, None, None) for body in range(first, first + number)]


@pytest.mark.parametrize("number", [0, 1, PART - 1, PART])
def test_little_is_answered_at_once(number: int, leftovers: Leftovers, hands: Hands) -> None:
    leftovers.answer(Mailbox("a"), messages(number), Refusal.STOPPED)
    assert hands.of("a") == list(range(number))
    assert hands.jobs == []
    assert len(hands.let_go) == (number > 0)
    assert leftovers.when_done().done


def test_much_is_answered_in_parts_and_let_go_of_in_the_end(leftovers: Leftovers, hands: Hands) -> None:
    leftovers.answer(Mailbox("a"), messages(MANY), Refusal.STOPPED)
    done = leftovers.when_done()
    for part in range(1, 6):
        assert hands.of("a") == list(range(PART * part))
        assert not done.done
        assert hands.let_go == []
        hands.run_one()
    assert hands.of("a") == list(range(MANY))
    assert done.done
    assert len(hands.let_go) == 1
    hands.run_all()
    assert len(hands.answered) == MANY


def test_a_small_rest_does_not_wait_for_a_large_one(leftovers: Leftovers, hands: Hands) -> None:
    leftovers.answer(Mailbox("large"), messages(PART * 50), Refusal.STOPPED)
    leftovers.answer(Mailbox("small"), messages(PART * 2), Refusal.STOPPED)
    for _turn in range(3):
        hands.run_one()
    assert hands.of("small") == list(range(PART * 2))
    hands.run_all()
    assert hands.of("large") == list(range(PART * 50))


def test_a_mailbox_that_is_closed_again_is_answered_in_order(leftovers: Leftovers, hands: Hands) -> None:
    box = Mailbox("a")
    leftovers.answer(box, messages(MANY), Refusal.STOPPED)
    leftovers.answer(box, messages(3, MANY), Refusal.STOPPED)
    hands.run_all()
    assert hands.of("a") == list(range(MANY + 3))


def test_an_answer_that_raises_holds_up_no_other(leftovers: Leftovers, hands: Hands) -> None:
    leftovers.answer(Mailbox("a"), messages(MANY), Refusal.STOPPED)

    def raises() -> None:
        hands.before = lambda: None
        raise RuntimeError("a bug of ours")

    hands.before = raises
    with pytest.raises(RuntimeError):
        hands.run_one()
    hands.run_all()
    assert hands.of("a") == [body for body in range(MANY) if body != PART]
    assert leftovers.when_done().done


@pytest.mark.parametrize("another_is_at_it", [False, True])
def test_the_end_waits_until_all_is_answered(another_is_at_it: bool, leftovers: Leftovers, hands: Hands) -> None:
    leftovers.answer(Mailbox("a"), messages(MANY), Refusal.STOPPED)
    reached, go_on = threading.Event(), threading.Event()

    def holds() -> None:
        hands.before = lambda: None
        reached.set()
        assert go_on.wait(LONG_S)

    if another_is_at_it:
        hands.before = holds
        other = threading.Thread(target=hands.run_one)
        other.start()
        assert reached.wait(LONG_S)
    ends = threading.Thread(target=leftovers.finish)
    ends.start()
    if another_is_at_it:
        ends.join(0.05)
        assert ends.is_alive()
        go_on.set()
        other.join(LONG_S)
    ends.join(LONG_S)
    assert not ends.is_alive()
    assert hands.of("a") == list(range(MANY))


# -- in a tree ---------------------------------------------------------------------------------------------


def test_a_supervisor_hears_orders_while_the_mailbox_of_a_child_is_answered() -> None:
    with tree_of(worker("w"), worker("other")) as tree:
        letters: list[Event] = []
        tree.subscribe(lambda event: letters.append(event) if isinstance(event, DeadLetter) else None)
        gate, ref = Gate(), tree.ref("t/w")
        ref.tell(gate)
        gate.wait_reached()
        for number in range(MANY):
            ref.tell(number)
        last = ref.ask("the last", timeout=None, block=False)
        reached, go_on = threading.Event(), threading.Event()
        refuse, leftovers = tree._system.letters.refused, tree._system.leftovers
        seen: list[Any] = []

        def held(path: str, box: Any, envelope: Any, refusal: Refusal) -> None:
            if len(seen) == PART:
                reached.set()
                assert go_on.wait(LONG_S)
            seen.append(envelope[0])
            refuse(path, box, envelope, refusal)

        leftovers._refuse = held
        terminated = in_thread(lambda: tree.terminate_child("t/w"))
        eventually(lambda: tree._system.children["t/w"].incarnation.must_stop)
        gate.open.set()
        try:
            terminated()
            assert reached.wait(LONG_S)
            tree.terminate_child("t/other")
            tree.restart_child("t/w")  # its new mailbox is open, while what the old life left is answered
            assert ref.ask("heard", timeout=LONG_S) == "heard"
            assert not last.done
        finally:
            go_on.set()
        with pytest.raises(ActorStoppedError):
            last.get(timeout=LONG_S)
        settle(tree, LONG_S)
        assert seen == [*range(MANY), "the last"]
        assert tree._system.dead_letters["stopped"] == len(letters) == MANY


def test_a_tree_is_down_when_all_is_answered() -> None:
    events: list[Event] = []
    with tree_of(worker("w")) as tree:
        tree.subscribe(lambda event: events.append(event) if isinstance(event, (DeadLetter, TreeStopped)) else None)
        gate, ref = Gate(), tree.ref("t/w")
        ref.tell(gate)
        gate.wait_reached()
        for number in range(MANY):
            ref.tell(number)
        last = ref.ask("the last", timeout=None, block=False)
        stopped = in_thread(tree.stop)
        eventually(lambda: tree._system.children["t/w"].incarnation.must_stop)
        gate.open.set()
        stopped()
        assert sum(tree._system.dead_letters.values()) == MANY
        assert [type(event) for event in events] == [*[DeadLetter] * MANY, TreeStopped]
        with pytest.raises(ActorStoppedError):
            last.get(timeout=LONG_S)
