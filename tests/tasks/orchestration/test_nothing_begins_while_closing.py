"""A team that is being stopped makes no step and no undo.

Nobody would begin it, and where the team is deleted it would be left for ever.
"""

from __future__ import annotations

import threading
from typing import Any

import actors
from actors.testing import settle
from tests.support.asking import LONG_S, does
from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, Tree, WorkerSpec, start


class Busy:
    """A sync worker that hears of its stop, and ends when the test wants it to."""

    def __init__(self) -> None:
        self.begun, self.stopping, self.may_end = (threading.Event() for _ in range(3))

    def __call__(self, *_: Any) -> str:
        self.begun.set()
        assert actors.sleep(LONG_S)  # until it is to stop
        self.stopping.set()
        assert self.may_end.wait(LONG_S)
        return "done"


def shop(planner: Any, *members: WorkerSpec) -> SupervisorSpec:
    team = SupervisorSpec(id="team", tasks=Tasks(planner=planner, on_failure=[]), children=members)
    return SupervisorSpec(id="p", tasks=Tasks(), children=[team, WorkerSpec(id="w", execute=does)])


def stop_team(tree: Tree, busy: Busy) -> threading.Thread:
    """Its orchestrator hears that all stops, then the worker does; this one goes on."""
    thread = threading.Thread(target=tree.terminate_child, args=("p/team",))
    thread.start()
    assert busy.stopping.wait(LONG_S)
    return thread


def assert_nothing_is_left_of_the_team(tree: Tree, busy: Busy, stops: threading.Thread) -> None:
    busy.may_end.set()
    stops.join(LONG_S)
    tree.delete_child("p/team")
    settle(tree)


def test_an_undo_that_became_due_while_its_team_was_stopped_is_not_left_behind() -> None:
    busy, undone = Busy(), threading.Event()
    member = WorkerSpec(id="m", execute=busy, undo=lambda *_: undone.set(), shutdown=LONG_S)
    with start(shop(StaticPlan([Subtask("part", worker="m")]), member)) as tree:
        handle = tree.submit("the goal", "p/team")
        assert busy.begun.wait(LONG_S)
        stops = stop_team(tree, busy)
        handle.cancel().get()

        assert_nothing_is_left_of_the_team(tree, busy, stops)

    assert not undone.is_set()
