"""A task that is cancelled, late, or loses its worker or its orchestrator, in every state it can be in."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from actors.testing import AsyncScriptedExecutable, Hang, ManualClock, ScriptedExecutable
from tests.support.hardening import eventually
from tests.tasks.outcomes import TWO, assert_alive, ended, one_worker, result_of
from trees import (
    Escalate,
    Plan,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskDeadlineError,
    TaskFailedError,
    TaskHandle,
    Tasks,
    TaskStatus,
    Tree,
    Verdict,
    WorkerSpec,
    start,
)

# -- a task that is cancelled, or whose time is up, in every state ---------------------------------------------


class Moment:
    """A tree with a manual clock, whose task is brought into one state and then ended."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.clock = ManualClock()
        self.hang = Hang(deaf=state == "running on a thread")  # else it may return as it is given up, and that counts
        steps = {
            "running": [self.hang],
            "running on a thread": [self.hang],
            "queued": [self.hang],
            "retrying": [ValueError("broken")],
            "waiting": [ValueError("broken")],
            "undoing": ["done", ValueError("broken")],
        }
        kind = ScriptedExecutable if state == "running on a thread" else AsyncScriptedExecutable
        self.script = kind(*steps.get(state, []), by="call", then="done", undo=[self.hang])
        self.steps = AsyncScriptedExecutable(self.hang)
        rungs = {"retrying": [Retry(3, initial_s=20, max_s=20)], "waiting": [Escalate("what now?")]}
        alone = Plan([Subtask("a", worker="w"), Subtask("b", worker="w")])
        self.plan = alone if state == "queued" else TWO.plan(Task(goal="x"), ())

        async def step(task: Task, *args: Any) -> Any:
            if task.goal == "again":
                return Verdict(passed=True)
            return await self.steps.execute(Subtask("s"), _Nothing())

        async def planner(task: Task, *args: Any) -> Any:
            if task.goal == "again":
                return Plan([Subtask("h", worker="healthy")])
            return await step(task) if state == "planning" else self.plan

        undo = {"undo": self.script.undo} if state == "undoing" else {}
        self.spec = SupervisorSpec(
            id="p",
            tasks=Tasks(
                planner=planner,
                reviewer=step if state == "reviewing" else None,
                synthesizer=step if state == "combining" else None,
                on_failure=rungs.get(state, []),
            ),
            children=[
                WorkerSpec(id="w", execute=self.script.execute, breaker=None, **undo),
                WorkerSpec(id="healthy", execute=lambda task, context: "well"),
            ],
        )

    def begin(self, tree: Tree) -> TaskHandle:
        """Submit the task, and bring it into this state."""
        handle = tree.submit(Task(goal="do it", deadline_s=30))
        self.reach(tree, handle)
        return handle

    def end(self, handle: TaskHandle, how: str) -> None:
        """Cancel it, or let its time run out."""
        if how == "cancel":
            handle.cancel()
        else:
            self.clock.advance(31)

    def reach(self, tree: Tree, handle: TaskHandle) -> None:
        """Return when the task is in this state."""
        if self.state in {"planning", "reviewing", "combining"}:
            self.steps.wait_for_calls(1)
        elif self.state in {"running", "running on a thread", "queued"}:
            self.script.wait_for_calls(1)
        elif self.state == "undoing":
            eventually(lambda: self.script.undos)
        elif self.state in {"retrying", "waiting"}:
            eventually(lambda: self.state in handle.dump("json"))
        else:
            assert handle.status is TaskStatus.PENDING


class _Nothing:
    """What stands for a context where there is none."""

    attempt, idempotency_key, goal, feedback, remaining_s = 1, "", "", "", None
    inputs: ClassVar[dict[str, Any]] = {}
    results: ClassVar[dict[str, Any]] = {}


NEVER = {"a": "done", "b": "done"}
STATES: dict[str, dict[str, Any]] = {
    "pending": {},
    "planning": {},
    "queued": {},
    "running": {},
    "running on a thread": {},
    "retrying": {},
    "waiting": {},
    "reviewing": NEVER,
    "combining": NEVER,
}
"""And the results that there are by then."""


