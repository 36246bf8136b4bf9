"""The time limits of a supervisor's children: one table, one timer, and what late news of a limit says."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from actors import StartError, Worker
from actors.execution.timers import Timers
from actors.runtime.handle import system_of
from actors.supervision.time_limits import AT_ONCE, LIMITS_DUE, TimeLimits
from actors.testing import ManualClock
from tests.support.hardening import LONG_S, Gate, eventually, in_thread, root
from trees import Tree, WorkerSpec, start


class Stage:
    """Limits of children that are only names, and what was posted to their supervisor."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = Timers("t", self.clock, failed=lambda error: None)
        self.posted: list[Any] = []
        system: Any = SimpleNamespace(timers=self.timers, now=self.clock.now)
        box: Any = SimpleNamespace(post=self.posted.append)
        self.limits: Any = TimeLimits(system, box)

    def news(self) -> list[Any]:
        """What was posted since the last time."""
        for fired in self.timers.firing:
            assert fired.wait(LONG_S)
        news, self.posted[:] = list(self.posted), ()
        return news

    def hear(self) -> list[str]:
        """Do as a supervisor does that hears of it: whose time is over."""
        late = [child for child, end in self.limits.overdue() if self.limits.expires(child, end)]
        self.limits.look_again()
        return late


def test_those_whose_time_is_over_are_found_in_the_order_of_their_times() -> None:
    stage = Stage()
    for child, seconds in (("late", 3.0), ("early", 1.0), ("later", 5.0), ("never", math.inf)):
        stage.limits.set(child, seconds)

    stage.clock.advance(3)

    assert stage.news() == [LIMITS_DUE]
    assert stage.hear() == ["early", "late"]
    stage.clock.advance(1.9)
    assert (stage.news(), stage.hear()) == ([], [])
    stage.clock.advance(0.1)
    assert (stage.news(), stage.hear()) == ([LIMITS_DUE], ["later"])
    stage.clock.advance(1000)
    assert (stage.news(), stage.hear()) == ([], [])


def test_starts_one_after_the_other_share_one_timer() -> None:
    stage = Stage()
    for n in range(1000):
        stage.limits.set(f"w{n}", 30.0)
        stage.limits.lift(f"w{n}")
        stage.clock.advance(0.01)

    assert len(stage.timers._heap) == 1


def test_a_limit_that_was_lifted_in_time_is_never_overdue_and_its_timer_looks_for_the_next_one() -> None:
    stage = Stage()
    stage.limits.set("up", 5.0)
    stage.clock.advance(1)
    stage.limits.lift("up")
    stage.limits.set("next", 5.0)

    stage.clock.advance(4)
    assert (stage.news(), stage.hear()) == ([LIMITS_DUE], [])
    stage.clock.advance(1)
    assert (stage.news(), stage.hear()) == ([LIMITS_DUE], ["next"])


def test_a_shorter_limit_does_not_wait_for_the_timer_of_a_longer_one() -> None:
    stage = Stage()
    stage.limits.set("long", 30.0)
    stage.limits.set("short", 1.0)
    stage.clock.advance(1)

    assert (stage.news(), stage.hear()) == ([LIMITS_DUE], ["short"])


def test_a_limit_that_what_became_of_another_has_replaced_does_not_run_out_with_the_old_one() -> None:
    stage = Stage()
    stage.limits.set("culprit", 1.0)
    stage.limits.set("sibling", 2.0)
    stage.limits.set("other", 3.0)
    stage.clock.advance(5)

    (culprit, first), (sibling, second), (other, third) = stage.limits.overdue()
    assert stage.limits.expires(culprit, first)
    stage.limits.set(sibling, 0.0)  # its group is stopped, and has no time for that
    stage.limits.lift(other)
    assert not stage.limits.expires(sibling, second)
    assert not stage.limits.expires(other, third)
    assert not stage.limits.expires(culprit, first)
    stage.limits.look_again()

    assert stage.news()
    assert stage.hear() == ["sibling"]


