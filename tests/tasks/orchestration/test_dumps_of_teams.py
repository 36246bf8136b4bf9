"""``handle.dump()`` shows what happens inside teams under the subtask that they were given, in every format."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from actors import Escalated
from actors.testing import settle
from tests.support.attempts import LONG_S
from trees import Escalate, Respond, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

SEEN: list[tuple[str, str]] = []


def asks(task: Any, context: Any) -> str:
    SEEN.append((context.task_id, context.path))
    if not context.feedback:
        raise Escalated("May I?")
    return "yes"


def works(task: Any, context: Any) -> str:
    SEEN.append((context.task_id, context.path))
    return "done"


def team(id_: str, plan: list[Subtask], *children: Any) -> SupervisorSpec:
    return SupervisorSpec(id=id_, tasks=Tasks(planner=StaticPlan(plan)), children=children)


def house() -> SupervisorSpec:
    """A team, and a worker that needs what it has done."""
    inner = [Subtask("asks"), Subtask("then", worker="w", depends_on=["asks"])]
    members = [WorkerSpec(id="asks", execute=asks, on_failure=[Escalate()]), WorkerSpec(id="w", execute=works)]
    plan = [Subtask("team"), Subtask("last", worker="w", depends_on=["team"])]
    return team("p", plan, team("team", inner, *members), WorkerSpec(id="w", execute=works))


def without_times(text: str) -> str:
    return re.sub(r"\d+\.\d s", "T s", text)


RUNNING = """\
task t                      waiting   go   T s
├─ team             team    waiting   queued T s, ran T s
│  ├─ asks          asks    waiting   May I?   queued T s, ran T s
│  └─ then          w       pending   after asks
└─ last             w       pending   after team
asks t:team/asks:1, about team/asks: May I?"""
FLAT = """\
task t                      waiting   go   T s
├─ team             team    waiting   queued T s, ran T s
└─ last             w       pending   after team"""
DONE = """\
task t                      succeeded   go   T s
├─ team             team    succeeded   queued T s, ran T s
│  ├─ asks          asks    succeeded   attempts 2   queued T s, ran T s
│  └─ then          w       succeeded   after asks   queued T s, ran T s
└─ last             w       succeeded   after team   queued T s, ran T s"""


def columns(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_dump_of_a_run_includes_what_happens_inside_teams_indented(kind: str, tmp_path: Any) -> None:
    url = None if kind == "memory" else f"sqlite:///{tmp_path / 's.db'}"
    with start(house(), store=url) as tree:
        handle = tree.submit(Task("go", id="t"))
        settle(tree)
        running, flat = handle.dump(), handle.dump(deep=False)
        handle.respond(handle.escalations[0].id, Respond("yes"))
        handle.result(LONG_S)
        done, data = handle.dump(), json.loads(handle.dump("json"))

    assert columns(without_times(running)) == columns(RUNNING)
    assert columns(without_times(flat)) == columns(FLAT)
    assert columns(without_times(done)) == columns(DONE)
    inner = data["subtasks"][0]["part"]
    assert [each["id"] for each in inner["subtasks"]] == ["asks", "then"]
    assert (inner["path"], inner["task_id"]) == ("p/team", "t")
    assert data["subtasks"][1]["part"] is None
    if url is not None:  # what an earlier process has done
        with start(house(), store=url) as tree:
            assert columns(without_times(tree.task("t").dump())) == columns(DONE)


def test_the_graph_of_a_run_has_the_subtasks_of_its_teams_and_dashed_arrows_to_them() -> None:
    with start(house()) as tree:
        handle = tree.submit(Task("go", id="t"))
        settle(tree)
        lines = handle.dump("mermaid").splitlines()
        flat = handle.dump("mermaid", deep=False)

    names = [re.match(r"  (n\d+)\[", line) for line in lines]
    found = [each.group(1) for each in names if each is not None]
    assert len(found) == len(set(found)) == 4
    assert "  n0 -.-> n2" in lines
    assert "  n2 --> n3" in lines
    assert "-.->" not in flat


def test_a_worker_knows_its_path_and_the_task_that_its_events_have() -> None:
    SEEN.clear()
    with start(house()) as tree:
        handle = tree.submit(Task("go", id="t"))
        settle(tree)
        handle.respond(handle.escalations[0].id, Respond("yes"))
        handle.result(LONG_S)
        tasks = {event.task for event in handle.events()}

    assert SEEN == [("t", "p/team/asks"), ("t", "p/team/asks"), ("t", "p/team/w"), ("t", "p/w")]
    assert {task for task, _ in SEEN} == tasks
