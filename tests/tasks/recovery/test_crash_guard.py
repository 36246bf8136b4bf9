"""An orchestrator that dies over one task, whatever it does, loses this one at most: the others and the tree live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors import Escalated, Failed
from actors.tasks.model.task_events import TaskEvent
from actors.tasks.orchestration import crash_guard
from actors.tasks.orchestration.crash_guard import CrashGuard
from actors.tasks.orchestration.teams import Teams
from actors.testing import AsyncScriptedExecutable, Hang
from tests.support.hardening import eventually
from tests.tasks.orchestrators import kill_orchestrator
from tests.tasks.resuming import NotingStore
from trees import (
    Done,
    Escalate,
    Escalation,
    Plan,
    Reject,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskError,
    TaskFailedError,
    TaskHandle,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

WAIT_S = 60.0


def test_the_second_death_at_one_point_ends_a_task_and_a_death_of_its_end_puts_it_aside() -> None:
    watch = CrashGuard()
    looks = [watch.look("t", 5)]
    for _ in range(crash_guard.MOST_DEATHS):
        watch.died("t", 6)
        looks.append(watch.look("t", 5))
    watch.died("t", 7)
    looks.append(watch.look("t", 6))

    assert looks == ["go on", "go on", "end", "aside"]
    assert watch.aside == {"t"}


def test_deaths_at_other_points_are_progress_and_other_tasks_go_on() -> None:
    watch = CrashGuard()
    for at in range(50):
        watch.died("t", at)
        assert watch.look("t", at) == "go on"
    watch.died("u", 3)

    assert watch.look("u", 3) == "go on"


def test_the_first_deaths_of_a_task_count_in_no_restart_window() -> None:
    watch = CrashGuard()
    uncounted = [watch.died("t", at) for at in range(crash_guard.MOST_UNCOUNTED + 2)]

    assert uncounted == [True] * crash_guard.MOST_UNCOUNTED + [False] * 2
    assert watch.died("u", 3)


def test_a_task_that_has_ended_is_forgotten() -> None:
    watch = CrashGuard()
    watch.died("t", 6)
    watch.forget("t")
    watch.died("t", 6)

    assert watch.look("t", 6) == "go on"


def test_a_task_that_was_removed_is_forgotten_with_its_parts_and_nothing_else_is() -> None:
    watch = CrashGuard()
    for id_ in ("t", "t@team/a:1.1", "t2", "u"):
        for _ in range(crash_guard.MOST_DEATHS):
            watch.died(id_, 6)
        watch.look(id_, 6)
        watch.died(id_, 6)
        watch.look(id_, 6)
    assert watch.aside == {"t", "t@team/a:1.1", "t2", "u"}

    watch.removed("t")

    assert watch.aside == {"t2", "u"}
    assert [watch.look(id_, 6) for id_ in ("t", "t@team/a:1.1", "t2")] == ["go on", "go on", "aside"]


class Poisoned(NotingStore):
    """Raises at a kind of record of one task, as a bug anywhere in deciding would."""

    def __init__(self, kinds: set[str]) -> None:
        super().__init__()
        self.kinds = kinds

    def append(self, stream: str, record: Any) -> None:
        if stream.startswith("poison") and type(record).__name__ in self.kinds and isinstance(record, TaskEvent):
            raise RuntimeError("a bug")
        super().append(stream, record)


ENDS = {"TaskEnding", "TaskFinished"}


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        ({"Planned"}, "its orchestrator died of it; see InternalError"),
        ({"SubtaskQueued"}, "its orchestrator died of it; see InternalError"),
        ({"SubtaskStarted"}, "its orchestrator died of it; see InternalError"),
        ({"SubtaskSucceeded"}, "its orchestrator died of it"),
        ({"SubtaskRetrying"}, "its orchestrator died of it; see InternalError"),
        ({"Planned", *ENDS}, "also while ending it"),
        ({"SubtaskStarted", *ENDS}, "also while ending it"),
        ({"SubtaskSucceeded", *ENDS}, "also while ending it"),
        (ENDS, "also while ending it"),
    ],
)
def test_whatever_it_dies_of_the_task_ends_and_the_others_go_on(kinds: set[str], text: str) -> None:
    runs = []

    def execute(task: Any, context: Any) -> Any:
        runs.append(context.goal)
        if context.goal == "bad" and context.attempt == 1 and "SubtaskRetrying" in kinds:
            raise OSError("once")
        return Done("ok")

    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), on_failure=[Retry(2, initial_s=0.01)])
    spec = SupervisorSpec(
        id="p", tasks=tasks, max_restarts=10, children=[WorkerSpec(id="w", execute=execute, breaker=None)]
    )
    with start(spec, store=Poisoned(kinds)) as tree:
        bad = tree.submit(Task("bad", id="poison"))
        with pytest.raises(TaskFailedError, match=text):
            bad.result(timeout=WAIT_S)
        reports = [tree.run(Task(str(number)), timeout=WAIT_S) for number in range(3)]

    assert [report.results for report in reports] == [{"a": "ok"}] * 3
    assert runs.count("bad") <= 3


@pytest.mark.parametrize("kinds", [{"Planned"}, {"SubtaskSucceeded", *ENDS}])
def test_many_tasks_that_it_dies_of_at_once_do_not_end_the_tree(kinds: set[str]) -> None:
    """Each is the death of up to three incarnations, more than the restarts of the supervisor in its window."""
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])),
        children=[WorkerSpec(id="w", execute=lambda _, __: 1)],
    )
    with start(spec, store=Poisoned(kinds)) as tree:
        bad = [tree.submit(Task("bad", id=f"poison{number}")) for number in range(8)]
        for handle in bad:
            with pytest.raises(TaskFailedError, match="its orchestrator died of it"):
                handle.result(WAIT_S)

        assert tree.run("good", timeout=WAIT_S).results == {"a": 1}
        assert tree.child("p/orchestrator").incarnation > 8


@pytest.mark.parametrize("answers", [True, False])
def test_a_task_of_which_it_dies_at_the_end_of_a_question_ends_and_the_others_go_on(*, answers: bool) -> None:
    def ask(task: Any, context: Any) -> Any:
        if context.goal == "bad":
            raise Escalated("which?")
        return "ok"

    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    worker = WorkerSpec(id="w", execute=ask, on_failure=[Escalate(timeout_s=None if answers else 0.05)])
    store = Poisoned({"EscalationAnswered", "EscalationExpired"})
    with start(SupervisorSpec(id="p", tasks=tasks, max_restarts=10, children=[worker]), store=store) as tree:
        bad = tree.submit(Task("bad", id="poison"))
        if answers:
            eventually(lambda: bad.escalations)
            bad.respond(bad.escalations[0].id, Reject())
        with pytest.raises(TaskFailedError, match="its orchestrator died of it; see InternalError"):
            bad.result(timeout=WAIT_S)
        report = tree.run(Task("good"), timeout=WAIT_S)

    assert report.results == {"a": "ok"}


@pytest.mark.parametrize("kinds", [set[str](), ENDS], ids=["resuming", "resuming and ending"])
def test_an_orchestrator_that_dies_twice_over_the_same_task_while_resuming_ends_that_task(kinds: set[str]) -> None:
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    before = Poisoned(set())
    with Hang() as hang:
        worker = WorkerSpec(id="w", execute=AsyncScriptedExecutable(hang).execute)
        with start(SupervisorSpec(id="p", tasks=tasks, children=[worker]), store=before) as tree:
            tree.submit(Task("bad", id="poison"))
            hang.wait_until_entered()
            begun = list(before.changes)
    store = Poisoned(set())
    for change in begun:
        change.make(store)
    store.kinds = {"SubtaskPutBack", *kinds}
    worker = WorkerSpec(id="w", execute=lambda *_: "ok")
    with start(SupervisorSpec(id="p", tasks=tasks, max_restarts=10, children=[worker]), store=store) as tree:
        with pytest.raises(TaskFailedError, match="its orchestrator died of it"):
            tree.task("poison").result(timeout=WAIT_S)
        report = tree.run(Task("good"), timeout=WAIT_S)

    assert report.results == {"a": "ok"}


def test_an_orchestrator_that_dies_of_a_part_before_its_first_record_gives_the_part_back_as_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is given the attempt again in each incarnation, and has no state of the part that says how often it died."""
    begin = Teams._begin
    died: list[str] = []

    def dies(teams: Teams, id_: str, attempt: Any) -> None:
        if id_.startswith("poison@"):
            died.append(id_)
            raise RuntimeError("a bug")
        begin(teams, id_, attempt)

    monkeypatch.setattr(Teams, "_begin", dies)
    member = WorkerSpec(id="w", execute=lambda *_: "ok")
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="team")]), on_failure=[])
    inner = Tasks(planner=StaticPlan([Subtask("b", worker="w")]))
    team = SupervisorSpec(id="team", tasks=inner, max_restarts=10, children=[member])
    with start(SupervisorSpec(id="p", tasks=tasks, max_restarts=10, children=[team])) as tree:
        with pytest.raises(TaskFailedError):
            tree.run(Task("go", id="poison"), timeout=WAIT_S)
        report = tree.run(Task("go", id="good"), timeout=WAIT_S)

    assert report.status == "succeeded"
    assert len(died) == crash_guard.MOST_DEATHS


