"""The registry as its orchestrator keeps it: folded from what a supervisor would tell, without one."""

from __future__ import annotations

import pytest

from actors.messaging.mailbox import Mailbox
from actors.tasks.scheduling.ready_queue import LaneKey
from tests.tasks.scheduling.staffing import Office, spec

A, X = LaneKey("a"), LaneKey(None, "x")


def ids(entries: object) -> list[str]:
    return [entry.id for entry in entries]  # type: ignore[attr-defined]


# -- a fold --------------------------------------------------------------------------------------------------


def test_a_worker_that_is_told_of_is_in_the_registry_with_what_it_can() -> None:
    office = Office(spec("a", "x", "y"))
    (row,) = (entry.info(0.0) for entry in office.workers)

    assert (row.id, row.path, row.state, row.load, row.size) == ("a", "r/a", "running", 0, 1)
    assert ids(office.workers.able("x")) == ids(office.workers.able("y")) == ["a"]


def test_one_that_is_forgotten_is_gone_from_everywhere() -> None:
    office = Office(spec("a", "x"))
    office.hear("a", None)

    assert list(office.workers) == []
    assert office.workers.able("x") == []
    assert office.workers.get("a") is None


def test_one_that_was_never_known_and_is_forgotten_changes_nothing() -> None:
    office = Office(spec("a", "x"))
    office.specs["b"] = spec("b", "x")

    assert office.hear("b", None) is None
    assert ids(office.workers) == ["a"]


def test_a_new_worker_of_the_same_id_replaces_the_old_one_and_its_capabilities() -> None:
    office = Office(spec("a", "x"))
    before = office.entry("a")
    office.specs["a"] = spec("a", "y")
    office.hear("a", "running")

    assert office.entry("a") is not before
    assert (ids(office.workers.able("x")), ids(office.workers.able("y"))) == ([], ["a"])


def test_the_late_news_of_an_old_worker_does_not_strike_the_new_one() -> None:
    office = Office(spec("a", "x"))
    old = office.specs["a"]
    office.specs["a"] = spec("a", "x")
    office.hear("a", "running")
    office.specs["a"] = old
    office.hear("a", None)

    assert ids(office.workers) == ids(office.workers.able("x")) == ["a"]


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (("running", "parked", "stopped"), "running"),
        (("restarting", "parked", "stopped"), "restarting"),
        (("parked", "stopped", "stopped"), "stopped"),
        (("parked", "parked", "parked"), "parked"),
    ],
)
def test_a_pool_stands_as_the_best_of_its_members(states: tuple[str, ...], state: str) -> None:
    office = Office(spec("p", "x", pool=3))
    for number, each in enumerate(states):
        office.hear(f"p#{number}", each)  # type: ignore[arg-type]  # the type of a parameter

    assert office.entry("p").info(0.0).state == state
    assert office.entry("p").info(0.0).size == 3
    assert office.entry("p").path == "r/p"


def test_a_pool_is_in_the_registry_until_its_last_member_is_forgotten() -> None:
    office = Office(spec("p", "x", pool=2))
    office.hear("p#0", None)
    before = ids(office.workers)
    office.hear("p#1", None)

    assert (before, ids(office.workers)) == (["p"], [])


# -- room ----------------------------------------------------------------------------------------------------


def test_a_worker_has_room_for_one_and_a_pool_for_each_of_its_members() -> None:
    office = Office(spec("a"), spec("p", pool=3))
    office.busy("a")
    given = office.busy("p", 3)

    assert not office.entry("a").has_room()
    assert not office.entry("p").has_room()
    assert len({attempt.box for attempt in given}) == 3


def test_there_is_room_again_when_an_attempt_is_over() -> None:
    office = Office(spec("a"))
    (attempt,) = office.busy("a")
    office.entry("a").release(attempt.key)
    office.entry("a").release(attempt.key)

    assert office.entry("a").has_room()
    assert office.entry("a").info(0.0).load == 0


@pytest.mark.parametrize("state", ["restarting", "stopped", "parked"])
def test_one_that_is_down_has_no_room_until_it_is_up_again(state: str) -> None:
    office = Office(spec("a"))
    office.hear("a", state)  # type: ignore[arg-type]  # the type of a parameter
    before = office.entry("a").has_room()
    office.hear("a", "running")

    assert (before, office.entry("a").has_room()) == (False, True)


def test_one_that_comes_up_while_its_attempt_is_not_over_has_no_room_yet() -> None:
    office = Office(spec("a"))
    (attempt,) = office.busy("a")
    office.hear("a", "restarting")
    office.hear("a", "running")
    before = office.entry("a").has_room()
    office.entry("a").release(attempt.key)

    assert (before, office.entry("a").has_room()) == (False, True)


