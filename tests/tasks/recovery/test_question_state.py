"""``Escalated(question, state=...)``: a worker that asks a person finds its state again after the answer."""

from __future__ import annotations

from typing import Any

import pytest
from loguru import logger

from actors import Escalated, Failed
from actors.testing import settle
from tests.support.attempts import AT_ONCE, Shop, shop
from trees import (
    Approve,
    Edit,
    Escalate,
    EscalationRaised,
    Reject,
    Respond,
    Subtask,
    WorkerSpec,
)

ONE = (Subtask("x", worker="a"),)
STATE = {"history": ["half of it"], "calls": 3, "secret": "hush-hush"}
HUSH = "hush-hush"


class Asks:
    """Asks with each of these states, one after the other; then does what it is told, or returns."""

    def __init__(self, *states: Any, fails: int = 0) -> None:
        self.states, self.fails = states, fails
        self.seen: list[Any] = []

    def __call__(self, task: Any, context: Any) -> Any:
        self.seen.append(context.state)
        if len(context.answers) < len(self.states):
            number = len(context.answers)
            raise Escalated(f"question {number}?", state=self.states[number])
        if self.fails:
            self.fails -= 1
            raise Failed("not yet")
        return f"did {task.id}"


def asks(code: Any, *rungs: Any, id: str = "a", **words: Any) -> WorkerSpec:
    return WorkerSpec(id=id, execute=code, on_failure=list(rungs) or [Escalate()], **words)


def answer(it: Shop, given: Any = Approve()) -> None:  # noqa: B008 - nobody changes it
    """Answer the only open question."""
    [question] = it.tree.escalations()
    it.tree.respond(question.id, given)
    settle(it.tree)


# -- given back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [Approve(), Respond("like this")], ids=["approve", "respond"])
@pytest.mark.parametrize("state", [STATE, "text of any length", 7, [], False, {"n": float("inf")}], ids=repr)
def test_the_state_of_a_question_is_given_back_after_the_answer(state: Any, given: Any) -> None:
    code = Asks(state)
    with shop(ONE, asks(code)) as it:
        it.submit()
        answer(it, given)
        assert it.report().results == {"x": "did x"}
    assert code.seen == [None, state]


def test_an_attempt_that_fails_after_the_answer_is_tried_again_with_the_state() -> None:
    code = Asks(STATE, fails=2)
    with shop(ONE, asks(code, Escalate(), AT_ONCE)) as it:
        it.submit()
        answer(it)
        assert it.report().results == {"x": "did x"}
    assert code.seen == [None, STATE, STATE, STATE]


def test_a_retry_before_the_rung_that_asked_is_there_for_what_fails_after_the_answer() -> None:
    code = Asks(STATE, fails=2)
    with shop(ONE, asks(code, AT_ONCE, Escalate())) as it:
        it.submit()
        answer(it)
        assert it.report().results == {"x": "did x"}
    assert code.seen == [None, STATE, STATE, STATE]


def test_the_worker_that_asked_goes_on_and_no_other_sees_its_state() -> None:
    seen: list[tuple[str, Any]] = []

    def code(name: str) -> Any:
        def work(_: Any, context: Any) -> str:
            seen.append((name, context.state))
            if not context.answers:
                raise Escalated("go on?", state={"by": name})
            if name == "b":
                return "done by b"
            raise Failed("cannot", retryable=False)

        return work

    workers = [asks(code("b"), id="b", capabilities=["c"]), asks(code("a"), id="a", capabilities=["c"])]
    with shop((Subtask("x", capability="c"),), *workers) as it:
        it.submit()
        [(first, _)] = seen
        answer(it)
    assert seen[1] == (first, {"by": first})


def test_an_undo_that_asks_gets_its_state_back() -> None:
    seen: list[Any] = []

    def undo(_: Any, __: Any, context: Any) -> None:
        seen.append(context.state)
        if len(seen) == 1:
            raise Escalated("undo it by hand?", state=STATE)

    def fails(_: Any, __: Any) -> None:
        raise Failed("no", retryable=False)

    plan = (Subtask("x", worker="a"), Subtask("y", worker="b", depends_on=["x"]))
    done = WorkerSpec(id="a", execute=lambda task, context: "did", undo=undo, on_failure=[])
    with shop(plan, done, WorkerSpec(id="b", execute=fails, on_failure=[])) as it:
        it.submit()
        answer(it)
        assert it.report().compensated == ["x"]
    assert seen == [None, STATE]


# -- what cannot be kept, and who sees it ------------------------------------------------------------------------


@pytest.mark.parametrize("state", [object(), {"f": open}, {1, object()}, "x" * (16 * 1024 * 1024)], ids=type)
def test_a_state_that_is_no_json_is_a_failed_attempt_that_says_so(state: Any) -> None:
    code = Asks(state)
    with shop(ONE, asks(code, AT_ONCE, Escalate())) as it:
        it.submit()
        [question] = it.handle.escalations
        it.handle.cancel()
    assert "Escalated(state=...)" in question.error
    assert code.seen == [None]


def test_no_dump_log_line_or_error_shows_the_state() -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, level=0)  # type: ignore[arg-type]
    logger.enable("actors")
    try:
        code = Asks(STATE, fails=9)
        with shop(ONE, asks(code)) as it:
            it.submit()
            [question] = it.handle.escalations
            shown = [it.handle.dump(), it.tree.dump(verbose=True), it.handle.dump(format="mermaid"), repr(question)]
            shown += [str(vars_of(question)), *map(repr, it.events(EscalationRaised))]
            shown += [str(event.as_dict()) for event in it.events(EscalationRaised)]
            answer(it)
            report = it.report()
            shown += [repr(report), str(report.failed), it.handle.dump()]
    finally:
        logger.remove(sink)
        logger.disable("actors")
    assert code.seen == [None, STATE]
    assert HUSH not in "".join(shown + lines)
    assert HUSH not in repr(Escalated("q", state=STATE)) + str(Escalated("q", state=STATE))


def vars_of(value: object) -> dict[str, Any]:
    return {name: getattr(value, name) for name in getattr(type(value), "__slots__", ())}


# -- another process ---------------------------------------------------------------------------------------------


# -- a worker that goes on with every answer -----------------------------------------------------------------------


class GoesOn:
    """Asks ``often`` times in the same words, whatever the answer; then returns what it was told."""

    def __init__(self, often: int = 1, *, fails: int = 0) -> None:
        self.often, self.fails = often, fails
        self.keys: list[str] = []

    def __call__(self, task: Any, context: Any) -> Any:
        self.keys.append(context.idempotency_key)
        if len(context.answers) < self.often:
            raise Escalated("go on?", state=len(context.answers), resumes=True)
        if self.fails:
            self.fails -= 1
            raise Failed("not yet")
        return [type(each).__name__ for each in context.answers]


@pytest.mark.parametrize(
    "given", [Approve(), Edit(3), Respond("so"), Reject("no")], ids=lambda each: type(each).__name__
)
def test_a_worker_that_resumes_gets_every_answer_and_decides_itself_what_it_means(given: Any) -> None:
    code = GoesOn()
    with shop(ONE, asks(code)) as it:
        it.submit()
        answer(it, given)
        assert it.report().results == {"x": [type(given).__name__]}
    assert len(set(code.keys)) == 1


def test_a_worker_that_resumes_may_ask_as_often_as_it_has_to_in_the_same_words() -> None:
    code = GoesOn(8)
    with shop(ONE, asks(code, Escalate(max_questions=2))) as it:
        it.submit()
        for _ in range(8):
            answer(it)
        assert it.report().results == {"x": ["Approve"] * 8}
