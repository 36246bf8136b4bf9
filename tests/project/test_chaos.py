"""The checks of ``tests.faults.chaos`` find what they look for.

``python -m tests.faults.chaos --seconds 600`` is the long one.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors import ChildExited, ChildStarted, DeadLetter, InternalError, Reply
from actors.messaging.mailbox import Refusal
from actors.model.spec import Reason
from actors.testing import settle
from tests.faults.chaos.audit import at_rest, books, come_to_rest, when_down
from tests.faults.chaos.ledger import Ledger, Sender
from tests.faults.chaos.rounds import Round
from tests.faults.chaos.shape import Shape, walk
from tests.faults.chaos.workers import Ground, Sync, Traits, body
from tests.support.crew import LONG_S
from trees import SupervisorSpec, WorkerSpec, start

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


def exited(incarnation: int, *, up: bool = True, reason: Reason = Reason.CRASHED, lost: int = 0) -> ChildExited:
    return ChildExited(PATH, reason, incarnation, None, None, up, lost)


def dead(note: Any, path: str = PATH) -> DeadLetter:
    return DeadLetter(path, "stopped", type(note).__name__, None)


# -- messages --------------------------------------------------------------------------------------------------


def test_a_message_that_was_handled_refused_or_lost_with_a_kill_is_accounted_for() -> None:
    ledger = Ledger()
    handled, refused, _ = told(ledger, 3)
    ledger.begin(incarnation(), handled)
    ledger.hear(dead(refused))
    ledger.hear(started(1))
    ledger.hear(exited(1, reason=Reason.KILLED, lost=1))

    assert books(ledger, at_the_end=True) == []
    assert ledger.violations == []


@pytest.mark.parametrize("path", [PATH, "r/p"])
def test_a_message_of_which_nothing_is_known_is_found(path: str) -> None:
    ledger = Ledger()
    (note,) = told(ledger, path=path)

    assert books(ledger, at_the_end=True) == [f"{path}: 1 tells are unaccounted for (excused: 0): m{note.number}"]


def test_a_crash_excuses_no_message_that_was_not_begun() -> None:
    ledger = Ledger()
    told(ledger)
    ledger.hear(started(1))
    ledger.hear(exited(1, reason=Reason.CRASHED, lost=1))

    assert len(books(ledger, at_the_end=True)) == 1


def test_a_tell_that_has_not_returned_is_waited_for_until_the_end() -> None:
    ledger = Ledger()
    (note,) = told(ledger)
    ledger.telling[note.number] = None

    assert books(ledger, at_the_end=False) == []
    assert len(books(ledger, at_the_end=True)) == 1


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


def test_an_answer_of_somebody_else_is_found() -> None:
    ledger, target = Ledger(), Target()
    target.reply = -1
    ledger.ask(Sender("s"), target, "work", 1.0)

    assert ledger.violations == [f"{PATH}: the reply to m{target.notes[0].number} is -1"]
    assert books(ledger, at_the_end=True) == [f"m{target.notes[0].number} was answered and never handled"]


def test_messages_of_one_sender_that_come_in_another_order_are_found() -> None:
    ledger = Ledger()
    first, second = told(ledger, 2)

    ledger.begin(incarnation(), second)
    ledger.begin(incarnation(), first)

    assert len(ledger.violations) == 1
    assert "came after number 2" in ledger.violations[0]


def test_an_abandoned_thread_may_be_late() -> None:
    ledger = Ledger()
    first, second = told(ledger, 2)

    ledger.begin(incarnation(), second)
    ledger.begin(incarnation(abandoned=True), first)

    assert ledger.violations == []


# -- incarnations ----------------------------------------------------------------------------------------------


def test_two_incarnations_at_once_are_found() -> None:
    ledger = Ledger()
    ledger.enter(incarnation())
    ledger.enter(incarnation())

    assert ledger.violations == [f"{PATH}: two incarnations at once"]


def test_one_that_was_abandoned_may_still_be_there() -> None:
    ledger = Ledger()
    ledger.enter(incarnation(abandoned=True))
    ledger.enter(incarnation())

    assert ledger.violations == []


def test_one_that_was_abandoned_before_its_first_line_is_not_the_newest() -> None:
    ledger, late, new = Ledger(), incarnation(abandoned=True), incarnation()
    for each in (new, late, new):
        ledger.enter(each)
        ledger.leave(each)

    assert ledger.violations == []


def test_one_that_does_two_things_at_once_is_found() -> None:
    ledger, one = Ledger(), incarnation()
    ledger.enter(one)
    ledger.enter(one)

    assert ledger.violations == [f"{PATH}: one incarnation does two things at once"]


def test_an_old_incarnation_that_goes_on_is_found() -> None:
    ledger, old, new = Ledger(), incarnation(), incarnation()
    for each in (old, new):
        ledger.enter(each)
        ledger.leave(each)

    ledger.enter(old)

    assert ledger.violations == [f"{PATH}: an old incarnation runs though a newer one has begun: {old!r}"]


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([started(1), started(2)], "incarnation 2 started, 1 has not exited"),
        ([exited(1)], "incarnation 1 exited, None was up"),
        ([started(1), exited(1), exited(1)], "incarnation 1 exited, None was up"),
        ([started(1), exited(2)], "incarnation 2 exited, 1 was up"),
        ([started(1), exited(2, up=False)], "a start failed while incarnation 1 was up"),
        ([InternalError(PATH, ValueError())], "InternalError ValueError()"),
    ],
)
def test_an_exit_without_a_start_is_found(events: list[Any], what: str) -> None:
    ledger = Ledger()

    for event in events:
        ledger.hear(event)

    assert len(ledger.violations) == 1
    assert what in ledger.violations[0]


def test_starts_and_exits_that_match_are_fine() -> None:
    ledger = Ledger()

    for event in (started(1), exited(1), exited(2, up=False), started(2), exited(2)):
        ledger.hear(event)

    assert ledger.violations == []


# -- a tree ----------------------------------------------------------------------------------------------------


@pytest.fixture
def ground() -> Any:
    ground = Ground("test")
    spec = SupervisorSpec(
        id="r",
        children=[
            WorkerSpec(id="w", actor=Sync, args=(ground, Traits())),
            WorkerSpec(id="p", actor=Sync, args=(ground, Traits()), pool=2),
        ],
    )
    with start(spec) as tree:
        ground.tree = tree
        one = Round(1, 1, 1.0, 0.005)
        one.ground = ground
        for info in tree.which_children("r"):
            one._is_up(info)
        tree.subscribe(ground.ledger.hear)
        yield ground
        ground.tree = None


def audit(ground: Ground) -> list[str]:
    return [*come_to_rest(ground), *at_rest(ground)]


def test_a_tree_of_which_everything_is_true_passes(ground: Ground) -> None:
    assert audit(ground) == []


class HeldReport:
    """Stands for the mailbox of a supervisor, which hears of an end only when it is let through."""

    def __init__(self, incarnation: Any) -> None:
        self.owner, self.kept = incarnation.owner, []
        incarnation.owner = self

    def post(self, message: Any, _: Any = None) -> bool:
        self.kept.append(message)
        return True

    def let_through(self) -> None:
        while self.kept:
            self.owner.post(self.kept.pop())


def test_a_body_whose_end_nobody_has_heard_of_is_waited_for(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ending between two looks of the audit it was shown as running, and had no life."""
    ground.tree.start_child("r", WorkerSpec(id="b", run=body, args=(ground, Traits()), restart="transient"))
    incarnation = ground.tree._system.children["r/b"].incarnation
    report, obeyed = HeldReport(incarnation), incarnation.when_over()
    # As when it has taken an order and its thread is held up in it.
    ground.obeying["r/b"] = incarnation
    looks = 0

    def look(tree: Any, timeout_s: float) -> None:
        nonlocal looks
        looks += 1
        if looks > 1:
            report.let_through()
        settle(tree, timeout_s)
        if looks == 1:
            ground.armed, ground.orders["r/b"] = True, deque(["return"])
            assert obeyed.wait(LONG_S)
            ground.arm(armed=False)

    monkeypatch.setattr("tests.faults.chaos.audit.settle", look)

    problems = audit(ground)
    report.let_through()

    assert problems == []
    assert ground.tree.child("r/b").state == "stopped"


