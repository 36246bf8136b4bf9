"""A task that only waits for a person says so, wherever in it the question stands."""

from __future__ import annotations

from typing import Any

from actors import Escalated
from actors.testing import Hang
from tests.support.crew import LONG_S, until
from tests.tasks.dispatching import one, shop
from trees import Escalate, Respond, StaticPlan, SupervisorSpec, Tasks, WorkerSpec, start


def asks(_: Any, context: Any) -> str:
    if context.feedback:
        return str(context.feedback)
    raise Escalated("may I?")


ASKS = WorkerSpec(id="asks", execute=asks, on_failure=[Escalate()])
TEAM = SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan([one("asks")])), children=[ASKS])


def test_a_task_whose_other_subtasks_depend_on_the_question_waits() -> None:
    plan = [one("asks"), one("after", worker="asks", depends_on=["asks"])]
    with start(shop(ASKS, plans={"go": plan})) as tree:
        handle = tree.submit("go")
        until(lambda: handle.escalations)
        assert handle.status == "waiting"
        assert [each.id for each in tree.tasks("waiting")] == [handle.id]
        handle.cancel()


def test_a_task_of_which_something_else_still_runs_does_not_wait_before_that_has_ended() -> None:
    async def holds(_: Any, __: Any) -> None:
        await hang.hold_async()

    with Hang() as hang:
        spec = shop(ASKS, WorkerSpec(id="holds", execute=holds), plans={"go": [one("asks"), one("holds")]})
        with start(spec) as tree:
            handle = tree.submit("go")
            hang.wait_until_entered()
            until(lambda: handle.escalations)
            assert handle.status == "running"
            hang.release()
            until(lambda: handle.status == "waiting")
            handle.respond(handle.escalations[0].id, Respond("yes"))
            assert handle.result(LONG_S).results["asks"] == "yes"


def test_a_task_whose_team_waits_for_a_person_waits() -> None:
    plan = [one("team"), one("after", worker="team", depends_on=["team"])]
    with start(shop(TEAM, plans={"go": plan})) as tree:
        handle = tree.submit("go")
        until(lambda: handle.escalations)
        until(lambda: handle.status == "waiting")
        handle.cancel()


def test_a_task_whose_subtask_waits_for_what_it_has_asked_for_and_that_for_a_person_waits() -> None:
    async def delegates(_: Any, context: Any) -> Any:
        return await context.ask("asks", "please")

    spec = shop(ASKS, WorkerSpec(id="delegates", execute=delegates), plans={"go": [one("delegates")]})
    with start(spec) as tree:
        handle = tree.submit("go")
        until(lambda: handle.escalations)
        until(lambda: handle.status == "waiting")
        handle.respond(handle.escalations[0].id, Respond("yes"))
        assert handle.result(LONG_S).results["delegates"] == "yes"
