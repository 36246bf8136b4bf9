"""A wait for a task that begins when an attempt of it runs: a circle that it closes is refused, in both orders."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from actors import RecursionDetectedError, Worker
from actors.testing import settle
from tests.support.crew import LONG_S
from tests.support.hardening import eventually
from trees import Plan, StaticPlan, Subtask, SupervisorSpec, Task, TaskFailedError, Tasks, Tree, WorkerSpec, start

ASKS_S = 4 * LONG_S
"""Seconds that an ask may take: whoever is not refused fails the test first."""


class Joiner(Worker):
    """Waits for the task when it is told to, and answers questions, one after the other."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def on_receive(self, message: Any) -> Any:
        return "answer" if message == "question" else self.scene.joins()


class AsyncJoiner(Joiner):
    async def on_receive(self, message: Any) -> Any:
        return "answer" if message == "question" else await self.scene.joins_async()


class Scene:
    """A task whose attempt asks somebody who waits for that task, and who begins to do so when the attempt runs."""

    def __init__(self, *, asks_first: bool, how: str = "result") -> None:
        self.tree: Any = None
        self.asks_first = asks_first
        self.how = how
        self.runs, self.may_ask, self.may_join = threading.Event(), threading.Event(), threading.Event()
        self.came: dict[str, Any] = {}
        self.joiner: Any = None
        """Ref of who joins; None: that of this tree."""

    # -- the two sides -------------------------------------------------------------------------------------

    def asks(self, *_: object) -> str:
        self.runs.set()
        assert self.may_ask.wait(LONG_S)
        try:
            self.came["attempt"] = self.joiner.ask("question", timeout=ASKS_S)
        except RecursionDetectedError as error:
            self.came["attempt"] = error
        return "done"

    async def asks_async(self, *_: object) -> str:
        self.runs.set()
        assert await asyncio.to_thread(self.may_ask.wait, LONG_S)
        try:
            self.came["attempt"] = await self.joiner.ask_async("question", timeout=ASKS_S)
        except RecursionDetectedError as error:
            self.came["attempt"] = error
        return "done"

    def joins(self) -> None:
        assert self.may_join.wait(LONG_S)
        try:
            if self.how == "map":
                ((_, self.came["joiner"]),) = self.tree.map([Task("go", id="go")], "p")
            else:
                self.came["joiner"] = self.tree.task("go").result()
        except (RecursionDetectedError, TaskFailedError) as error:
            self.came["joiner"] = error

    async def joins_async(self) -> None:
        assert await asyncio.to_thread(self.may_join.wait, LONG_S)
        try:
            if self.how == "map":
                async for _, result in self.tree.map([Task("go", id="go")], "p"):
                    self.came["joiner"] = result
            else:
                self.came["joiner"] = await self.tree.task("go")
        except RecursionDetectedError as error:
            self.came["joiner"] = error

    # -- what happens --------------------------------------------------------------------------------------

    def play(self, tree: Tree, plan: Plan | None = None) -> None:
        self.tree = tree
        joiner = self.joiner = self.joiner or tree.ref("p/joiner")
        handle = tree.submit(Task("go", id="go", plan=plan))
        assert self.runs.wait(LONG_S)
        joined = joiner.ask("join", timeout=None, block=False)
        eventually(lambda: joiner.depth == 0, "the joiner at work")
        first, then = (self.may_ask, self.may_join) if self.asks_first else (self.may_join, self.may_ask)
        first.set()
        if self.asks_first:
            eventually(lambda: joiner.depth == 1, "the question")
        else:
            eventually(lambda: any(wait.waiters for wait in waits_for(tree, "go")), "the wait")
        then.set()

        assert handle.result(LONG_S).status == "succeeded"
        joined.get(timeout=LONG_S)
        settle(tree)
        refused, other = ("joiner", "attempt") if self.asks_first else ("attempt", "joiner")
        assert type(self.came[refused]) is RecursionDetectedError, self.came
        assert not isinstance(self.came[other], Exception)


def waits_for(tree: Tree, task: str) -> Any:
    """The waits of workers for a task."""
    runtime: Any = tree._system.services["tasks"]
    return runtime.waits.of(task)


FIRST = pytest.mark.parametrize("asks_first", [True, False], ids=["asks first", "joins first"])
ASYNC = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def plan_of(*workers: str) -> StaticPlan:
    return StaticPlan([Subtask(id_, worker=id_) for id_ in workers])


def shop(scene: Scene, *children: WorkerSpec | SupervisorSpec, is_async: bool, plan: str = "asker") -> SupervisorSpec:
    actor = AsyncJoiner if is_async else Joiner
    joiner = WorkerSpec(id="joiner", actor=actor, args=(scene,))
    return SupervisorSpec(id="p", tasks=Tasks(planner=plan_of(plan), on_failure=[]), children=[*children, joiner])


