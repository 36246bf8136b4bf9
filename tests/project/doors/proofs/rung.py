"""A subtask climbs a ladder with a rung of a new kind, also in a process that goes on with the task of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors import Failed
from actors.tasks.model.rung_again import Again
from trees import (
    Approve,
    Escalate,
    EscalationRaised,
    StaticPlan,
    Subtask,
    SubtaskRetrying,
    SupervisorSpec,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)

STORE = f"sqlite:///{Path('tasks.db').absolute()}"
calls: list[int] = []


def work(_: Any, context: Any) -> str:
    calls.append(context.attempt)
    if len(calls) < 4:
        raise Failed("not yet")
    return "done"


def tree_of(*ladder: Any) -> SupervisorSpec:
    planner = StaticPlan([Subtask("a", worker="w")])
    worker = WorkerSpec(id="w", execute=work, on_failure=list(ladder), breaker=None)
    return SupervisorSpec(id="p", tasks=Tasks(planner=planner), children=[worker])


with start(tree_of(Again(times=1))) as tree:
    try:
        tree.run("do it", timeout=60)
    except TaskFailedError:
        assert calls == [1, 2], calls
    else:
        raise AssertionError("there was one attempt too many")

calls.clear()
retried: list[tuple[int, int]] = []
with start(tree_of(Again(times=2), Escalate()), store=STORE) as tree:
    handle = tree.submit("do it")
    for event in handle.events():
        if isinstance(event, SubtaskRetrying):
            retried.append((event.standing.rung, event.standing.tries))
        if isinstance(event, EscalationRaised):
            break
assert retried == [(0, 1), (0, 2)], retried

with start(tree_of(Again(times=2), Escalate()), store=STORE) as tree:
    (handle,) = tree.resumed()
    (question,) = handle.escalations
    tree.respond(question.id, Approve())
    assert handle.result(timeout=60).output == {"a": "done"}
assert len(calls) == 4, calls
print("works")
