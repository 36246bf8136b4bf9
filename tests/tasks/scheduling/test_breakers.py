"""Circuit breakers at work: who gets no work any more, who may probe, and what a new orchestrator knows of it."""

from typing import Any

import pytest

from actors import Event, Failed, Later, Rejected
from actors.testing import AsyncScriptedExecutable, Crash, Hang, ScriptedExecutable
from tests.support.attempts import LONG_S, Shop, no, shop
from tests.support.ids import stable
from trees import (
    Breaker,
    BreakerClosed,
    BreakerHalfOpened,
    BreakerOpened,
    Failover,
    NoCapableWorkerError,
    Retry,
    Subtask,
    Task,
    TaskFailedError,
    WorkerSpec,
)

ONE = (Subtask("x", worker="a"),)
TWICE = Breaker(failure_threshold=2, window_s=60.0, cooldown_s=30.0)
ONCE_ONLY = Retry(max_attempts=1)


def worker(id_: str, *steps: object, **words: Any) -> tuple[ScriptedExecutable, WorkerSpec]:
    script = ScriptedExecutable(*steps, by="call")
    words.setdefault("breaker", TWICE)
    return script, WorkerSpec(id=id_, execute=script.execute, **words)


def states(it: Shop) -> dict[str, str | None]:
    return {row.id: row.breaker for row in it.tree.registry()}


def submit(it: Shop, count: int) -> None:
    for _ in range(count):
        it.submit()


def test_it_opens_after_as_many_failures_as_its_threshold_within_the_window() -> None:
    _, a = worker("a", no)
    with shop(ONE, a, on_failure=[]) as it:
        submit(it, 1)
        before = states(it)
        submit(it, 1)
        after = states(it)

    assert (before, after) == ({"a": "closed"}, {"a": "open"})


def test_failures_further_apart_than_the_window_do_not_open_it() -> None:
    _, a = worker("a", no)
    with shop(ONE, a, on_failure=[]) as it:
        for _ in range(4):
            submit(it, 1)
            it.advance(60.1)

        assert states(it) == {"a": "closed"}


@pytest.mark.parametrize("step", [no, Crash()], ids=["error", "crash"])
def test_what_counts(step: object) -> None:
    _, a = worker("a", step)
    with shop(ONE, a, on_failure=[]) as it:
        submit(it, 1)
        it.advance(1.0)
        submit(it, 1)
        it.advance(1.0)

        assert states(it) == {"a": "open"}


NEUTRAL = [Failed("no"), Failed("no", retryable=False), Rejected(), Later(1.0), object(), KeyError("it"), "done"]


@pytest.mark.parametrize("step", NEUTRAL, ids=stable)
def test_what_says_that_the_request_was_at_fault_does_not_count(step: object) -> None:
    _, a = worker("a", step, expected=(LookupError,))
    with shop(ONE, a, on_failure=[]) as it:
        submit(it, 4)

        assert states(it) == {"a": "closed"}


def test_timeouts_count() -> None:
    script = AsyncScriptedExecutable(Hang())
    with shop(ONE, WorkerSpec(id="a", execute=script.execute, timeout_s=5, breaker=TWICE), on_failure=[]) as it:
        for number in (1, 2):
            it.begin()
            script.wait_for_calls(number)
            it.advance(5.0)

        assert states(it) == {"a": "open"}


def test_cancelled_attempts_do_not_count() -> None:
    script = AsyncScriptedExecutable(Hang())
    with shop(ONE, WorkerSpec(id="a", execute=script.execute, breaker=TWICE)) as it:
        for number in (1, 2, 3):
            it.begin()
            script.wait_for_calls(number)
            it.handle.cancel()
            it.report()

        assert states(it) == {"a": "closed"}


def test_an_open_breaker_takes_its_worker_out_of_selection_and_out_of_the_catalogue() -> None:
    seen: list[set[str]] = []

    def planner(task: Task, catalogue: Any, feedback: str) -> list[Subtask]:
        seen.append({row.id for row in catalogue})
        return [Subtask("x", capability="sell")]

    bad, a = worker("a", no, capabilities={"sell"})
    good, b = worker("b", "done", capabilities={"sell"})
    with shop((), a, b, planner=planner, on_failure=[ONCE_ONLY, Failover()]) as it:
        submit(it, 4)

    assert (len(bad.calls), len(good.calls)) == (2, 4)
    assert seen == [{"a", "b"}, {"a", "b"}, {"b"}, {"b"}]


def test_a_planner_that_finds_nobody_without_open_breakers_is_shown_them_and_its_work_waits() -> None:
    seen: list[set[str]] = []

    def planner(task: Task, catalogue: Any, feedback: str) -> list[Subtask]:
        seen.append({row.id for row in catalogue})
        if "a" not in seen[-1]:
            raise NoCapableWorkerError("sell")
        return [Subtask("x", worker="a")]

    _, a = worker("a", no, no, "done")
    _, b = worker("b", "done")
    with shop((), a, b, planner=planner, on_failure=[ONCE_ONLY]) as it:
        submit(it, 3)
        before = it.handle.report
        it.advance(30.1)
        report = it.report()

    assert (before, report.results) == (None, {"x": "done"})
    assert seen == [{"a", "b"}, {"a", "b"}, {"b"}, {"a", "b"}]


