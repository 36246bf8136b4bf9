"""Tasks in the dump of their tree, and what looking costs."""

from __future__ import annotations

import json
import re

import pytest

from actors.testing import Hang, settle
from tests.support.crew import LONG_S, Record, running
from tests.tasks.task_crew import GOAL, done, holding, idle, submitted, team
from trees import (
    StaticPlan,
    Subtask,
    SubtaskQueued,
    SupervisorSpec,
    TaskError,
    Tasks,
    WorkerSpec,
    start,
)
from trees.views.snapshot import TreeSnapshot
from trees.views.tree_text import render

# -- in the dump of the tree -------------------------------------------------------------------------------


def test_the_dump_of_a_tree_shows_its_tasks_under_their_supervisor_and_forgets_them_when_they_end() -> None:
    subtasks = (
        Subtask("a", worker="w"),
        Subtask("b", worker="slow", depends_on=["a"]),
        Subtask("c", worker="w", depends_on=["b"]),
    )
    with Hang() as hang, running(team(*subtasks, workers={"w": done, "slow": holding(hang)})) as tree:
        settle(tree)
        before = tree.dump()
        task = submitted(tree)
        hang.wait_until_entered()
        idle(tree)
        during, verbose = tree.dump(), tree.dump(verbose=True)
        hang.release()
        task.result(LONG_S)
        settle(tree)
        after = tree.dump()

    assert during == (
        "shop                one_for_one   running   restarts 0/3 in 5 s\n"
        "│  ◦ task t1                      running   succeeded 1, running 1, pending 1\n"
        "│    ◦ b            slow          running\n"
        "├─ orchestrator     permanent     running   incarnation 1\n"
        "├─ w                permanent     running   incarnation 1\n"
        "└─ slow             permanent     running   incarnation 1"
    )
    assert re.search(r"◦ b +slow +running   40 % reading the \\x1b\[31mfile   for \d+\.\d s\n", verbose)
    assert "task" not in before
    assert after == before.replace("restarts 0/3 in 5 s\n", "restarts 0/3 in 5 s   tasks finished 1\n", 1)
    assert GOAL not in during + verbose + after


def test_a_dump_shows_five_tasks_and_ten_subtasks_and_counts_the_others() -> None:
    subtasks = [Subtask(f"s{number}", worker="slow") for number in range(12)]
    with Hang() as hang:
        slow = WorkerSpec(id="slow", execute=holding(hang), pool=12)
        with running(team(*subtasks, workers={"slow": slow}, max_parallel=12)) as tree:
            record = Record(tree)
            for number in range(1, 10):
                submitted(tree, f"t{number}")
            for _ in range(12):
                hang.wait_until_entered()
            record.wait_for(SubtaskQueued, count=9 * 12)
            idle(tree)
            lines, shown = tree.dump().splitlines(), tree.snapshot()
            drawn = render(shown).splitlines()
            hang.release()

    assert [line.split()[3] for line in lines if "task t" in line] == ["t1", "t2", "t3", "t4", "t5"]
    assert sum("◦ s" in line for line in lines) == 10
    assert lines[12] == "│    ... and 2 more"
    assert lines[17] == "│  ... and 4 more"
    assert lines[13].split(" task ")[1].split() == ["t2", "running", "queued", "12"]
    assert drawn == lines
    assert len(shown.top.tasks or ()) == 9  # type: ignore[union-attr]


def test_a_snapshot_has_every_task_and_survives_the_way_through_json_without_a_goal() -> None:
    with Hang() as hang, running(team(Subtask("a", worker="w"), workers={"w": holding(hang)})) as tree:
        submitted(tree)
        hang.wait_until_entered()
        snapshot = tree.snapshot()
        text = tree.dump(format="json")
        graph = tree.dump(format="mermaid")
        hang.release()

    assert TreeSnapshot.model_validate_json(snapshot.model_dump_json()) == snapshot
    assert json.loads(text)["top"]["tasks"][0]["counts"] == {"running": 1}
    assert json.loads(text)["top"]["tasks"][0]["subtasks"][0]["progress"] == 0.4
    assert GOAL not in text + graph
    assert "t1" not in graph


def test_a_task_for_a_supervisor_without_tasks_is_refused_with_those_that_take_some() -> None:
    office = SupervisorSpec(id="office", tasks=Tasks(), children=[WorkerSpec(id="w", execute=lambda _: "done")])
    with start(SupervisorSpec(id="shop", children=[office])) as tree, pytest.raises(TaskError) as refused:
        tree.submit("go")
    assert str(refused.value) == (
        "shop: has no orchestrator, so it takes no tasks. Say with path= which supervisor does it (shop/office), "
        "or declare it with tasks=Tasks()."
    )


def test_a_team_shows_its_part_of_the_task_under_its_own_line() -> None:
    with Hang() as hang:
        inner = SupervisorSpec(
            id="team",
            tasks=Tasks(planner=StaticPlan([Subtask("deep", worker="slow")])),
            children=[WorkerSpec(id="slow", execute=holding(hang))],
        )
        with running(team(Subtask("part", worker="team"), workers={"team": inner})) as tree:
            task = submitted(tree)
            hang.wait_until_entered()
            lines = tree.dump().splitlines()
            hang.release()
            task.result(LONG_S)
            settle(tree)
            after = tree.dump()

    assert next(line.split()[1:3] for line in lines if "task" in line) == ["◦", "task"]
    assert re.search(r"^│    ◦ part +team +running$", "\n".join(lines), re.MULTILINE)
    assert re.search(r"^   │    ◦ deep +slow +running$", "\n".join(lines), re.MULTILINE)
    assert after.count("tasks finished 1") == 1


def test_a_tree_that_is_down_still_shows_what_was_not_finished() -> None:
    with Hang() as hang, running(team(Subtask("a", worker="w"), workers={"w": holding(hang)})) as tree:
        task = submitted(tree)
        hang.wait_until_entered()
        tree.stop()
        text, run = tree.dump(), task.dump()

    assert "◦ task t1" in text
    assert run.startswith("task t1 ")


# -- under load --------------------------------------------------------------------------------------------
