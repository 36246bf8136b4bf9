"""Who is given the next subtask of a lane, on a registry by itself."""

from __future__ import annotations

import pytest

from actors.tasks.model.outcome import Failure, FailureKind
from actors.tasks.scheduling.ready_queue import LaneKey
from actors.tasks.scheduling.selection import choose_worker, put_off
from actors.tasks.scheduling.worker_registry import RegistryEntry
from tests.tasks.scheduling.staffing import Office, spec

A, X = LaneKey("a"), LaneKey(None, "x")


def served(office: Office, key: LaneKey, now: float = 0.0) -> str | None:
    """The id of who is given it; None where it waits; the kind of failure where nobody ever will."""
    found = choose_worker(office.workers, key, now)
    if isinstance(found, Failure):
        return found.kind.value
    return None if found is None else found.id


def waits_for(office: Office, key: LaneKey) -> set[str]:
    return {entry.id for entry in office.workers if key in entry.lanes}


def test_the_least_busy_one_is_given_it() -> None:
    office = Office(spec("a", "x", pool=3), spec("b", "x", pool=3), spec("c", "x", pool=3))
    office.busy("a", 2)
    office.busy("b", 1)
    office.busy("c", 2)

    assert served(office, X) == "b"


def test_of_those_who_have_as_little_to_do_the_first_one_declared_is_given_it() -> None:
    office = Office(spec("a", "x"), spec("b", "x"))

    assert served(office, X) == "a"


def test_a_free_member_of_a_busy_pool_is_better_than_waiting_for_an_idle_one() -> None:
    office = Office(spec("a", "x", pool=3), spec("b", "x"))
    office.busy("a", 2)
    office.hear("b", "restarting")

    assert served(office, X) == "a"


def test_a_lane_waits_while_all_are_busy() -> None:
    office = Office(spec("a", "x"), spec("b", "x"))
    office.busy("a")
    office.busy("b")

    assert served(office, X) is None
    assert waits_for(office, X) == {"a", "b"}


def test_a_backup_is_not_asked_while_its_primary_is_only_busy() -> None:
    office = Office(spec("a", "x", backup="b"), spec("b"))
    office.busy("a")

    assert served(office, X) is None
    assert served(office, A) is None


@pytest.mark.parametrize("state", ["stopped", "parked"])
def test_a_backup_is_asked_when_its_primary_is_gone(state: str) -> None:
    office = Office(spec("a", "x", backup="b"), spec("b"))
    office.hear("a", state)  # type: ignore[arg-type]  # the type of a parameter

    assert served(office, X) == served(office, A) == "b"


def test_a_backup_is_asked_when_its_primary_is_not_admitted() -> None:
    office = Office(spec("a", "x", backup="b"), spec("b"))
    office.refused("a")

    assert served(office, X) == "b"


def test_one_that_restarts_is_waited_for() -> None:
    office = Office(spec("a", "x", backup="b"), spec("b"))
    office.hear("a", "restarting")

    assert served(office, X) is None


def test_a_lane_that_waits_for_a_busy_backup_hears_of_its_primary_too() -> None:
    office = Office(spec("a", "x", backup="b"), spec("b"))
    office.hear("a", "stopped")
    office.busy("b")

    assert served(office, X) is None
    assert waits_for(office, X) == {"a", "b"}


def test_a_lane_that_waits_for_a_busy_one_hears_of_those_that_are_gone_or_not_admitted_too() -> None:
    office = Office(spec("a", "x"), spec("b", "x"), spec("c", "x"))
    office.busy("a")
    office.hear("b", "stopped")
    office.refused("c")

    assert served(office, X) is None
    assert waits_for(office, X) == {"a", "b", "c"}


def test_nobody_admitted_is_told_apart_from_nobody_there() -> None:
    office = Office(spec("a", "x"), spec("b", "y"))
    office.refused("a")
    office.hear("b", "parked")

    assert served(office, X) is None
    assert put_off(office.workers, X, 18.0) == "breaker of a open, probe in 12 s"
    assert put_off(office.workers, LaneKey(None, "y"), 0.0) == ""
    assert served(office, LaneKey(None, "y")) == FailureKind.NOBODY
    assert served(office, LaneKey(None, "z")) == FailureKind.NOBODY
    assert served(office, LaneKey("nobody")) == FailureKind.NOBODY


def test_a_backup_that_is_gone_leaves_the_lane_to_its_primary_which_puts_it_off() -> None:
    office = Office(spec("a", "x", backup="b"), spec("b"))
    office.refused("a")
    office.hear("b", "parked")

    assert served(office, X) is None
    assert office.entry("a").lanes == {X}


def test_a_primary_that_is_gone_and_a_backup_that_admits_nothing_put_it_off() -> None:
    office = Office(spec("a", "x", backup="b"), spec("b"))
    office.hear("a", "parked")
    office.refused("b")

    assert served(office, X) is None
    assert office.entry("b").lanes == {X}


def test_where_one_took_over_whose_breaker_is_open_by_now_others_that_can_do_it_are_asked() -> None:
    office = Office(spec("a", "x"), spec("b", "x"), spec("c", "x", backup="d"), spec("d"))
    office.refused("b")
    taken_over = LaneKey("b", "x", ("a",))

    assert served(office, taken_over) == "c"
    office.refused("c")
    assert served(office, taken_over) == "d"
    office.refused("d")
    assert served(office, taken_over) is None
    assert [id_ for id_ in "abcd" if taken_over in office.entry(id_).lanes] == ["b", "c", "d"]
    assert served(office, taken_over, 30.0) == "b"


def test_nothing_is_put_off_of_which_somebody_is_only_busy() -> None:
    office = Office(spec("a", "x"), spec("b", "x"))
    office.refused("a")

    assert put_off(office.workers, X, 0.0) == ""


def test_an_open_breaker_admits_one_probe_after_its_cooldown() -> None:
    office = Office(spec("a", "x", pool=2))
    office.refused("a")
    before = served(office, X, 29.0)
    probe = served(office, X, 30.0)
    breaker = office.entry("a").breaker
    assert breaker is not None
    breaker.begin(30.0)

    assert (before, probe) == (None, "a")
    assert served(office, X, 30.0) is None


def test_who_is_out_of_the_question_is_not_asked() -> None:
    office = Office(spec("a", "x", backup="c"), spec("b", "x"), spec("c"))

    assert served(office, LaneKey(None, "x", ("a",))) == "b"
    assert served(office, LaneKey(None, "x", ("a", "b"))) == FailureKind.NOBODY
    assert served(office, LaneKey("a", None, ("a",))) == FailureKind.NOBODY


def test_a_worker_without_a_breaker_always_admits() -> None:
    office = Office(spec("a", "x", breaker=False))
    found = choose_worker(office.workers, X, 0.0)

    assert isinstance(found, RegistryEntry)
    assert found.info(0.0).breaker is None