@pytest.mark.parametrize("how", ["cancel", "deadline"])
@pytest.mark.parametrize("state", STATES)
def test_a_task_may_be_ended_in_every_state(state: str, how: str) -> None:
    moment = Moment(state)
    with start(moment.spec, clock=moment.clock) as tree:
        if state == "pending":
            tree.terminate_child("p/orchestrator")
        handle = moment.begin(tree)
        moment.end(handle, how)
        if state == "pending":
            tree.restart_child("p/orchestrator")
        if state == "running on a thread":
            time_for_threads(moment, handle)
        report, raised = ended(handle)
        calls = len(moment.script.calls)
        eventually(lambda: all(call.ended for call in moment.steps.calls))  # the end of the task is told before that
        moment.hang.release()
        assert_alive(tree, 2 if state == "pending" else 1)

    assert raised is (TaskCancelledError if how == "cancel" else TaskDeadlineError)
    assert report.status is (TaskStatus.CANCELLED if how == "cancel" else TaskStatus.FAILED)
    assert report.results == STATES[state]
    assert set(report.skipped) | set(report.results) == ({"a", "b"} if report.graph else set())
    assert bool(report.graph) is (state not in {"pending", "planning"})
    assert report.failed == {}
    assert (
        calls == len(moment.script.calls) == {"pending": 0, "planning": 0, "reviewing": 2, "combining": 2}.get(state, 1)
    )
    assert {call.ended for call in moment.steps.calls} <= {"CancelledError"}


def time_for_threads(moment: Moment, handle: TaskHandle) -> None:
    """A thread is not cancelled: it is given up after a grace, by the tree's clock."""

    def given_up() -> bool:
        moment.clock.advance(0.5)
        return handle.status.is_final

    eventually(given_up)


@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_what_is_being_undone_is_neither_cancelled_nor_cut_short(how: str) -> None:
    moment = Moment("undoing")
    with start(moment.spec, clock=moment.clock) as tree:
        handle = moment.begin(tree)
        moment.end(handle, how)
        moment.hang.release()
        report, raised = ended(handle)
        assert_alive(tree)

    assert raised is TaskFailedError
    assert report.status is TaskStatus.FAILED
    assert report.compensated == ["a"]
    assert list(report.failed) == ["b"]
    assert [call.ended for call in moment.script.undos] == ["returned"]


@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_what_has_ended_is_not_ended_again(how: str) -> None:
    moment = Moment("finished")
    with start(moment.spec, clock=moment.clock) as tree:
        handle = tree.submit(Task(goal="do it", deadline_s=30))
        report, _ = ended(handle)
        moment.end(handle, how)
        assert_alive(tree)

        assert handle.result() == report

    assert report.results == NEVER


# -- workers and orchestrators that go away --------------------------------------------------------------------


def test_a_worker_that_is_deleted_while_its_attempt_runs_leaves_a_subtask_that_nobody_can_do() -> None:
    hang = Hang()
    script = AsyncScriptedExecutable(hang)
    with start(one_worker(script.execute)) as tree:
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        tree.terminate_child("p/w")
        tree.delete_child("p/w")
        report, raised = ended(handle)
        tree.start_child("p", WorkerSpec(id="w", execute=result_of))
        again = tree.run("do it", timeout=60)

    assert raised is TaskFailedError
    assert "no worker can do 'w'" in report.failed["a"]
    assert [call.ended for call in script.calls] == ["CancelledError"]
    assert again.results == {"a": "result of a"}


def test_what_a_deleted_worker_had_is_done_by_another_one_with_the_same_key() -> None:
    first, second = AsyncScriptedExecutable(Hang()), ScriptedExecutable("ok")
    plan = StaticPlan([Subtask("a", capability="read")])
    children = [WorkerSpec(id="first", execute=first.execute, capabilities={"read"})]
    with start(SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=[]), children=children)) as tree:
        handle = tree.submit("do it")
        first.wait_for_calls(1)
        tree.start_child("p", WorkerSpec(id="second", execute=second.execute, capabilities={"read"}))
        tree.terminate_child("p/first")
        tree.delete_child("p/first")
        report, _ = ended(handle)

    assert report.results == {"a": "ok"}
    assert report.graph[0].attempts == 1
    assert [call.ended for call in first.calls] == ["CancelledError"]
    assert first.calls[0].idempotency_key == second.calls[0].idempotency_key


def test_a_worker_that_parks_while_others_wait_for_it_fails_them_too() -> None:
    script = ScriptedExecutable(SystemExit(3))
    plan = StaticPlan([Subtask("a", worker="w"), Subtask("b", worker="w")])
    tasks = Tasks(planner=plan, on_failure=[])
    children = [WorkerSpec(id="w", execute=script.execute, breaker=None), WorkerSpec(id="x", execute=result_of)]
    with start(SupervisorSpec(id="p", tasks=tasks, max_restarts=0, children=children)) as tree:
        report, raised = ended(tree.submit("do it"))
        state = tree.child("p/w").state

    assert raised is TaskFailedError
    assert set(report.failed) == {"a", "b"}
    assert state == "parked"
