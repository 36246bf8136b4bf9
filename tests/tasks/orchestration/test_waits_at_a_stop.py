"""A worker waits for a task of the supervisor that stops it: nothing more of it begins, and nobody is killed for it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from actors import ActorStoppedError, Worker
from actors.tasks.orchestration.messages import SetPriority
from actors.tasks.orchestration.orchestrator import Orchestrator
from actors.testing import Hang
from tests.support.crew import LONG_S, meanwhile, running
from tests.support.hardening import eventually
from trees import Plan, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec

ONE = Plan([Subtask("slow")])
TWO = Plan([Subtask("slow"), Subtask("next", depends_on=["slow"])])
HOW = pytest.mark.parametrize("how", ["result", "map", "events", "stream"])
WHERE = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


class Asker(Worker):
    """Waits for a task of its own supervisor: in a handler, or in its last hook."""

    tree: Any = None
    came: list[Any]

    def __init__(self, how: str, plan: Plan, came: list[Any], *, at_end: bool) -> None:
        self.how, self.plan, self.came, self.at_end = how, plan, came, at_end

    def waits(self) -> None:
        try:
            if self.how == "map":
                self.came += [result for _, result in Asker.tree.map([Task("go", plan=self.plan)], "p")]
                return
            handle = Asker.tree.submit(Task("go", plan=self.plan), "p")
            if self.how != "result":
                list(handle.events() if self.how == "events" else handle.stream())
            self.came.append(handle.result().output)
        except ActorStoppedError as error:
            self.came.append(error)

    def on_receive(self, _: Any) -> None:
        self.waits()

    def on_stop(self) -> None:
        if self.at_end:
            self.waits()


class AsyncAsker(Asker):
    async def waits_async(self) -> None:
        try:
            if self.how == "map":
                self.came += [each async for _, each in Asker.tree.map([Task("go", plan=self.plan)], "p")]
                return
            handle = await Asker.tree.asubmit(Task("go", plan=self.plan), "p")
            if self.how != "result":
                [each async for each in (handle.events() if self.how == "events" else handle.stream())]
            self.came.append((await handle).output)
        except ActorStoppedError as error:
            self.came.append(error)

    async def on_receive(self, _: Any) -> None:
        await self.waits_async()

    async def on_stop(self) -> None:
        if self.at_end:
            await self.waits_async()


def shop(slow: Hang, how: str, plan: Plan, came: list[Any], *, is_async: bool, at_end: bool = False) -> SupervisorSpec:
    actor = AsyncAsker if is_async else Asker
    words = {"how": how, "plan": plan, "came": came, "at_end": at_end}
    return SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("next")]), on_failure=[]),
        children=[
            WorkerSpec(id="slow", execute=lambda *_: slow.hold() or "slow", shutdown="infinity"),
            WorkerSpec(id="next", execute=lambda *_: "next"),
            WorkerSpec(id="asker", actor=actor, kwargs=words, shutdown="infinity"),
        ],
    )


def asker_stops(tree: Tree) -> None:
    eventually(lambda: "stopping" in tree.dump(), "the stop")


@HOW
@WHERE
@pytest.mark.parametrize("plan", [ONE, TWO], ids=["runs", "has more to do"])
def test_a_wait_that_has_begun_lasts_as_long_as_something_of_the_task_runs(
    how: str, is_async: bool, plan: Plan
) -> None:
    came: list[Any] = []
    with Hang(deaf=True) as slow, running(shop(slow, how, plan, came, is_async=is_async)) as tree:
        Asker.tree = tree
        tree.ref("p/asker").tell("wait")
        slow.wait_until_entered(LONG_S)
        with meanwhile(tree.stop):
            asker_stops(tree)
            assert came == []
            slow.release()

    if plan is ONE:
        assert came == [{"slow": "slow"}]
    else:
        assert [type(each) for each in came] == [ActorStoppedError]


@pytest.mark.parametrize("is_waiting", [True, False], ids=["waits first", "stops first"])
def test_an_attempt_whose_team_stops_waits_for_no_task_of_another_one(is_waiting: bool) -> None:
    came: list[Any] = []
    trees: list[Tree] = []
    begun = threading.Event()

    async def works(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    def waits(*_: object) -> None:
        gate.hold()
        try:
            came.append(trees[0].submit(Task("go"), "p/other").result())
        except ActorStoppedError as error:
            came.append(error)

    teams = [
        SupervisorSpec(id=id_, tasks=Tasks(planner=StaticPlan([Subtask("w")])), children=[WorkerSpec(id="w", **words)])
        for id_, words in (("other", {"execute": works}), ("team", {"execute": waits, "shutdown": "infinity"}))
    ]
    with Hang(deaf=True) as gate, running(SupervisorSpec(id="p", tasks=Tasks(), children=teams)) as tree:
        trees.append(tree)
        tree.submit("go", "p/team")
        gate.wait_until_entered(LONG_S)
        if is_waiting:
            gate.release()
            assert begun.wait(LONG_S)
        with meanwhile(lambda: tree.terminate_child("p/team")):
            if not is_waiting:
                asker_stops(tree)
                gate.release()

    assert [type(each) for each in came] == [ActorStoppedError]


def test_an_attempt_that_has_ended_runs_until_that_was_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its team, or another one, may stop in between, and all waits are looked at."""
    real = Orchestrator._on_outcome

    def looks_before(self: Orchestrator, attempt: Any) -> None:
        self.parts.delegation.give_up_all()
        real(self, attempt)

    monkeypatch.setattr(Orchestrator, "_on_outcome", looks_before)
    came: list[Any] = []
    with Hang(deaf=True) as slow, running(shop(slow, "result", ONE, came, is_async=False)) as tree:
        Asker.tree = tree
        tree.ref("p/asker").tell("wait")
        slow.wait_until_entered(LONG_S)
        with meanwhile(tree.stop):
            asker_stops(tree)
            slow.release()

    assert came == [{"slow": "slow"}]


