"""CONTRACT 4, MCP servers: a crash in the middle of what must not be done twice is tried again by nobody."""

from __future__ import annotations

from typing import Any

import pytest

from actors import UnknownEffectError, Worker
from tests.support.hardening import eventually
from trees import (
    Failover,
    Plan,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)

AT_ONCE = Retry(max_attempts=5, initial_s=0.0, max_s=0.0)


@pytest.mark.parametrize(("error", "calls"), [(UnknownEffectError, ["a"]), (ConnectionError, ["a"] * 5 + ["b"] * 5)])
@pytest.mark.parametrize("is_async", [False, True])
def test_neither_retry_nor_failover_does_it_a_second_time(
    error: type[Exception], calls: list[str], is_async: bool
) -> None:
    seen: list[str] = []

    class Pays(Worker):
        def execute(self, task: Any, context: Any) -> Any:
            seen.append(context.path.rpartition("/")[2])
            raise error("the line went dead")

    class PaysAsync(Worker):
        async def execute(self, task: Any, context: Any) -> Any:
            seen.append(context.path.rpartition("/")[2])
            raise error("the line went dead")

    actor = PaysAsync if is_async else Pays
    workers = [
        WorkerSpec(id=id_, actor=actor, capabilities={"pay"}, on_failure=[AT_ONCE, Failover()], breaker=None)
        for id_ in "ab"
    ]
    spec = SupervisorSpec(id="office", tasks=Tasks(), children=workers, max_restarts=100)
    with start(spec) as tree:
        with pytest.raises(TaskFailedError, match="the line went dead"):
            tree.run(Task("g", plan=Plan([Subtask("s", capability="pay")])), timeout=60)

        assert seen == calls
        eventually(lambda: tree.child("office/a").incarnation == 1 + calls.count("a"))  # the report may come before


def test_a_function_may_say_so_as_well_and_its_undo_is_told_that_nobody_knows() -> None:
    seen: list[Any] = []

    def pay(_task: object, _context: object) -> None:
        seen.append("paid")
        raise UnknownEffectError("the line went dead")

    worker = WorkerSpec(id="pay", execute=pay, undo=lambda _task, result, _context: seen.append(("undone", result)))
    spec = SupervisorSpec(id="office", tasks=Tasks(on_failure=[AT_ONCE, Failover()]), children=[worker])
    with start(spec) as tree, pytest.raises(TaskFailedError, match="the line went dead"):
        tree.run("pay", timeout=60)

    assert seen == ["paid", ("undone", None)]


@pytest.mark.parametrize("by", ["team", "asker"])
def test_nor_do_the_ladders_of_the_team_or_the_attempt_that_needs_it(by: str) -> None:
    seen: list[str] = []

    def pay(_task: object, _context: object) -> None:
        seen.append("paid")
        raise UnknownEffectError("the line went dead")

    async def ask(_task: object, context: Any) -> Any:
        return await context.ask("pay", "now")

    ladder = [AT_ONCE, Failover()]
    payer = WorkerSpec(id="pay", execute=pay)
    settings = Tasks(on_failure=ladder, planner=StaticPlan([Subtask("s", worker="pay")]))
    children = {
        "team": [SupervisorSpec(id="team", tasks=settings, children=[payer], backup="other")],
        "asker": [payer, WorkerSpec(id="asker", execute=ask, backup="other")],
    }[by]
    other = WorkerSpec(id="other", execute=lambda _task: seen.append("by another one"))
    spec = SupervisorSpec(id="office", tasks=Tasks(on_failure=ladder), children=[*children, other])
    with start(spec) as tree, pytest.raises(TaskFailedError, match="the line went dead"):
        tree.run(Task("g", plan=Plan([Subtask("s", worker=by)])), timeout=60)

    assert seen == ["paid"]
