"""A person's no holds for all who need what was refused: no ladder tries it again, or has another one do it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from actors import Escalated
from actors.tasks.journal.fold import fold
from tests.tasks.dispatching import failure, until
from trees import (
    Breaker,
    Escalate,
    Failover,
    Reject,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskFailedError,
    SubtaskStatus,
    SupervisorSpec,
    TaskReopened,
    Tasks,
    Verdict,
    WorkerSpec,
    start,
)
from trees.store import MemoryStore

AGAIN = [Retry(max_attempts=3, initial_s=0.0, max_s=0.0, jitter=0.0), Failover()]


class Deploys:
    """A worker that wants a person's leave, and takes any answer for that."""

    def __init__(self) -> None:
        self.calls = 0

    def execute(self, _task: object, context: Any) -> str:
        self.calls += 1
        if not context.answers:
            raise Escalated("deploy it?")
        return "deployed"


def house(worker: WorkerSpec | SupervisorSpec, *others: WorkerSpec) -> SupervisorSpec:
    plan = StaticPlan([Subtask("ship", worker=worker.id)])
    return SupervisorSpec(id="house", tasks=Tasks(planner=plan, on_failure=AGAIN), children=[worker, *others])


def denied(
    spec: SupervisorSpec, breaker: str | None = "closed", store: MemoryStore | None = None
) -> tuple[int, dict[str, str]]:
    """Say no to each question; how many there were, and what has failed. The breaker of who was given it stands so."""
    asked, given = 0, spec.children[0].id
    with start(spec, store=store) as tree:
        handle = tree.submit("ship it")
        while True:
            until(lambda: handle.escalations or handle.report)
            if handle.report is not None:
                assert {row.id: row.breaker for row in tree.registry()}[given] == breaker
                return asked, failure(handle).failed
            for question in handle.escalations:
                asked += 1
                handle.respond(question.id, Reject("too early"))


def test_a_team_whose_member_was_refused_is_not_tried_again_and_nobody_stands_in_for_it() -> None:
    deploys, stands_in = Deploys(), Deploys()
    crew = SupervisorSpec(
        id="crew",
        backup="other",
        breaker=Breaker(failure_threshold=1),
        tasks=Tasks(planner=StaticPlan([Subtask("deploy", worker="deploy")])),
        children=[WorkerSpec(id="deploy", execute=deploys.execute, on_failure=[Escalate()])],
    )

    asked, failed = denied(house(crew, WorkerSpec(id="other", execute=stands_in.execute)))

    assert (asked, deploys.calls, stands_in.calls) == (1, 1, 0)
    assert "a person said no: too early" in failed["ship"]


@pytest.mark.parametrize("in_a_group", [False, True])
def test_an_attempt_that_lets_the_refusal_through_is_not_tried_again_and_nobody_stands_in_for_it(
    in_a_group: bool,
) -> None:
    deploys, asks = Deploys(), []

    async def ask(_task: object, context: Any) -> Any:
        asks.append(context.attempt)
        if not in_a_group:
            return await context.ask("deploy", "now")
        async with asyncio.TaskGroup() as group:
            asked_in_it = group.create_task(context.ask("deploy", "now"))
        return asked_in_it.result()

    asked, failed = denied(
        house(
            WorkerSpec(id="ask", execute=ask, backup="other"),
            WorkerSpec(id="deploy", execute=deploys.execute, on_failure=[Escalate()]),
            WorkerSpec(id="other", execute=ask),
        )
    )

    assert (asked, deploys.calls, asks) == (1, 1, [1])
    assert in_a_group or "a person said no: too early" in failed["ship"]


@pytest.mark.parametrize("fails", [True, False], ids=["reviewer fails", "reviewer says no"])
def test_a_team_whose_review_was_refused_is_not_tried_again(fails: bool) -> None:
    calls: list[str] = []

    def work(_task: object, _context: object) -> str:
        calls.append("work")
        return "done"

    def review(*_: object) -> Verdict:
        if fails:
            raise OSError("no model")
        return Verdict(passed=False, checks=[{"subtask": "deploy", "passed": False, "feedback": "no tests"}])  # type: ignore[list-item]

    settings = Tasks(
        planner=StaticPlan([Subtask("deploy", worker="deploy")]),
        reviewer=review,
        max_iterations=1,
        on_rejected="escalate",
        on_step_failure="escalate",
        step_retry=Retry(max_attempts=1),
    )
    member = WorkerSpec(id="deploy", execute=work)
    crew = SupervisorSpec(id="crew", tasks=settings, children=[member], breaker=Breaker(failure_threshold=1))

    asked, failed = denied(house(crew), "open" if fails else "closed")

    assert (asked, calls) == (1, ["work"])
    assert "a person said no: too early" in failed["ship"]


def test_an_attempt_that_is_tried_again_for_something_else_is_told_the_refusal_once_more() -> None:
    deploys, heard = Deploys(), []

    async def ask(_task: object, context: Any) -> Any:
        try:
            heard.append(await context.ask("deploy", "now"))
        except SubtaskFailedError as refusal:
            heard.append(refusal.kind)
        raise ValueError("something else")

    asked, failed = denied(
        house(
            WorkerSpec(id="ask", execute=ask, breaker=None),
            WorkerSpec(id="deploy", execute=deploys.execute, on_failure=[Escalate()]),
        ),
        None,
    )

    assert (asked, deploys.calls, heard) == (1, 1, ["denied"] * 3)
    assert "something else" in failed["ship"]


def house_of_a_refused_member(deploys: Deploys, calls: list[int]) -> SupervisorSpec:
    """A team of a member that may be refused, and of one that fails each time."""

    def fails(_task: object, context: Any) -> None:
        calls.append(context.attempt)
        raise ValueError("something else")

    plan = StaticPlan(
        [
            Subtask("deploy", worker="deploy", required=False),
            Subtask("fails", worker="fails", depends_on=["deploy"]),
        ]
    )
    members = [
        WorkerSpec(id="deploy", execute=deploys.execute, on_failure=[Escalate()]),
        WorkerSpec(id="fails", execute=fails, on_failure=[Retry(max_attempts=1)], breaker=None),
    ]
    return house(SupervisorSpec(id="crew", tasks=Tasks(planner=plan), children=members, breaker=None))


def test_a_refused_member_is_not_begun_again_where_its_team_is_tried_again_for_another_one() -> None:
    deploys, calls = Deploys(), []

    asked, failed = denied(house_of_a_refused_member(deploys, calls), None)

    assert (asked, deploys.calls, calls) == (1, 1, [1, 2, 3])
    assert "something else" in failed["ship"]


def test_a_part_that_an_older_version_had_begun_again_is_read_as_it_was() -> None:
    store = MemoryStore()
    denied(house_of_a_refused_member(Deploys(), []), None, store)
    [part] = store.finished("house/crew")
    records = list(store.read(part))
    at = next(n for n, record in enumerate(records) if isinstance(record, TaskReopened))

    as_now = fold(part, records[: at + 1])
    as_then = fold(part, [*records[:at], replace(records[at], refused_stay=False)])

    assert as_now.nodes["deploy"].status is SubtaskStatus.FAILED
    assert as_then.nodes["deploy"].status is SubtaskStatus.PENDING
