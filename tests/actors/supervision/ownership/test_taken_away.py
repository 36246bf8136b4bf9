"""What becomes of a child that is terminated, deleted or replaced by a namesake while something else had plans for it.

``test_overlaps`` asks only what must hold always; here stands what must come out.
"""

from __future__ import annotations

import pytest

from actors import ActorStoppedError, ChildRestarting, UnknownPathError
from tests.actors.supervision.ownership.invariants import check, check_end
from tests.actors.supervision.ownership.stage import Stage, outcome, stage

STRATEGIES = pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
RESTARTS = pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])


def states(played: Stage) -> dict[str, str]:
    return {child.id: child.state for child in played.tree.which_children("t/s")}


def done(played: Stage) -> list[str]:
    """The answers to the calls so far, in the order of the calls."""
    return [outcome(reply) for _, reply in played.calls]


def listed(restart: str, state: str) -> dict[str, str]:
    """A temporary child that stays down is forgotten."""
    return {} if restart == "temporary" else {"x": state}


# -- a group that is under way -----------------------------------------------------------------------------

TERMINATED_WHILE = ["hold x.on_stop", "terminate x", "hold z.on_stop", "crash a"]
"""The stop call is first, and the group begins while it is under way."""


@STRATEGIES
@RESTARTS
@pytest.mark.parametrize("call_first", [True, False])
def test_a_child_that_is_being_terminated_when_a_group_begins_stays_down(
    strategy: str, restart: str, call_first: bool
) -> None:
    ends = ["free x.on_stop", "free z.on_stop"]
    with stage(strategy, restart=restart) as played:
        played.play(TERMINATED_WHILE, check)
        played.play(ends if call_first else ends[::-1], check)

        assert done(played) == ["ok"]
        assert states(played) == {"a": "running"} | listed(restart, "stopped") | {"z": "running"}
        check_end(played)


@STRATEGIES
def test_a_child_that_is_deleted_while_a_group_waits_is_not_started_by_it(strategy: str) -> None:
    with stage(strategy) as played:
        played.play([*TERMINATED_WHILE, "free x.on_stop", "delete x", "free z.on_stop"], check)

        assert done(played) == ["ok", "ok"]
        assert states(played) == {"a": "running", "z": "running"}
        with pytest.raises(UnknownPathError):
            played.tree.ref("t/s/x")
        check_end(played)


@STRATEGIES
@RESTARTS
def test_a_namesake_that_is_added_while_a_group_waits_is_left_alone_by_it(strategy: str, restart: str) -> None:
    delete = [] if restart == "temporary" else ["delete x"]
    with stage(strategy, restart=restart) as played:
        played.play([*TERMINATED_WHILE, "free x.on_stop", *delete, "add x"], check)
        new = played.tree.child("t/s/x")
        played.play(["free z.on_stop"], check)

        assert set(done(played)) == {"ok"}
        assert states(played) == {"a": "running", "z": "running", "x": "running"}
        assert played.tree.child("t/s/x").incarnation == new.incarnation == 1
        played.play(["terminate x"], check)
        assert done(played)[-1] == "ok"
        check_end(played)


MOMENTS = [
    (moment, restart)
    for moment in ("z.on_stop", "x.on_stop", "a.on_start", "x.on_start")
    for restart in ("permanent", "transient", "temporary")
    if restart != "temporary" or moment.endswith("on_stop")
]
"""A group stops temporary children, and never starts them."""


@STRATEGIES
@pytest.mark.parametrize(("moment", "restart"), MOMENTS)
def test_a_child_that_is_terminated_during_a_group_restart_is_out_of_it(
    strategy: str, moment: str, restart: str
) -> None:
    with stage(strategy, restart=restart) as played:
        played.play([f"hold {moment}", "crash a", "terminate x", f"free {moment}"], check)

        assert done(played) == ["ok"]
        assert states(played) == {"a": "running"} | listed(restart, "stopped") | {"z": "running"}
        check_end(played)


@STRATEGIES
def test_a_group_claims_what_is_stopped_at_once_so_it_cannot_be_deleted_meanwhile(strategy: str) -> None:
    with stage(strategy) as played:
        played.play(["terminate x", "hold z.on_stop", "crash a", "delete x", "restart x", "add x"], check)

        assert done(played) == ["ok", "restarting", "restarting", "already_present"]
        assert states(played)["x"] == "restarting"
        played.play(["free z.on_stop"], check)
        assert states(played) == {"a": "running", "x": "running", "z": "running"}
        check_end(played)


def test_a_pool_member_that_is_starting_goes_on_when_another_member_begins_the_group_anew() -> None:
    with stage("rest_for_one", pool=2) as played:
        played.play(["hold x#0.on_start", "crash x#0", "crash x#1", "free x#0.on_start"], check)

        assert states(played) == {"a": "running", "x#0": "running", "x#1": "running", "z": "running"}
        check_end(played)


