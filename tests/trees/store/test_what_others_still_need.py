"""A store forgets what it may forget, and nothing that another task still needs."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

from actors.testing import settle
from trees import (
    Keep,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    TaskStatus,
    Tree,
    UnknownTaskError,
    WorkerSpec,
    start,
)

LARGE = "a long text. " * 20_000


def test_a_large_result_stays_when_another_task_that_had_the_same_one_is_removed(tmp_path: Path) -> None:
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    spec = SupervisorSpec(id="t", tasks=tasks, children=[WorkerSpec(id="w", execute=lambda _task: LARGE)])
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    with start(spec, store=url) as tree:
        for id_ in ("one", "two"):
            tree.run(Task("go", id=id_), timeout=60.0)
    with start(spec, store=url) as tree:
        tree.remove_task("one")
    with start(spec, store=url) as tree:
        assert tree.task("two").result(60.0).results == {"a": LARGE}


def test_the_parts_of_teams_do_not_count_among_the_finished_tasks_that_are_kept(tmp_path: Path) -> None:
    inside, plan = StaticPlan([Subtask("a", worker="w")]), StaticPlan([Subtask("all", worker="team")])
    team = SupervisorSpec(
        id="team", tasks=Tasks(planner=inside), children=[WorkerSpec(id="w", execute=lambda task: task)]
    )
    spec = SupervisorSpec(id="t", tasks=Tasks(planner=plan), children=[team])
    url, ids = f"sqlite:///{tmp_path / 'tasks.db'}", [f"task-{n}" for n in range(8)]
    with start(spec, store=url, keep=Keep(count=6)) as tree:
        for id_ in ids:
            tree.run(Task("go", id=id_), timeout=60.0)
        gone, until = set[str](), monotonic() + 60.0
        while "task-1" not in gone and monotonic() < until:  # it forgets when it has nothing else to do
            settle(tree)
            gone = {id_ for id_ in ids if not is_known(tree, id_)}

    assert gone == {"task-0", "task-1"}


def is_known(tree: Tree, id_: str) -> bool:
    try:
        return tree.task(id_).status is TaskStatus.SUCCEEDED
    except UnknownTaskError:
        return False
