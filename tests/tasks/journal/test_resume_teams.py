"""Teams in a new process: what a team has finished stays finished, and no part of a task is done twice or forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

from actors import Failed
from tests.tasks.resuming import Books, Scenario, same_from_every_change
from trees import Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, Tree, WorkerSpec

SOON = Retry(max_attempts=2, initial_s=0.001, factor=1.0, max_s=0.001, jitter=0.0)


def members(books: Books) -> dict[str, Any]:
    async def work(task: Any, context: Any) -> str:
        books.work(context)
        await asyncio.sleep(0)
        return f"did {task} after {sorted(context.results)}"

    def flaky(task: Any, context: Any) -> str:
        books.work(context)
        if context.attempt == 1:
            raise Failed("not yet", retryable=True)
        return f"did {task} at last"

    def fails(_: Any, context: Any) -> None:
        books.work(context)
        raise Failed("it cannot be done", retryable=False)

    def undo(_: Any, result: Any, context: Any) -> None:
        books.undo(context, result)

    async def undo_async(_: Any, result: Any, context: Any) -> None:
        await asyncio.sleep(0)
        books.undo(context, result)

    return {"work": work, "flaky": flaky, "fails": fails, "undo": undo, "undo_async": undo_async}


class Teams(Scenario):
    """A team with retries, two teams that can do the same, one that fails once; and all is undone in the end."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def spec(self, books: Books) -> SupervisorSpec:
        do = members(books)
        worker = WorkerSpec(id="w", execute=do["work"], undo=do["undo"])
        team = SupervisorSpec(
            id="team",
            tasks=Tasks(
                planner=StaticPlan(
                    [
                        Subtask("first", worker="w"),
                        Subtask("second", worker="w", depends_on=["first"]),
                        Subtask("flaky", worker="flaky", depends_on=["first"]),
                    ]
                ),
                on_failure=[SOON],
            ),
            children=[worker, WorkerSpec(id="flaky", execute=do["flaky"], undo=do["undo_async"])],
        )
        twins = [
            SupervisorSpec(
                id=f"twin{n}",
                capabilities={"both"},
                tasks=Tasks(planner=StaticPlan([Subtask("part", worker="w")]), on_failure=[]),
                children=[worker],
            )
            for n in (1, 2)
        ]
        broken = SupervisorSpec(
            id="broken",
            tasks=Tasks(
                planner=StaticPlan([Subtask("part", worker="w"), Subtask("fail", worker="f", depends_on=["part"])]),
                on_failure=[],
            ),
            children=[worker, WorkerSpec(id="f", execute=do["fails"])],
        )
        plan = [
            Subtask("begin", worker="w"),
            Subtask("team", "the part of the team", worker="team", depends_on=["begin"]),
            Subtask("twin", "the part of a twin", capability="both", depends_on=["team"]),
            Subtask("more", "another part of a twin", capability="both", depends_on=["team"]),
            Subtask("broken", "a part that fails", worker="broken", required=self._fails, depends_on=["twin", "more"]),
            Subtask("end", worker="w", depends_on=["broken"]),
        ]
        return SupervisorSpec(
            id="p",
            tasks=Tasks(planner=StaticPlan(plan), on_failure=[]),
            children=[worker, team, *twins, broken],
        )

    def reports(self, tree: Tree) -> dict[str, Any]:
        """Which of the twins is the first to be free is a matter of chance."""
        (report,) = super().reports(tree).values()
        report["graph"] = [
            (id_, status, (worker or "").rstrip("12"), tries) for id_, status, worker, tries in report["graph"]
        ]
        return {"t": report}


def test_teams_go_on_from_every_change() -> None:
    assert same_from_every_change(Teams(fails=False)) > 60


def test_teams_that_are_undone_go_on_from_every_change() -> None:
    assert same_from_every_change(Teams(fails=True)) > 80
