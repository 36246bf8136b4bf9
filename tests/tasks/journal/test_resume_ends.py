"""Tasks that are cancelled, that give way, that run out of time or meet an open breaker, in a new process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from actors import Failed
from actors.messaging.reply import Reply
from actors.tasks.journal.store import decode
from actors.testing import ManualClock
from tests.tasks.resuming import Books, Change, Scenario, same_from_every_change, settle_orchestrators
from trees import Breaker, Failover, Retry, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec

AT_ONCE = Retry(max_attempts=2, initial_s=0.0, max_s=0.0, jitter=0.0)


class Cancelled(Scenario):
    """Somebody cancels it half way: one is done, one runs, a team has a part that runs, one is yet to come."""

    def spec(self, books: Books) -> SupervisorSpec:
        def work(task: Any, context: Any) -> str:
            books.work(context)
            return f"did {task.id}"

        async def hang(_: Any, context: Any) -> None:
            books.work(context)
            await asyncio.get_running_loop().create_future()

        def undo(_: Any, result: Any, context: Any) -> None:
            books.undo(context, result)

        worker, hanging = WorkerSpec(id="w", execute=work, undo=undo), WorkerSpec(id="hang", execute=hang, undo=undo)
        inner = StaticPlan([Subtask("w", worker="w"), Subtask("hang", worker="hang", depends_on=["w"])])
        team = SupervisorSpec(id="team", tasks=Tasks(planner=inner, on_failure=[]), children=[worker, hanging])
        plan = [
            Subtask("one", worker="w"),
            Subtask("hang", worker="hang", depends_on=["one"]),
            Subtask("team", "the part of the team", worker="team", depends_on=["one"]),
            Subtask("two", worker="w", depends_on=["hang", "team"]),
        ]
        return SupervisorSpec(
            id="p", tasks=Tasks(planner=StaticPlan(plan), on_failure=[]), children=[worker, hanging, team]
        )

    def meanwhile(self, tree: Tree, books: Books) -> None:
        """Cancel it when both hang."""
        hanging = {"t/hang/1", "t@team:1.1/hang/1"}

        def look() -> None:
            begun = {entry[1] for _, entry in books.entries if entry[0] == "work"}
            if hanging <= begun:
                tree.task("t").cancel("enough")

        books.heard["work"] = look
        look()


def test_a_task_that_is_cancelled_half_way_stays_cancelled_from_every_change() -> None:
    assert same_from_every_change(Cancelled()) > 30


class Broken(Scenario):
    """A worker whose breaker opens after two failures, of two tasks; another one does what is left."""

    tasks = (Task("the goal", id="t"),)

    def spec(self, books: Books) -> SupervisorSpec:
        def weak(_: Any, context: Any) -> None:
            books.work(context, "weak")
            raise Failed("no", retryable=True)

        def strong(task: Any, context: Any) -> str:
            books.work(context, "strong")
            return f"did {task.id}"

        plan = [Subtask(f"s{n}", worker="weak", depends_on=[f"s{n - 1}"] if n else []) for n in range(3)]
        return SupervisorSpec(
            id="p",
            tasks=Tasks(planner=StaticPlan(plan), on_failure=[AT_ONCE, Failover()]),
            children=[
                WorkerSpec(
                    id="weak",
                    execute=weak,
                    backup="strong",
                    breaker=Breaker(failure_threshold=3, window_s=1000.0, cooldown_s=1000.0),
                ),
                WorkerSpec(id="strong", execute=strong),
            ],
        )


def test_a_breaker_opens_after_as_many_failures_as_if_nothing_had_happened_from_every_change() -> None:
    assert same_from_every_change(Broken()) > 20


class GivesWay(Scenario):
    """A worker and a team give way to a task that is more urgent; then they go on."""

    later = ("u",)
    tasks = (Task("later", id="t", priority=5),)
    varying = frozenset({"t/slow/1", "t@team:1.1/part/1"})

    def spec(self, books: Books) -> SupervisorSpec:
        done = Reply()

        async def work(task: Any, context: Any) -> str:
            books.work(context)
            if len([entry for entry in books.counts if entry[1].startswith("u/")]) == 2:
                done.complete()
            if task.id in {"slow", "part"}:
                await done
            return f"did {task.id}"

        workers = [WorkerSpec(id="w", execute=work), WorkerSpec(id="v", execute=work)]
        inner = StaticPlan([Subtask("first", worker="w"), Subtask("part", worker="w", depends_on=["first"])])
        team = SupervisorSpec(id="team", tasks=Tasks(planner=inner, on_failure=[]), children=workers[:1])

        def plan(task: Any, catalogue: Any, feedback: str) -> Any:
            slow = [Subtask("slow", worker="w"), Subtask("team", "the part of the team", worker="team")]
            fast = [Subtask("fast", worker="w"), Subtask("quick", worker="v")]
            return StaticPlan(slow if task.goal == "later" else fast).plan(task, catalogue, feedback)

        return SupervisorSpec(
            id="p", tasks=Tasks(planner=plan, max_parallel=2, on_failure=[]), children=[*workers, team]
        )

    def meanwhile(self, tree: Tree, books: Books) -> None:
        def look() -> None:
            begun = {entry[1] for entry in books.counts}
            if self.varying <= begun:
                tree.submit(Task("now", id="u", priority=0))

        books.heard["work"] = look
        look()


def test_what_gives_way_to_something_urgent_gets_done_from_every_change() -> None:
    assert same_from_every_change(GivesWay()) > 30


class TooLate(Scenario):
    """Its time is up while a worker and a team's worker hang: what they did, or may have done, is undone."""

    tasks = (Task("the goal", id="t", deadline_s=50.0),)
    clock: ManualClock

    def options(self, changes: Sequence[Change]) -> dict[str, Any]:
        times = [decode(*change.record).at for change in changes if change.record is not None]  # type: ignore[attr-defined]
        self.clock = ManualClock(max(times, default=1000.0))
        return {"clock": self.clock}

    def spec(self, books: Books) -> SupervisorSpec:
        return Cancelled().spec(books)

    def meanwhile(self, tree: Tree, books: Books) -> None:
        """Let the time pass when both hang."""
        threading.Thread(target=self._pass, args=(tree, books), daemon=True).start()

    def _pass(self, tree: Tree, books: Books) -> None:
        books.wait_for("work", "t/hang/1")
        books.wait_for("work", "t@team:1.1/hang/1")
        settle_orchestrators(tree)
        self.clock.advance(max(0.0, 1060.0 - self.clock.now()))


def test_a_task_that_is_too_late_ends_at_the_same_time_from_every_change() -> None:
    assert same_from_every_change(TooLate()) > 30
