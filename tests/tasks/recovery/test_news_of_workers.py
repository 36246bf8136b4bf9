"""An orchestrator dies of the news of a worker, and the next one is told only how that worker stands by then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from actors import Reply, Worker
from actors.model.child_state import State
from actors.tasks.execution.attempt import Attempt
from actors.tasks.model.task_events import SubtaskFailed
from actors.tasks.orchestration.handoff import AttemptHandoff
from actors.tasks.orchestration.registry_feed import RegistryFeed
from actors.tasks.orchestration.team_calls import TeamCalls
from actors.tasks.scheduling.worker_registry import RegistryEntry, WorkerChanged, WorkerRegistry
from tests.tasks.dispatching import failure, until
from tests.tasks.orchestrators import BugError, kill_orchestrator
from tests.tasks.outcomes import one_worker, result_of
from tests.tasks.teams import LONG_S, Stuck, above, team
from trees import NoCapableWorkerError, StaticPlan, Subtask, SupervisorSpec, Tasks, Tree, WorkerSpec, start
from trees.store import MemoryStore


@pytest.fixture
def dies_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, State | None], threading.Event]:
    """Have the next orchestrator that hears this of a worker die of it; set when it has."""

    def arm(path: str, state: State | None) -> threading.Event:
        dead, hear = threading.Event(), WorkerRegistry.hear

        def dying(self: WorkerRegistry, change: WorkerChanged) -> RegistryEntry | None:
            if (change.path, change.state) == (path, state) and not dead.is_set():
                dead.set()
                raise BugError
            return hear(self, change)

        monkeypatch.setattr(WorkerRegistry, "hear", dying)
        return dead

    return arm


def aside(call: Callable[[], object]) -> None:
    """Call something on another thread, and wait for it."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(LONG_S)


def working_team(tree: Tree, stuck: Stuck) -> Any:
    """A task whose part a team works on."""
    handle = tree.submit("the goal")
    assert stuck.begun.wait(LONG_S)
    return handle


def test_a_part_of_a_team_that_was_stopped_while_no_orchestrator_heard_of_it_ends(
    dies_of: Callable[[str, State | None], threading.Event],
) -> None:
    stuck = Stuck()
    with start(above(team(WorkerSpec(id="w", execute=stuck)))) as tree:
        handle = working_team(tree, stuck)
        dead = dies_of("p/team", "stopped")
        tree.terminate_child("p/team")
        report = failure(handle)

    assert dead.is_set()
    assert NoCapableWorkerError.__name__ in report.failed["only"]


def test_a_part_of_a_team_that_was_deleted_while_no_orchestrator_heard_of_it_ends(
    monkeypatch: pytest.MonkeyPatch, dies_of: Callable[[str, State | None], threading.Event]
) -> None:
    stuck, store = Stuck(), MemoryStore()
    monkeypatch.setattr(TeamCalls, "gone", lambda *_: None)  # the one that dies has not come so far
    with start(above(team(WorkerSpec(id="w", execute=stuck))), store=store) as tree:
        handle = working_team(tree, stuck)
        dead = dies_of("p/team", None)
        tree.terminate_child("p/team")
        tree.delete_child("p/team")
        until(lambda: any(isinstance(each, SubtaskFailed) for each in store.read(handle.id)))

    assert dead.is_set()


def test_a_team_that_is_up_again_before_any_orchestrator_has_heard_of_its_stop_goes_on_with_its_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck, goes_on, news, tell = Stuck(), Reply(), list[WorkerChanged](), RegistryFeed._tell

    async def execute(task: Any, context: Any) -> str:
        said = await stuck(task, context)
        await goes_on
        return said

    with start(above(team(WorkerSpec(id="w", execute=execute)))) as tree:
        handle = working_team(tree, stuck)
        feed: Any = tree._system.supervisors["p"].observer

        def held_up(self: RegistryFeed, message: Any) -> None:
            if self is feed:
                news.append(message)
            else:
                tell(self, message)

        monkeypatch.setattr(RegistryFeed, "_tell", held_up)
        tree.terminate_child("p/team")
        tree.restart_child("p/team")
        monkeypatch.undo()
        kill_orchestrator(tree)
        for each in news:
            tell(feed, each)
        until(lambda: tree.child("p/orchestrator").incarnation == 2)
        goes_on.complete()
        report = handle.result(LONG_S)

    assert list(dict.fromkeys(each.state for each in news)) == ["stopped", "restarting", "running"]
    assert report.results == {"only": {"w": "did the part of the team at last"}}


@pytest.mark.parametrize("how", ["started again", "replaced by a namesake"])
def test_a_worker_that_refused_an_attempt_and_is_up_again_gets_work_of_the_next_orchestrator(
    monkeypatch: pytest.MonkeyPatch, dies_of: Callable[[str, State | None], threading.Event], how: str
) -> None:
    give, dead = AttemptHandoff.give, []

    def up_again() -> None:
        if how == "started again":
            tree.restart_child("p/w")
        else:
            tree.delete_child("p/w")
            tree.start_child("p", WorkerSpec(id="w", execute=result_of))

    def stopped_first(self: AttemptHandoff, attempt: Attempt, entry: RegistryEntry) -> None:
        if not dead:
            dead.append(dies_of("p/w", "stopped"))
            aside(lambda: tree.terminate_child("p/w"))
            give(self, attempt, entry)
            aside(up_again)
            assert attempt.was_refused
        else:
            give(self, attempt, entry)

    monkeypatch.setattr(AttemptHandoff, "give", stopped_first)
    with start(one_worker(result_of)) as tree:
        reports = [tree.submit("the goal").result(LONG_S) for _ in range(3)]

    assert dead[0].is_set()
    assert [report.results for report in reports] == [{"a": "result of a"}] * 3


class CrashesAtOnce(Worker):
    """It is up, and then has a message to die of."""

    def on_start(self) -> None:
        self.actor_ref.tell("die")

    def on_receive(self, message: Any) -> None:
        raise BugError

    def execute(self, task: Any, context: Any) -> str:
        return "never"


class UpAfterThat(Worker):
    """It comes up when its supervisor knows that the sibling has crashed."""

    def on_start(self) -> None:
        children = self._regrow_incarnation.system.children
        until(lambda: children["p/w"].last_exit is not None)

    def on_receive(self, message: Any) -> None:
        raise NotImplementedError


def test_work_for_a_worker_that_is_parked_at_the_end_of_the_first_start_fails_and_does_not_wait() -> None:
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")]), on_failure=[]),
        children=[WorkerSpec(id="w", actor=CrashesAtOnce), WorkerSpec(id="slow", actor=UpAfterThat)],
        max_restarts=0,
    )
    with start(spec) as tree:
        report = failure(tree.submit("the goal"))
        state = tree.child("p/w").state

    assert state == "parked"
    assert "p/w is parked" in report.failed["a"]