# -- the first pass ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
@pytest.mark.parametrize("then", [[], ["delete x"], ["delete x", "add x"]])
def test_a_child_that_crashed_during_the_first_pass_and_was_terminated_is_not_restarted_after_it(
    strategy: str, then: list[str]
) -> None:
    with stage(strategy, begun=False) as played:
        played.play(["hold z.on_start", "add s", "crash x"], check)
        before = states(played)
        played.play(["terminate x", *then, "free z.on_start"], check)

        assert before == {"a": "running", "x": "restarting", "z": "restarting"}
        assert set(done(played)) == {"ok"}
        after = states(played)
        assert after.get("x") == {0: "stopped", 1: None, 2: "running"}[len(then)]
        assert played.tree.child("t/s/a").restarts == 0
        check_end(played)


def test_a_child_that_crashed_during_the_first_pass_is_restarted_after_it_and_counts() -> None:
    with stage(begun=False) as played:
        played.play(["hold z.on_start", "add s", "crash x", "delete x", "restart x", "add x"], check)
        waiting = done(played)
        played.play(["free z.on_start"], check)

        assert waiting == ["no answer", "restarting", "restarting", "already_present"]
        assert states(played) == {"a": "running", "x": "running", "z": "running"}
        assert played.tree.child("t/s/x").restarts == 1
        check_end(played)


@pytest.mark.parametrize(("strategy", "restarts"), [("one_for_one", 2), ("one_for_all", 1), ("rest_for_one", 1)])
def test_siblings_that_crashed_during_the_first_pass_are_one_restart_of_a_group(strategy: str, restarts: int) -> None:
    with stage(strategy, begun=False) as played:
        played.play(["hold z.on_start", "add s", "crash a", "crash x", "free z.on_start"], check)

        assert states(played) == {"a": "running", "x": "running", "z": "running"}
        assert len([event for event in played.events if isinstance(event, ChildRestarting)]) == restarts
        check_end(played)


def test_a_child_that_stays_down_during_the_first_pass_says_so_at_once() -> None:
    with stage(begun=False, restart="transient") as played:
        played.play(["hold z.on_start", "add s", "refstop x", "note x"], check)

        assert states(played) == {"a": "running", "x": "stopped", "z": "restarting"}
        assert outcome(played.sent[-1][1]) == "ActorStoppedError"
        check_end(played)


# -- child calls -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_a_start_child_of_a_pool_that_fails_keeps_no_member_also_none_that_is_restarting(strategy: str) -> None:
    with stage(strategy, ids="az", pool=3) as played:
        played.play(["hold x#1.on_start", "add x", "hold x#0.on_start", "crash x#0", "terminate x#1"], check)
        before = done(played)
        played.play(["free x#1.on_start", "free x#0.on_start"], check)

        assert before == ["no answer", "no answer"]
        assert done(played) == ["StartError", "ok"]
        assert states(played) == {"a": "running", "z": "running"}
        check_end(played)


def test_a_start_child_that_was_stopped_is_answered_when_nothing_of_it_runs_any_more() -> None:
    with stage(ids="az", pool=2) as played:
        played.play(["hold x#1.on_start", "hold x#0.on_stop", "add x", "terminate x", "free x#1.on_start"], check)
        before = done(played)
        played.play(["free x#0.on_stop", "add x"], check)

        assert before == ["no answer", "no answer"]
        assert done(played) == ["StartError", "ok", "ok"]
        assert states(played) == {"a": "running", "z": "running", "x#0": "running", "x#1": "running"}
        check_end(played)


def test_a_member_that_is_terminated_alone_does_not_end_the_start_of_its_pool() -> None:
    with stage(ids="az", pool=3) as played:
        played.play(["hold x#1.on_start", "add x", "terminate x#0", "free x#1.on_start"], check)

        assert done(played) == ["ok", "ok"]
        assert states(played) == {"a": "running", "z": "running", "x#0": "stopped", "x#1": "running", "x#2": "running"}
        check_end(played)


@pytest.mark.parametrize("way", [["free x.on_stop", "free z.on_stop"], ["free z.on_stop", "free x.on_stop"]])
def test_two_calls_that_end_the_same_child_are_both_answered_when_it_is_down(way: list[str]) -> None:
    with stage() as played:
        played.play(["hold x.on_stop", "terminate x", "terminate x", "hold z.on_stop", "terminate s"], check)
        before = done(played)
        played.play(way, check)

        assert before == ["no answer"] * 3
        assert done(played) == ["ok"] * 3
        check_end(played)


