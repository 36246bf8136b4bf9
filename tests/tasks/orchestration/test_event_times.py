"""How long an attempt took, and an incarnation: told with the event of its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.model.events import ChildExited, Event
from actors.tasks.model.event_base import AttemptEvent
from actors.tasks.model.task_events import SubtaskFailed, SubtaskRetrying, SubtaskSucceeded
from actors.testing import ManualClock, settle
from tests.support.asking import LONG_S
from trees import Retry, StaticPlan, Subtask, SupervisorSpec, TaskFailedError, Tasks, WorkerSpec, start


def ends_of(outcomes: list[Any], tmp_path: Path, *, store: bool, ids: str = "ab") -> list[AttemptEvent]:
    """Events of the ends of all attempts, each of which takes 3 s."""
    clock, left = ManualClock(), iter(outcomes)

    async def works(_: Any, __: Any) -> Any:
        clock.advance(3.0)
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    ladder = [Retry(max_attempts=2)]
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask(id_, worker="w") for id_ in ids]), max_parallel=1),
        children=[WorkerSpec(id="w", execute=works, on_failure=ladder, breaker=None, expected=(ValueError,))],
    )
    url = f"sqlite:///{tmp_path / 'tasks.db'}" if store else None
    heard: list[Event] = []
    with start(spec, clock=clock, store=url) as tree:
        tree.subscribe(heard.append)
        handle = tree.submit("go")
        waits = 0
        while handle.report is None and waits < 100:
            settle(tree)
            clock.advance(1.0)
            waits += 1
        try:
            handle.result(LONG_S)
        except TaskFailedError:
            assert any(isinstance(each, Exception) for each in outcomes)
        kept = [each for each in handle.events() if isinstance(each, AttemptEvent)]
        settle(tree)
    told = [each for each in heard if isinstance(each, AttemptEvent)]
    assert [(type(each), each.queued_s, each.ran_s) for each in kept] == [
        (type(each), each.queued_s, each.ran_s) for each in told
    ]
    return kept


@pytest.mark.parametrize("store", [False, True])
def test_the_end_of_an_attempt_tells_how_long_it_stood_in_line_and_how_long_it_ran(store: bool, tmp_path: Path) -> None:
    first, second = ends_of(["one", "two"], tmp_path, store=store)
    assert isinstance(first, SubtaskSucceeded)
    assert isinstance(second, SubtaskSucceeded)
    assert (first.queued_s, first.ran_s) == (pytest.approx(0.0), pytest.approx(3.0))
    assert second.queued_s >= 3.0, "it waited for the first"
    assert second.ran_s == pytest.approx(3.0)
    assert (first.worker, first.attempt) == ("w", 1)
    assert first.as_dict()["ran_s"] == pytest.approx(3.0)


def test_attempts_that_fail_tell_it_as_well(tmp_path: Path) -> None:
    error = ValueError("no")
    retrying, failed = ends_of([error, error], tmp_path, store=False, ids="a")
    assert isinstance(retrying, SubtaskRetrying)
    assert isinstance(failed, SubtaskFailed)
    for each in (retrying, failed):
        assert each.ran_s == pytest.approx(3.0)
        assert each.worker == "w"


def test_an_exit_tells_how_long_its_incarnation_was_up() -> None:
    clock, heard = ManualClock(), []

    def die(_: Any) -> None:
        raise ValueError

    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=die)]), clock=clock) as tree:
        tree.subscribe(heard.append)
        for lasts_s in (5.0, 2.0):
            clock.advance(lasts_s)
            tree.ref("p/w").tell("die")
            settle(tree)
    exits = [each for each in heard if isinstance(each, ChildExited) and each.error is not None]
    assert [each.lasted_s for each in exits] == [5.0, 2.0]
    assert exits[0].as_dict()["lasted_s"] == 5.0
    assert "lasted_s" not in repr(exits[0])