def test_a_backup_is_given_the_work_while_the_breaker_is_open_without_an_attempt_lost() -> None:
    bad, a = worker("a", no, backup="b")
    good, b = worker("b", "done")
    with shop(ONE, a, b, on_failure=[]) as it:
        submit(it, 3)
        report = it.report()

    assert report.results == {"x": "done"}
    assert (len(bad.calls), [call.attempt for call in good.calls]) == (2, [1])


def test_what_is_put_off_ends_when_its_task_is_too_late_and_that_says_what_it_waited_for() -> None:
    script, a = worker("a", no)
    with shop(ONE, a, on_failure=[]) as it:
        submit(it, 2)
        it.submit(deadline_s=10.0)
        before = it.handle.status
        it.advance(10.1)
        report = it.report()

    assert (before, report.status, len(script.calls)) == ("running", "failed", 2)
    assert "its time is up; x waited: breaker of a open, probe in 20 s" in str(report.error)


def test_a_failover_goes_to_the_one_that_admits_and_waits_for_one_that_does_not_where_there_is_no_other() -> None:
    _, a = worker("a", no, capabilities={"sell"})
    late, b = worker("b", no, no, "done", capabilities={"sell"})
    plans = {"b": [Subtask("x", worker="b")], "any": [Subtask("x", worker="a")]}

    def planner(task: Task, catalogue: Any, feedback: str) -> list[Subtask]:
        return plans["b"] if task.priority else [Subtask("x", capability="sell")]

    with shop((), a, b, planner=planner, on_failure=[Failover()]) as it:
        for _ in range(2):
            with pytest.raises(TaskFailedError):
                it.tree.run(Task("go", priority=1), timeout=LONG_S)
        it.submit()  # a fails, and the only other one admits nothing before its probe
        before = it.handle.report
        it.advance(30.0)
        report = it.report()

    assert before is None
    assert report.results == {"x": "done"}
    assert len(late.calls) == 3


def test_of_twenty_that_are_ready_when_it_is_half_open_one_is_let_through() -> None:
    def planner(task: Task, catalogue: Any, feedback: str) -> list[Subtask]:
        count = 2 if task.priority else 20
        return [Subtask(f"x{number}", worker="a", required=False) for number in range(count)]

    held = Hang()
    script = AsyncScriptedExecutable(no, no, held, then="done", by="call")
    spec = WorkerSpec(id="a", execute=script.execute, breaker=TWICE, pool=8)
    with shop((), spec, planner=planner, on_failure=[], max_parallel=20) as it:
        it.submit(priority=1)
        it.clock.advance(30.0)
        it.begin()
        held.wait_until_entered()
        it.pass_()
        probing, half = len(script.calls) - 2, states(it)
        held.release()
        report = it.report()
        closed = states(it)

    assert (probing, half, closed) == (1, {"a": "half_open"}, {"a": "closed"})
    assert len(report.results) == 20


def test_a_probe_that_fails_opens_it_for_a_whole_cooldown() -> None:
    script, a = worker("a", no)
    with shop(ONE, a, on_failure=[]) as it:
        submit(it, 2)
        it.advance(30.0)
        submit(it, 1)
        probed, after = len(script.calls), states(it)
        it.advance(29.9)
        submit(it, 1)

    assert (probed, after) == (3, {"a": "open"})
    assert len(script.calls) == 3


def test_a_pool_shares_one() -> None:
    script = ScriptedExecutable(no)
    plan = [Subtask(f"x{number}", worker="a") for number in range(2)]
    with shop(plan, WorkerSpec(id="a", execute=script.execute, breaker=TWICE, pool=4), on_failure=[]) as it:
        it.submit()
        [row] = it.tree.registry()
        it.submit()

    assert (row.breaker, row.size) == ("open", 4)
    assert len(script.calls) == 2


def test_there_is_one_by_default() -> None:
    script = ScriptedExecutable(no)
    with shop(ONE, WorkerSpec(id="a", execute=script.execute), on_failure=[]) as it:
        submit(it, 6)

        assert states(it) == {"a": "open"}
    assert len(script.calls) == 5


def test_it_tells_when_it_opens_lets_one_through_and_closes() -> None:
    heard: list[tuple[str, str]] = []

    def hear(event: Event) -> None:
        if isinstance(event, (BreakerOpened, BreakerHalfOpened, BreakerClosed)):
            heard.append((type(event).__name__, event.path))

    _, a = worker("a", no, no, "done")
    with shop(ONE, a, on_failure=[]) as it:
        it.tree.subscribe(hear)
        submit(it, 2)
        it.advance(30.0)
        submit(it, 1)

    assert heard == [("BreakerOpened", "shop/a"), ("BreakerHalfOpened", "shop/a"), ("BreakerClosed", "shop/a")]
