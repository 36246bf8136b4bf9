"""A crash or a failure: what becomes of the attempt, what of the worker, and that the two never share a budget."""

from typing import Any

import pytest

from actors import Escalated, Failed, Later, Worker
from actors.testing import Crash, ScriptedExecutable
from tests.support.attempts import AT_ONCE, no, shop
from trees import (
    Failover,
    Subtask,
    SubtaskRetrying,
    WorkerSpec,
)

ONE = (Subtask("x", worker="a"),)
CAN = (Subtask("x", capability="sell"),)


def worker(id_: str, *steps: object, **words: Any) -> tuple[ScriptedExecutable, WorkerSpec]:
    script = ScriptedExecutable(*steps)
    return script, WorkerSpec(id=id_, execute=script.execute, **words)


# -- crash or failure --------------------------------------------------------------------------------------------


class Till(Worker):
    """Breaks where it is told to."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.dirty = False

    def execute(self, task: Subtask, context: Any) -> str:
        was, self.dirty = self.dirty, True
        if context.attempt == 1:
            raise KeyError("drawer")
        return f"dirty={was}"


@pytest.fixture(autouse=True)
def _none_made() -> None:
    Till.made = 0


def restarts(it: Any, id_: str) -> int:
    return next(int(child.incarnation) for child in it.tree.which_children("shop") if child.id == id_) - 1


def test_an_exception_out_of_a_function_fails_the_attempt_and_restarts_nobody() -> None:
    _, a = worker("a", no, "done")
    with shop(ONE, a) as it:
        it.submit()
        report = it.report()
        count = restarts(it, "a")

    assert (report.results, count) == ({"x": "done"}, 0)


def test_an_exception_out_of_a_worker_object_fails_the_attempt_and_replaces_the_object() -> None:
    with shop(ONE, WorkerSpec(id="a", actor=Till)) as it:
        it.submit()
        it.advance(1.0)
        report = it.report()
        count, kinds = restarts(it, "a"), [event.kind for event in it.events(SubtaskRetrying)]

    assert report.results == {"x": "dirty=False"}
    assert (Till.made, count, kinds) == (2, 1, ["crashed"])


def test_what_is_expected_of_a_worker_object_is_a_failure_and_keeps_it() -> None:
    with shop(ONE, WorkerSpec(id="a", actor=Till, expected=(KeyError,))) as it:
        it.submit()
        report = it.report()
        kinds = [event.kind for event in it.events(SubtaskRetrying)]

    assert report.results == {"x": "dirty=True"}
    assert (Till.made, kinds) == (1, ["failed"])


@pytest.mark.parametrize("says", [Failed("no"), Later(0.0), Escalated("?")], ids=repr)
def test_a_signal_out_of_a_worker_object_is_no_crash(says: Exception) -> None:
    class Clerk(Worker):
        asked = 0

        def execute(self, task: Subtask, context: Any) -> int:
            self.asked += 1
            if self.asked == 1:
                raise says
            return self.asked

    with shop(ONE, WorkerSpec(id="a", actor=Clerk)) as it:
        it.submit()
        report = it.report()
        count = restarts(it, "a")

    assert (report.results, count) == ({"x": 2}, 0)


def test_a_system_exit_is_a_crash_also_of_a_function_and_whatever_is_expected() -> None:
    _, a = worker("a", Crash(), "done", expected=(Exception,))
    with shop(ONE, a) as it:
        it.submit()
        it.advance(1.0)
        report = it.report()
        count, kinds = restarts(it, "a"), [event.kind for event in it.events(SubtaskRetrying)]

    assert report.results == {"x": "done"}
    assert (count, kinds) == (1, ["crashed"])


def test_a_poisoned_task_submitted_twice_parks_its_worker_and_takes_nothing_else_down() -> None:
    _, a = worker("a", Crash())
    _, b = worker("b", "done")
    with shop(ONE, a, b, on_failure=[AT_ONCE.model_copy(update={"max_attempts": 6})]) as it:
        reports = []
        for _ in range(2):
            it.submit()
            for _ in range(12):
                it.advance(1.0)
            reports.append(it.report())
        states = {child.id: child.state for child in it.tree.which_children("shop")}

    assert [report.status for report in reports] == ["failed", "failed"]
    assert states == {"orchestrator": "running", "a": "parked", "b": "running"}


def test_restarts_of_a_worker_and_retries_of_an_attempt_have_budgets_of_their_own() -> None:
    script, a = worker("a", Crash(), Crash(), "done")
    with shop(ONE, a, on_failure=[AT_ONCE.model_copy(update={"max_attempts": 2}), Failover()]) as it:
        it.submit()
        it.advance(5.0)
        report = it.report()

    assert (report.status, len(script.calls)) == ("failed", 2)
