"""A team that was stopped is asked once more for what it had begun, before and after that was withdrawn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from actors import EscalationRaised, Failed, Reply
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.orchestration.messages import Cancel, RunOnLoop, TimerFired
from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
from actors.tasks.orchestration.teams import Teams
from actors.tasks.planning.replanning import ReplanFeedback
from tests.tasks.dispatching import until
from tests.tasks.teams import AT_ONCE, LONG_S, above, team
from trees import (
    Check,
    Plan,
    Reject,
    Report,
    Retry,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    Verdict,
    WorkerSpec,
    start,
)

ONCE_MORE = Retry(max_attempts=2, initial_s=0.0, max_s=0.0, jitter=0.0)


class Shop:
    """A worker that asks a team, whose first member has an effect and whose second one waits."""

    def __init__(self) -> None:
        self.asks, self.goes_on = [Reply(), Reply()], Reply()
        self.begun, self.asked_twice = threading.Event(), threading.Event()
        self.undoing, self.may_undo = threading.Event(), threading.Event()
        self.keys: list[str] = []
        self.undone: list[str] = []

    async def ask(self, task: Any, context: Any) -> Any:
        if context.attempt > 1:
            self.asked_twice.set()
        await self.asks[context.attempt - 1]
        return await context.ask("team", "pay and send")

    def pay(self, task: Any, context: Any) -> str:
        self.keys.append(context.idempotency_key)
        return f"paid {len(self.keys)}"

    def refund(self, task: Any, result: Any, context: Any) -> None:
        self.undoing.set()
        self.may_undo.wait(LONG_S)
        self.undone.append(context.idempotency_key)

    async def send(self, task: Any, context: Any) -> str:
        self.begun.set()
        await self.goes_on
        return "sent"

    def tree(self) -> SupervisorSpec:
        members = [WorkerSpec(id="pay", execute=self.pay, undo=self.refund), WorkerSpec(id="send", execute=self.send)]
        return above(
            team(*members), WorkerSpec(id="ask", execute=self.ask, on_failure=[AT_ONCE]), plan=[Subtask("ask")]
        )

    def stop_team(self, tree: Tree) -> None:
        """Stop the team in the middle of what it was asked for; the next attempt is about to ask once more."""
        self.asks[0].complete()
        assert self.begun.wait(LONG_S)
        tree.terminate_child("p/team")
        assert self.asked_twice.wait(LONG_S)
        tree.restart_child("p/team")


def kinds(tree: Tree, part: str) -> list[type[Any]]:
    return [type(each) for each in tree._system.services["tasks"].store.read(part)]


def part_in(tree: Tree) -> str:
    (found,) = [each.id for each in tree.tasks() if "@" in each.id]
    return found


def test_a_part_that_is_being_undone_ends_first_where_its_team_is_asked_for_it_once_more() -> None:
    shop = Shop()
    with start(shop.tree()) as tree:
        handle = tree.submit("the goal")
        shop.stop_team(tree)
        assert shop.undoing.wait(LONG_S)
        shop.asks[1].complete()
        until(lambda: kinds(tree, handle.id).count(task_events.SubtaskStarted) == 4)
        shop.goes_on.complete()
        shop.may_undo.set()
        report = handle.result(LONG_S)

    assert report.results == {"ask": {"pay": "paid 2", "send": "sent"}}
    assert [key.rpartition("/")[2] for key in shop.keys] == ["1", "2"], "what was undone is another act"
    assert len(shop.undone) == 1


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Hold up withdrawals of parts, and looks whether a part is still wanted; called, it lets them arrive."""
    kept, ports = list[Callable[[], object]](), set[OrchestratorPort]()
    tell, look = OrchestratorPort.tell, Teams._look_above

    def held_up(port: OrchestratorPort, *orders: Any) -> bool:
        ports.update(port for each in orders if isinstance(each, Cancel))
        kept.extend(partial(tell, port, each) for each in orders if isinstance(each, Cancel))
        return tell(port, *(each for each in orders if not isinstance(each, Cancel)))

    def look_later(teams: Teams, state: TaskState) -> None:
        core = teams._core
        kept.append(lambda: core.port.post(TimerFired(core.incarnation, lambda: look(teams, state))))

    def arrive() -> None:
        monkeypatch.undo()
        assert len(kept) > 1, "the part was not withdrawn, or nobody has looked"
        for each in kept:
            each()
        come = threading.Event()
        (port,) = ports
        port.tell(RunOnLoop(come.set))
        assert come.wait(LONG_S)

    monkeypatch.setattr(OrchestratorPort, "tell", held_up)
    monkeypatch.setattr(Teams, "_look_above", look_later)
    return arrive


def taken_over(shop: Shop, tree: Tree) -> str:
    """Have the second attempt take the part over, whose withdrawal is still on its way; the id of the part."""
    shop.stop_team(tree)
    part = part_in(tree)
    shop.begun.clear()
    shop.asks[1].complete()
    until(lambda: task_events.TaskReopened in kinds(tree, part))
    assert shop.begun.wait(LONG_S)
    return part


