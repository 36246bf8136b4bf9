"""Whose ladder a subtask climbs that several workers can do: that of who had it first since it stood at the foot."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import ScriptedExecutable
from tests.support.attempts import no, shop
from trees import Retry, Subtask, TaskStatus, WorkerSpec

FOUR = Retry(4, initial_s=10.0, factor=1.0, max_s=10.0, jitter=0.0)
PLAN = (Subtask("x", instruction="do x", capability="c"),)


def two(first: ScriptedExecutable, second: ScriptedExecutable, *ladders: Any) -> list[WorkerSpec]:
    """Two workers that can do the same, each with a ladder."""
    return [
        WorkerSpec(id=id_, capabilities={"c"}, execute=script.execute, on_failure=ladder)
        for id_, script, ladder in zip(("w1", "w2"), (first, second), ladders, strict=True)
    ]


@pytest.mark.parametrize("how", ["lives", "crash", "replace"])
def test_it_is_the_same_ladder_where_others_have_tried_meanwhile(how: str) -> None:
    first, second = ScriptedExecutable(no), ScriptedExecutable(no)
    with shop(PLAN, *two(first, second, [FOUR], [])) as it:
        it.submit()
        it.tree.terminate_child("shop/w1")
        it.advance(10.0)
        it.tree.restart_child("shop/w1")
        it.tree.terminate_child("shop/w2")
        if how != "lives":
            it.crash_orchestrator() if how == "crash" else it.replace_orchestrator()
        it.advance(10.0)
        assert it.status("x") == "retrying"
        it.advance(10.0)
        assert it.report().status is TaskStatus.FAILED
    assert (len(first.calls), len(second.calls)) == (3, 1)