def undone_by_a_team() -> SupervisorSpec:
    """A team has succeeded, and what comes after it fails."""

    def fails(*_: Any) -> None:
        raise Failed("it cannot be done")

    member = WorkerSpec(id="w", execute=lambda *_: "ok", undo=lambda *_: None)
    inner = Tasks(planner=StaticPlan([Subtask("b", worker="w")]))
    team = SupervisorSpec(id="team", tasks=inner, max_restarts=10, children=[member])
    plan = StaticPlan([Subtask("a", worker="team"), Subtask("z", worker="last", depends_on=["a"])])
    children = [team, WorkerSpec(id="last", execute=fails)]
    return SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=[]), max_restarts=10, children=children)


def asked_of_a_person() -> Escalation:
    """What a person is asked where a team cannot undo; the task fails once it is answered."""
    with start(undone_by_a_team()) as tree:
        handle = tree.submit(Task("go"))
        eventually(lambda: bool(handle.escalations))
        (question,) = handle.escalations
        handle.respond(question.id, Reject("done by hand"))
        with pytest.raises(TaskFailedError):
            handle.result(timeout=WAIT_S)
    return question


def test_an_undo_of_which_each_incarnation_of_a_team_dies_fails_and_a_person_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    died: list[str] = []

    def dies(_: Teams, attempt: Any) -> None:
        died.append(attempt.spec.part)
        raise RuntimeError("a bug")

    monkeypatch.setattr(Teams, "_undo", dies)

    asked_of_a_person()

    assert len(died) >= crash_guard.MOST_DEATHS


