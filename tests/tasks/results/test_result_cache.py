"""What an orchestrator holds of results: not more than it may, and nobody who needs one sees the difference."""

from typing import Any

import pytest

from actors.tasks.results.result_cache import Evicted
from actors.testing import ScriptedExecutable, settle
from tests.support.attempts import SLOWLY, Shop, no, run, shop
from trees import Check, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Verdict, WorkerSpec

ENDS = pytest.mark.parametrize("end", [Shop.replace_orchestrator, Shop.crash_orchestrator], ids=["replaced", "crashed"])
LONG = [letter * 1_000 for letter in "abcdefgh"]
SMALL: dict[str, Any] = {"context_tokens": 3_000, "count_tokens": len}
"""Room for two of them."""
EIGHT = [Subtask(f"x{number}", worker="a", inputs={"number": number}) for number in range(8)]
ALL = {f"x{number}": text for number, text in enumerate(LONG)}


def write(task: Subtask, context: Any) -> str:
    return LONG[context.inputs["number"]]


A = WorkerSpec(id="a", execute=write)


def held(it: Shop) -> list[str]:
    """The subtasks whose results are held in full."""
    state = it.tree._system.services["tasks"].ports["shop"].states[it.handle.id]
    return [id_ for id_, value in state.results().items() if not isinstance(value, Evicted)]


def worker(id_: str, *steps: object, **words: Any) -> tuple[ScriptedExecutable, WorkerSpec]:
    script = ScriptedExecutable(*steps)
    return script, WorkerSpec(id=id_, execute=script.execute, **words)


def test_results_are_let_go_once_there_are_too_many_the_oldest_first() -> None:
    plan = [*EIGHT, Subtask("wait", worker="wait")]
    with shop(plan, A, worker("wait", no)[1], max_parallel=1, **SMALL, on_failure=[SLOWLY]) as it:
        it.submit()

        assert held(it) == ["x6", "x7"] or held(it) == ["x7"]
        it.handle.cancel()


def test_without_need_nothing_is_let_go() -> None:
    with shop([*EIGHT, Subtask("wait", worker="wait")], A, worker("wait", no)[1], on_failure=[SLOWLY]) as it:
        it.submit()

        assert held(it) == list(ALL)
        it.handle.cancel()


def test_the_report_has_them_all() -> None:
    report = run(EIGHT, A, **SMALL)

    assert report.results == ALL
    assert report.output == ALL


def test_a_dependant_sees_what_was_let_go() -> None:
    plan = [*EIGHT, Subtask("all", worker="all", depends_on=list(ALL))]
    script, spec = worker("all", "done")
    run(plan, A, spec, **SMALL)

    assert script.calls[0].results == ALL


def test_a_reviewer_and_a_synthesizer_see_what_was_let_go() -> None:
    seen: list[dict[str, Any]] = []

    def reviewer(task: Task, plan: Any, results: dict[str, Any]) -> Verdict:
        seen.append(results)
        return Verdict(passed=True)

    def synthesizer(task: Task, results: dict[str, Any]) -> int:
        seen.append(results)
        return len(results)

    report = run(EIGHT, A, reviewer=reviewer, synthesizer=synthesizer, **SMALL)

    assert seen == [ALL, ALL]
    assert report.output == 8


def test_an_undo_is_given_what_was_let_go() -> None:
    undone: dict[str, Any] = {}

    def undo(task: Subtask, result: Any, context: Any) -> None:
        undone[task.id] = result

    plan = [*EIGHT, Subtask("bad", worker="bad", depends_on=list(ALL))]
    report = run(plan, A.model_copy(update={"undo": undo}), worker("bad", no)[1], **SMALL)

    assert report.status == "failed"
    assert undone == ALL


def test_the_undo_of_an_act_that_was_revised_is_given_its_own_result() -> None:
    def reviewer(task: Task, plan: Any, results: dict[str, Any]) -> Verdict:
        passed = results["pay"] != LONG[0]
        return Verdict(passed=passed, checks=[] if passed else [Check("pay", passed=False, feedback="more")])

    undone: list[Any] = []
    pay = ScriptedExecutable(LONG[0], LONG[1], by="call")
    bad = ScriptedExecutable("sent", no, by="call")
    plan = [Subtask("pay", worker="pay"), Subtask("send", worker="bad", depends_on=["pay"])]
    pays = WorkerSpec(id="pay", execute=pay.execute, undo=lambda _task, result, _context: undone.append(result))
    run(
        plan,
        pays,
        WorkerSpec(id="bad", execute=bad.execute),
        reviewer=reviewer,
        on_failure=[],
        context_tokens=100,
        count_tokens=len,
    )

    assert undone == [LONG[0], LONG[1]]


@ENDS
def test_a_new_orchestrator_holds_no_more_than_the_one_before_and_everybody_sees_all(end: Any) -> None:
    plan = [
        *EIGHT,
        Subtask("wait", worker="wait", depends_on=["x0"]),
        Subtask("all", worker="all", depends_on=["wait"]),
    ]
    script, spec = worker("wait", no, "done")
    with shop(plan, A, spec, worker("all", "done")[1], max_parallel=1, **SMALL, on_failure=[SLOWLY]) as it:
        it.submit()
        before = len(held(it))
        end(it)
        after = len(held(it))
        it.advance(10.0)
        report = it.report()

    assert before <= 2
    assert after <= 2
    assert script.calls[1].results == {"x0": LONG[0]}
    assert report.results == ALL | {"wait": "done", "all": "done"}


def test_a_small_result_costs_little_and_stays() -> None:
    plan = [Subtask("tiny", worker="tiny"), *EIGHT, Subtask("wait", worker="wait", depends_on=["x7"])]
    with shop(plan, A, worker("tiny", "yes")[1], worker("wait", no)[1], **SMALL, on_failure=[SLOWLY]) as it:
        it.submit()
        small = it.tree._system.services["tasks"].ports["shop"].states[it.handle.id].results()["x0"]
        it.handle.cancel()

    assert isinstance(small, Evicted)
    assert len(small.summary) <= 200


def test_a_team_lets_go_by_its_own_settings_and_hands_over_everything() -> None:
    inner = Tasks(planner=StaticPlan(EIGHT), **SMALL)
    team = SupervisorSpec(id="team", tasks=inner, children=[A])

    assert run([Subtask("x", worker="team")], team).results == {"x": ALL}


def test_a_report_is_whole_also_long_after() -> None:
    with shop(EIGHT, A, **SMALL) as it:
        handle = it.submit()
        it.tree._system.services["tasks"].ports["shop"].reports.forget(handle.id)
        settle(it.tree)

        assert it.tree.task(handle.id).result(timeout=5).results == ALL
