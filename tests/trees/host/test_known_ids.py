"""An id that is known starts nothing: its handle says so, other inputs are told, another supervisor's id is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors import Event
from actors.testing import settle
from trees import StaticPlan, Subtask, SupervisorSpec, Task, TaskError, TaskKnownOtherwise, Tasks, WorkerSpec, start

TEAM = SupervisorSpec(id="team", tasks=Tasks(), children=[WorkerSpec(id="b", execute=lambda task, context: "b")])
TREE = SupervisorSpec(
    id="t",
    tasks=Tasks(planner=StaticPlan([Subtask("a")])),
    children=[WorkerSpec(id="a", execute=lambda task, context: f"did {task}"), TEAM],
)
FIRST = Task("one", id="x", inputs={"n": (1, 2), "text": "long" * 40_000})


def url(tmp_path: Path, kind: str) -> str | Path | None:
    return {"memory": None, "file": tmp_path / "tasks.jsonl", "sql": f"sqlite:///{tmp_path}/tasks.db"}[kind]


@pytest.mark.parametrize("kind", ["memory", "file", "sql"])
def test_a_known_id_gives_its_handle_which_says_that_it_is_known(kind: str, tmp_path: Path) -> None:
    heard: list[Event] = []
    with start(TREE, store=url(tmp_path, kind)) as tree:
        tree.subscribe(heard.append)
        new = tree.submit(FIRST)
        again = tree.submit(FIRST)
        many = tree.submit_many([FIRST, Task("two", id="y")])
        settle(tree)

        assert [new.is_known, again.is_known, *(each.is_known for each in many)] == [False, True, True, False]
        assert tree.task("x").is_known
        assert again.result().results["a"] == "did one"
        assert not [event for event in heard if isinstance(event, TaskKnownOtherwise)]


@pytest.mark.parametrize("kind", ["memory", "sql"])
@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"inputs": {"n": [1, 3], "text": "long" * 40_000}}, "inputs"),
        ({"inputs": {"n": [1, 2]}}, "inputs"),
        ({"inputs": {**FIRST.inputs, "more": 1}}, "inputs"),
        ({"goal": "other", "inputs": {}}, "goal and inputs"),
        ({"goal": "other"}, "goal"),
    ],
)
def test_the_same_id_with_another_goal_or_other_inputs_is_a_warning(
    kind: str, other: dict[str, Any], differs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heard: list[Event] = []
    store = url(tmp_path, kind)
    with start(TREE, store=store) as tree:
        tree.run(FIRST)
    with start(TREE, store=store) as tree:
        if kind == "memory":
            tree.run(FIRST)
        tree.subscribe(heard.append)
        report = tree.run(FIRST.model_copy(update=other))
        asyncio.run(_arun(tree, FIRST.model_copy(update=other)))
        settle(tree)

    told = [event for event in heard if isinstance(event, TaskKnownOtherwise)]
    assert report.results["a"] == "did one"
    assert [(event.task, event.differs) for event in told] == [("x", differs)] * 2
    assert capsys.readouterr().err.count("WARNING  t: TaskKnownOtherwise task=x") == 2


async def _arun(tree: Any, task: Task) -> None:
    await tree.arun(task)


@pytest.mark.parametrize("ended", [True, False])
def test_an_id_that_another_supervisor_uses_is_refused_and_says_where_it_is_in_use(ended: bool) -> None:
    with start(TREE) as tree:
        taken = tree.submit(Task("one", id="x"), path="t/team")
        if ended:
            taken.result()
        with pytest.raises(TaskError, match=r"t: cannot take task 'x': t/team has a task of this id"):
            tree.submit(Task("one", id="x"))
        with pytest.raises(TaskError, match="t/team has a task of this id"):
            tree.submit_many([Task("new", id="y"), Task("one", id="x")])

        assert [handle.id for handle in tree.tasks()] == ["x"], "all of many are taken, or none"
        assert tree.submit(Task("one", id="x"), path="t/team") == taken