def test_the_next_task_of_the_id_of_one_that_was_put_aside_and_removed_goes_on_where_its_orchestrator_dies() -> None:
    hang, store = Hang(), Poisoned({"Planned", *ENDS})
    script = AsyncScriptedExecutable(hang, "ok", by="call")
    children = [WorkerSpec(id="w", execute=script.execute)]
    spec = SupervisorSpec(
        id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), max_restarts=10, children=children
    )
    with start(spec, store=store) as tree:
        with pytest.raises(TaskFailedError, match="also while ending it"):
            tree.submit(Task("bad", id="poison")).result(timeout=WAIT_S)
        store.kinds = set()
        tree.remove_task("poison")
        handle = tree.submit(Task("good", id="poison"))
        script.wait_for_calls(1)
        kill_orchestrator(tree, "p")
        hang.release()

        assert handle.result(timeout=WAIT_S).results == {"a": "good"}


@pytest.mark.parametrize("kinds", [{"SubtaskSucceeded", *ENDS}, {"SubtaskDelegated", *ENDS}], ids=["done", "asked"])
def test_whoever_has_asked_in_a_task_that_is_put_aside_hears_so_and_its_worker_is_free(kinds: set[str]) -> None:
    heard: list[Exception] = []

    async def ask(task: Any, context: Any) -> str:
        if context.goal == "bad":
            try:
                await context.ask("helper", "help")
            except TaskError as error:
                heard.append(error)
                raise
        return "ok"

    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="asker")]), on_failure=[])
    children = [WorkerSpec(id="asker", execute=ask, breaker=None), WorkerSpec(id="helper", execute=lambda *_: "help")]
    with start(SupervisorSpec(id="p", tasks=tasks, max_restarts=10, children=children), store=Poisoned(kinds)) as tree:
        bad = tree.submit(Task("bad", id="poison"))
        with pytest.raises(TaskFailedError, match="also while ending it"):
            bad.result(timeout=WAIT_S)
        report = tree.run(Task("good"), timeout=WAIT_S)

    assert report.results == {"a": "ok"}
    assert len(heard) == 1


