"""Ids of users and ids of the library never meet."""

from __future__ import annotations

from typing import Any

from actors import Escalated
from tests.support.hardening import eventually
from tests.trees.store.stores import PATIENCE_S
from trees import Escalate, Plan, Respond, Retry, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start


def team_and_others() -> SupervisorSpec:
    async def work(task: Any, context: Any) -> Any:
        if task.id == "ask" and not context.feedback:
            raise Escalated(f"{context.goal}?")
        return context.feedback or f"did {context.goal}"

    def plan(task: Any, catalogue: Any, feedback: Any = None) -> Plan:
        del catalogue, feedback
        names = {"team": ("order", "shop"), "ask": ("ask", "w"), "fail": ("fail", "bad")}
        id_, worker = names.get(task.goal.partition(" ")[0], ("a", "w"))
        return Plan([Subtask(id_, worker=worker)])

    def bad(*_: Any) -> None:
        raise OSError("x")

    member = WorkerSpec(id="m", execute=work)
    team = SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan([Subtask("x", worker="m")])), children=[member])
    children = [WorkerSpec(id="w", execute=work, on_failure=[Escalate()]), team]
    failing = WorkerSpec(id="bad", execute=bad, on_failure=[Retry(max_attempts=2, initial_s=0.01)])
    return SupervisorSpec(id="p", tasks=Tasks(planner=plan), children=[*children, failing])


def test_questions_of_a_task_are_its_own_whatever_others_are_called() -> None:
    with start(team_and_others()) as tree:
        one, other = (tree.submit(Task("ask", id=id_)) for id_ in ("acme", "acme:1"))
        eventually(lambda: len(tree.escalations()) == 2)

        assert [each.task for each in one.escalations] == ["acme"]
        assert [each.task for each in other.escalations] == ["acme:1"]
        for each in list(tree.escalations()):
            tree.respond(each.id, Respond(each.task))
        assert one.result(PATIENCE_S).results == {"ask": "acme"}
        assert other.result(PATIENCE_S).results == {"ask": "acme:1"}