# -- up, or down, before its turn ---------------------------------------------------------------------------

WAYS = pytest.mark.parametrize(
    "way",
    [["free x.on_start", "free z.on_stop"], ["free z.on_stop", "free x.on_start"]],
    ids=["up first", "turn first"],
)


BEGUN_ANEW = pytest.mark.parametrize(
    ("strategy", "begin", "anew"),
    [
        ("one_for_all", ["crash a"], []),
        ("one_for_all", ["crash a"], ["add y", "crash y"]),
        ("rest_for_one", ["crash b"], []),
        ("rest_for_one", ["crash b"], ["crash a"]),
    ],
    ids=["one_for_all", "one_for_all begun anew", "rest_for_one", "rest_for_one enlarged"],
)
"""A group restart that has ``x`` in it, and what replaces it by another one before the turn of ``x``."""


@BEGUN_ANEW
@pytest.mark.parametrize("end", ["crash x", "refstop x"])
@pytest.mark.parametrize("ends_first", [True, False], ids=["ends first", "ends last"])
def test_a_temporary_child_that_ends_before_its_turn_in_a_group_is_forgotten_at_once(
    strategy: str, begin: list[str], anew: list[str], end: str, ends_first: bool
) -> None:
    """Waiting for its turn it belonged to nobody once another restart had replaced the one that had it."""
    with stage(strategy, ids="abxz", restart="temporary") as played:
        ref = played.tree.ref("t/s/x")
        steps = [end, *anew] if ends_first else [*anew, end]
        played.play(["hold z.on_stop", *begin, *steps, "note x"], check)

        assert "x" not in states(played)
        with pytest.raises(UnknownPathError):
            played.tree.ref("t/s/x")
        with pytest.raises(ActorStoppedError):
            ref.ask("anybody?")
        played.play(["free z.on_stop"], check)
        assert set(states(played).values()) == {"running"}
        assert set(states(played)) == {"a", "b", "z"} | ({"y"} & set("".join(anew)))
        check_end(played)


@BEGUN_ANEW
@pytest.mark.parametrize(("restart", "end"), [("permanent", "crash x"), ("transient", "refstop x")])
def test_a_child_that_ends_before_its_turn_in_a_group_keeps_what_was_sent_and_is_started_with_it(
    strategy: str, begin: list[str], anew: list[str], restart: str, end: str
) -> None:
    with stage(strategy, ids="abxz", restart=restart) as played:
        played.play(["hold z.on_stop", *begin, end, *anew, "note x"], check)

        assert states(played)["x"] == "restarting"
        assert outcome(played.sent[-1][1]) == "no answer"
        played.play(["free z.on_stop"], check)
        assert set(states(played).values()) == {"running"}
        assert outcome(played.sent[-1][1]) == "ok"
        check_end(played)


@WAYS
def test_a_child_that_comes_up_before_its_turn_to_be_stopped_is_stopped_at_its_turn(way: list[str]) -> None:
    with stage() as played:
        played.play(["hold x.on_start", "crash x", "hold z.on_stop", "terminate s", *way], check)

        assert done(played) == ["ok"]
        assert states(played) == {"a": "stopped", "x": "stopped", "z": "stopped"}
        assert not any(run.lives for run in played.world.runs)
        check_end(played)


@WAYS
def test_a_replacement_that_comes_up_before_its_turn_is_started_anew_with_its_group(way: list[str]) -> None:
    with stage("one_for_all") as played:
        played.play(["hold x.on_start", "replace x", "hold z.on_stop", "crash a", *way], check)

        assert states(played) == {"a": "running", "x": "running", "z": "running"}
        assert played.tree.child("t/s/x").restarts == 1
        check_end(played)


# -- replaced ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all"])
@pytest.mark.parametrize(("restart", "state"), [("permanent", "running"), ("transient", "stopped"), ("temporary", "")])
def test_a_replacement_that_ends_in_its_start_is_treated_as_the_table_says(
    strategy: str, restart: str, state: str
) -> None:
    with stage(strategy, restart=restart) as played:
        played.play(["hold x.on_start", "replace x", "refstop x", "free x.on_start"], check)

        assert states(played) == {"a": "running"} | ({"x": state} if state else {}) | {"z": "running"}
        check_end(played)


def test_taking_a_child_off_the_list_once_more_does_not_touch_its_namesake() -> None:
    with stage() as played:
        supervisor = played.tree._system.supervisors["t/s"]
        old = supervisor.table.children["x"]
        played.play(["terminate x", "delete x", "add x"], check)
        new = supervisor.table.children["x"]
        supervisor.table.remove(old)
        check(played)

        assert new is not old
        assert supervisor.table.find("x") == [new]
        assert played.tree.child("t/s/x").state == "running"
        check_end(played)
