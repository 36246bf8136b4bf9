"""The page of a process that does not lead: it says who does, and not that what is elsewhere is nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from actors import Escalated
from tests.support.hardening import LONG_S
from trees import HA, Approve, Escalate, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start


def _asks(_: Any, context: Any) -> str:
    if not context.answers:
        raise Escalated("May it?")
    return "done"


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("/api/questions/{question}", {"answer": "approve"}),
        ("/api/tasks/{task}/cancel", {}),
        ("/api/children", {"path": "p/w", "act": "restart"}),
    ],
)
def test_an_act_on_the_page_of_a_standby_says_who_leads_and_changes_nothing(
    tmp_path: Path, address: str, body: dict[str, Any]
) -> None:
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")]), on_failure=[Escalate()]),
        children=[WorkerSpec(id="w", execute=_asks)],
    )
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    with start(spec, store=url, ha=HA(name="one")) as leader, start(spec, store=url, ha=HA(name="two")) as standby:
        handle = leader.submit("go")
        question = next(event for event in handle.events() if event.name == "escalation_raised")
        page = standby.serve(port=0)
        at = address.format(question=question.escalation, task=handle.task.id)
        headers = {"Authorization": f"Bearer {page.token}"}
        answer = httpx.post(f"{page.address.rstrip('/')}{at}", json=body, headers=headers, timeout=LONG_S)
        handle.respond(question.escalation, Approve())
        report = handle.result(LONG_S)

    assert answer.status_code == 409
    assert "this process is a standby, 'one' leads" in answer.json()["error"]
    assert report.results == {"a": "done"}
