"""What gave way to something more urgent: its place in the queue, its time, and what becomes of a team's part of it."""

from __future__ import annotations

from typing import Any

from actors.testing import AsyncScriptedExecutable, Hang, ManualClock
from tests.tasks.dispatching import LONG_S, one, shop, submitted
from trees import SupervisorSpec, Task, Tasks, WorkerSpec, start


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
