"""What an attempt sees of its task, and what it can say and ask while it runs (point 13)."""

from __future__ import annotations

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
    SubtaskProgressed,
    SupervisorSpec,
    Task,
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
    "part",
    "path",
    "previous",
    "remaining_s",
    "results",
    "revision",
    "state",
    "step",
    "step_key",
    "step_sync",
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
    seen: list[set[str]] = []

    def look(task: Any, context: Context) -> None:
        seen.append({name for name in dir(context) if not name.startswith("_")})

    with start(single(look), clock=ManualClock()) as tree:
        tree.run("go", timeout=LONG_S)

    assert seen == [SEEN | {"get", "items", "keys", "values"}]


def test_a_subtask_without_an_instruction_is_to_reach_the_goal() -> None:
    seen: list[str] = []

    with start(single(seen.append), clock=ManualClock()) as tree:
        tree.run("go", timeout=LONG_S)

    assert seen == ["go"]


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
    assert call.goal == "go"
    assert call.inputs == {"x": 1, "y": 2}
    assert call.results == {"a": "W"}
