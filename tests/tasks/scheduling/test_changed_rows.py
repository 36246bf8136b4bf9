"""CONTRACT 4: a running worker may change its row of the registry, and keeps it over restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors import Worker
from actors.tasks.model.executable import ToolInfo
from actors.testing import settle
from tests.support.crew import crash
from trees import Plan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start


class Learner(Worker):
    """A worker that is told what it can do."""

    def on_receive(self, message: Any) -> None:
        if message == "raise ValueError":
            raise ValueError(message)
        incarnation: Any = self._regrow_incarnation
        said = incarnation.spec.registration
        tools = tuple(ToolInfo(name=name) for name in message)
        incarnation.register(replace(said, capabilities=said.capabilities | set(message), tools=tools))

    def execute(self, task: Any, context: Any) -> Any:
        return task.tool or task.capability


def office(**fields: Any) -> SupervisorSpec:
    spec = WorkerSpec(id="w", actor=Learner, capabilities={"own"}, **fields)
    return SupervisorSpec(id="office", tasks=Tasks(), children=[spec])


def row(tree: Tree) -> Any:
    settle(tree)
    return tree.registry()[0]


def test_a_capability_that_a_running_worker_has_learned_can_be_asked_for() -> None:
    with start(office()) as tree:
        before = row(tree)
        tree.ref("office/w").tell(["paint"])

        assert before.tools is None
        assert row(tree).capabilities == {"own", "paint"}
        plan = Plan([Subtask("a", capability="paint"), Subtask("b", worker="w", tool="paint")])
        assert tree.run(Task("g", plan=plan), timeout=60).results == {"a": "paint", "b": "paint"}


def test_one_that_it_has_lost_cannot() -> None:
    with start(office()) as tree:
        tree.ref("office/w").tell(["paint", "sing"])
        settle(tree)
        tree.ref("office/w").tell(["sing"])

        assert row(tree).capabilities == {"own", "sing"}
        with pytest.raises(Exception, match="no worker has capability 'paint'"):
            tree.run(Task("g", plan=Plan([Subtask("a", capability="paint")])), timeout=60)


def test_its_row_stays_while_it_is_restarted_and_over_a_new_orchestrator() -> None:
    with start(office()) as tree:
        tree.ref("office/w").tell(["paint"])
        crash(tree, "office/w")
        after_restart = row(tree).capabilities
        tree.terminate_child("office/orchestrator")
        tree.restart_child("office/orchestrator")

        assert after_restart == row(tree).capabilities == {"own", "paint"}
        plan = Plan([Subtask("a", capability="paint")])
        assert tree.run(Task("g", plan=plan), timeout=60).results == {"a": "paint"}


def test_of_a_pool_the_row_is_that_of_all() -> None:
    with start(office(pool=3)) as tree:
        tree.ref("office/w#1").tell(["paint"])
        crash(tree, "office/w#2")

        assert row(tree).capabilities == {"own", "paint"}
        assert row(tree).size == 3