def test_a_worker_that_is_not_listed_is_found(ground: Ground) -> None:
    supervisor = ground.tree._system.supervisors["r"]
    child = supervisor.table.children.pop("w")

    problems = audit(ground)
    supervisor.table.children["w"] = child

    assert "r/w: runs and is not listed" in problems
    assert "r/w: can be found and is not listed" in problems
    assert "r/w: by its events incarnation 1 is up, shown is None" in problems


def test_a_member_that_is_left_of_a_pool_is_found(ground: Ground) -> None:
    supervisor = ground.tree._system.supervisors["r"]
    child = supervisor.table.children.pop("p#0")

    problems = audit(ground)
    supervisor.table.children["p#0"] = child

    assert "r/p: 1 of 2 members are listed" in problems


def test_dead_letters_that_are_counted_and_not_published_are_found(ground: Ground) -> None:
    ground.tree._system.letters._counts[Refusal.STOPPED][0] += 1

    assert any("the tree counts the dead letters {'stopped': 1}" in problem for problem in audit(ground))


def test_a_tree_that_was_not_stopped_is_found(ground: Ground) -> None:
    problems = when_down(ground)

    assert any("an incarnation runs on" in problem for problem in problems)
    assert "r/w: incarnation 1 never exited" in problems
    assert "r/w: 1 incarnations ran, 0 exits were told" in problems


# -- rounds ----------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_trees() -> None:
    def paths(seed: str) -> list[str]:
        ground = Ground(seed)
        return [f"{path} {spec.restart}" for path, spec in walk(Shape(ground, ground.dice("round")).tree(), "r")]

    assert paths("7") == paths("7")
    assert paths("7") != paths("8")


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
