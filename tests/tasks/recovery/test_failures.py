"""Attempts that fail: tried again, given to another, given up, and what the rest of the task makes of it."""

from typing import Any

import pytest

from actors import Failed, Later, Rejected
from actors.testing import AsyncScriptedExecutable, Crash, Hang, ScriptedExecutable
from tests.support.attempts import AT_ONCE, LONG_S, SLOWLY, no, run, shop
from trees import (
    AttemptTimeoutError,
    Subtask,
    SubtaskFailed,
    SubtaskRetrying,
    TaskFailedError,
    WorkerSpec,
)

ONE = (Subtask("x", worker="a"),)
CAN = (Subtask("x", capability="sell"),)


def worker(id_: str, *steps: object, **words: Any) -> tuple[ScriptedExecutable, WorkerSpec]:
    script = ScriptedExecutable(*steps)
    return script, WorkerSpec(id=id_, execute=script.execute, **words)


# -- again -----------------------------------------------------------------------------------------------------


def test_a_subtask_that_fails_at_first_succeeds_at_its_third_attempt() -> None:
    script, a = worker("a", no, no, "done")
    report = run(ONE, a)

    assert report.results == {"x": "done"}
    assert [call.attempt for call in script.calls] == [1, 2, 3]
    assert len({call.idempotency_key for call in script.calls}) == 1
    assert " " not in script.calls[0].idempotency_key


def test_attempts_are_as_far_apart_as_the_ladder_says_and_hold_no_worker_meanwhile() -> None:
    script, a = worker("a", no)
    with shop(ONE, a, on_failure=[SLOWLY]) as it:
        it.submit()
        waiting, load = it.status("x"), it.tree.registry()[0].load
        it.advance(9.9)
        early = len(script.calls)
        it.advance(0.1)
        second = len(script.calls)
        it.advance(19.9)
        still = len(script.calls)
        it.advance(0.1)
        report = it.report()

    assert (waiting, load) == ("retrying", 0)
    assert (early, second, still, len(script.calls)) == (1, 2, 2, 3)
    assert report.failed == {"x": "ValueError: no"}


@pytest.mark.parametrize(
    ("error", "calls"),
    [(OSError(), 3), (ValueError(), 1), (Failed(OSError()), 3), (Failed(ValueError()), 1), (Failed("text"), 1)],
    ids=repr,
)
def test_only_errors_of_retry_on_are_tried_again_also_wrapped_in_failed(error: Exception, calls: int) -> None:
    script, a = worker("a", error)
    run(ONE, a, on_failure=[AT_ONCE.model_copy(update={"retry_on": (OSError,)})])

    assert len(script.calls) == calls


def test_a_result_that_does_not_fit_is_told_to_the_next_attempt() -> None:
    script, a = worker("a", "no number", 7, output=int)
    report = run(ONE, a)

    assert report.results == {"x": 7}
    assert "valid integer" in script.calls[1].feedback


def test_an_attempt_that_takes_too_long_is_tried_again() -> None:
    script = AsyncScriptedExecutable(Hang(), "done")
    with shop(ONE, WorkerSpec(id="a", execute=script.execute, timeout_s=5)) as it:
        it.begin()
        script.wait_for_calls(1)
        it.clock.advance(5.0)
        report = it.report()
        [retrying] = it.events(SubtaskRetrying)

    assert report.results == {"x": "done"}
    assert retrying.kind == "timeout"
    assert AttemptTimeoutError.__name__ in retrying.error


# -- another -----------------------------------------------------------------------------------------------------


def test_the_next_worker_that_can_do_it_takes_over_then_the_backup_and_the_attempts_count_on() -> None:
    first, a = worker("a", no, capabilities={"sell"}, backup="c")
    second, b = worker("b", no, capabilities={"sell"})
    third, c = worker("c", no, no, no, no, no, no, no, no, "done")
    report = run(CAN, a, b, c)

    assert [call.attempt for call in first.calls] == [1, 2, 3]
    assert [call.attempt for call in second.calls] == [4, 5, 6]
    assert [call.attempt for call in third.calls] == [7, 8, 9]
    assert report.results == {"x": "done"}
    assert len({call.idempotency_key for call in [*first.calls, *second.calls, *third.calls]}) == 1


def test_without_failover_nobody_takes_over() -> None:
    _, a = worker("a", no, capabilities={"sell"}, backup="b")
    other, b = worker("b", "done", capabilities={"sell"})
    report = run(CAN, a, b, on_failure=[AT_ONCE])

    assert list(report.failed) == ["x"]
    assert other.calls == []


