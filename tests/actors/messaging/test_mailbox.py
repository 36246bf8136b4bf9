"""The mailbox by itself: bounds, batches, the atomic close, and what a pool picks."""

import random
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messaging.inbox import Room
from actors.messaging.mailbox import NOTHING, Mailbox, Refusal
from actors.messaging.pool_address import PoolAddress
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.model.spec import MailboxLimit, Overflow


class Life:
    """As much of a life as a mailbox looks at."""

    def __init__(self) -> None:
        self.order = None
        self.current = None
        self.running_on = None
        self.held = False
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def message(body: object) -> tuple:
    return (body, None, None)


def run(box: Mailbox, incarnation: Life) -> Any:
    """Begin a run, as a dispatcher does, and take what waits."""
    box.hold(incarnation)
    return box.take(incarnation)


def open_box(bounds: MailboxLimit = MailboxLimit()) -> tuple[Mailbox, Life]:  # noqa: B008 - frozen
    box, incarnation = Mailbox("t/w", bounds), Life()
    box.attach(incarnation, idle=True)
    return box, incarnation


def test_only_the_put_that_finds_it_idle_wakes_a_life() -> None:
    box, incarnation = open_box()
    for n in range(3):
        box.put(message(n))

    assert incarnation.woken == 1
    assert [body for body, _, _ in run(box, incarnation)] == [0, 1, 2]
    assert box.take(incarnation) is None
    assert box.idle is incarnation


def test_what_waits_outlives_the_life_that_had_taken_it() -> None:
    box, incarnation = open_box()
    for n in range(4):
        box.put(message(n))
    batch = run(box, incarnation)
    handled = [next(batch)[0]]
    box.put(message(4))
    successor = Life()

    assert box.attach(successor, idle=True) is True
    handled += [body for body, _, _ in run(box, successor)]
    handled += [body for body, _, _ in run(box, successor)]
    assert handled == [0, 1, 2, 3, 4]
    assert box.take(incarnation) is None


def test_what_is_given_back_comes_first_again_and_wakes_an_idle_successor() -> None:
    box, incarnation = open_box()
    box.put(message("old"))
    incarnation.current = next(run(box, incarnation))
    successor = Life()
    box.attach(successor, idle=True)
    refusal = box.give_back(incarnation, incarnation.current)

    assert refusal is None
    assert successor.woken == 1
    assert [body for body, _, _ in run(box, successor)] == ["old"]


def test_what_is_given_back_to_a_closed_mailbox_is_for_the_giver_to_answer() -> None:
    box, incarnation = open_box()
    box.put(message("old"))
    incarnation.current = next(run(box, incarnation))
    box.close(Refusal.STOPPED)

    assert box.give_back(incarnation, incarnation.current) is Refusal.STOPPED
    assert box.depth == 0


def test_what_was_answered_already_is_not_given_back() -> None:
    box, incarnation = open_box()

    assert box.give_back(incarnation, message("answered")) is None
    assert box.depth == 0


def test_a_life_with_an_order_goes_on_and_gets_nothing() -> None:
    box, incarnation = open_box()
    box.put(message(1))
    incarnation.order = "shutdown"

    assert run(box, incarnation) is NOTHING
    assert box.idle is None


def test_a_close_returns_what_waits_and_refuses_the_rest_until_it_is_opened() -> None:
    box, incarnation = open_box()
    for n in range(3):
        box.put(message(n))
    next(run(box, incarnation))
    left = box.close(Refusal.PARKED)
    refused = box.put(message(3))
    box.open()

    assert [body for body, _, _ in left] == [1, 2]
    assert refused is Refusal.PARKED
    assert box.put(message(4)) is None


def test_a_full_mailbox_does_as_its_overflow_says() -> None:
    outcomes = {}
    for overflow in Overflow:
        box = Mailbox("t/w", MailboxLimit(1, overflow))
        box.put(message("old"))
        outcomes[overflow] = box.put(message("new"))

    assert outcomes[Overflow.REJECT] is Refusal.FULL
    assert outcomes[Overflow.DROP_OLDEST] == message("old")
    assert isinstance(outcomes[Overflow.BLOCK], Room)


def test_room_wakes_one_sender_and_an_end_wakes_all() -> None:
    box, incarnation = open_box(MailboxLimit(1, Overflow.BLOCK))
    box.put(message(0))
    rooms = [box.put(message(n)) for n in (1, 2)]
    quiet = box.when_quiet()
    next(run(box, incarnation))
    after_take = [room.done for room in rooms], quiet.done
    box.close(Refusal.STOPPED)

    assert after_take == ([True, False], False)
    assert [room.done for room in rooms] == [True, True]


@given(st.lists(st.sampled_from(["put", "take", "handle", "restart"]), max_size=60), st.sampled_from([None, 3]))
def test_whatever_is_put_is_handled_once_in_order_or_refused(steps: list[Any], capacity: int | None) -> None:
    box, incarnation = open_box(MailboxLimit(capacity, Overflow.REJECT))
    batch, handled, taken, n = NOTHING, [], [], 0
    for step in [*steps, *["take", "handle"] * (len(steps) + 1)]:
        if step == "put":
            if box.put(message(n)) is None:
                taken.append(n)
            n += 1
        elif step == "take":
            batch = box.take(incarnation) or NOTHING
        elif step == "handle":
            handled += [body for body, _, _ in islice(batch, 1)]
        else:
            incarnation, batch = Life(), NOTHING
            box.attach(incarnation, idle=True)

    assert handled == taken
    assert capacity is None or box.depth <= capacity


@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_members_leave_a_pool_in_any_order(size: int, rng: random.Random) -> None:
    pool = PoolAddress("t/p")
    members = [Mailbox(f"t/p#{n}", pool=pool) for n in range(size)]
    pool.refill(list(members))
    rng.shuffle(members)
    while members:
        pool.remove(members.pop())

        assert set(pool.members) == set(members)


def test_an_order_overtakes_what_waits_for_a_supervisor() -> None:
    box, incarnation = SupervisorMailbox("t"), Life()
    box.attach(incarnation, idle=True)
    box.post("first")
    box.post_first("order")
    heard = []
    while (batch := run(box, incarnation)) is not None:
        heard += [body for body, _, _ in batch]

    assert heard == ["order", "first"]
    assert box.put(message("a user's")) is Refusal.SUPERVISOR
    with pytest.raises(StopIteration):
        next(NOTHING)