def test_an_undo_whose_time_is_up_before_its_team_has_recorded_anything_of_it_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    died, undo = list[str](), Teams._undo

    def dies_once(teams: Teams, attempt: Any) -> None:
        if died:
            undo(teams, attempt)
            return
        died.append(attempt.spec.part)
        attempt.begin(teams._core.incarnation, teams._core.system.now())
        attempt.end_for("timeout")
        raise RuntimeError("a bug")

    monkeypatch.setattr(Teams, "_undo", dies_once)
    question = asked_of_a_person()

    assert len(died) == 1
    assert "AttemptTimeoutError" in question.error


@contextmanager
def undo_that_waits(undone: list[Any]) -> Iterator[tuple[Tree, Hang, TaskHandle, TaskHandle]]:
    """A task whose undo waits for the only slot, and one whose planner has it."""

    def fails(*_: Any) -> None:
        raise Failed("it cannot be done")

    with Hang() as hang:

        def plan(task: Task, *_: Any) -> Plan:
            if task.goal == "long":
                hang.hold()
            return Plan([Subtask("a", worker="w")])

        children = [
            WorkerSpec(id="w", execute=lambda *_: "ok", undo=lambda *given: undone.append(given)),
            WorkerSpec(id="last", execute=fails, breaker=None),
        ]
        tasks = Tasks(planner=plan, max_steps=1, on_failure=[])
        with start(SupervisorSpec(id="p", tasks=tasks, children=children)) as tree:
            long = tree.submit(Task("long"))
            hang.wait_until_entered()
            of_two = Plan([Subtask("a", worker="w"), Subtask("z", worker="last", depends_on=["a"])])
            bad = tree.submit(Task("bad", id="poison", plan=of_two))
            eventually(lambda: len(tree._system.services["tasks"].ports["p"].slots._waiting) == 1)
            yield tree, hang, long, bad


def test_an_undo_that_waits_for_a_slot_lets_go_of_its_place_when_its_task_is_put_aside() -> None:
    undone: list[Any] = []
    with undo_that_waits(undone) as (tree, hang, long, _):
        tree._system.services["tasks"].ports["p"].guard.aside.add("poison")
        kill_orchestrator(tree)
        eventually(lambda: tree.child("p/orchestrator").incarnation == 2)
        hang.release()
        reports = [long.result(WAIT_S), tree.run(Task("good"), timeout=WAIT_S)]

    assert [report.results for report in reports] == [{"a": "ok"}] * 2
    assert undone == []


def test_an_undo_that_was_ended_while_it_waited_for_a_slot_is_made_by_the_next_orchestrator() -> None:
    """As where its team is stopped before an orchestrator that has just come up goes on with it."""
    undone: list[Any] = []
    with undo_that_waits(undone) as (tree, hang, long, bad):
        runtime = tree._system.services["tasks"]
        (undo,) = [each.call for each in runtime.attempts.values() if each.spec.role == "undo"]
        kill_orchestrator(tree)
        tree._system.loop.call(undo.kill)
        eventually(lambda: tree.child("p/orchestrator").incarnation == 2)
        hang.release()
        with pytest.raises(TaskFailedError, match="it cannot be done"):
            bad.result(WAIT_S)
        report = long.result(WAIT_S)

    assert report.results == {"a": "ok"}
    assert len(undone) == 1
