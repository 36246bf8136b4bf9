"""Deadlines: everything that a task causes inherits what is left of its time, and may only shorten it (point 12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.testing import AsyncScriptedExecutable, FakeModel, Hang, ManualClock, ScriptedExecutable, settle
from tests.support.crew import until
from tests.tasks.dispatching import LONG_S, failure, heard, one, shop, single
from trees import (
    Escalate,
    ModelPlanner,
    Retry,
    SupervisorSpec,
    Task,
    TaskDeadlineError,
    Tasks,
    TaskStatus,
    WorkerSpec,
    start,
)

BOTH = pytest.mark.parametrize("kind", [ScriptedExecutable, AsyncScriptedExecutable], ids=["sync", "async"])


def test_an_attempt_is_told_what_is_left_of_its_own_time_or_of_its_tasks_whichever_is_less() -> None:
    plan = [one("a", "w", timeout_s=60.0), one("b", "w", timeout_s=5.0, depends_on=["a"]), one("c", "w")]
    script, clock = ScriptedExecutable(), ManualClock()

    with start(single(script, plan), clock=clock) as tree:
        tree.run(Task("go", deadline_s=20), timeout=LONG_S)
        tree.run(Task("go"), timeout=LONG_S)

    left = [{call.subtask: call.remaining_s for call in calls} for calls in (script.calls[:3], script.calls[3:])]
    assert left == [{"a": 20.0, "b": 5.0, "c": 20.0}, {"a": 60.0, "b": 5.0, "c": None}]


@BOTH
def test_what_is_asked_for_inside_may_not_take_longer_than_its_asker(kind: type[Any]) -> None:
    async def asker(_task: object, context: Any) -> object:
        return await context.ask("helper", "help")

    def asker_sync(_task: object, context: Any) -> object:
        return context.ask_sync("helper", "help")

    helper = kind("helped")
    spec = shop(
        WorkerSpec(id="asker", execute=asker if kind is AsyncScriptedExecutable else asker_sync, timeout_s=7.0),
        WorkerSpec(id="helper", execute=helper, timeout_s=60.0),
        plans={"go": [one("asker")]},
    )

    with start(spec, clock=ManualClock()) as tree:
        tree.run(Task("go", deadline_s=20), timeout=LONG_S)

    assert helper.calls[0].remaining_s == 7.0


def test_a_task_whose_time_is_up_has_not_succeeded_also_where_the_timer_comes_late() -> None:
    class Late(ManualClock):
        ahead = 0.0

        def now(self) -> float:
            return super().now() + self.ahead

    def takes_too_long(*_: object) -> str:
        clock.ahead = 60.0
        return "done"

    clock = Late()
    spec = shop(WorkerSpec(id="w", execute=takes_too_long), plans={"go": [one("w")]})
    with start(spec, clock=clock) as tree, pytest.raises(TaskDeadlineError) as caught:
        tree.run(Task("go", deadline_s=20), timeout=LONG_S)

    assert caught.value.report is not None
    assert caught.value.report.results == {"w": "done"}


def in_teams(member: Any, **words: Any) -> SupervisorSpec:
    """A root, and a team in it with one member."""
    settings = Tasks(planner=lambda *_: [one("member")], on_failure=[])
    team = SupervisorSpec(id="team", tasks=settings, children=[WorkerSpec(id="member", execute=member)], **words)
    return shop(team, plans={"go": [one("team")]})


@pytest.mark.parametrize(
    ("words", "deadline_s", "left"),
    [({}, 20.0, 20.0), ({"timeout_s": 7.0}, 20.0, 7.0), ({"timeout_s": 7.0}, None, 7.0), ({}, None, None)],
)
def test_nested_teams_inherit_the_time_that_is_left(
    words: dict[str, Any], deadline_s: float | None, left: float | None
) -> None:
    member = ScriptedExecutable("done")

    with start(in_teams(member, **words), clock=ManualClock()) as tree:
        tree.run(Task("go", deadline_s=deadline_s), timeout=LONG_S)

    assert member.calls[0].remaining_s == left


def _planning(hang: Hang) -> SupervisorSpec:
    return single(ScriptedExecutable(), planner=ModelPlanner(FakeModel(hang)))


def _queued(hang: Hang) -> SupervisorSpec:
    return shop(
        WorkerSpec(id="w", execute=AsyncScriptedExecutable(hang)),
        plans={"go": [one("w")], "before": [one("w")]},
        on_failure=[],
    )


def _running(hang: Hang) -> SupervisorSpec:
    return single(AsyncScriptedExecutable(hang))


def _running_sync(hang: Hang) -> SupervisorSpec:
    return single(ScriptedExecutable(hang))


def _retrying(_: Hang) -> SupervisorSpec:
    return single(ScriptedExecutable(OSError("down")), on_failure=[Retry(initial_s=3600, max_s=3600, jitter=0.0)])


def _waiting(_: Hang) -> SupervisorSpec:
    return single(ScriptedExecutable(OSError("down")), on_failure=[Escalate()])


def _nested(hang: Hang) -> SupervisorSpec:
    return in_teams(AsyncScriptedExecutable(hang))


def _reviewing(hang: Hang) -> SupervisorSpec:
    async def review(*_: object) -> None:
        await hang.hold_async()

    worker = WorkerSpec(id="w", execute=ScriptedExecutable("done"))
    return shop(worker, plans={"go": [one("w")]}, reviewer=review)


@pytest.mark.parametrize(
    ("make", "hangs"),
    [
        (_planning, True),
        (_queued, True),
        (_running, True),
        (_running_sync, True),
        (_retrying, False),
        (_waiting, False),
        (_nested, True),
        (_reviewing, True),
    ],
    ids=["planning", "queued", "running", "running sync", "retrying", "waiting", "nested", "reviewing"],
)
def test_a_deadline_that_passes_ends_a_task_in_every_state(
    make: Callable[[Hang], SupervisorSpec], *, hangs: bool
) -> None:
    clock = ManualClock()
    with Hang(deaf=make is _running_sync) as hang, start(make(hang), clock=clock) as tree:
        if make is _queued:
            tree.submit("before")
        handle = tree.submit(Task("go", deadline_s=30))
        if hangs:
            hang.wait_until_entered()
            heard(tree)
        else:
            settle(tree)
        clock.advance(29)
        heard(tree)
        before = handle.report
        clock.advance(1)
        heard(tree)
        until(lambda: handle.report is not None, clock, 1.0)
        with pytest.raises(TaskDeadlineError) as caught:
            handle.result(timeout=LONG_S)
        alive = tree.is_alive
        hang.release()

    assert before is None
    assert alive
    assert caught.value.report is not None
    assert caught.value.report.status is TaskStatus.FAILED
    assert set(caught.value.report.results) == ({"w"} if make is _reviewing else set())


def test_a_deadline_ends_what_was_asked_for_and_what_is_queued_too() -> None:
    clock = ManualClock()
    with Hang() as hang:
        helper = AsyncScriptedExecutable(hang)

        async def asker(_task: object, context: Any) -> object:
            return await context.ask("helper", "help")

        spec = shop(
            WorkerSpec(id="asker", execute=asker),
            WorkerSpec(id="helper", execute=helper),
            plans={"go": [one("asker"), one("next", "asker", depends_on=["asker"]), one("queued", "asker")]},
        )
        with start(spec, clock=clock) as tree:
            handle = tree.submit(Task("go", deadline_s=30))
            hang.wait_until_entered()
            clock.advance(30)
            report = failure(handle)
            until(lambda: helper.calls[0].ended)
            free = [row.load for row in tree.registry()]

    assert report.results == {}
    assert helper.calls[0].ended == "CancelledError"
    assert {"next", "queued"} <= set(report.skipped)
    assert free == [0, 0]
