"""How long finished tasks stay where a tree has no store: as ``keep=`` says, and their parts as long as they."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import Hang, InTurn, ManualClock, ScriptedExecutable, settle
from tests.tasks.dispatching import LONG_S, one, shop
from tests.trees.store.stores import OWNER, submitted
from trees import Keep, SupervisorSpec, Task, TaskCancelledError, Tasks, UnknownTaskError, WorkerSpec, start
from trees.store import MemoryStore


def done(_task: object, _context: object) -> str:
    return "done"


SMALL = shop(WorkerSpec(id="w", execute=done), plans={"go": [one("w")]})


def known(tree: Any) -> list[str]:
    return sorted(handle.id for handle in tree.tasks())


def test_the_newest_finished_tasks_stay_as_many_as_keep_says() -> None:
    with start(SMALL, keep=Keep(count=3)) as tree:
        for n in range(6):
            tree.run(Task("go", id=f"t{n}"), timeout=LONG_S)
        settle(tree)

        assert known(tree) == ["t3", "t4", "t5"]
        with pytest.raises(UnknownTaskError):
            tree.task("t0")
        assert tree.task("t5").result(timeout=LONG_S).results == {"w": "done"}


def test_what_finished_longer_ago_than_keep_says_goes_with_the_next_that_finishes() -> None:
    clock = ManualClock()
    with start(SMALL, keep=Keep(age_s=60.0), clock=clock) as tree:
        for id_, passes in (("old", 50.0), ("young", 20.0), ("last", 0.0)):
            tree.run(Task("go", id=id_), timeout=LONG_S)
            settle(tree)
            clock.advance(passes)

        assert known(tree) == ["last", "young"]


def test_without_limits_all_of_them_stay() -> None:
    with start(SMALL, keep=Keep(age_s=None, count=None)) as tree:
        for n in range(6):
            tree.run(Task("go", id=f"t{n}"), timeout=LONG_S)

        assert len(known(tree)) == 6


@pytest.mark.parametrize("keep", [Keep(count=0), Keep(count=2)])
def test_what_a_team_has_done_for_a_task_that_goes_on_can_be_undone_however_many_tasks_finish_meanwhile(
    keep: Keep,
) -> None:
    undone: list[object] = []
    paid = WorkerSpec(id="m", execute=done, undo=lambda _task, result, _context: undone.append(result))
    team = SupervisorSpec(id="team", tasks=Tasks(), children=[paid])
    with Hang() as hang:
        late = WorkerSpec(id="late", execute=ScriptedExecutable(InTurn(hang, ValueError("no"))), timeout_s=60.0)
        plans = {"go": [one("s", "team"), one("late", depends_on=["s"])], "small": [one("w")]}
        spec = shop(team, late, WorkerSpec(id="w", execute=done), plans=plans)
        with start(spec, keep=keep) as tree:
            handle = tree.submit("go")
            hang.wait_until_entered()
            for _ in range(5):
                tree.run("small", timeout=LONG_S)
            small = [each for each in tree.tasks("succeeded") if each.task.goal == "small"]
            handle.cancel()
            hang.release()
            with pytest.raises(TaskCancelledError):
                handle.result(timeout=LONG_S)

    assert len(small) <= (keep.count or 0)
    assert undone == ["done"]


def test_a_task_that_goes_on_is_not_among_the_finished_until_it_ends_again() -> None:
    store = MemoryStore(Keep(count=1))
    for name in ("a", "b"):
        store.create(name, OWNER, submitted(name))
    store.finish("a")
    store.append("a", submitted("a"))
    store.finish("b")
    went_on = (store.streams(OWNER), store.finished(OWNER))
    store.finish("a")

    assert went_on == (["a"], ["b"])
    assert store.finished(OWNER) == ["a"]
