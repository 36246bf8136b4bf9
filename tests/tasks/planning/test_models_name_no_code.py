"""The plan of a model names workers: code that it names ("module:attr") is never imported."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import ScriptedExecutable
from trees import ModelPlanner, PlanError, SupervisorSpec, Tasks, WorkerSpec, start


def test_a_plan_of_a_model_whose_undo_names_code_is_refused_and_one_that_names_a_worker_is_not() -> None:
    asked: list[str] = []

    def answer(undo: str) -> Any:
        def call(prompt: str, _schema: dict[str, Any]) -> dict[str, Any]:
            asked.append(prompt)
            return {"subtasks": [{"id": "a", "instruction": "do it", "worker": "w", "undo": undo}]}

        return call

    work = ScriptedExecutable("done")
    children = [WorkerSpec(id=id_, execute=work.execute) for id_ in ("w", "u")]
    refused = SupervisorSpec(id="t", tasks=Tasks(planner=ModelPlanner(answer("os:getcwd"))), children=children)
    with start(refused) as tree, pytest.raises(PlanError, match="a model may name no code"):
        tree.run("go", timeout=60.0)
    assert not work.calls
    assert "a model may name no code" in asked[-1]  # so that it can do better

    taken = SupervisorSpec(id="t", tasks=Tasks(planner=ModelPlanner(answer("u"))), children=children)
    with start(taken) as tree:
        assert tree.run("go", timeout=60.0).results == {"a": "done"}
