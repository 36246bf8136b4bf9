"""Failing steps, revisions that undo, reviews of each result and replans go on in a new process, from every change."""

from __future__ import annotations

from typing import Any

from actors import Failed
from tests.tasks.resuming import Books, Scenario, people, same_from_every_change
from trees import (
    Approve,
    Check,
    Edit,
    Plan,
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


def again(books: Books, *entry: Any) -> bool:
    """Note that a step is called; True where it was before."""
    was = books.counts[entry] > 0
    books.note(*entry)
    return was


def workers(books: Books, *ids: str) -> list[WorkerSpec]:
    def work(task: Any, context: Any) -> str:
        books.work(context, context.feedback)
        return f"{task.id} {context.feedback}"

    def undo(task: Any, result: Any, context: Any) -> None:
        books.undo(context, result)
        if task.id == "charge" and context.attempt == 1:
            raise Failed("not yet", retryable=True)

    return [WorkerSpec(id=id_, execute=work, undo=undo) for id_ in ids]


class Reworked(Scenario):
    """Every step fails once; the verdict is handed back once; the revision undoes effects, one at the second try."""

    def spec(self, books: Books) -> SupervisorSpec:
        plan = [
            Subtask("draft", worker="w"),
            Subtask("charge", worker="w", depends_on=["draft"]),
            Subtask("send", worker="w", depends_on=["charge"]),
        ]

        def planner(task: Any, catalogue: Any, feedback: str) -> Plan:
            if not again(books, "plan", "t"):
                raise ConnectionError("no route")
            return Plan(plan)

        def review(_: Any, __: Any, results: dict[str, Any], feedback: str = "") -> Any:
            revised = "shorter" in results["draft"]
            if not again(books, "review", "t", 1 + revised, bool(feedback)):
                raise ConnectionError("no route")
            said = "shorter" if feedback else ""  # the first time it says nothing
            return Verdict(revised, [Check("draft", passed=revised, feedback=said)])

        def combine(_: Any, results: dict[str, Any]) -> list[str]:
            if not again(books, "combine", "t"):
                raise ConnectionError("no route")
            return list(results)

        tasks = Tasks(planner=planner, reviewer=review, synthesizer=combine, step_retry=SOON, on_failure=[SOON])
        return SupervisorSpec(id="p", tasks=tasks, children=workers(books, "w"))


def test_failing_steps_and_a_revision_that_undoes_go_on_from_every_change() -> None:
    assert same_from_every_change(Reworked()) > 35


class Piecewise(Scenario):
    """Each result is reviewed; a person sends one back, and vouches for it then; then another plan is made."""

    def spec(self, books: Books) -> SupervisorSpec:
        first = [
            Subtask("code", worker="w"),
            Subtask("test", worker="bad", depends_on=["code"]),
            Subtask("ship", worker="w", depends_on=["test"]),
        ]
        other = [Subtask("test2", worker="w", depends_on=["code"]), Subtask("ship", worker="w", depends_on=["test2"])]

        def planner(task: Any, catalogue: Any, feedback: str) -> Plan:
            books.note("plan", "t", bool(feedback))
            return Plan(other if "Failed: test" in feedback else first)

        def review(_: Any, __: Any, results: dict[str, Any]) -> Any:
            books.note("review", "t", str(results))
            return [Check(id_, passed=id_ != "code", feedback="no") for id_ in results]

        def fails(_: Any, context: Any) -> None:
            books.work(context)
            raise Failed("it cannot be done", retryable=False)

        tasks = Tasks(
            planner=planner, reviewer=review, review="each", max_iterations=1, on_rejected="escalate", replan=1
        )
        bad = WorkerSpec(id="bad", execute=fails, on_failure=[])
        return SupervisorSpec(id="p", tasks=tasks, children=[*workers(books, "w"), bad])

    def meanwhile(self, tree: Tree, books: Books) -> None:
        people(tree, lambda question: Approve() if question.id.endswith(":2") else Respond("with tests"))


def test_reviews_of_each_result_answers_about_them_and_replans_go_on_from_every_change() -> None:
    assert same_from_every_change(Piecewise()) > 35


class Asked(Scenario):
    """A team's reviewer fails for good, a person gives the verdict; the synthesizer above does, a person the output."""

    def spec(self, books: Books) -> SupervisorSpec:
        def review(task: Any, *_: Any) -> Any:
            books.note("review", task.id, 1)
            raise ConnectionError("no route")

        def combine(*_: Any) -> Any:
            books.note("combine", "t")
            raise ConnectionError("no route")

        common: dict[str, Any] = {"step_retry": SOON, "on_step_failure": "escalate"}
        inner = StaticPlan([Subtask("x", worker="w")])
        team = SupervisorSpec(
            id="team", tasks=Tasks(planner=inner, reviewer=review, **common), children=workers(books, "w")
        )
        tasks = Tasks(planner=StaticPlan([Subtask("a", worker="team")]), synthesizer=combine, **common)
        return SupervisorSpec(id="p", tasks=tasks, children=[team])

    def meanwhile(self, tree: Tree, books: Books) -> None:
        people(tree, lambda question: Edit(value=True) if question.step == "review" else Edit("by hand"))


def test_questions_about_steps_go_on_from_every_change_also_in_a_team() -> None:
    assert same_from_every_change(Asked()) > 25