def test_a_part_that_goes_on_is_the_next_attempts_and_a_late_withdrawal_of_the_one_before_does_not_end_it(
    late: Callable[[], None],
) -> None:
    shop = Shop()
    with start(shop.tree()) as tree:
        handle = tree.submit("the goal")
        taken_over(shop, tree)
        late()
        shop.goes_on.complete()
        report: Report = handle.result(LONG_S)

    assert report.results == {"ask": {"pay": "paid 1", "send": "sent"}}
    assert (len(shop.keys), shop.undone) == (1, []), "what was done stays done"


def test_a_part_that_the_next_attempt_has_taken_over_is_cancelled_with_that_attempt(
    late: Callable[[], None],
) -> None:
    shop = Shop()
    shop.may_undo.set()
    with start(shop.tree()) as tree:
        handle = tree.submit("the goal")
        part = taken_over(shop, tree)
        late()
        handle.cancel()
        until(lambda: handle.report is not None)
        ended = tree.task(part).status

    assert handle.status == ended == "cancelled"
    assert len(shop.undone) == 1


@pytest.mark.parametrize("ends", ["before the next one is submitted", "when that waits for it"])
@pytest.mark.parametrize("kept", ["memory", "sqlite"])
def test_a_task_of_the_id_of_one_that_was_removed_has_nothing_of_a_part_that_the_stopped_team_had_of_that(
    kept: str, ends: str, sqlite_url: str
) -> None:
    shop = Shop()
    members = [WorkerSpec(id="pay", execute=shop.pay), WorkerSpec(id="send", execute=shop.send)]
    with start(above(team(*members)), store=None if kept == "memory" else sqlite_url) as tree:
        former = tree.submit(Task("the goal", id="t"))
        assert shop.begun.wait(LONG_S)
        tree.terminate_child("p/team")
        with pytest.raises(TaskFailedError):
            former.result(LONG_S)
        tree.remove_task("t")
        port = tree._system.services["tasks"].ports["p/team"]
        if ends.startswith("when"):
            port.orders.clear()  # the withdrawal is lost, as with a process
        tree.restart_child("p/team")
        if ends.startswith("before"):
            until(lambda: port.states == {})
        handle = tree.submit(Task("the goal", id="t"))
        shop.goes_on.complete()
        report = handle.result(LONG_S)

        assert report.results == {"only": {"pay": "paid 2", "send": "sent"}}
        until(lambda: port.states == {})
        assert kinds(tree, part_in(tree)).count(task_events.TaskFinished) == 1, "its part began anew"


class Rebuilt:
    """A team that builds on a base; what was built is not torn down once, so it stays while the base is tried anew.

    The first review sends the base back, so both are to be undone: a person says that the building stays. The ladder
    above tries the team again, and now the base cannot be laid. Another plan lays a second base, keeps the building,
    and a review sends that back.
    """

    def __init__(self) -> None:
        self.laid = 0
        self.reviews = 0

    def base(self, task: Any, context: Any) -> str:
        self.laid += 1
        if self.laid == 2:
            raise Failed("the ground is soft")
        return "base"

    def build(self, task: Any, context: Any) -> str:
        return "building"

    def tear_down(self, task: Any, result: Any, context: Any) -> None:
        if self.laid == 1:
            raise RuntimeError("the crane is broken")

    def plan(self, task: Any, catalogue: Any, feedback: Any) -> Plan:
        if isinstance(feedback, ReplanFeedback):
            return Plan([Subtask("second", worker="base")] if "base" in feedback.failed else [])
        return Plan([Subtask("base"), Subtask("build", depends_on=["base"])])

    def review(self, task: Any, plan: Any, results: dict[str, Any]) -> Verdict:
        self.reviews += 1
        wrong = {1: "base", 2: "build"}.get(self.reviews)
        return Verdict(wrong is None, [Check(id_, id_ != wrong, "again") for id_ in results])

    def tree(self) -> SupervisorSpec:
        tasks = Tasks(planner=self.plan, reviewer=self.review, replan=1, on_failure=[], max_plan_attempts=1)
        members = [
            WorkerSpec(id="base", execute=self.base, undo=lambda *_: None),
            WorkerSpec(id="build", execute=self.build, undo=self.tear_down),
        ]
        return above(SupervisorSpec(id="team", tasks=tasks, children=members, on_failure=[ONCE_MORE]))


def test_what_is_sent_back_and_needs_what_has_failed_meanwhile_is_skipped_and_its_task_ends() -> None:
    with start(Rebuilt().tree()) as tree:
        handle = tree.submit("a house")
        for event in handle.events():
            if isinstance(event, EscalationRaised):
                handle.respond(event.escalation, Reject("it stays"))
        with pytest.raises(TaskFailedError, match="build: needs 'base', which has failed"):
            handle.result(LONG_S)
