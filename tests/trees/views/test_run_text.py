"""The text of a run costs no more than what stands in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.attempts import LONG_S
from trees import Plan, Subtask, SubtaskReport, SubtaskStatus, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.host.run_dump import view_run
from trees.views.run_text import draw


class Counted(tuple[SubtaskReport, ...]):
    """Subtasks that count how often somebody goes through all of them."""

    __slots__ = ()
    walks = 0

    def __iter__(self) -> Iterator[SubtaskReport]:
        type(self).walks += 1
        return super().__iter__()


def walks(subtasks: int, format: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often all subtasks of a run are gone through to draw it."""
    monkeypatch.setattr(Counted, "walks", 0)
    plan = Plan([Subtask(f"s{number}", worker="w") for number in range(subtasks)])
    work: Any = lambda task: "done"  # noqa: E731
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=work)])) as tree:
        handle = tree.submit(Task("go", plan=plan))
        report = handle.result(LONG_S)
        view = view_run(tree._tasks.port(None), report, deep=True)
    counted = dataclasses.replace(view, subtasks=Counted(view.subtasks))
    assert {each.status for each in view.subtasks} == {SubtaskStatus.SUCCEEDED}
    assert draw(counted, format) == draw(view, format)
    return Counted.walks


@pytest.mark.parametrize("format", ["text", "mermaid", "json"])
def test_a_run_is_drawn_in_as_many_looks_at_its_subtasks_however_many_there_are(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert walks(40, format, monkeypatch) == walks(3, format, monkeypatch) > 0