@FIRST
@ASYNC
@pytest.mark.parametrize("how", ["result", "map"])
def test_a_circle_over_one_who_has_joined_a_running_attempt_is_refused(
    asks_first: bool, is_async: bool, how: str
) -> None:
    scene = Scene(asks_first=asks_first, how=how)
    execute: Callable[..., Any] = scene.asks_async if is_async else scene.asks
    with start(shop(scene, WorkerSpec(id="asker", execute=execute), is_async=is_async)) as tree:
        scene.play(tree)


@FIRST
def test_so_it_is_where_the_attempt_is_that_of_a_member_of_a_team(asks_first: bool) -> None:
    scene = Scene(asks_first=asks_first)
    team = SupervisorSpec(
        id="team", tasks=Tasks(planner=plan_of("asker")), children=[WorkerSpec(id="asker", execute=scene.asks)]
    )
    with start(shop(scene, team, is_async=False, plan="team")) as tree:
        scene.play(tree)


@FIRST
def test_so_it_is_where_the_attempt_was_asked_for_by_another_one(asks_first: bool) -> None:
    scene = Scene(asks_first=asks_first)
    first = WorkerSpec(id="first", execute=lambda _, context: context.ask_sync("asker", "do it"))
    with start(shop(scene, first, WorkerSpec(id="asker", execute=scene.asks), is_async=False, plan="first")) as tree:
        scene.play(tree)


@FIRST
@ASYNC
def test_so_it_is_where_the_joiner_is_in_another_tree(asks_first: bool, is_async: bool) -> None:
    scene = Scene(asks_first=asks_first)
    actor = AsyncJoiner if is_async else Joiner
    there = SupervisorSpec(id="q", children=[WorkerSpec(id="joiner", actor=actor, args=(scene,))])
    asker = WorkerSpec(id="asker", execute=scene.asks_async if is_async else scene.asks)
    here = SupervisorSpec(id="p", tasks=Tasks(planner=plan_of("asker"), on_failure=[]), children=[asker])
    with start(there) as other, start(here) as tree:
        scene.joiner = other.ref("q/joiner")
        scene.play(tree)


class Doer(Joiner):
    """Does a part of the task as well."""

    def execute(self, *_: object) -> str:
        return "done"


@pytest.mark.parametrize("is_given", [True, False], ids=["given first", "joins first"])
@pytest.mark.parametrize("is_second", [False, True], ids=["alone", "after another one"])
def test_one_who_is_to_do_a_part_of_the_task_that_he_waits_for_is_refused(is_given: bool, is_second: bool) -> None:
    """What is next for him waits in his mailbox, behind the message in which he waits."""
    scene = Scene(asks_first=False)
    first = WorkerSpec(id="first", execute=lambda *_: scene.runs.set() or scene.may_ask.wait(LONG_S))
    doer = WorkerSpec(id="doer", actor=Doer, args=(scene,))
    other = WorkerSpec(id="other", handle=lambda _: scene.tree.task("go").result(LONG_S).status)
    plan = Plan([Subtask("first", worker="first"), Subtask("doer", worker="doer", depends_on=["first"])])
    with start(SupervisorSpec(id="p", tasks=Tasks(on_failure=[]), children=[first, doer, other])) as tree:
        scene.tree = tree
        handle = tree.submit(Task("go", id="go", plan=plan))
        assert scene.runs.wait(LONG_S)
        other_joined = tree.ref("p/other").ask("join", timeout=None, block=False) if is_second else None
        eventually(lambda: len(waits_for(tree, "go")) == is_second, "the other wait")
        joined = tree.ref("p/doer").ask("join", timeout=None, block=False)
        eventually(lambda: tree.ref("p/doer").depth == 0, "the doer at work")
        if is_given:
            scene.may_ask.set()
            eventually(lambda: tree.ref("p/doer").depth == 1, "the attempt")
            scene.may_join.set()
        else:
            scene.may_join.set()
            eventually(lambda: len(waits_for(tree, "go")) == 1 + is_second, "the wait")
            scene.may_ask.set()
        joined.get(timeout=LONG_S)

        if is_given or is_second:  # else the doer stood in the ancestry of the task, and that is refused
            assert type(scene.came["joiner"]) is RecursionDetectedError
            assert handle.result(LONG_S).status == "succeeded"
        else:
            assert type(scene.came["joiner"]) is TaskFailedError
        if other_joined is not None:
            assert other_joined.get(timeout=LONG_S) == "succeeded"


@FIRST
@ASYNC
def test_so_it_is_where_a_planner_asks(asks_first: bool, is_async: bool) -> None:
    scene = Scene(asks_first=asks_first)

    def plans_in_thread(*_: object) -> Plan:
        scene.asks()
        return Plan([Subtask("w")])

    async def plans_on_loop(*_: object) -> Plan:
        await scene.asks_async()
        return Plan([Subtask("w")])

    plans: Any = plans_on_loop if is_async else plans_in_thread
    children = [WorkerSpec(id="w", execute=lambda *_: "done"), WorkerSpec(id="joiner", actor=Joiner, args=(scene,))]
    with start(SupervisorSpec(id="p", tasks=Tasks(planner=plans), children=children)) as tree:
        scene.play(tree)
