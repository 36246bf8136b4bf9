"""The tests wait longer than the library does by itself; what that gives to its users stays as it is documented."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import HealthCheck, settings

from tests.support.patience import OWN_WAITS, PATIENT_S, WAITS


def test_what_the_library_gives_by_itself(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.stash[OWN_WAITS] == {
        "Ref.ask": 5.0,
        "Ref.ask_async": 5.0,
        "settle": 10.0,
        "Hang.wait_until_entered": 10.0,
        "_Scripted.wait_for_calls": 10.0,
        "leaving_nothing_behind": 5.0,
        "actors.supervision.child_control.GRACE_S": 0.5,
        "actors.supervision.hung_children.GRACE_S": 0.5,
        "actors.runtime.system.CLOSE_S": 1.0,
        "actors.dispatch.host.forked_handle.CODE_S": 1.0,
        "actors.dispatch.host.ray_handle.CALLS_S": 1.0,
        "trees.host.console.session.PATIENCE_S": 2.0,
        "trees.host.console.server.LEAVE_S": 2.0,
        "trees.host.console.stream.FAREWELL_S": 0.5,
        "trees.host.tree_health.WITHIN_S": 1.0,
        "trees.ha.candidate.FIRST_ANSWER_S": 10.0,
    }


def test_in_a_test_each_of_them_waits_a_minute() -> None:
    given = [inspect.signature(function).parameters[parameter].default for function, parameter in WAITS.items()]

    assert given == [PATIENT_S] * len(WAITS)


def test_hypothesis_does_not_fail_what_was_slow() -> None:
    assert HealthCheck.too_slow in settings().suppress_health_check
    assert settings().deadline is None
