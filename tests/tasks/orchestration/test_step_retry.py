"""Steps of the supervisor fail well too: planner, reviewer and synthesizer are called again, then end clearly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from actors import Done, Failed, Later, Usage
from actors.testing import ScriptedExecutable, settle
from tests.support.attempts import LONG_S, Shop, shop, undoable
from trees import (
    Approve,
    Edit,
    Escalate,
    EscalationError,
    Plan,
    PlanError,
    Reject,
    Respond,
    Retry,
    Subtask,
    SubtaskRetrying,
    TaskEnding,
    Tasks,
    TaskStatus,
    WorkerSpec,
)

PLAN = [Subtask("a", worker="w")]
RETRY = Retry(max_attempts=3, initial_s=1.0, jitter=0.0)
STEPS = ["planner", "reviewer", "synthesizer"]
LATER_STEPS = ["reviewer", "synthesizer"]
GOOD: dict[str, Any] = {"planner": Plan(PLAN), "reviewer": True, "synthesizer": "combined"}


def failing(step: str, times: int, error: Callable[[], BaseException] = lambda: ConnectionError("no route")) -> Any:
    """A step that raises so often, and its calls: when each was made is noted by the clock of the test."""
    calls: list[tuple[Any, ...]] = []

    def call(*args: Any) -> Any:
        calls.append(args)
        if len(calls) <= times:
            raise error()
        return GOOD[step]

    call.calls = calls  # type: ignore[attr-defined]
    return call


def of(step: str, code: Any, **tasks: Any) -> Any:
    """A shop with one worker and this step."""
    script = ScriptedExecutable("done")
    settings = {step: code, "step_retry": RETRY, **tasks}
    return shop([] if step == "planner" else PLAN, WorkerSpec(id="w", execute=script.execute), **settings)


def told(it: Shop) -> str:
    """What the report says of failing steps."""
    report = it.report()
    return f"{report.error} {report.notes}"


# -- again -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_raises_is_called_again_with_backoff_and_not_three_times_at_once(step: str) -> None:
    code = failing(step, 2)
    with of(step, code) as it:
        it.submit()
        assert len(code.calls) == 1
        it.advance(0.9)
        assert len(code.calls) == 1
        it.advance(0.2)
        assert len(code.calls) == 2
        it.advance(1.8)
        assert len(code.calls) == 2
        it.advance(0.3)
        assert len(code.calls) == 3

        report = it.report()
        assert report.status is TaskStatus.SUCCEEDED
        assert not report.best_effort
        assert [event.attempt for event in it.events(SubtaskRetrying)] == [1, 2]
        assert all("ConnectionError: no route" in event.error for event in it.events(SubtaskRetrying))


def test_the_default_is_three_attempts_half_a_second_apart() -> None:
    assert Tasks().step_retry == Retry(max_attempts=3, initial_s=0.5)
    assert Tasks().on_step_failure == "fail"


@pytest.mark.parametrize("step", STEPS)
def test_what_is_not_to_be_tried_again_is_not(step: str) -> None:
    code = failing(step, 9, lambda: Failed("never", retryable=False))
    with of(step, code) as it:
        it.submit()
        assert it.report().status is TaskStatus.FAILED
        assert "never" in told(it)
    assert len(code.calls) == 1


def test_a_step_that_says_later_is_called_when_it_says() -> None:
    code = failing("reviewer", 1, lambda: Later(30.0))
    with of("reviewer", code) as it:
        it.submit()
        it.advance(29.0)
        assert len(code.calls) == 1
        it.advance(1.5)
        assert it.report().status is TaskStatus.SUCCEEDED
    assert len(code.calls) == 2


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_takes_too_long_is_called_again(step: str) -> None:
    calls = []
    entered = threading.Event()

    async def slow(*_: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            entered.set()
            await asyncio.get_running_loop().create_future()
        return GOOD[step]

    with of(step, slow, step_timeout_s=5.0) as it:
        it.begin()
        assert entered.wait(LONG_S)
        it.pass_(6.0)
        it.until(SubtaskRetrying)
        it.advance(1.5)
        assert it.report().status is TaskStatus.SUCCEEDED
    assert len(calls) == 2


@pytest.mark.parametrize("step", STEPS)
def test_usage_of_every_call_of_a_step_counts(step: str) -> None:
    calls = []

    def code(*_: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            return Done(object(), usage=Usage(tokens=10)) if step == "synthesizer" else _raise(ConnectionError())
        return Done(GOOD[step], usage=Usage(tokens=5))

    with of(step, code) as it:
        it.submit()
        it.advance(10.0)
        report = it.report()

    assert report.status is TaskStatus.SUCCEEDED
    assert report.usage.tokens == (15 if step == "synthesizer" else 5)


def _raise(error: BaseException) -> Any:
    raise error


# -- a clear end -------------------------------------------------------------------------------------------------


def test_a_planner_that_fails_is_a_plan_error_with_its_last_error_and_how_often_it_was_called() -> None:
    code = failing("planner", 9)
    with of("planner", code) as it:
        it.submit()
        it.advance(2.0)
        it.advance(2.0)
        error = it.report().error

    assert isinstance(error, PlanError)
    assert "the planner failed: ConnectionError: no route" in str(error)
    assert error.attempts == len(code.calls) == 3


def test_a_planner_is_told_how_its_last_call_failed() -> None:
    code = failing("planner", 1)
    with of("planner", code) as it:
        it.submit()
        it.advance(2.0)
    assert code.calls[0][2] == ""
    assert "the planner failed: ConnectionError: no route" in code.calls[1][2]


def test_a_plan_that_does_not_fit_is_handed_back_at_once_and_counts_by_itself() -> None:
    answers = [ConnectionError("once"), Plan([Subtask("a", worker="x")]), ConnectionError("twice"), Plan(PLAN)]
    feedbacks = []

    def planner(_: Any, __: Any, feedback: str) -> Any:
        feedbacks.append(feedback)
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    with of("planner", planner, max_plan_attempts=2) as it:
        it.submit()
        it.advance(1.5)
        assert len(feedbacks) == 3  # the second one was refused, and the third one came at once
        it.advance(1.5)
        assert it.report().status is TaskStatus.SUCCEEDED
    assert "there is no worker 'x'" in feedbacks[2]
    assert "there is no worker 'x'" in feedbacks[3]
    assert "twice" in feedbacks[3]


@pytest.mark.parametrize("step", LATER_STEPS)
def test_by_default_a_reviewer_or_a_synthesizer_that_fails_fails_the_task_and_what_was_done_is_undone(
    step: str,
) -> None:
    script, spec = undoable("w", "done")
    code = failing(step, 9)
    with shop(PLAN, spec, **{step: code}, step_retry=Retry(2, initial_s=0)) as it:
        it.submit()
        report = it.report()
        [ending] = it.events(TaskEnding)

    assert report.status is TaskStatus.FAILED
    assert ending.kind == "step"
    assert f"the {step} failed: ConnectionError: no route" in str(report.error)
    assert report.results == {"a": "done"}
    assert report.compensated == ["a"]
    assert len(script.undos) == 1
    assert len(code.calls) == 2


@pytest.mark.parametrize("step", LATER_STEPS)
def test_on_step_failure_best_effort_takes_the_results_as_they_are_and_says_so(step: str) -> None:
    with of(step, failing(step, 9), on_step_failure="best_effort", step_retry=Retry(1)) as it:
        it.submit()
        report = it.report()

    assert report.status is TaskStatus.SUCCEEDED
    assert report.best_effort
    assert report.output == {"a": "done"}
    assert report.notes[0] == f"{step}: ConnectionError: no route"
    assert "best effort" in it.handle.dump()


@pytest.mark.parametrize("step", LATER_STEPS)
def test_on_step_failure_escalate_asks_a_person_about_the_step(step: str) -> None:
    with of(step, failing(step, 9), on_step_failure="escalate", step_retry=Retry(1)) as it:
        handle = it.submit()
        [question] = it.tree.escalations()
        assert handle.status is TaskStatus.WAITING
        assert f"the {step} failed" in question.question
        assert question.error == "ConnectionError: no route"
        assert question.subtask == ""
        assert question.id in it.handle.dump()
        assert [each.id for each in handle.escalations] == [question.id]
        handle.respond(question.id, Reject("stop it"))
        settle(it.tree)
        assert "a person said no: stop it" in str(it.report().error)
        with pytest.raises(EscalationError):
            handle.respond(question.id, Approve())


@pytest.mark.parametrize("step", LATER_STEPS)
def test_approve_calls_the_step_once_more_and_vouches_for_the_results(step: str) -> None:
    code = failing(step, 9)
    with of(step, code, on_step_failure="escalate", step_retry=Retry(1)) as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Approve())
        settle(it.tree)
        report = it.report()
    assert len(code.calls) == 2
    assert report.status is TaskStatus.SUCCEEDED
    assert report.best_effort


@pytest.mark.parametrize("step", LATER_STEPS)
def test_respond_calls_the_step_again_with_the_text_as_feedback(step: str) -> None:
    seen = []

    def code(*_: Any, feedback: str = "") -> Any:
        seen.append(feedback)
        return GOOD[step] if feedback else _raise(ConnectionError())

    with of(step, code, on_step_failure="escalate", step_retry=Retry(1)) as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Respond("use the other one"))
        settle(it.tree)
        assert it.report().status is TaskStatus.SUCCEEDED
        assert not it.report().best_effort
    assert seen == ["", "use the other one"]


@pytest.mark.parametrize(("step", "value"), [("reviewer", True), ("reviewer", {"passed": True}), ("synthesizer", "x")])
def test_edit_takes_the_place_of_what_the_step_would_have_returned(step: str, value: Any) -> None:
    with of(step, failing(step, 9), on_step_failure="escalate", step_retry=Retry(1)) as it:
        handle = it.submit()
        handle.respond(handle.escalations[0].id, Edit(value))
        settle(it.tree)
        report = it.report()
    assert report.status is TaskStatus.SUCCEEDED
    assert not report.best_effort
    assert report.output == ({"a": "done"} if step == "reviewer" else "x")


def test_an_edit_that_is_no_verdict_is_refused_and_the_question_stays_open() -> None:
    with of("reviewer", failing("reviewer", 9), on_step_failure="escalate", step_retry=Retry(1)) as it:
        handle = it.submit()
        [question] = handle.escalations
        with pytest.raises(EscalationError, match="takes a verdict"):
            handle.respond(question.id, Edit("looks good"))
        assert [each.id for each in handle.escalations] == [question.id]
        handle.cancel()


def test_no_answer_in_the_time_that_the_ladder_gives_is_no_yes() -> None:
    ladder = [Escalate(timeout_s=60.0)]
    with of(
        "reviewer", failing("reviewer", 9), on_step_failure="escalate", step_retry=Retry(1), on_failure=ladder
    ) as it:
        it.submit()
        it.advance(61.0)
        assert "nobody answered in time" in str(it.report().error)


# -- over a crash ------------------------------------------------------------------------------------------------


# -- bad settings ------------------------------------------------------------------------------------------------