def test_a_clock_that_is_moved_before_the_next_timer_is_set_is_noticed() -> None:
    stage = Stage()
    stage.limits.set("first", 1.0)
    stage.limits.set("second", 2.0)
    stage.clock.advance(1)
    found = stage.limits.overdue()
    stage.clock.advance(5)  # no timer of it is set just now
    assert stage.news() == [LIMITS_DUE]
    assert [stage.limits.expires(child, end) for child, end in found] == [True]
    stage.limits.look_again()

    assert stage.news() == [LIMITS_DUE]
    assert stage.hear() == ["second"]


def test_a_clock_that_is_moved_after_the_next_timer_is_set_sets_it_off() -> None:
    stage = Stage()
    stage.limits.set("first", 1.0)
    stage.limits.set("second", 2.0)
    stage.clock.advance(1)
    assert (stage.news(), stage.hear()) == ([LIMITS_DUE], ["first"])
    assert stage.news() == []
    stage.clock.advance(5)

    assert (stage.news(), stage.hear()) == ([LIMITS_DUE], ["second"])


def test_a_limit_that_is_set_while_others_are_seen_to_has_a_timer_also_where_that_is_cut_short() -> None:
    stage = Stage()
    stage.limits.set("first", 1.0)
    stage.clock.advance(1)
    stage.news()
    stage.limits.overdue()
    stage.limits.set("second", 1.0)  # and no look_again: an error came in between
    stage.clock.advance(1)

    assert stage.news() == [LIMITS_DUE]


def test_of_very_many_whose_time_is_over_some_have_their_turn_later() -> None:
    stage = Stage()
    children = [f"w{n}" for n in range(AT_ONCE + 10)]
    for child in children:
        stage.limits.set(child, 1.0)
    stage.clock.advance(1)

    assert (stage.news(), stage.hear()) == ([LIMITS_DUE], children[:AT_ONCE])
    assert (stage.news(), stage.hear()) == ([LIMITS_DUE], children[AT_ONCE:])
    assert stage.news() == []


def test_a_supervisor_that_has_ended_sets_off_nothing_and_holds_no_child() -> None:
    stage = Stage()
    stage.limits.set("w", 1.0)
    stage.limits.close()
    stage.limits.look_again()
    stage.clock.advance(5)

    assert stage.news() == []
    assert "w" not in stage.limits


class SlowToStart(Worker):
    """Comes up when it is let go."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate

    def on_start(self) -> None:
        self.gate()


@pytest.mark.parametrize("comes_up", ["before its supervisor looks", "after that"])
def test_a_start_that_is_done_before_its_supervisor_looks_is_in_time_and_one_that_is_not_has_failed(
    comes_up: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor is busy: it hears that a sibling's time is over first, and of the start only behind that."""
    clock, busy = ManualClock(), Gate()
    gates = {"early": Gate(), "late": Gate()}
    with start(root(), clock=clock) as tree:
        limits = system_of(tree).supervisors["t"].control.limits
        calls = {id_: _start(tree, id_, gates[id_], seconds) for id_, seconds in (("early", 5.0), ("late", 10.0))}
        for gate in gates.values():
            gate.wait_reached()
        eventually(lambda: len(limits._ends) == len(gates))
        overdue = limits.overdue
        monkeypatch.setattr(limits, "overdue", lambda: (busy(), overdue())[1])
        clock.advance(5.0)
        busy.wait_reached()
        late = system_of(tree).children["t/late"]
        if comes_up == "before its supervisor looks":
            gates["late"].open.set()
            eventually(lambda: late.is_up)
        clock.advance(5.0)
        busy.open.set()

        with pytest.raises(StartError, match="did not start within 5 s"):
            calls["early"]()
        if comes_up == "before its supervisor looks":
            calls["late"]()
            assert tree.child("t/late").state == "running"
        else:
            with pytest.raises(StartError, match="did not start within 10 s"):
                calls["late"]()
        for gate in gates.values():
            gate.open.set()


def _start(tree: Tree, id_: str, gate: Gate, seconds: float) -> Any:
    spec = WorkerSpec(id=id_, actor=SlowToStart, args=(gate,), start_timeout_s=seconds)
    return in_thread(lambda: tree.start_child("t", spec))
