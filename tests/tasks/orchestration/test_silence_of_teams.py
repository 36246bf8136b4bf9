"""``idle_timeout_s`` of those who wait for the work of others: of a team, and of whoever asks (point 12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors import Escalated
from actors.testing import ManualClock
from tests.support.crew import until
from tests.tasks.dispatching import LONG_S, heard, one, shop, submitted
from tests.tasks.puppet import Puppet
from trees import Approve, Escalate, StaticPlan, SupervisorSpec, Tasks, WorkerSpec, start

IDLE_S = 5.0


def asks(_task: object, context: Any) -> Any:
    """Wait for a colleague."""
    return context.ask_sync("helper", "help")


def of_a_team(execute: Any, **words: Any) -> SupervisorSpec:
    """A root whose one subtask is for a team, whose one member does this."""
    member = WorkerSpec(id="m", execute=execute, **words)
    team = SupervisorSpec(id="team", tasks=Tasks(on_failure=[]), children=[member], idle_timeout_s=IDLE_S)
    return shop(team, plans={"go": [one("team")]})


def of_an_asker(execute: Any, **words: Any) -> SupervisorSpec:
    """A root whose one subtask asks a colleague, who does this."""
    helper = WorkerSpec(id="helper", execute=execute, **words)
    asker = WorkerSpec(id="asker", execute=asks, idle_timeout_s=IDLE_S)
    return shop(asker, helper, plans={"go": [one("asker")]})


def of_an_asker_in_a_team(execute: Any, **words: Any) -> SupervisorSpec:
    """A root whose one subtask is for a team, whose member asks a colleague above, who does this."""
    asker = WorkerSpec(id="asker", execute=asks)
    team = SupervisorSpec(
        id="team", tasks=Tasks(planner=StaticPlan([one("asker")])), children=[asker], idle_timeout_s=IDLE_S
    )
    return shop(team, WorkerSpec(id="helper", execute=execute, **words), plans={"go": [one("team")]})


WAITS = pytest.mark.parametrize("tree_of", [of_a_team, of_an_asker, of_an_asker_in_a_team])


@WAITS
@pytest.mark.parametrize(
    "sign", [lambda context: context.heartbeat(), lambda context: context.progress(0.5)], ids=["heartbeat", "progress"]
)
def test_whoever_waits_for_work_is_not_silent_while_that_shows_life(
    tree_of: Callable[..., SupervisorSpec], sign: Callable[[Any], object]
) -> None:
    puppet, clock = Puppet(), ManualClock()

    with start(tree_of(puppet), clock=clock) as tree:
        handle = submitted(tree, "go")
        puppet.does(sign)
        for _ in range(5):
            clock.advance(IDLE_S - 1)
            heard(tree)
            puppet.does(sign)
        puppet.orders.put(None)
        report = handle.result(timeout=LONG_S)

    assert "done" in str(report.results)


@WAITS
def test_a_wait_for_a_person_is_no_silence(tree_of: Callable[..., SupervisorSpec]) -> None:
    clock = ManualClock()

    def work(_task: object, context: Any) -> str:
        if not context.answers:
            raise Escalated("May I?")
        return "done"

    with start(tree_of(work, on_failure=[Escalate()]), clock=clock) as tree:
        handle = submitted(tree, "go")
        until(lambda: handle.escalations)
        for _ in range(5):
            clock.advance(IDLE_S)
            heard(tree)
        handle.respond(handle.escalations[0].id, Approve())
        report = handle.result(timeout=LONG_S)

    assert "done" in str(report.results)
