"""The checks of ``tests.faults.chaos`` find what they look for.

``python -m tests.faults.chaos --seconds 600`` is the long one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors import ChildStarted, DeadLetter, Reply
from tests.faults.chaos.audit import books
from tests.faults.chaos.ledger import Ledger, Sender
from tests.faults.chaos.rounds import Round

PATH = "r/w"


def incarnation(path: str = PATH, *, abandoned: bool = False) -> Any:
    return SimpleNamespace(mailbox=SimpleNamespace(path=path), abandoned=abandoned, is_over=False)


class Target:
    """A Ref that keeps what it is sent."""

    def __init__(self, path: str = PATH) -> None:
        self.path = path
        self.notes: list[Any] = []
        self.reply: Any = None

    def tell(self, note: Any) -> None:
        self.notes.append(note)

    def ask(self, note: Any, *, timeout: float | None, block: bool = True) -> Any:
        self.notes.append(note)
        return self.reply if self.reply is not None else note.number


def told(ledger: Ledger, count: int = 1, path: str = PATH) -> list[Any]:
    target, sender = Target(path), Sender("s")
    for _ in range(count):
        ledger.tell(sender, target, "work")
    return target.notes


def started(incarnation: int) -> ChildStarted:
    return ChildStarted(PATH, incarnation)


def dead(note: Any, path: str = PATH) -> DeadLetter:
    return DeadLetter(path, "stopped", type(note).__name__, None)


# -- messages --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "then"),
    [
        (
            "was handled 2 times",
            lambda ledger, note: (ledger.begin(incarnation(), note), ledger.begun.append(note.number)),
        ),
        ("became 2 dead letters", lambda ledger, note: (ledger.hear(dead(note)), ledger.hear(dead(note)))),
        (
            "was handled, and is a dead letter",
            lambda ledger, note: (ledger.begin(incarnation(), note), ledger.hear(dead(note))),
        ),
    ],
)
def test_a_message_that_ended_twice_is_found(what: str, then: Callable[[Ledger, Any], object]) -> None:
    ledger = Ledger()
    (note,) = told(ledger)

    then(ledger, note)

    assert books(ledger, at_the_end=True) == [f"m{note.number} {what}"]


def test_an_ask_that_has_not_ended_is_found() -> None:
    ledger, target = Ledger(), Target()
    target.reply = Reply()
    ledger.ask_later(Sender("s"), target, "work", 1.0)

    assert books(ledger, at_the_end=True) == [f"{PATH}: the ask m{target.notes[0].number} has not ended"]


def test_messages_of_one_sender_that_come_in_another_order_are_found() -> None:
    ledger = Ledger()
    first, second = told(ledger, 2)

    ledger.begin(incarnation(), second)
    ledger.begin(incarnation(), first)

    assert len(ledger.violations) == 1
    assert "came after number 2" in ledger.violations[0]


# -- incarnations ----------------------------------------------------------------------------------------------


# -- a tree ----------------------------------------------------------------------------------------------------


# -- rounds ----------------------------------------------------------------------------------------------------


def test_a_report_says_how_to_run_it_again_and_what_happened() -> None:
    one = Round(7, 3, 1.0, 1e-6)
    one.problems.append("something is not true")
    one.ground.ledger.hear(started(1))

    text = one.report()

    assert "seed 7, round 3, switch interval 1e-06 s" in text
    assert "BROKEN: something is not true" in text
    assert "r/w: ChildStarted incarnation=1" in text


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("switch_interval", [0.005, 1e-6])
def test_everything_agrees_in_a_round_of_two_seconds(switch_interval: float) -> None:
    one = Round(secrets.randbelow(10**6), 1, 2.0, switch_interval)

    passed = one.run()

    assert passed, one.report()
    assert one.skipped or one.ground.ledger.answered, "nothing was answered: the round shows nothing"
