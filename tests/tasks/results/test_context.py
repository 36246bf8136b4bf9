"""What an attempt sees of its task, and what it can say and ask while it runs (point 13)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pydantic import BaseModel

from actors import Context
from actors.testing import AsyncScriptedExecutable, Crash, Hang, InTurn, ManualClock, ScriptedExecutable
from tests.support.crew import Record
from tests.tasks.dispatching import LONG_S, one, shop, single
from trees import (
    Check,
    Failover,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskProgressed,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Verdict,
    WorkerSpec,
    start,
)

BOTH = pytest.mark.parametrize("kind", [ScriptedExecutable, AsyncScriptedExecutable], ids=["sync", "async"])
RETRY = Retry(max_attempts=3, initial_s=0.0, max_s=0.0, jitter=0.0)
SEEN = {"ask", "ask_sync", "attempt", "feedback", "goal", "heartbeat", "idempotency_key", "inputs", "metadata"} | {
    "progress",
    "answer",
    "answers",
    "context_tokens",
    "history",
    "is_light",
    "path",
    "previous",
    "remaining_s",
    "results",
    "revision",
    "state",
    "step",
    "step_key",
    "step_sync",
    "used_before",
    "stream",
    "task_id",
    "token",
    "tools",
    "use",
}


# -- what it sees ------------------------------------------------------------------------------------------


@BOTH
def test_an_attempt_sees_the_goal_its_instruction_and_its_own_inputs(kind: type[Any]) -> None:
    plan = [one("a", "w", instruction="look", inputs={"x": 2, "y": 3}), one("b", "w", instruction="read")]
    script = kind()

    with start(single(script, plan), clock=ManualClock()) as tree:
        tree.run(Task("go", inputs={"x": 1}), timeout=LONG_S)

    a, b = script.calls
    assert (a.goal, a.instruction, a.inputs) == ("go", "look", {"x": 2, "y": 3})
    assert (b.goal, b.instruction, b.inputs) == ("go", "read", {"x": 1})


@BOTH
def test_an_attempt_sees_the_results_of_its_own_dependencies_and_of_nothing_else(kind: type[Any]) -> None:
    plan = [
        one("a", "w"),
        one("b", "w", depends_on=["a"]),
        one("c", "w", depends_on=["b"]),
        one("d", "w", depends_on=["a", "c"]),
    ]
    script = kind(lambda task, _: f"result of {task.id}")

    with start(single(script, plan), clock=ManualClock()) as tree:
        tree.run("go", timeout=LONG_S)

    assert {call.subtask: call.results for call in script.calls} == {
        "a": {},
        "b": {"a": "result of a"},
        "c": {"b": "result of b"},
        "d": {"a": "result of a", "c": "result of c"},
    }


def test_a_context_offers_nothing_but_what_is_said_of_it_and_what_a_mapping_does() -> None:
    assert {name for name in dir(Context) if not name.startswith("_")} == SEEN | {"get", "items", "keys", "values"}


def test_a_subtask_without_an_instruction_is_to_reach_the_goal() -> None:
    seen: list[str] = []

    with start(single(seen.append), clock=ManualClock()) as tree:
        tree.run("go", timeout=LONG_S)

    assert seen == ["go"]


@pytest.mark.parametrize("undo", ["code", "worker"])
def test_its_undo_and_its_estimate_are_given_it_with_the_same_instruction(undo: str) -> None:
    seen: dict[str, list[str]] = {"estimate": [], "execute": [], "undo": []}

    def work(task: Subtask, _: Context) -> None:
        seen["execute"].append(str(task))

    def undone(task: Subtask, *_: object) -> None:
        seen["undo"].append(task.instruction)

    def estimate(task: Subtask) -> int:
        seen["estimate"].append(task.instruction)
        return 1

    spec = shop(
        WorkerSpec(id="work", execute=work, undo=undone if undo == "code" else "undone", estimate=estimate),
        WorkerSpec(id="undone", execute=lambda task, _: undone(task)),
        WorkerSpec(id="fails", execute=ScriptedExecutable(Crash()), on_failure=[]),
        plans={"go": [one("work"), one("fails", depends_on=["work"])]},
    )
    with start(spec, clock=ManualClock()) as tree, pytest.raises(TaskFailedError):
        tree.run("go", timeout=LONG_S)

    assert seen == {"estimate": ["go"], "execute": ["go"], "undo": ["go"]}


class Found(BaseModel):
    """What a worker found."""

    place: tuple[int, int]


def test_results_look_as_they_would_after_they_were_kept() -> None:
    reader = ScriptedExecutable("read")
    spec = shop(
        WorkerSpec(id="finder", execute=ScriptedExecutable(Found(place=(1, 2)))),
        WorkerSpec(id="reader", execute=reader),
        plans={"go": [one("finder"), one("reader", depends_on=["finder"])]},
    )

    with start(spec, clock=ManualClock()) as tree:
        report = tree.run("go", timeout=LONG_S)

    assert reader.calls[0].results == {"finder": {"place": [1, 2]}}
    assert report.result("finder", as_=Found) == Found(place=(1, 2))


def test_an_optional_dependency_that_failed_is_not_among_the_results() -> None:
    reader = ScriptedExecutable("read")
    spec = shop(
        WorkerSpec(id="a", execute=ScriptedExecutable(OSError("down"))),
        WorkerSpec(id="b", execute=ScriptedExecutable("B")),
        WorkerSpec(id="reader", execute=reader),
        plans={"go": [one("a", required=False), one("b"), one("reader", depends_on=["a", "b"])]},
    )

    with start(spec, clock=ManualClock()) as tree:
        tree.run("go", timeout=LONG_S)

    assert reader.calls[0].results == {"b": "B"}


@BOTH
def test_a_revision_sees_its_own_feedback_and_the_first_attempt_sees_none(kind: type[Any]) -> None:
    def review(_task: object, _plan: object, results: dict[str, Any]) -> Verdict:
        good = results["a"] == "good"
        return Verdict(good, [Check("a", good, "name your sources"), Check("b", passed=True)])

    script = kind(lambda task, context: "good" if context.feedback or task.id == "b" else "weak")
    spec = shop(WorkerSpec(id="w", execute=script), plans={"go": [one("a", "w"), one("b", "w")]}, reviewer=review)

    with start(spec, clock=ManualClock()) as tree:
        report = tree.run("go", timeout=LONG_S)

    feedback = [call.feedback for call in script.calls if call.subtask == "a"]
    assert report.results["a"] == "good"
    assert feedback[0] == ""
    assert "name your sources" in feedback[1]
    assert [call.feedback for call in script.calls if call.subtask == "b"] == [""]


# -- attempts and keys -------------------------------------------------------------------------------------


@BOTH
def test_the_idempotency_key_is_the_same_in_every_try_and_attempts_are_counted(kind: type[Any]) -> None:
    primary, backup = kind(OSError("down"), Crash(), OSError("down")), kind("done")
    spec = shop(
        WorkerSpec(id="w", execute=primary, backup="backup"),
        WorkerSpec(id="backup", execute=backup),
        plans={"go": [one("a", "w")]},
        on_failure=[RETRY, Failover()],
    )

    with start(spec, clock=ManualClock()) as tree:
        tree.run(Task("go", id="t"), timeout=LONG_S)

    calls = [*primary.calls, *backup.calls]
    assert [call.attempt for call in calls] == [1, 2, 3, 4]
    assert len({call.idempotency_key for call in calls}) == 1


def test_the_idempotency_key_is_the_same_when_an_attempt_gave_way() -> None:
    with Hang() as hang:
        script = AsyncScriptedExecutable(hang, "urgent", "slow", by="call")
        spec = shop(WorkerSpec(id="w", execute=script), plans={"slow": [one("w")], "urgent": [one("w")]})
        with start(spec, clock=ManualClock()) as tree:
            slow = tree.submit(Task("slow", priority=1))
            hang.wait_until_entered()
            tree.run(Task("urgent", priority=0), timeout=LONG_S)
            slow.result(timeout=LONG_S)

    first, _, again = script.calls
    assert first.idempotency_key == again.idempotency_key


def test_a_revision_has_a_new_idempotency_key() -> None:
    verdicts = iter([Verdict(passed=False, checks=[Check("a", passed=False, feedback="again")]), Verdict(passed=True)])
    script = ScriptedExecutable("done")
    spec = shop(WorkerSpec(id="w", execute=script), plans={"go": [one("a", "w")]}, reviewer=lambda *_: next(verdicts))

    with start(spec, clock=ManualClock()) as tree:
        tree.run("go", timeout=LONG_S)

    first, second = (call.idempotency_key for call in script.calls)
    assert first != second


def test_idempotency_keys_have_no_spaces_and_no_two_subtasks_share_one() -> None:
    script = ScriptedExecutable("done")
    plan = [one("a", "w", instruction="some words here"), one("b", "w")]

    with start(single(script, plan), clock=ManualClock()) as tree:
        for _ in range(2):
            tree.run("go", timeout=LONG_S)

    keys = [call.idempotency_key for call in script.calls]
    assert len(set(keys)) == 4
    assert not any(character.isspace() for key in keys for character in key)


# -- what it says ------------------------------------------------------------------------------------------


@BOTH
def test_progress_is_an_event_and_is_shown_while_the_attempt_runs(kind: type[Any]) -> None:
    with Hang() as hang:
        script = kind(InTurn(lambda _, context: context.progress(0.4, "reading"), hang, "done"))
        with start(single(script), clock=ManualClock()) as tree:
            record = Record(tree)
            handle = tree.submit("go")
            hang.wait_until_entered()
            told = record.wait_for(SubtaskProgressed)
            picture = handle.dump()
            hang.release()
            handle.result(timeout=LONG_S)

    assert [(event.path, event.task, event.subtask, event.fraction, event.text) for event in told] == [
        ("shop", handle.id, "w", 0.4, "reading")
    ]
    assert "40" in picture
    assert "reading" in picture


def test_progress_comes_among_the_events_of_the_task_while_somebody_follows_them() -> None:
    seen: list[Any] = []
    with Hang() as first, Hang() as second:
        script = ScriptedExecutable(InTurn(first, lambda _, context: context.progress(0.5), second, "done"))
        with start(single(script), clock=ManualClock()) as tree:
            handle = tree.submit("go")
            first.wait_until_entered()
            got = threading.Event()

            def follow() -> None:
                for event in handle.events():
                    seen.append(event)
                    if type(event).__name__ == "SubtaskStarted":
                        got.set()
                    if isinstance(event, SubtaskProgressed):
                        second.release()

            follower = threading.Thread(target=follow)
            follower.start()
            got.wait(LONG_S)
            first.release()
            handle.result(timeout=LONG_S)
            follower.join(LONG_S)

    names = [type(event).__name__ for event in seen]
    assert names.index("SubtaskStarted") < names.index("SubtaskProgressed") < names.index("SubtaskSucceeded")


@pytest.mark.parametrize(("said", "kept"), [(-1, 0.0), (0.25, 0.25), (7, 1.0)])
def test_progress_stays_between_nothing_and_all(said: float, kept: float) -> None:
    script = ScriptedExecutable(InTurn(lambda _, context: context.progress(said), "done"))

    with start(single(script), clock=ManualClock()) as tree:
        record = Record(tree)
        tree.run("go", timeout=LONG_S)
        told = record.of(SubtaskProgressed)

    assert [event.fraction for event in told] == [kept]


def test_the_text_of_progress_stands_in_no_log_line() -> None:
    event = SubtaskProgressed("shop", "t", 0.0, "w", 0.5, "secret")

    assert "secret" not in repr(event)


def test_what_is_used_counts_also_when_the_attempt_fails() -> None:
    script = ScriptedExecutable(
        InTurn(lambda _, context: context.use(tokens=5, cost=0.5), OSError("down")),
        InTurn(lambda _, context: context.use(tokens=7), "done"),
    )

    with start(single(script, on_failure=[RETRY]), clock=ManualClock()) as tree:
        report = tree.run("go", timeout=LONG_S)

    assert (report.usage.tokens, report.usage.cost) == (12, 0.5)


def test_a_team_is_given_the_inputs_the_results_and_the_feedback_of_its_subtask_only() -> None:
    member = ScriptedExecutable("done")
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([one("member")])),
        children=[WorkerSpec(id="member", execute=member)],
    )
    spec = shop(
        WorkerSpec(id="w", execute=ScriptedExecutable("W")),
        team,
        plans={
            "go": [one("a", "w"), one("b", "w"), one("team", depends_on=["a"], instruction="work", inputs={"y": 2})]
        },
    )

    with start(spec, clock=ManualClock()) as tree:
        tree.run(Task("go", inputs={"x": 1}), timeout=LONG_S)

    [call] = member.calls
    assert call.goal == "work"
    assert call.inputs == {"x": 1, "y": 2}
    assert call.results == {"a": "W"}
