"""What gave way to something more urgent: its place in the queue, its time, and what becomes of a team's part of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors import Reply
from actors.testing import AsyncScriptedExecutable, Hang, InTurn, ManualClock, ScriptedExecutable, settle
from tests.tasks.dispatching import LONG_S, heard, one, shop, submitted, until
from trees import Breaker, SubtaskStarted, SupervisorSpec, Task, TaskError, Tasks, WorkerSpec, start


def team(id: str, *members: WorkerSpec, **words: Any) -> SupervisorSpec:
    """A team whose members work one after the other."""
    plan = [one(each.id, depends_on=[before.id] if before else []) for before, each in zip((None, *members), members)]  # noqa: B905 - the last is nobody's predecessor
    settings = Tasks(planner=lambda *_: plan, on_failure=[])
    return SupervisorSpec(id=id, tasks=settings, children=members, **words)


def test_what_gave_way_keeps_its_place_among_those_of_its_priority() -> None:
    plans = {goal: [one(goal, "w")] for goal in ("slow", "same", "urgent")}
    with Hang() as hang:
        script = AsyncScriptedExecutable(hang, "done", by="call")
        with start(shop(WorkerSpec(id="w", execute=script), plans=plans), clock=ManualClock()) as tree:
            slow = tree.submit(Task("slow", priority=5))
            hang.wait_until_entered()
            same = submitted(tree, "same", priority=5)
            tree.run(Task("urgent", priority=1), timeout=LONG_S)
            slow.result(timeout=LONG_S)
            same.result(timeout=LONG_S)

    assert [call.subtask for call in script.calls] == ["slow", "urgent", "slow", "same"]


def paused_team(first: Any, second: Any, urgent: Any, *, undo: Any = None, **words: Any) -> SupervisorSpec:
    """One slot, for which a team of two competes with something urgent."""
    members = WorkerSpec(id="one", execute=first, undo=undo), WorkerSpec(id="two", execute=second)
    return shop(
        team("team", *members, **words),
        WorkerSpec(id="v", execute=urgent),
        plans={"slow": [one("team")], "urgent": [one("v")]},
        max_parallel=1,
    )


def test_the_time_that_a_team_is_paused_is_not_taken_from_its_timeout() -> None:
    clock = ManualClock()
    with Hang() as hang, Hang() as busy:
        second = AsyncScriptedExecutable(hang, "two", by="call")
        urgent = AsyncScriptedExecutable(InTurn(busy, "urgent"))
        spec = paused_team(AsyncScriptedExecutable("one"), second, urgent, timeout_s=10.0)
        with start(spec, clock=clock) as tree:
            slow = tree.submit(Task("slow", priority=5))
            hang.wait_until_entered()
            clock.advance(5)
            tree.submit(Task("urgent", priority=1))
            busy.wait_until_entered()
            clock.advance(20)
            heard(tree, "shop/team")
            busy.release()
            report = slow.result(timeout=LONG_S)

    assert report.results == {"team": {"one": "one", "two": "two"}}
    assert [call.remaining_s for call in second.calls] == [10.0, 10.0]


@pytest.mark.parametrize("has_undo", [False, True])
@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_a_task_that_ends_while_its_team_is_paused_leaves_nothing_behind_and_undoes_what_was_done(
    how: str, *, has_undo: bool
) -> None:
    clock = ManualClock()
    with Hang() as hang, Hang() as busy:
        first, second = AsyncScriptedExecutable("one"), AsyncScriptedExecutable(hang, "two", by="call")
        urgent = AsyncScriptedExecutable(InTurn(busy, "urgent"))
        with start(paused_team(first, second, urgent, undo=first.undo if has_undo else None), clock=clock) as tree:
            slow = tree.submit(Task("slow", priority=5, deadline_s=30 if how == "deadline" else None))
            hang.wait_until_entered()
            tree.submit(Task("urgent", priority=1))
            busy.wait_until_entered()
            heard(tree, "shop/team")
            if how == "cancel":
                slow.cancel()
            else:
                clock.advance(30)
            with pytest.raises(TaskError) as caught:
                slow.result(timeout=LONG_S)
            busy.release()
            settle(tree)
            unfinished = [each.id for each in tree.tasks() if not each.status.is_final]

    assert unfinished == []
    assert [call.result for call in first.undos] == (["one"] if has_undo else [])
    assert caught.value.report is not None
    assert caught.value.report.compensated == (["team"] if has_undo else [])
    assert len(second.calls) == 1


def test_what_gave_way_in_a_team_goes_on_in_that_team_though_another_one_could_do_it() -> None:
    with Hang() as hang, Hang() as busy, Hang() as first_busy:
        a = AsyncScriptedExecutable(InTurn(first_busy, "a"))
        b1, b2 = AsyncScriptedExecutable("b1"), AsyncScriptedExecutable(hang, "b2", by="call")
        spec = shop(
            team("a", WorkerSpec(id="a1", execute=a), capabilities={"able"}),
            team("b", WorkerSpec(id="b1", execute=b1), WorkerSpec(id="b2", execute=b2), capabilities={"able"}),
            WorkerSpec(id="v", execute=AsyncScriptedExecutable(InTurn(busy, "urgent"))),
            plans={"x": [one("x", "a")], "slow": [one("s", capability="able")], "urgent": [one("v")]},
            max_parallel=2,
        )
        with start(spec, clock=ManualClock()) as tree:
            x = tree.submit(Task("x", priority=3))
            first_busy.wait_until_entered()
            slow = tree.submit(Task("slow", priority=5))
            hang.wait_until_entered()
            urgent = tree.submit(Task("urgent", priority=1))
            busy.wait_until_entered()
            first_busy.release()
            x.result(timeout=LONG_S)
            report = slow.result(timeout=LONG_S)
            busy.release()
            urgent.result(timeout=LONG_S)
            until(lambda: all(each.status.is_final for each in tree.tasks()))

    assert report.results == {"s": {"b1": "b1", "b2": "b2"}}
    assert len(b1.calls) == 1
    assert len(a.calls) == 1


@pytest.mark.parametrize("how", ["cancel", "deadline", "backup", "stopped", "nobody waits"])
def test_a_paused_team_whose_breaker_opens_or_that_is_gone_leaves_no_part_of_the_task_behind(how: str) -> None:
    clock = ManualClock()
    undone: list[Any] = []
    with Hang() as hang:

        async def second(task: Any, context: Any) -> str:
            if context.goal == "urgent":
                raise RuntimeError("it is broken")
            await hang.hold_async()
            return "two"

        async def asks(task: Any, context: Any) -> str:
            with pytest.raises(TaskError):
                await context.ask("team", "slow", timeout=20.0)
            return "did without"

        first = WorkerSpec(id="one", execute=lambda *_: "one", undo=lambda _, __, context: undone.append(context.goal))
        members = first, WorkerSpec(id="two", execute=second)
        words: dict[str, Any] = {"backup": "spare"} if how == "backup" else {}
        spec = shop(
            team("team", *members, breaker=Breaker(failure_threshold=1, cooldown_s=1000), **words),
            WorkerSpec(id="spare", execute=lambda *_: "spare"),
            WorkerSpec(id="asks", execute=asks),
            plans={
                "slow": [one("part", "asks" if how == "nobody waits" else "team", instruction="slow", required=False)],
                "urgent": [one("team", instruction="urgent")],
            },
            max_parallel=1,
        )
        with start(spec, clock=clock) as tree:
            slow = tree.submit(Task("slow", priority=5, deadline_s=30 if how == "deadline" else None))
            hang.wait_until_entered()
            with pytest.raises(TaskError):
                tree.run(Task("urgent", priority=1), timeout=LONG_S)
            heard(tree)
            if how == "cancel":
                slow.cancel()
            elif how == "deadline":
                clock.advance(30)
            elif how == "stopped":
                tree.terminate_child("shop/team")
                assert "part" in slow.result(timeout=LONG_S).failed
                tree.restart_child("shop/team")  # which finds what it was told meanwhile
            if how in {"cancel", "deadline"}:
                with pytest.raises(TaskError):
                    slow.result(timeout=LONG_S)
            elif how == "nobody waits":
                clock.advance(20)
                assert slow.result(timeout=LONG_S).results == {"part": "did without"}
            elif how == "backup":
                assert slow.result(timeout=LONG_S).results == {"part": "spare"}
            settle(tree)
            open_parts = [each.id for each in tree.tasks() if not each.status.is_final]

    assert open_parts == []
    assert undone == ["urgent", "slow"]


def test_what_a_member_that_cannot_be_cancelled_has_asked_for_is_done_before_its_team_gives_way() -> None:
    def ask(task: Any, context: Any) -> str:
        return str(context.ask_sync("two", "help"))

    with Hang() as hang:
        second = ScriptedExecutable(InTurn(hang, "two"), "helped", by="call")
        plan = [one("two"), one("one")]
        team_of_two = SupervisorSpec(
            id="team",
            tasks=Tasks(planner=lambda *_: plan, on_failure=[]),
            children=[WorkerSpec(id="one", execute=ask), WorkerSpec(id="two", execute=second)],
        )
        spec = shop(
            team_of_two,
            WorkerSpec(id="v", execute=AsyncScriptedExecutable("urgent")),
            plans={"slow": [one("team")], "urgent": [one("v")]},
            max_parallel=1,
        )
        with start(spec) as tree:
            slow = tree.submit(Task("slow", priority=5))
            hang.wait_until_entered()
            until(lambda: "one.1" in slow.dump())
            urgent = submitted(tree, "urgent", priority=1)
            heard(tree, "shop/team")
            before = urgent.report
            hang.release()
            reports = [urgent.result(timeout=LONG_S), slow.result(timeout=LONG_S)]

    assert before is None
    assert reports[0].results == {"v": "urgent"}
    assert reports[1].results == {"team": {"one": "helped", "two": "two"}}


def test_what_a_team_has_asked_for_beyond_all_slots_is_not_interrupted_for_one() -> None:
    """Its end would make no room: it was begun because the team, which may not be interrupted, waits for it."""
    asks = Reply()

    async def ask(task: Any, context: Any) -> str:
        await asks
        return str(await context.ask("helper", "help"))

    helper = AsyncScriptedExecutable("helped")
    spec = shop(
        team("team", WorkerSpec(id="asker", execute=ask)),
        WorkerSpec(id="helper", execute=helper),
        WorkerSpec(id="v", execute=AsyncScriptedExecutable("urgent")),
        plans={"slow": [one("team", preemptible=False)], "urgent": [one("v")]},
        max_parallel=1,
    )
    with start(spec) as tree:
        slow = submitted(tree, "slow", priority=5)
        urgent = submitted(tree, "urgent", priority=1)
        asks.complete()
        reports = [slow.result(timeout=LONG_S), urgent.result(timeout=LONG_S)]
        begun = [each for each in slow.events() if isinstance(each, SubtaskStarted) and each.worker == "helper"]

    assert [report.results for report in reports] == [{"team": {"asker": "helped"}}, {"v": "urgent"}]
    assert len(begun) == 1


def test_the_usage_of_a_team_that_fails_by_itself_while_it_gives_way_is_counted_once() -> None:
    begun = Reply()

    async def fails_when_interrupted(_: object, context: Any) -> None:
        context.use(tokens=5)
        begun.complete()
        try:
            await Reply()
        except asyncio.CancelledError:
            raise ValueError("what it had begun has failed") from None

    urgent = AsyncScriptedExecutable("urgent")
    spec = paused_team(fails_when_interrupted, AsyncScriptedExecutable("two"), urgent)
    with start(spec, clock=ManualClock()) as tree:
        slow = tree.submit(Task("slow", priority=5))
        begun.get(timeout=LONG_S)
        tree.run(Task("urgent", priority=1), timeout=LONG_S)
        with pytest.raises(TaskError, match="what it had begun has failed") as caught:
            slow.result(timeout=LONG_S)

    assert caught.value.report is not None
    assert caught.value.report.usage.tokens == 5
