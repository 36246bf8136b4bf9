"""An ask of a helper that was stopped first, in a group that restarts: nobody waits for it until he is killed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import actors
from actors import ChildExited
from actors.testing import Hang
from tests.support.crew import LONG_S, Record, faulty
from trees import (
    Retry,
    StaticPlan,
    Subtask,
    SubtaskFailed,
    SubtaskRetrying,
    SupervisorSpec,
    Task,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)


class Helper:
    """Does what it is asked for, but for the first time: then it works until it is stopped."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.calls = 0

    def fails_of_its_stop(self, *_: object) -> str:
        self.calls += 1
        if self.calls == 1:
            self.begun.set()
            while not actors.sleep(0.05):
                pass
            raise ValueError("it was stopped")
        return "helped"

    async def is_broken_off(self, *_: object) -> str:
        self.calls += 1
        if self.calls == 1:
            self.begun.set()
            await asyncio.Event().wait()
        return "helped"


def asks(_: object, context: Any) -> Any:
    return context.ask_sync("helper", "help")


async def asks_async(_: object, context: Any) -> Any:
    return await context.ask("helper", "help")


ASKERS = pytest.mark.parametrize("asks", [asks, asks_async])


def asker(execute: Callable[..., Any]) -> WorkerSpec:
    return WorkerSpec(id="asker", execute=execute, shutdown="infinity")


def shop(*children: WorkerSpec | SupervisorSpec, strategy: Any = "one_for_all", plan: str = "asker") -> SupervisorSpec:
    tasks = Tasks(planner=StaticPlan([Subtask(plan)]), on_failure=[Retry(3, initial_s=0.0, max_s=0.0, jitter=0.0)])
    return SupervisorSpec(id="shop", strategy=strategy, tasks=tasks, children=[faulty("culprit"), *children])


def restart(tree: Tree, helper: Helper) -> None:
    """Have the group restart while the helper is at work."""
    assert helper.begun.wait(LONG_S)
    tree.ref("shop/culprit").tell("raise ValueError")


HELPERS = pytest.mark.parametrize("does", ["fails_of_its_stop", "is_broken_off"])


@pytest.mark.slow
@ASKERS
@HELPERS
@pytest.mark.parametrize(
    ("strategy", "words"), [("one_for_all", {"pool": 2}), ("rest_for_one", {})], ids=["all, a pool", "rest, a worker"]
)
def test_whoever_waits_for_a_helper_that_was_stopped_first_is_stopped_at_once_and_both_go_on(
    asks: Any, does: str, strategy: str, words: dict[str, Any], tmp_path: Path
) -> None:
    helper = Helper()
    spec = shop(asker(asks), WorkerSpec(id="helper", execute=getattr(helper, does), **words), strategy=strategy)

    with start(spec, store=f"sqlite:///{tmp_path}/s.db") as tree:
        record = Record(tree)
        handle = tree.submit(Task("go"))
        restart(tree, helper)
        report = handle.result(timeout=LONG_S)

        assert report.results == {"asker": "helped"}
        assert record.exits("shop/asker") == ["shutdown"]
        assert helper.calls == 2
        assert not record.of(SubtaskFailed)
        assert [event.subtask for event in record.of(SubtaskRetrying)] in ([], ["asker/@1"])


@ASKERS
@HELPERS
def test_a_member_of_a_team_is_stopped_at_once_that_waits_for_a_helper_above(asks: Any, does: str) -> None:
    helper = Helper()
    team = SupervisorSpec(
        id="team", tasks=Tasks(planner=StaticPlan([Subtask("asker")])), children=[asker(asks)], shutdown="infinity"
    )
    spec = shop(team, WorkerSpec(id="helper", execute=getattr(helper, does)), plan="team")

    with start(spec) as tree:
        record = Record(tree)
        handle = tree.submit(Task("go"))
        restart(tree, helper)
        report = handle.result(timeout=LONG_S)

        assert report.results == {"team": {"asker": "helped"}}
        assert record.exits("shop/team/asker") == ["shutdown"]
        assert helper.calls == 2


@ASKERS
def test_whoever_waits_for_a_helper_that_is_no_part_of_the_group_has_its_answer(asks: Any) -> None:
    hang, calls = Hang(), list[str]()

    def helps(*_: object) -> str:
        calls.append("call")
        hang.hold()
        return "helped"

    spec = SupervisorSpec(
        id="shop",
        strategy="rest_for_one",
        tasks=Tasks(planner=StaticPlan([Subtask("asker")]), on_failure=[]),
        children=[WorkerSpec(id="helper", execute=helps), faulty("culprit"), asker(asks), faulty("last")],
    )
    with hang, start(spec) as tree:
        record = Record(tree)
        handle = tree.submit(Task("go"))
        hang.wait_until_entered()
        tree.ref("shop/culprit").tell("raise ValueError")
        record.wait_for(ChildExited, "shop/last")  # it is stopped before the asker
        hang.release()
        report = handle.result(timeout=LONG_S)

    assert report.results == {"asker": "helped"}
    assert calls == ["call"]
