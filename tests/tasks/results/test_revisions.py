"""A revising worker sees its work: its last result, what is to be better, what was said before; in teams as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import BaseModel

from actors import Failed
from tests.support.asking import LONG_S, run
from tests.support.attempts import AT_ONCE
from tests.tasks.resuming import Books, Scenario, same_from_every_change
from trees import (
    Check,
    ModelPlanner,
    Plan,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    Verdict,
    WorkerSpec,
    start,
)


class Seen(NamedTuple):
    """What an attempt saw of its revisions."""

    revision: int
    previous: Any
    feedback: str
    history: list[str]


FIRST = Seen(0, None, "", [])


class Writer:
    """Writes a draft, the next one at each revision, and notes what it saw."""

    def __init__(self, *, large: bool = False) -> None:
        self.seen: dict[str, list[Seen]] = {}
        self._padding = "x" * 4000 if large else ""

    def __call__(self, task: Any, context: Any) -> str:
        seen = self.seen.setdefault(task.id, [])
        seen.append(Seen(context.revision, context.previous, context.feedback, context.history))
        return f"{task.id} {len(seen)}{self._padding}"


def sends_back(*texts: str, subtask: str = "writer") -> Callable[..., Verdict]:
    """Reviewer that finds something about a subtask as often as there are texts, and then nothing."""
    left = list(texts)

    def review(_: Any, __: Any, ___: Any) -> Verdict:
        if not left:
            return Verdict(passed=True)
        return Verdict(passed=False, checks=[Check(subtask, passed=False, feedback=left.pop(0))])

    return review


def tree(*plan: Subtask, code: Any, reviewer: Any, more: tuple[Any, ...] = (), **tasks: Any) -> SupervisorSpec:
    settings = Tasks(planner=StaticPlan(list(plan)), reviewer=reviewer, **{"on_failure": [AT_ONCE], **tasks})
    return SupervisorSpec(id="p", tasks=settings, children=[WorkerSpec(id="w", execute=code, breaker=None), *more])


RESEARCH, WRITER = Subtask("research", worker="w"), Subtask("writer", worker="w", depends_on=["research"])


def test_a_revising_worker_sees_its_last_result_the_feedback_and_the_number_of_its_revision() -> None:
    code = Writer()

    run(tree(RESEARCH, WRITER, code=code, reviewer=sends_back("Too short: add numbers.")))

    assert code.seen["writer"] == [FIRST, Seen(1, "writer 1", "Too short: add numbers.", [])]
    assert code.seen["research"] == [FIRST]


def test_history_holds_the_earlier_feedbacks_the_oldest_first() -> None:
    code = Writer()

    run(tree(RESEARCH, WRITER, code=code, reviewer=sends_back("one", "two", "three"), max_iterations=4))

    assert [seen.history for seen in code.seen["writer"]] == [
        [],
        [],
        ["one"],
        ["one", "two"],
    ]
    assert [seen.previous for seen in code.seen["writer"]] == [None, "writer 1", "writer 2", "writer 3"]
    assert [seen.feedback.rpartition(" ")[2] for seen in code.seen["writer"]] == ["", "one", "two", "three"]
    assert [seen.revision for seen in code.seen["writer"]] == [0, 1, 2, 3]


def test_what_runs_again_because_what_it_needs_was_sent_back_sees_its_work_and_no_feedback() -> None:
    code = Writer()

    run(tree(RESEARCH, WRITER, code=code, reviewer=sends_back("wrong", subtask="research")))

    assert code.seen["research"][1] == Seen(1, "research 1", "wrong", [])
    assert code.seen["writer"] == [FIRST, Seen(1, "writer 1", "", [])]


def test_an_attempt_that_is_tried_again_is_the_same_revision() -> None:
    seen: list[Seen] = []

    def flaky(_: Any, context: Any) -> str:
        seen.append(Seen(context.revision, context.previous, context.feedback, context.history))
        if context.revision and context.attempt < 3:
            raise OSError("down")
        return f"draft {len(seen)}"

    run(tree(Subtask("writer", worker="w"), code=flaky, reviewer=sends_back("better")))

    assert seen == [FIRST, *[Seen(1, "draft 1", "better", [])] * 3]


def test_a_result_that_did_not_fit_is_feedback_and_no_revision() -> None:
    class Found(BaseModel):
        number: int

    seen: list[Seen] = []

    def counts(_: Any, context: Any) -> Any:
        seen.append(Seen(context.revision, context.previous, context.feedback, context.history))
        return {"number": 1} if context.feedback else {"number": "many"}

    plan = StaticPlan([Subtask("x", worker="w")])
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=plan, on_failure=[AT_ONCE]),
        children=[WorkerSpec(id="w", execute=counts, output=Found)],
    )
    run(spec)

    assert seen[0] == FIRST
    assert (seen[1].revision, seen[1].previous, seen[1].history) == (0, None, [])
    assert "number" in seen[1].feedback


def test_the_work_that_is_seen_may_be_changed_without_anybody_noticing() -> None:
    seen: list[Any] = []

    def edits(_: Any, context: Any) -> dict[str, Any]:
        if context.previous is None:
            return {"lines": ["one"]}
        context.history.append("mine")
        context.previous["lines"].append("two")
        seen.append((context.previous, context.history))
        return dict(context.previous)

    report = run(tree(Subtask("writer", worker="w"), code=edits, reviewer=sends_back("more")))

    assert seen == [({"lines": ["one", "two"]}, [])]
    assert report.results == {"writer": {"lines": ["one", "two"]}}


def test_the_last_result_is_seen_also_where_the_orchestrator_does_not_hold_it() -> None:
    code = Writer(large=True)

    run(tree(RESEARCH, WRITER, code=code, reviewer=sends_back("longer"), context_tokens=600))

    assert code.seen["writer"][1].previous == "writer 1" + "x" * 4000


# -- in teams ------------------------------------------------------------------------------------------------------


def of_team(code: Any, *, reviewer: Any = None, planner: Any = None, **fields: Any) -> SupervisorSpec:
    members = StaticPlan([Subtask("draft", worker="m"), Subtask("polish", worker="m", depends_on=["draft"])])
    return SupervisorSpec(
        id="team",
        tasks=Tasks(planner=planner or members, reviewer=reviewer, on_failure=[]),
        children=[WorkerSpec(id="m", execute=code, breaker=None)],
        **fields,
    )


TEAM = Subtask("writer", "write it", worker="team", depends_on=["research"])


def test_inside_a_team_feedback_is_the_teams_feedback_and_previous_the_members_own_work() -> None:
    code = Writer()

    run(tree(RESEARCH, TEAM, code=code, reviewer=sends_back("Too short", "Too long"), more=(of_team(code),)))

    assert code.seen["draft"] == [
        FIRST,
        Seen(1, "draft 1", "Too short", []),
        Seen(2, "draft 2", "Too long", ["Too short"]),
    ]
    assert [seen.previous for seen in code.seen["polish"]] == [None, "polish 1", "polish 2"]


def test_a_member_that_is_sent_back_in_a_team_that_was_sent_back_sees_both_feedbacks() -> None:
    code, inner = Writer(), iter([True, False, True])

    def strict(_: Any, __: Any, ___: Any) -> Verdict:
        is_good = next(inner)
        return Verdict(passed=is_good, checks=[Check("draft", passed=is_good, feedback="no numbers")])

    inside = of_team(code, reviewer=strict)
    run(tree(RESEARCH, TEAM, code=code, reviewer=sends_back("Too short"), more=(inside,)))

    assert code.seen["draft"] == [
        FIRST,
        Seen(1, "draft 1", "Too short", []),
        Seen(2, "draft 2", "no numbers", ["Too short"]),
    ]


def test_a_member_sees_no_result_of_a_task_that_was_removed_and_had_the_id_of_its_own() -> None:
    code, seen = Writer(), []
    alone = Subtask("writer", "write it", worker="team")

    def review(_: Any, __: Any, results: dict[str, Any]) -> Verdict:
        passed = len(code.seen["draft"]) % 2 == 0
        return Verdict(passed=passed, checks=[Check("writer", passed=passed, feedback="Too short")])

    with start(tree(alone, code=code, reviewer=review, more=(of_team(code),))) as running:
        for _ in range(2):
            running.run(Task("write", id="t"), LONG_S)
            running.remove_task("t")
            seen.append(code.seen["draft"][-1].previous)

    assert seen == ["draft 1", "draft 3"]


def test_a_member_that_is_new_in_a_revision_sees_the_last_result_of_its_team() -> None:
    code, plans = Writer(), iter([[Subtask("draft", worker="m")], [Subtask("mend", worker="m")]])
    feedbacks: list[str] = []

    def planner(_: Task, __: Any, feedback: str) -> Plan:
        feedbacks.append(feedback)
        return Plan(subtasks=next(plans))

    inside = of_team(code, planner=planner)
    run(tree(RESEARCH, TEAM, code=code, reviewer=sends_back("Too short"), more=(inside,)))

    assert code.seen["mend"] == [Seen(1, {"draft": "draft 1"}, "Too short", [])]
    assert feedbacks == ["", "The last result of this team was sent back: Too short"]


def test_a_model_that_plans_for_a_team_is_told_what_was_sent_back() -> None:
    prompts: list[str] = []

    def call(prompt: str, _: Any) -> str:
        prompts.append(prompt)
        return '{"subtasks": [{"id": "draft", "worker": "m"}]}'

    inside = of_team(Writer(), planner=ModelPlanner(call))
    run(tree(RESEARCH, TEAM, code=Writer(), reviewer=sends_back("Too short"), more=(inside,)))

    assert ["Too short" in prompt for prompt in prompts] == [False, True]


def test_a_teams_inputs_never_overwrite_a_users() -> None:
    seen: list[Any] = []

    def member(task: Any, context: Any) -> str:
        seen.append((task.id, context.inputs, context.results, context.feedback))
        return f"{task.id} done"

    inputs = {"results": "the user's", "feedback": "the user's, too"}
    spec = tree(RESEARCH, TEAM, code=Writer(), reviewer=sends_back("Too short"), more=(of_team(member),))
    run(spec, Task("the goal", inputs=inputs))

    assert [each[1] for each in seen] == [inputs] * 4
    assert seen[2] == ("draft", inputs, {"research": "research 1"}, "Too short")
    assert seen[3][2] == {"research": "research 1", "draft": "draft done"}


def test_a_member_sees_its_own_dependency_where_one_of_its_teams_has_the_same_id() -> None:
    seen: list[Any] = []

    def member(task: Any, context: Any) -> str:
        seen.append((task.id, context.results))
        return "the member's"

    plan = [Subtask("draft", worker="w"), Subtask("writer", worker="team", depends_on=["draft"])]
    run(tree(*plan, code=Writer(), reviewer=None, more=(of_team(member),)))

    assert seen == [("draft", {"draft": "draft 1"}), ("polish", {"draft": "the member's"})]


# -- from every change ---------------------------------------------------------------------------------------------


class Revised(Scenario):
    """A subtask and a team are sent back twice; the first attempt of each revision fails."""

    def spec(self, books: Books) -> SupervisorSpec:
        def work(task: Any, context: Any) -> str:
            seen = (context.revision, context.previous, context.feedback, context.history, sorted(context.results))
            books.work(context, repr(seen))
            if context.revision and context.attempt == 1 and task.id != "polish":
                raise Failed("not at once", retryable=True)
            return f"{task.id} {context.revision}"

        def review(task: Any, _: Any, results: dict[str, Any]) -> Verdict:
            number = int(results["research"][-1])
            books.note("review", task.id, number + 1)
            checks = [Check(id_, passed=number == 2, feedback=f"no {number}") for id_ in ("research", "writer")]
            return Verdict(passed=number == 2, checks=checks)

        spec = tree(RESEARCH, TEAM, code=work, reviewer=review, more=(of_team(work),))
        members = spec.children[1].model_copy(
            update={"tasks": spec.children[1].tasks.model_copy(update={"on_failure": [AT_ONCE]})}  # type: ignore[union-attr]
        )
        return spec.model_copy(update={"children": [spec.children[0], members]})


def test_what_a_revision_sees_is_the_same_from_every_change() -> None:
    books, reports = Revised().run()
    assert reports["t"]["results"]["writer"] == {"draft": "draft 2", "polish": "polish 2"}
    last = [entry for _, entry in books.entries if entry[0] == "work" and "polish" in entry[1]][-1]
    assert last[-1] == str(
        (2, "polish 1", "no 1", ["no 0"], ["draft", "research"]),
    )

    assert same_from_every_change(Revised(), every=2) > 40
