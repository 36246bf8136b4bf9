"""Replan: when a required subtask has failed for good the planner is told what is done and what failed, and plans."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from actors import Worker
from actors.testing import FakeModel, ScriptedExecutable
from tests.support.attempts import no, run, shop, undoable
from trees import (
    Budget,
    Check,
    ModelPlanner,
    Plan,
    PlanRefused,
    Retry,
    Subtask,
    SubtaskFailed,
    SupervisorSpec,
    TaskEnding,
    Tasks,
    TaskStatus,
    Verdict,
    WorkerSpec,
)

FIRST = [
    Subtask("a", "do a", worker="w"),
    Subtask("b", "do b", worker="bad", depends_on=["a"]),
    Subtask("c", "do c", worker="w", depends_on=["b"]),
    Subtask("x", "do x", worker="w"),
]


class Planner:
    """One plan after the other; what it was told."""

    def __init__(self, *plans: Any) -> None:
        self.plans = list(plans)
        self.feedbacks: list[Any] = []

    def plan(self, task: Any, catalogue: Any, feedback: Any) -> Any:
        self.feedbacks.append(feedback)
        plan = self.plans[min(len(self.feedbacks), len(self.plans)) - 1]
        if isinstance(plan, BaseException):
            raise plan
        return Plan(list(plan))


def replanned(planner: Any, *workers: WorkerSpec, **tasks: Any) -> Any:
    """A shop in which ``bad`` cannot do anything."""
    bad = WorkerSpec(id="bad", execute=ScriptedExecutable(no).execute, on_failure=[])
    return shop([], *workers, bad, **{"planner": planner, "replan": 1, **tasks})


def worker() -> tuple[ScriptedExecutable, WorkerSpec]:
    script = ScriptedExecutable()
    return script, WorkerSpec(id="w", execute=script.execute)


OTHER_WAY = [
    Subtask("b2", "do b otherwise", worker="w", depends_on=["a"]),
    FIRST[2].model_copy(update={"depends_on": ["b2"]}),
]


def test_by_default_nobody_plans_again() -> None:
    assert Tasks().replan == 0
    planner = Planner(FIRST, OTHER_WAY)
    with replanned(planner, worker()[1], replan=0) as it:
        it.submit()
        assert it.report().status is TaskStatus.FAILED
    assert len(planner.feedbacks) == 1


def test_what_is_done_is_a_dependency_like_any_other_and_its_result_is_seen() -> None:
    planner = Planner(FIRST, OTHER_WAY)
    script, spec = worker()
    with replanned(planner, spec) as it:
        it.submit()
        it.report()
    [call] = [call for call in script.calls if call.subtask == "b2"]
    assert call.results == {"a": "do a"}


def test_independent_branches_finish_before_another_plan_is_made() -> None:
    planner = Planner(FIRST, OTHER_WAY)
    with replanned(planner, worker()[1]) as it:
        it.submit()
        it.report()
    assert "x" in planner.feedbacks[1].done


def test_what_a_plan_names_once_more_that_is_done_does_not_run_again() -> None:
    planner = Planner(FIRST, [FIRST[0], *OTHER_WAY])
    script, spec = worker()
    with replanned(planner, spec) as it:
        it.submit()
        report = it.report()
    assert Counter(call.subtask for call in script.calls)["a"] == 1
    assert report.results["a"] == "do a"


def test_the_report_shows_what_failed_and_was_left_out_and_that_the_task_succeeded() -> None:
    with replanned(Planner(FIRST, OTHER_WAY), worker()[1]) as it:
        it.submit()
        report = it.report()
        text = it.handle.dump()
    assert report.status is TaskStatus.SUCCEEDED
    assert report.failed == {"b": "ValueError: no"}
    assert list(report.results) == ["a", "c", "x", "b2"]
    assert "replan" in text


def test_a_plan_that_says_that_what_is_done_will_do_ends_well() -> None:
    script, spec = worker()
    with replanned(Planner(FIRST, [FIRST[0]]), spec) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    assert Counter(call.subtask for call in script.calls) == {"a": 1, "x": 1}


@pytest.mark.parametrize("times", [1, 3])
def test_then_compensation_and_failure_as_today(times: int) -> None:
    script, spec = undoable("w")
    planner = Planner(FIRST)
    with replanned(planner, spec, replan=times) as it:
        it.submit()
        report = it.report()
        [ending] = it.events(TaskEnding)
    assert len(planner.feedbacks) == 1 + times
    assert report.status is TaskStatus.FAILED
    assert ending.kind == "subtask"
    assert str(report.error).endswith("b: ValueError: no")
    assert [call.subtask for call in script.undos] == ["x", "a"]
    assert Counter(call.subtask for call in script.calls) == {"a": 1, "x": 1}


def test_a_fixed_plan_tries_once_more_what_failed_under_its_old_key_and_what_was_skipped() -> None:
    script = ScriptedExecutable(no, "done", by="call")
    _, spec = worker()
    with shop(FIRST, spec, WorkerSpec(id="bad", execute=script.execute, on_failure=[]), replan=1) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    first, second = script.calls
    assert first.idempotency_key == second.idempotency_key
    assert second.attempt == 2


def test_the_same_id_with_other_words_is_a_new_act_with_a_new_key() -> None:
    script = ScriptedExecutable(no, "done", by="call")
    planner = Planner(FIRST, [FIRST[1].model_copy(update={"instruction": "do b, but otherwise"}), FIRST[2]])
    with shop(
        [], worker()[1], WorkerSpec(id="bad", execute=script.execute, on_failure=[]), planner=planner, replan=1
    ) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    first, second = script.calls
    assert first.idempotency_key != second.idempotency_key
    assert second.instruction == "do b, but otherwise"


class Dies(Worker):
    """Crashes: whether it has done anything nobody knows."""

    def execute(self, task: Any, context: Any) -> Any:
        raise RuntimeError("dies of it")


def test_what_a_failed_subtask_may_have_done_is_undone_before_another_way_is_taken() -> None:
    book: list[str] = []

    def undo(task: Any, result: Any, context: Any) -> None:
        book.append(f"undo {task.id}")

    class Tells(Planner):
        def plan(self, *args: Any) -> Any:
            book.append("plan")
            return super().plan(*args)

    dies = WorkerSpec(id="dies", actor=Dies, undo=undo, on_failure=[])
    first = [Subtask("a", worker="w"), Subtask("pay", worker="dies", depends_on=["a"])]
    planner = Tells(first, [Subtask("pay2", worker="w", depends_on=["a"])])
    script, spec = undoable("w")
    with shop([], spec, dies, planner=planner, replan=1) as it:
        it.submit()
        report = it.report()
    assert book == ["plan", "undo pay", "plan"]
    assert script.undos == []  # what is done is kept
    assert report.status is TaskStatus.SUCCEEDED


def test_other_words_under_a_known_id_get_the_answers_to_their_own_asks() -> None:
    async def asks(task: Any, context: Any) -> Any:
        said = await context.ask("helper", str(task))
        if str(task) == "one":
            raise ValueError("no")
        return said

    asker = WorkerSpec(id="asker", execute=asks, on_failure=[])
    helper = WorkerSpec(id="helper", execute=lambda task, _: f"helped with {task}")
    with replanned(
        Planner([Subtask("a", "one", worker="asker")], [Subtask("a", "two", worker="asker")]), asker, helper
    ) as it:
        it.submit()
        assert it.report().results == {"a": "helped with two"}


# -- plans that do not fit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ([], "no subtasks"),
        ([Subtask("d", worker="ghost")], "there is no worker 'ghost'"),
        ([Subtask("d", worker="w", depends_on=["b"])], "there is no subtask 'b'"),
        ([Subtask("d", worker="w", depends_on=["e"]), Subtask("e", worker="w", depends_on=["d"])], "a cycle"),
        (ValueError("no idea"), "the planner failed: ValueError: no idea"),
    ],
    ids=["empty", "unknown worker", "depends on what failed", "cycle", "raises"],
)
def test_a_further_plan_is_checked_like_the_first_and_without_one_the_task_fails_as_today(
    plan: Any, words: str
) -> None:
    planner = Planner(FIRST, plan)
    script, spec = undoable("w")
    again = Retry(2, initial_s=0)
    with replanned(planner, spec, max_plan_attempts=2, step_retry=again) as it:
        it.submit()
        report = it.report()
        refusals = [*it.events(PlanRefused), *(each for each in it.events(SubtaskFailed) if each.role == "plan")]
    assert report.status is TaskStatus.FAILED
    assert "b: ValueError: no; there is no other plan" in str(report.error)
    assert words in str(report.error)
    assert len(planner.feedbacks) == 3
    assert "Done, and kept: a, x" in planner.feedbacks[2]
    assert words in planner.feedbacks[2]
    assert refusals
    assert sorted(call.subtask for call in script.undos) == ["a", "x"]


def test_what_is_left_of_the_budget_is_what_a_further_plan_may_cost() -> None:
    from actors import Done, Usage  # noqa: PLC0415 - of this test only

    spends = WorkerSpec(id="w", execute=lambda *_: Done(1, usage=Usage(tokens=60)), estimate=60)
    first = [Subtask("a", worker="w"), Subtask("b", worker="bad", depends_on=["a"])]
    planner = Planner(first, [Subtask("b2", worker="w", depends_on=["a"])])
    with replanned(planner, spends, max_plan_attempts=1) as it:
        it.submit(budget=Budget(tokens=100))
        report = it.report()
    assert report.status is TaskStatus.FAILED
    assert "tokens" in str(report.error)


def test_a_model_is_told_what_is_done_and_what_failed() -> None:
    model = FakeModel(
        {"subtasks": [{"id": "a", "worker": "w"}, {"id": "b", "worker": "bad", "depends_on": ["a"]}]},
        {"subtasks": [{"id": "b2", "worker": "w", "depends_on": ["a"]}]},
    )
    with replanned(ModelPlanner(model), worker()[1]) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    assert "could not be carried out" in model.prompts[1]
    assert "Failed: b: ValueError: no" in model.prompts[1]
    assert "was refused" not in model.prompts[1]


# -- with everything else ----------------------------------------------------------------------------------------


def test_a_review_comes_after_the_last_plan_and_may_send_back_what_was_kept() -> None:
    shown: list[list[str]] = []

    def review(_: Any, plan: Plan, results: dict[str, Any]) -> Verdict:
        shown.append([subtask.id for subtask in plan.subtasks])
        bad = {"a"} if len(shown) == 1 else set()
        return Verdict(not bad, [Check(id_, id_ not in bad, "better" if id_ in bad else "") for id_ in results])

    script, spec = worker()
    with replanned(Planner(FIRST, OTHER_WAY), spec, reviewer=review) as it:
        it.submit()
        assert it.report().status is TaskStatus.SUCCEEDED
    assert shown == [["a", "x", "b2", "c"]] * 2
    assert Counter(call.subtask for call in script.calls) == {"a": 2, "x": 1, "b2": 2, "c": 2}


def test_a_team_plans_again_by_itself_and_its_outer_task_knows_nothing_of_it() -> None:
    script, spec = worker()
    bad = WorkerSpec(id="bad", execute=ScriptedExecutable(no).execute, on_failure=[])
    planner = Planner(FIRST, OTHER_WAY)
    team = SupervisorSpec(id="team", tasks=Tasks(planner=planner, replan=1), children=[spec, bad], on_failure=[])
    report = run([Subtask("t", worker="team")], team)
    assert report.status is TaskStatus.SUCCEEDED
    assert Counter(call.subtask for call in script.calls) == {"a": 1, "x": 1, "b2": 1, "c": 1}