def test_a_worker_that_is_parked_is_passed_over_for_its_backup() -> None:
    script, a = worker("a", Crash(), backup="b")
    other, b = worker("b", "done")
    with shop(ONE, a, b, on_failure=[AT_ONCE.model_copy(update={"max_attempts": 9})]) as it:
        it.submit()
        it.advance(1.0)
        report = it.report()
        states = {child.id: child.state for child in it.tree.which_children("shop")}

    assert states["a"] == "parked"
    assert report.results == {"x": "done"}
    assert other.calls[0].attempt == len(script.calls) + 1


# -- signals -----------------------------------------------------------------------------------------------------


def test_what_a_worker_rejects_goes_to_the_next_candidate_at_once_and_counts_as_no_attempt() -> None:
    script, a = worker("a", Rejected(), capabilities={"sell"})
    other, b = worker("b", "done", capabilities={"sell"})
    report = run(CAN, a, b, on_failure=[])

    assert report.results == {"x": "done"}
    assert (len(script.calls), [call.attempt for call in other.calls]) == (1, [1])


def test_what_everybody_rejects_has_failed_and_says_who() -> None:
    scripts = [worker(id_, Rejected(), capabilities={"sell"}) for id_ in "ab"]
    report = run(CAN, *(spec for _, spec in scripts))

    assert [len(script.calls) for script, _ in scripts] == [1, 1]
    assert "a, b said that it is not theirs" in report.failed["x"]


def test_later_is_put_back_for_its_time_and_counts_as_no_attempt() -> None:
    script = ScriptedExecutable(Later(5.0), "done", by="call")
    with shop(ONE, WorkerSpec(id="a", execute=script.execute), on_failure=[]) as it:
        it.submit()
        it.advance(4.9)
        early = len(script.calls)
        it.advance(0.1)
        report = it.report()

    assert early == 1
    assert [call.attempt for call in script.calls] == [1, 1]
    assert report.results == {"x": "done"}


def test_later_is_said_ten_times_and_the_eleventh_time_it_has_failed() -> None:
    script, a = worker("a", Later(0.0))
    report = run(ONE, a)

    assert len(script.calls) == 11
    assert report.failed == {"x": "a has put it off 11 times; 10 are the most for one subtask"}


# -- the rest of the task ----------------------------------------------------------------------------------------


def test_dependants_of_what_is_not_required_run_without_it_and_the_report_says_so() -> None:
    plan = [Subtask("x", worker="a", required=False), Subtask("y", worker="b", depends_on=["x"])]
    _, a = worker("a", no)
    after, b = worker("b", "done")
    report = run(plan, a, b)

    assert report.status == "succeeded"
    assert (report.results, report.failed) == ({"y": "done"}, {"x": "ValueError: no"})
    assert after.calls[0].results == {}


def test_dependants_of_what_is_required_are_skipped_and_independent_branches_finish() -> None:
    plan = [
        Subtask("x", worker="a"),
        Subtask("after", worker="b", depends_on=["x"]),
        Subtask("after_that", worker="b", depends_on=["after"]),
        Subtask("other", worker="b"),
        Subtask("other_after", worker="b", depends_on=["other"]),
    ]
    _, a = worker("a", no)
    rest, b = worker("b")
    with shop(plan, a, b) as it:
        it.submit()
        with pytest.raises(TaskFailedError, match="x: ValueError: no") as caught:
            it.handle.result(timeout=LONG_S)
    report = caught.value.report
    assert report is not None

    assert report.status == "failed"
    assert set(report.results) == {"other", "other_after"}
    assert report.failed == {"x": "ValueError: no"}
    assert report.skipped == {
        "after": "needs 'x', which has failed",
        "after_that": "needs 'after', which did not run",
    }
    assert [call.subtask for call in rest.calls] == ["other", "other_after"]


def test_a_slow_branch_is_waited_for_after_another_has_failed() -> None:
    plan = [Subtask("x", worker="a"), Subtask("slow", worker="b")]
    held = Hang()
    _, a = worker("a", no)
    _, b = worker("b", held)
    with shop(plan, a, b) as it:
        handle = it.begin()
        next(event for event in handle.events() if isinstance(event, SubtaskFailed))
        held.wait_until_entered()
        status = handle.status
        held.release()
        report = it.report()

    assert status == "running"
    assert set(report.results) == {"slow"}
