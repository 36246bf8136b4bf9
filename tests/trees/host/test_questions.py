"""Questions to people: a loop over them sees each once and survives restarts; an answer counts once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from actors import Escalated
from actors.testing import settle
from trees import (
    Approve,
    Check,
    Edit,
    Escalate,
    EscalationError,
    Reject,
    Respond,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    TaskFailedError,
    Tasks,
    Verdict,
    WorkerSpec,
    start,
)

LONG_S = 60.0


def asks(task: Any, context: Any) -> str:
    if not context.answers:
        raise Escalated(f"May I {task}?")
    return f"did {task}"


def fails(task: Any, context: Any) -> str:
    raise ValueError("out of stock")


def fails_to_undo(task: Any, result: Any, context: Any) -> None:
    if not context.answers:
        raise ValueError("the bank is closed")


def never_pleased(task: Any, plan: Any, results: Any) -> Verdict:
    return Verdict(passed=False, checks=[Check("a", passed=False, feedback="too short")])


def desk(*subtasks: Subtask, **tasks: Any) -> SupervisorSpec:
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("inner", "look inside")])),
        children=[WorkerSpec(id="inner", execute=asks, on_failure=[Escalate()])],
    )
    return SupervisorSpec(
        id="desk",
        tasks=Tasks(planner=StaticPlan(list(subtasks)), **tasks),
        children=[
            WorkerSpec(id="a", execute=asks, on_failure=[Escalate()], undo=fails_to_undo),
            WorkerSpec(id="b", execute=asks, on_failure=[Escalate()]),
            WorkerSpec(id="c", execute=fails, on_failure=[]),
            team,
        ],
    )


def test_the_loop_sees_each_question_once_those_of_teams_too_the_open_ones_first_and_ends_with_the_task() -> None:
    plan = [Subtask("a", "begin"), Subtask("b", "go on", depends_on=["a"]), Subtask("team", depends_on=["b"])]
    with start(desk(*plan)) as tree:
        handle = tree.submit("go")
        first = next(iter(handle.questions()))
        assert handle.escalations == [first]  # it is still open: a loop that begins now sees it again
        seen = []
        for question in handle.questions():
            seen.append(question.question)
            handle.respond(question.id, Approve())
        assert seen == ["May I begin?", "May I go on?", "May I look inside?"]
        assert handle.result(LONG_S).results["b"] == "did go on"
        assert list(handle.questions()) == []


def test_the_loop_sees_what_somebody_else_answers_no_more() -> None:
    with start(desk(Subtask("a", "begin"), Subtask("b", "go on", depends_on=["a"]))) as tree:
        handle = tree.submit("go")
        questions = handle.questions()
        first = next(iter(handle.questions()))
        tree.respond(first, Approve())
        assert [each.question for each in _answered(handle, questions)] == ["May I go on?"]


def _answered(handle: Any, questions: Any) -> list[Any]:
    seen = []
    for question in questions:
        seen.append(question)
        handle.respond(question, Approve())
    return seen


def test_an_async_loop_sees_them_as_well() -> None:
    async def main() -> list[str]:
        seen = []
        with start(desk(Subtask("a", "begin"), Subtask("b", "go on", depends_on=["a"]))) as tree:
            handle = await tree.asubmit("go")
            async for question in handle.questions():
                seen.append(question.question)
                handle.respond(question.id, Approve())
            await handle
        return seen

    assert asyncio.run(main()) == ["May I begin?", "May I go on?"]


def test_questions_of_undos_and_reviewers_are_among_them() -> None:
    with start(desk(Subtask("a", "begin"), Subtask("c", depends_on=["a"]))) as tree:
        handle = tree.submit("go")
        seen = [(each.subtask, each.undoing) for each in _answered(handle, handle.questions())]
        with pytest.raises(TaskFailedError):
            handle.result(LONG_S)
    assert seen == [("a", False), ("a", True)]

    review = {"reviewer": never_pleased, "max_iterations": 1, "on_rejected": "escalate"}
    with start(desk(Subtask("a", "begin"), **review)) as tree:
        handle = tree.submit("go")
        seen_steps = [each.step for each in _answered(handle, handle.questions())]
        handle.result(LONG_S)
    assert seen_steps == ["", "review"]


def test_a_loop_that_waits_ends_when_the_tree_is_stopped_or_it_is_closed() -> None:
    tree = start(desk(Subtask("a", "begin")))
    handle = tree.submit("go")
    loops = [handle.questions(), handle.questions()]
    seen: list[Any] = []
    threads = [threading.Thread(target=lambda each=each: seen.extend(each)) for each in loops]
    for thread in threads:
        thread.start()
    settle(tree)
    loops[0].close()
    threads[0].join(LONG_S)
    assert not threads[0].is_alive()
    tree.stop()
    threads[1].join(LONG_S)
    assert not threads[1].is_alive()
    assert {each.question for each in seen} == {"May I begin?"}


# -- a second answer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["short", "x" * 100_000], ids=["small", "in the store only"])
def test_an_equal_second_answer_is_no_error_and_another_one_is(sqlite_url: str, value: str) -> None:
    with start(desk(Subtask("a", "begin"), Subtask("b", depends_on=["a"])), store=sqlite_url) as tree:
        handle = tree.submit("go")
        first, second = handle.questions(), None
        question = next(first)
        handle.respond(question.id, Edit({"text": value}))
        for _ in range(2):  # on its way at first; recorded, once the next question is there
            handle.respond(question.id, Edit({"text": value}))
            tree.respond(question.id, Edit({"text": value}))
            for other in (Edit({"text": f"{value}!"}), Approve(), Reject()):
                with pytest.raises(EscalationError, match="answered before"):
                    handle.respond(question.id, other)
            second = second or next(first)
        handle.respond(second.id, Approve())
        handle.result(LONG_S)
        handle.respond(question.id, Edit({"text": value}))
        with pytest.raises(EscalationError, match="answered before, and otherwise: edit"):
            handle.respond(question.id, Respond(value))
        with pytest.raises(EscalationError, match="no such open question"):
            handle.respond(f"{handle.id}:a:7", Approve())


def test_of_many_who_answer_otherwise_at_once_one_has_answered_and_that_counts() -> None:
    for _ in range(20):
        with start(desk(Subtask("a", "begin"))) as tree:
            handle = tree.submit("go")
            question = next(handle.questions())
            accepted: list[int] = []
            together = threading.Barrier(3)

            def answer(number: int) -> None:
                together.wait(LONG_S)  # noqa: B023 - the threads end with the round
                try:
                    tree.respond(question.id, Edit(number))  # noqa: B023
                except EscalationError:
                    return
                accepted.append(number)  # noqa: B023

            threads = [threading.Thread(target=answer, args=(number,)) for number in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(LONG_S)
            assert accepted == [handle.result(LONG_S).results["a"]]


# -- a process that dies -----------------------------------------------------------------------------------------

PROGRAM = """
import os, sys
from actors import Escalated, EscalationRaised
from trees import Escalate, Respond, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