@HOW
@WHERE
def test_a_wait_for_what_a_team_does_ends_when_the_team_has_stopped(how: str, is_async: bool) -> None:
    """The team is younger than who waits, so it stops first; it does not go on before that one has ended."""
    came: list[Any] = []
    begun = threading.Event()

    async def works(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("works")])),
        children=[WorkerSpec(id="works", execute=works)],
    )
    words = {"how": how, "plan": Plan([Subtask("team")]), "came": came, "at_end": False}
    actor = AsyncAsker if is_async else Asker
    asker = WorkerSpec(id="asker", actor=actor, kwargs=words, shutdown="infinity")
    with running(SupervisorSpec(id="p", tasks=Tasks(), children=[asker, team])) as tree:
        Asker.tree = tree
        tree.ref("p/asker").tell("wait")
        assert begun.wait(LONG_S)

    assert [type(each) for each in came] == [ActorStoppedError]


def test_what_is_submitted_as_all_is_being_stopped_does_not_begin_also_where_it_overtakes_the_news() -> None:
    """A message from before the news has the orchestrator look at its commands, of which one came after it."""
    reached, may_go_on, begun = threading.Event(), threading.Event(), list[str]()

    async def holds_the_loop(_: object) -> None:
        reached.set()
        assert may_go_on.wait(LONG_S)

    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan([Subtask("w")])),
        children=[
            WorkerSpec(id="w", execute=lambda *_: begun.append("w")),
            WorkerSpec(id="holds", handle=holds_the_loop),
        ],
    )
    with running(spec) as tree:
        port = tree._system.services["tasks"].ports["p"]
        tree.ref("p/holds").tell("now")
        assert reached.wait(LONG_S)
        port.tell(SetPriority("of nobody", 1))
        with meanwhile(tree.stop):
            eventually(lambda: port.closing, "the beginning of the stop")
            tree.submit("go")
            may_go_on.set()

    assert begun == []


@HOW
@WHERE
def test_a_wait_that_begins_when_all_is_being_stopped_ends_at_once(how: str, is_async: bool) -> None:
    came: list[Any] = []
    with Hang(deaf=True) as slow, running(shop(slow, how, ONE, came, is_async=is_async, at_end=True)) as tree:
        Asker.tree = tree

    assert [type(each) for each in came] == [ActorStoppedError]