def test_an_attempt_that_ends_while_its_worker_is_down_makes_no_room() -> None:
    office = Office(spec("a"))
    (attempt,) = office.busy("a")
    office.hear("a", "restarting")
    office.entry("a").release(attempt.key)

    assert not office.entry("a").has_room()


def test_an_attempt_from_before_the_orchestrator_occupies_the_member_that_it_is_with() -> None:
    office, later = Office(spec("p", pool=2)), Office(spec("p", pool=2))
    (attempt,) = office.busy("p")
    assert attempt.box is not None
    box = later.boxes[attempt.box.path]
    later.entry("p").reassign(attempt.key, box)
    (other,) = later.busy("p")

    assert other.box is not box
    assert not later.entry("p").has_room()


def test_a_member_whose_mailbox_refused_gets_nothing_until_it_is_heard_of() -> None:
    office = Office(spec("a"))
    (attempt,) = office.busy("a")
    office.entry("a").release(attempt.key, was_refused=True)
    before = office.entry("a").has_room()
    office.hear("a", "running")

    assert (before, office.entry("a").has_room()) == (False, True)


def test_a_member_that_refused_and_was_heard_of_since_is_not_taken_for_closed() -> None:
    office = Office(spec("a"))
    (attempt,) = office.busy("a")
    office.hear("a", "stopped")
    office.hear("a", "running")
    office.entry("a").release(attempt.key, was_refused=True)

    assert office.entry("a").has_room()


@pytest.mark.parametrize(("state", "gone"), [("restarting", False), ("stopped", True), ("parked", True)])
def test_one_that_restarts_is_not_gone(state: str, gone: bool) -> None:
    office = Office(spec("a"))
    office.hear("a", state)  # type: ignore[arg-type]  # the type of a parameter

    assert office.entry("a").is_gone is gone
    assert isinstance(office.boxes["r/a"], Mailbox)


# -- who could do it -----------------------------------------------------------------------------------------


def test_the_primaries_of_a_capability_are_those_who_are_nobodys_backup() -> None:
    office = Office(spec("a", "x", backup="b"), spec("b", "x"), spec("c", "x"))

    assert ids(office.workers.primaries(X)) == ["a", "c"]


def test_a_backup_is_a_primary_where_the_one_that_it_backs_is_out() -> None:
    office = Office(spec("a", "x", backup="b"), spec("b", "x"))

    assert ids(office.workers.primaries(LaneKey(None, "x", ("a",)))) == ["b"]


def test_a_worker_that_is_named_is_the_only_primary() -> None:
    office = Office(spec("a", "x"), spec("b", "x"))

    assert ids(office.workers.primaries(A)) == ["a"]
    assert ids(office.workers.primaries(LaneKey("a", None, ("a",)))) == []
    assert ids(office.workers.primaries(LaneKey("nobody"))) == []


def test_backups_of_backups_are_found_each_once() -> None:
    office = Office(spec("a", backup="c"), spec("b", backup="c"), spec("c", backup="d"), spec("d", backup="a"))
    staff = office.workers

    assert ids(staff.backups([office.entry("a"), office.entry("b")], ())) == ["c", "d"]
    assert ids(staff.backups([office.entry("a")], ("c",))) == ["d"]


# -- who takes over ------------------------------------------------------------------------------------------


def test_another_one_that_can_do_it_takes_over_before_a_backup() -> None:
    office = Office(spec("a", "x", backup="c"), spec("b", "x"), spec("c"))

    assert office.workers.successor(X, ("a",), (), 0.0) == "b"
    assert office.workers.successor(X, ("a", "b"), (), 0.0) == "c"
    assert office.workers.successor(X, ("a", "b", "c"), (), 0.0) is None


def test_the_backup_of_a_named_worker_takes_over() -> None:
    office = Office(spec("a", backup="b"), spec("b"))

    assert office.workers.successor(A, ("a",), (), 0.0) == "b"


def test_nobody_takes_over_who_refused_it_or_is_gone_and_who_is_not_admitted_only_where_there_is_no_other() -> None:
    office = Office(spec("a", "x"), spec("b", "x"), spec("c", "x"), spec("d", "x"), spec("e", "x"))
    office.hear("c", "parked")
    office.refused("d")

    assert office.workers.successor(X, ("a",), ("b",), 0.0) == "e"
    assert office.workers.successor(X, ("a",), ("b", "e"), 0.0) == "d"
    assert office.workers.successor(X, ("a", "d"), ("b", "e"), 0.0) is None


def test_one_that_restarts_may_take_over() -> None:
    office = Office(spec("a", "x"), spec("b", "x"))
    office.hear("b", "restarting")

    assert office.workers.successor(X, ("a",), (), 0.0) == "b"
