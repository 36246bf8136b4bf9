"""Preemption: what is urgent takes the place of what is not, and nothing is lost or counted (point 11)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.testing import AsyncScriptedExecutable, Hang, InTurn, ManualClock, ScriptedExecutable
from tests.support.crew import Record
from tests.tasks.dispatching import LONG_S, heard, kinds, one, shop, submitted
from trees import (
    Breaker,
    Retry,
    SubtaskRequeued,
    Task,
    WorkerSpec,
    start,
)

SHORT = {"slot": 1, "worker": 10}
"""What there is too little of, and the ``max_parallel`` that makes it so."""
SCARCE = pytest.mark.parametrize("max_parallel", SHORT.values(), ids=SHORT)
PLANS = {"slow": [one("slow", "w")], "urgent": [one("urgent", "w")], "other": [one("other", "v")]}


def two(script: Any, other: Any = None, *, plans: Any = None, words: dict[str, Any] | None = None, **tasks: Any) -> Any:
    """A root with the worker ``w``, for which two tasks compete, and another one."""
    worker = WorkerSpec(id="w", execute=script, **(words or {}))
    return shop(worker, WorkerSpec(id="v", execute=other or AsyncScriptedExecutable()), plans=plans or PLANS, **tasks)


@SCARCE
def test_an_urgent_subtask_takes_the_place_of_one_that_runs_which_starts_again_later(max_parallel: int) -> None:
    with Hang() as hang:
        script = AsyncScriptedExecutable(hang, "urgent is done", "slow is done", by="call")
        with start(two(script, max_parallel=max_parallel), clock=ManualClock()) as tree:
            slow = tree.submit(Task("slow", priority=5))
            hang.wait_until_entered()
            urgent = tree.run(Task("urgent", priority=1), timeout=LONG_S)
            report = slow.result(timeout=LONG_S)

    assert urgent.results == {"urgent": "urgent is done"}
    assert report.results == {"slow": "slow is done"}
    assert [(call.subtask, call.ended) for call in script.calls] == [
        ("slow", "CancelledError"),
        ("urgent", "returned"),
        ("slow", "returned"),
    ]
    assert kinds(slow, "slow") == [
        "SubtaskQueued",
        "SubtaskStarted",
        "SubtaskRequeued",
        "SubtaskStarted",
        "SubtaskSucceeded",
    ]


def test_a_slot_is_taken_from_whoever_has_one_and_not_only_from_the_same_worker() -> None:
    with Hang() as hang:
        script = AsyncScriptedExecutable(hang, "done", by="call")
        with start(two(script, max_parallel=1), clock=ManualClock()) as tree:
            slow = tree.submit(Task("slow", priority=5))
            hang.wait_until_entered()
            tree.run(Task("other", priority=1), timeout=LONG_S)
            slow.result(timeout=LONG_S)

    assert [call.ended for call in script.calls] == ["CancelledError", "returned"]


def test_giving_way_counts_neither_as_an_attempt_nor_as_a_failure() -> None:
    words = {"breaker": Breaker(failure_threshold=1)}
    with Hang() as hang:
        script = AsyncScriptedExecutable(hang, "urgent", "slow", by="call")
        spec = two(script, words=words, on_failure=[Retry(max_attempts=1)])
        with start(spec, clock=ManualClock()) as tree:
            slow = tree.submit(Task("slow", priority=5))
            hang.wait_until_entered()
            tree.run(Task("urgent", priority=1), timeout=LONG_S)
            slow.result(timeout=LONG_S)
            breaker = tree.registry()[0].breaker

    cut, again = (call for call in script.calls if call.subtask == "slow")
    assert (cut.attempt, again.attempt) == (1, 1)
    assert cut.idempotency_key == again.idempotency_key
    assert breaker == "closed"


@SCARCE
def test_what_is_not_more_urgent_waits(max_parallel: int) -> None:
    with Hang() as hang:
        script = AsyncScriptedExecutable(InTurn(hang, "done"))
        with start(two(script, max_parallel=max_parallel), clock=ManualClock()) as tree:
            slow = tree.submit(Task("slow", priority=1))
            hang.wait_until_entered()
            others = [submitted(tree, "urgent", priority=priority) for priority in (1, 2)]
            heard(tree)
            before = script.calls[0].ended
            hang.release()
            for handle in [slow, *others]:
                handle.result(timeout=LONG_S)

    assert before == ""
    assert [call.ended for call in script.calls] == ["returned"] * 3


def test_the_least_urgent_of_those_that_run_gives_way() -> None:
    plans = PLANS | {"slower": [one("slower", "w")], "slowest": [one("slowest", "w")]}
    with Hang() as hang:
        script = AsyncScriptedExecutable(at={1: hang, 2: hang, 3: hang}, then="done", by="call")
        with start(two(script, plans=plans, max_parallel=3, words={"pool": 3}), clock=ManualClock()) as tree:
            handles = []
            for goal, priority in (("slower", 6), ("slowest", 9), ("slow", 5)):
                handles.append(submitted(tree, goal, priority=priority))
                hang.wait_until_entered()
            tree.run(Task("other", priority=1), timeout=LONG_S)
            hang.release()
            for handle in handles:
                handle.result(timeout=LONG_S)

    ended = [call.subtask for call in script.calls if call.ended == "CancelledError"]
    assert ended == ["slowest"]


@SCARCE
def test_a_subtask_gives_way_no_more_often_than_max_preemptions(max_parallel: int) -> None:
    with Hang() as first, Hang() as last:
        slow_steps = iter([first, first, InTurn(last, "slow")])
        script = AsyncScriptedExecutable(lambda task, _: next(slow_steps) if task.id == "slow" else "urgent")
        spec = two(script, max_parallel=max_parallel, max_preemptions=2)
        with start(spec, clock=ManualClock()) as tree:
            slow = tree.submit(Task("slow", priority=5))
            for _ in range(2):
                first.wait_until_entered()
                tree.run(Task("urgent", priority=1), timeout=LONG_S)
            last.wait_until_entered()
            third = submitted(tree, "urgent", priority=1)
            heard(tree)
            before = [call.ended for call in script.calls if call.subtask == "slow"]
            last.release()
            slow.result(timeout=LONG_S)
            third.result(timeout=LONG_S)

    assert before == ["CancelledError", "CancelledError", ""]
    assert kinds(slow, "slow").count("SubtaskRequeued") == 2


# -- who may not be interrupted ----------------------------------------------------------------------------


def undo(_task: object, _result: object, _context: object) -> None:
    """Undo it."""


def stays(script: Any, *, words: dict[str, Any] | None = None, **subtask: Any) -> bool:
    """Whether a subtask goes on running although something more urgent waits for its worker."""
    plans = PLANS | {"slow": [one("slow", "w", **subtask)]}
    with Hang() as hang:
        script = script(hang, "again", "again", by="call")
        with start(two(script, plans=plans, words=words), clock=ManualClock()) as tree:
            slow = tree.submit(Task("slow", priority=5))
            hang.wait_until_entered()
            urgent = submitted(tree, "urgent", priority=1)
            heard(tree)
            if script.calls[0].ended == "":
                hang.release()
            slow.result(timeout=LONG_S)
            urgent.result(timeout=LONG_S)
    return bool(script.calls[0].ended == "returned")


@pytest.mark.parametrize(
    ("script", "words", "subtask", "stay"),
    [
        (AsyncScriptedExecutable, {}, {}, False),
        (AsyncScriptedExecutable, {}, {"preemptible": True}, False),
        (AsyncScriptedExecutable, {}, {"preemptible": False}, True),
        (AsyncScriptedExecutable, {"undo": undo}, {}, True),
        (AsyncScriptedExecutable, {"undo": undo}, {"preemptible": True}, False),
        (AsyncScriptedExecutable, {}, {"undo": "v"}, True),
        (AsyncScriptedExecutable, {}, {"undo": "v", "preemptible": True}, False),
        (ScriptedExecutable, {}, {}, True),
        (ScriptedExecutable, {}, {"preemptible": True}, True),
    ],
    ids=[
        "async",
        "async, said",
        "async, not",
        "worker's undo",
        "worker's undo, said",
        "its undo",
        "its undo, said",
        "sync",
        "sync, said",
    ],
)
def test_what_can_be_undone_or_cannot_be_cancelled_is_not_interrupted_unless_that_is_said(
    script: type[Any], words: dict[str, Any], subtask: dict[str, Any], *, stay: bool
) -> None:
    assert stays(script, words=words, **subtask) is stay


def test_what_waits_for_something_it_asked_for_does_not_give_way() -> None:
    with Hang() as hang:
        helper = AsyncScriptedExecutable(InTurn(hang, "helped"))

        async def asker(_task: object, context: Any) -> object:
            return await context.ask("helper", "help")

        spec = shop(
            WorkerSpec(id="asker", execute=asker),
            WorkerSpec(id="helper", execute=helper),
            plans={"slow": [one("asker")], "urgent": [one("asker")]},
        )
        with start(spec, clock=ManualClock()) as tree:
            record = Record(tree)
            slow = tree.submit(Task("slow", priority=5))
            hang.wait_until_entered()
            urgent = submitted(tree, "urgent", priority=1)
            before = record.of(SubtaskRequeued)
            hang.release()
            reports = [handle.result(timeout=LONG_S) for handle in (slow, urgent)]

    assert before == []
    assert [report.results["asker"] for report in reports] == ["helped", "helped"]


# -- teams -------------------------------------------------------------------------------------------------
