"""``regrow check`` warns of code that asks a person where nobody is asked; ``hints`` is the function behind it."""

from __future__ import annotations

from typing import Any

from trees import Escalate, Escalated, Failover, Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec
from trees.declaration.hints import hints


def raises(_: Any, __: Any) -> None:
    raise Escalated("may I?")


def silent(_: Any, __: Any) -> str:
    return "Escalated"


def tree(*on_failure: Any, own: list[Any] | None = None) -> SupervisorSpec:
    member = WorkerSpec(id="member", execute=raises, on_failure=own)
    return SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("asks")]), on_failure=list(on_failure)),
        children=[
            WorkerSpec(id="asks", execute=raises, on_failure=own),
            WorkerSpec(id="quiet", execute=silent),
            SupervisorSpec(id="team", tasks=Tasks(), children=[member]),
            SupervisorSpec(id="apart", children=[WorkerSpec(id="handler", handle=silent)]),
        ],
    )


def test_the_check_warns_where_a_workers_source_raises_escalated_and_its_ladder_asks_nobody() -> None:
    found = hints(tree(Retry(), Failover()))

    assert [each.path for each in found] == ["p/asks.on_failure", "p/team/member.on_failure"]
    assert "Escalate()" in found[0].hint
    assert [each.path for each in hints(tree(Escalate()))] == ["p/team/member.on_failure"]
    assert hints(tree(Retry(), own=[Retry(), Escalate()])) == []
    assert len(hints(tree(Escalate(), own=[Retry()]))) == 2