def ship(task, context):
    if not context.feedback:
        raise Escalated("Where to?")
    return f"shipped to {context.feedback}"

def later(task, context):
    if not os.path.exists("second"):
        open("second", "w").close()
        os._exit(9)
    return ship(task, context)

ORDER = SupervisorSpec(
    id="order",
    tasks=Tasks(planner=StaticPlan([Subtask("ship"), Subtask("later", depends_on=["ship"])]), on_failure=[Escalate()]),
    children=[WorkerSpec(id="ship", execute=ship), WorkerSpec(id="later", execute=later)],
)
with start(ORDER, store="sqlite:///tasks.db") as tree:
    handle = tree.submit(Task("buy tea", id="t-7"))
    LOOP
    print(asked, handle.result().results["later"])
"""
QUESTIONS = """
    asked = []
    for question in handle.questions():
        asked.append(question.subtask)
        handle.respond(question.id, Respond("10 Tea Street"))
"""


@pytest.mark.parametrize(("loop", "asked"), [(QUESTIONS, ["later"])])
def test_the_loop_that_answers_goes_on_after_a_killed_process(loop: str, asked: list[str], tmp_path: Path) -> None:
    (tmp_path / "order.py").write_text(PROGRAM.replace("    LOOP\n", loop))
    run = [sys.executable, "order.py"]
    died = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert died.returncode == 9, died.stderr
    went_on = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert went_on.stdout == f"{asked} shipped to 10 Tea Street\n", went_on.stderr
