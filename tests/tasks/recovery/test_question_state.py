"""``Escalated(question, state=...)``: a worker that asks a person finds its state again after the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from actors import Escalated, Failed
from actors.testing import settle
from tests.support.attempts import AT_ONCE, LONG_S, Shop, shop
from tests.tasks.resuming import Books, Scenario, people, same_from_every_change
from trees import (
    Approve,
    Check,
    Edit,
    Escalate,
    EscalationRaised,
    Plan,
    Reject,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    Tree,
    Verdict,
    WorkerSpec,
    start,
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


def test_a_question_without_a_state_leaves_none() -> None:
    code = Asks(STATE, None, "third")
    with shop(ONE, asks(code)) as it:
        it.submit()
        for _ in range(3):
            answer(it)
        assert it.report().results == {"x": "did x"}
    assert code.seen == [None, STATE, None, "third"]


def test_an_attempt_that_fails_after_the_answer_is_tried_again_with_the_state() -> None:
    code = Asks(STATE, fails=2)
    with shop(ONE, asks(code, Escalate(), AT_ONCE)) as it:
        it.submit()
        answer(it)
        assert it.report().results == {"x": "did x"}
    assert code.seen == [None, STATE, STATE, STATE]


def test_a_question_of_the_ladder_about_what_failed_since_leaves_the_state() -> None:
    code = Asks(STATE, fails=1)
    with shop(ONE, asks(code, Escalate(), Escalate())) as it:
        it.submit()
        answer(it)
        answer(it)  # to "x failed. What now?", of the second rung
        assert it.report().results == {"x": "did x"}
    assert code.seen == [None, STATE, STATE]


def test_code_that_changes_its_state_changes_its_own_copy() -> None:
    seen: list[Any] = []

    def greedy(_: Any, context: Any) -> str:
        if not context.answers:
            raise Escalated("go on?", state=STATE)
        seen.append(json.dumps(context.state))
        context.state["history"].append("more")
        if len(seen) < 3:
            raise Failed("once more")
        return "done"

    with shop(ONE, asks(greedy, Escalate(), AT_ONCE)) as it:
        it.submit()
        answer(it)
        assert it.report().results == {"x": "done"}
    assert seen == [json.dumps(STATE)] * 3


def test_a_revision_begins_without_the_state() -> None:
    code = Asks(STATE)
    verdicts = iter([Verdict(passed=False, checks=[Check("x", passed=False, feedback="better")]), Verdict(passed=True)])
    with shop(ONE, asks(code), reviewer=lambda *_: next(verdicts)) as it:
        it.submit()
        answer(it)
        assert it.report().results == {"x": "did x"}
    assert code.seen == [None, STATE, None]


@pytest.mark.parametrize(
    ("words", "then"), [("x", [STATE]), ("another", [None, STATE])], ids=["same words", "other words"]
)
def test_a_subtask_that_another_plan_has_in_the_same_words_keeps_its_state(words: str, then: list[Any]) -> None:
    """In other words it begins anew: the answer was about something else, so it asks once more."""
    code = Asks(STATE, fails=1)

    def plan(_: Any, __: Any, feedback: str = "") -> Plan:
        return Plan([Subtask("x", instruction=words if feedback else "x", worker="a")])

    with shop((), asks(code, Escalate()), planner=plan, replan=1) as it:
        it.submit()
        for _ in then:
            answer(it)
        assert it.report().results == {"x": "did x"}
    assert code.seen == [None, STATE, *then]


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


@pytest.mark.parametrize("state", [object(), {"f": open}, {1, object()}, "x" * (128 * 1024 * 1024 + 1)], ids=type)
def test_a_state_that_is_no_json_is_a_failed_attempt_that_says_so(state: Any) -> None:
    code = Asks(state)
    with shop(ONE, asks(code, AT_ONCE, Escalate())) as it:
        it.submit()
        [question] = it.handle.escalations
        it.handle.cancel()
    assert "Escalated(state=...) cannot be kept" in question.error
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


class Asked(Scenario):
    """A worker, and one in a team, ask twice each, with a state; the second attempt fails once."""

    def spec(self, books: Books) -> SupervisorSpec:
        def work(task: Any, context: Any) -> list[Any]:
            books.work(context, json.dumps(context.state), len(context.answers))
            if len(context.answers) < 2:
                raise Escalated(
                    "go on?" * (1 + len(context.answers)), state={"of": task.id, "at": len(context.answers)}
                )
            if context.attempt == 3:
                raise Failed("once more")
            return [context.state, len(context.answers)]

        ladder = [Escalate(), Retry(max_attempts=2, initial_s=0.001, max_s=0.001, jitter=0.0)]
        member = WorkerSpec(id="m", execute=work, on_failure=ladder)
        team = SupervisorSpec(
            id="team", tasks=Tasks(planner=StaticPlan([Subtask("inner", worker="m")]), on_failure=[]), children=[member]
        )
        plan = [Subtask("x", worker="a"), Subtask("y", worker="team", depends_on=["x"])]
        return SupervisorSpec(
            id="p",
            tasks=Tasks(planner=StaticPlan(plan), on_failure=[]),
            children=[WorkerSpec(id="a", execute=work, on_failure=ladder), team],
        )

    def meanwhile(self, tree: Tree, books: Books) -> None:
        people(tree, lambda _: Approve())


def test_the_state_of_a_question_survives_a_crash_at_every_record_also_in_a_team() -> None:
    assert same_from_every_change(Asked()) > 20


@contextmanager
def tree_on(path: Path, code: Any) -> Iterator[Tree]:
    spec = SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan(list(ONE))), children=[asks(code)])
    with start(spec, store=f"sqlite:///{path}") as tree:
        yield tree


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_state_of_any_size_is_there_in_a_new_process(tmp_path: Path, size: int) -> None:
    state = {"text": "ä" * size, "calls": list(range(10))}
    path = tmp_path / "store.db"
    with tree_on(path, Asks(state)) as tree:
        tree.submit(Task(goal="sell", id="t"))
        settle(tree)
        assert [question.question for question in tree.escalations()] == ["question 0?"]
    code = Asks(state)
    with tree_on(path, code) as tree:
        [question] = tree.escalations()
        tree.respond(question.id, Approve())
        assert tree.task("t").result(LONG_S).results == {"x": "did x"}
    assert code.seen == [state]


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


def test_a_worker_that_resumes_and_fails_then_stands_where_it_stood_on_its_ladder() -> None:
    code = GoesOn(fails=1)
    with shop(ONE, asks(code, AT_ONCE, Escalate())) as it:
        it.submit()
        answer(it, Reject("no"))
        assert it.report().results == {"x": ["Reject"]}
    assert len(code.keys) == 3


@pytest.mark.parametrize("given", [Approve(), Edit(3), Reject("no")], ids=lambda each: type(each).__name__)
def test_a_worker_that_resumes_decides_nothing_about_a_question_of_its_ladder(given: Any) -> None:
    code = GoesOn(fails=1)
    with shop(ONE, asks(code)) as it:
        it.submit()
        answer(it)
        answer(it, given)
        expected: dict[str, Any] = {"Approve": {"x": ["Approve", "Approve"]}, "Edit": {"x": 3}, "Reject": {}}
        assert it.report().results == expected[type(given).__name__]
    assert len(code.keys) == (3 if isinstance(given, Approve) else 2)


def test_a_question_without_a_state_resumes_nothing() -> None:
    def code(_: Any, context: Any) -> str:
        raise Escalated("go on?", resumes=True)

    with shop(ONE, asks(code)) as it:
        it.submit()
        answer(it, Edit("mine"))
        assert it.report().results == {"x": "mine"}
