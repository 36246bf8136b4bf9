"""Questions to people, undos, reviews and the making of an output go on in a new process, from every change."""

from __future__ import annotations

import asyncio
from typing import Any

from actors import Failed
from tests.tasks.resuming import Books, Scenario, people, same_from_every_change
from trees import (
    Approve,
    Check,
    Edit,
    Escalate,
    Reject,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    Tree,
    Verdict,
    WorkerSpec,
)

SOON = Retry(max_attempts=2, initial_s=0.001, factor=1.0, max_s=0.001, jitter=0.0)
ANSWERS: dict[str, Any] = {
    "approved": Approve(),
    "edited": Edit({"by": "hand"}),
    "told": Respond("like this"),
    "denied": Reject("no"),
}


class Asked(Scenario):
    """Every subtask needs somebody's answer; in the end two are undone, one of them with somebody's help."""

    def spec(self, books: Books) -> SupervisorSpec:
        async def work(task: Any, context: Any) -> str:
            books.work(context, context.feedback)
            await asyncio.sleep(0)
            if context.attempt == 1:
                raise Failed("not by itself")
            return f"{task.id} {context.feedback}"

        def undo(task: Any, result: Any, context: Any) -> None:
            books.undo(context, result)
            if task.id == "told" and context.attempt < 3:
                raise Failed("not yet", retryable=True)

        ids = list(ANSWERS)  # one after the other, so that questions have the same numbers each time
        plan = [
            Subtask(id_, worker="w", required=id_ != "denied", depends_on=ids[at - 1 : at] if at else [])
            for at, id_ in enumerate(ids)
        ]
        plan.append(Subtask("end", worker="end", depends_on=ids))
        return SupervisorSpec(
            id="p",
            tasks=Tasks(planner=StaticPlan(plan), on_failure=[]),
            children=[
                WorkerSpec(
                    id="w", execute=work, breaker=None, undo=undo, on_failure=[Retry(max_attempts=1), Escalate()]
                ),
                WorkerSpec(id="end", execute=work),
            ],
        )

    def meanwhile(self, tree: Tree, books: Books) -> None:
        people(tree, lambda question: Approve() if question.undoing else ANSWERS[question.subtask])


def test_questions_and_their_answers_go_on_from_every_change() -> None:
    assert same_from_every_change(Asked()) > 25


class Undone(Scenario):
    """The fourth fails: three are undone, one by a sibling, one at the second try, one by code."""

    def spec(self, books: Books) -> SupervisorSpec:
        def work(task: Any, context: Any) -> str:
            books.work(context)
            return f"did {task.id}"

        def fails(_: Any, context: Any) -> None:
            books.work(context)
            raise Failed("it cannot be done", retryable=False)

        async def undo(_: Any, result: Any, context: Any) -> None:
            await asyncio.sleep(0)
            books.undo(context, result)

        def undo_late(_: Any, result: Any, context: Any) -> None:
            books.undo(context, result)
            if context.attempt == 1:
                raise Failed("not yet", retryable=True)

        def refund(task: Any, context: Any) -> None:
            books.undo(context, context.results.get(task.id))

        plan = [
            Subtask("pay", worker="pay"),
            Subtask("pack", worker="pack", depends_on=["pay"]),
            Subtask("send", worker="send", depends_on=["pack"], undo="back"),
            Subtask("fail", worker="fails", depends_on=["send"]),
            Subtask("after", worker="pay", depends_on=["fail"]),
            Subtask("last", worker="pay", depends_on=["after"]),
        ]
        return SupervisorSpec(
            id="p",
            tasks=Tasks(planner=StaticPlan(plan), on_failure=[SOON]),
            children=[
                WorkerSpec(id="pay", execute=work, undo=undo),
                WorkerSpec(id="pack", execute=work, undo=undo_late),
                WorkerSpec(id="send", execute=work),
                WorkerSpec(id="fails", execute=fails),
                WorkerSpec(id="back", execute=refund),
            ],
        )


def test_what_was_done_is_undone_once_and_in_reverse_from_every_change() -> None:
    _, reports = Undone().run()

    assert reports["t"]["compensated"] == ["send", "pack", "pay"]
    assert same_from_every_change(Undone()) > 20


class Reviewed(Scenario):
    """A reviewer sends one subtask back twice; then the results are made into one."""

    def spec(self, books: Books) -> SupervisorSpec:
        def work(task: Any, context: Any) -> str:
            books.work(context, context.feedback)
            return f"{task.id}: {context.feedback or 'a first try'}, from {sorted(context.results.values())}"

        def plan(task: Any, catalogue: Any, feedback: str) -> Any:
            books.note("plan", task.id, feedback)
            if not feedback:
                return {"subtasks": [{"id": "one", "worker": "nobody"}]}
            return StaticPlan(
                [
                    Subtask("a", worker="w"),
                    Subtask("b", worker="w", depends_on=["a"]),
                    Subtask("c", worker="w", depends_on=["b"]),
                ]
            ).plan(task, catalogue, feedback)

        async def review(task: Any, _: Any, results: dict[str, Any]) -> Verdict:
            await asyncio.sleep(0)
            number = results["b"].count("better 1") + 2 * results["b"].count("better 2") + 1
            books.note("review", task.id, number)
            return Verdict(passed=number == 3, checks=[Check("b", passed=number == 3, feedback=f"better {number}")])

        def combine(task: Any, results: dict[str, Any]) -> str:
            books.note("combine", task.id)
            return " / ".join(results.values())

        return SupervisorSpec(
            id="p",
            tasks=Tasks(planner=plan, reviewer=review, synthesizer=combine),
            children=[WorkerSpec(id="w", execute=work)],
        )


def test_reviews_revisions_and_the_output_go_on_from_every_change() -> None:
    assert same_from_every_change(Reviewed()) > 20


# -- time ----------------------------------------------------------------------------------------------------
