"""Workers that wait for each other in a circle which no ask has closed: something else did, when all asks were open."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from actors import RecursionDetectedError
from actors.testing import settle
from tests.support.asking import LONG_S, assert_nothing_left, shop
from tests.tasks.dispatching import until
from trees import (
    Breaker,
    Failover,
    NoCapableWorkerError,
    Plan,
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskFailedError,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

AT_ONCE = Retry(max_attempts=2, initial_s=0.0, max_s=0.0, jitter=0.0)


async def asked(context: Any, to: str, instruction: str = "something") -> str:
    """What it answers, or that it is refused."""
    try:
        return str(await context.ask(to, instruction))
    except RecursionDetectedError as error:
        return "refused: " + " > ".join(error.chain)


@dataclass
class Gates:
    """What the workers wait for, opened by the test one after the other."""

    events: dict[str, threading.Event] = field(default_factory=dict)

    def of(self, name: str) -> threading.Event:
        return self.events.setdefault(name, threading.Event())

    async def passed(self, name: str) -> None:
        assert await asyncio.to_thread(self.of(name).wait, LONG_S)

    def asks(self, me: str, *to: str) -> Callable[[Any, Any], Any]:
        """Its first work asks for all of that at once, when its gate is open; whatever comes then is done at once."""
        calls = itertools.count()

        async def execute(_: Any, context: Any) -> Any:
            if next(calls):
                return f"{me} did"
            await self.passed(me)
            return await asyncio.gather(*(asked(context, each) for each in to))

        return execute

    def does(self, me: str, error: Exception | None = None) -> Callable[[Any, Any], Any]:
        """It ends when its gate is open."""

        async def execute(_: Any, __: Any) -> str:
            await self.passed(me)
            if error is not None:
                raise error
            return f"{me} did"

        return execute

    def open_all(self) -> None:
        for event in self.events.values():
            event.set()

    def open(self, name: str, tree: Tree, asks: int) -> None:
        """Open one, and wait until so many asks are open, and stand where they stay."""
        self.of(name).set()
        runtime: Any = tree._system.services["tasks"]
        until(lambda: [key in ask.port.asked for key, ask in runtime.asks.copy().items()] == [True] * asks)


def plan_of(*workers: str) -> list[Subtask]:
    return [Subtask(f"of-{id_}", "the first thing", worker=id_) for id_ in workers]


def outcome(
    gates: Gates, spec: SupervisorSpec, act: Callable[[Tree], None], *, first: Callable[[Tree], None] | None = None
) -> Report:
    with start(spec) as tree:
        if first is not None:
            first(tree)
        handle = tree.submit("the goal")
        act(tree)
        report = handle.result(LONG_S)
        gates.open_all()  # of one that was given up, a thread may wait still
        settle(tree)
        assert_nothing_left(tree)
    return report


def running(tree: Tree) -> list[str]:
    runtime: Any = tree._system.services["tasks"]
    return list(runtime.ports["p"].attempts.running)


def refusals(report: Report) -> list[str]:
    return [word for word in str(report.results).split("'") if word.startswith("refused")]


def test_one_of_several_asks_is_over_and_the_others_wait_for_each_other() -> None:
    gates = Gates()
    workers = [
        WorkerSpec(id="a", execute=gates.asks("a", "b", "c")),
        WorkerSpec(id="b", execute=gates.asks("b", "a")),
        WorkerSpec(id="c", execute=gates.does("c")),
    ]

    def act(tree: Tree) -> None:
        gates.open("a", tree, 2)
        gates.open("b", tree, 3)
        gates.of("c").set()

    report = outcome(gates, shop(*workers, plan=plan_of("a", "b")), act)

    assert report.results == {"of-a": ["refused: p/b > p/a > b", "c did"], "of-b": ["a did"]}


def test_all_that_is_left_of_a_team_waits_for_who_has_asked_the_team() -> None:
    gates = Gates()
    members = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan(plan_of("m", "n")), on_failure=[]),
        children=[
            WorkerSpec(id="m", execute=gates.asks("m", "a")),
            WorkerSpec(id="n", execute=gates.does("n"), pool=2),
        ],
    )

    def act(tree: Tree) -> None:
        runtime: Any = tree._system.services["tasks"]
        until(lambda: runtime.ports["p/team"].attempts.running)
        gates.open("a", tree, 1)
        until(lambda: sum(len(part.nodes) for part in runtime.ports["p/team"].states.copy().values()) == 4)
        gates.open("m", tree, 2)
        gates.of("n").set()

    asks_team = WorkerSpec(id="a", execute=gates.asks("a", "team"))
    report = outcome(gates, shop(members, asks_team, plan=plan_of("team", "a")), act)

    assert report.status == "succeeded"
    assert len(refusals(report)) == 1


@pytest.mark.parametrize("how", ["terminated", "deleted"])
def test_the_only_other_one_that_could_do_it_is_gone(how: str) -> None:
    gates = Gates()
    workers = [
        WorkerSpec(id="a", execute=gates.asks("a", "skill")),
        WorkerSpec(id="b", execute=gates.asks("b", "a"), capabilities={"skill"}),
        WorkerSpec(id="c", execute=gates.does("c"), capabilities={"skill"}),
    ]
    plan = [*plan_of("a", "b"), Subtask("of-c", "the first thing", worker="c", required=False)]

    def act(tree: Tree) -> None:
        until(lambda: len(running(tree)) == 3)
        gates.open("a", tree, 1)
        gates.open("b", tree, 2)
        tree.terminate_child("p/c")
        if how == "deleted":
            tree.delete_child("p/c")

    report = outcome(gates, shop(*workers, plan=plan), act)

    assert report.results == {"of-a": ["refused: p/b > p/a > skill"], "of-b": ["a did"]}


def test_what_was_asked_for_goes_to_another_worker_which_waits_for_who_has_asked() -> None:
    gates = Gates()
    workers = [
        WorkerSpec(id="a", execute=gates.asks("a", "skill")),
        WorkerSpec(id="b", execute=gates.asks("b", "a"), capabilities={"skill"}),
        WorkerSpec(id="c", execute=gates.does("c", ValueError("c cannot")), capabilities={"skill"}),
    ]

    def act(tree: Tree) -> None:
        until(lambda: len(running(tree)) == 2)
        gates.open("a", tree, 1)
        until(lambda: len(running(tree)) == 3)
        gates.open("b", tree, 2)
        gates.of("c").set()

    report = outcome(gates, shop(*workers, plan=plan_of("a", "b"), on_failure=[Failover()]), act)

    assert report.results == {"of-a": ["refused: p/b > p/a > skill"], "of-b": ["a did"]}


def test_a_part_of_the_team_that_is_tried_again_waits_for_who_has_asked_the_team() -> None:
    """Between its tries the team goes on by itself: what it waits for is no circle then."""
    gates = Gates()
    tries = itertools.count()

    async def fails_once(task: Any, context: Any) -> Any:
        if next(tries):
            return await gates.asks("m", "a")(task, context)
        raise ValueError("once")

    members = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan(plan_of("m")), on_failure=[AT_ONCE]),
        children=[WorkerSpec(id="m", execute=fails_once)],
    )

    def act(tree: Tree) -> None:
        gates.of("m").set()
        gates.open("a", tree, 0)

    report = outcome(gates, shop(WorkerSpec(id="a", execute=gates.asks("a", "team")), members, plan=plan_of("a")), act)

    assert len(refusals(report)) == 1


def test_who_is_waited_for_is_the_probe_of_a_breaker_though_its_pool_has_room() -> None:
    """Nothing else is given to that pool before the probe has ended."""
    gates = Gates()
    breaker = Breaker(failure_threshold=1, failure_rate=0.01, cooldown_s=0.001)
    asks_a = gates.asks("b", "a")

    async def fails_first(task: Any, context: Any) -> Any:
        if context.goal == "it fails":
            raise ValueError("it fails")
        return await asks_a(task, context)

    workers = [
        WorkerSpec(id="a", execute=gates.asks("a", "b")),
        WorkerSpec(id="b", execute=fails_first, pool=2, breaker=breaker),
    ]

    def act(tree: Tree) -> None:
        until(lambda: len(running(tree)) == 2)
        assert [row.breaker for row in tree.registry() if row.id == "b"] == ["half_open"]
        gates.open("a", tree, 1)
        gates.of("b").set()

    def fail_first(tree: Tree) -> None:
        with pytest.raises(TaskFailedError):
            tree.submit(Task("it fails", plan=Plan([Subtask("of-b", worker="b")]))).result(LONG_S)

    report = outcome(gates, shop(*workers, plan=plan_of("a", "b")), act, first=fail_first)

    assert report.results == {"of-a": ["b did"], "of-b": ["refused: p/a > p/b > a"]}


def test_who_is_waited_for_is_the_backup_of_a_worker_that_is_gone() -> None:
    gates = Gates()
    workers = [
        WorkerSpec(id="a", execute=gates.asks("a", "b")),
        WorkerSpec(id="b", execute=gates.does("b"), backup="c"),
        WorkerSpec(id="c", execute=gates.asks("c", "a")),
    ]

    def act(tree: Tree) -> None:
        until(lambda: len(running(tree)) == 2)
        gates.open("a", tree, 1)
        gates.of("c").set()

    report = outcome(
        gates,
        shop(*workers, plan=plan_of("a", "c")),
        act,
        first=lambda tree: tree.terminate_child("p/b"),
    )

    assert report.results == {"of-a": ["c did"], "of-c": ["refused: p/a > p/c > a"]}


# -- whatever they ask of each other -------------------------------------------------------------------------


class Crowd:
    """A random tree whose workers ask each other, and teams, for whatever comes to their minds."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)  # noqa: S311
        self.ids = [f"w{number}" for number in range(self.rng.randint(2, 4))]
        self.workers = [self._worker(id_) for id_ in self.ids]
        skills = sorted({skill for worker in self.workers for skill in worker.capabilities})
        self.names = [*self.ids, *skills, "team", "team"]

    def _worker(self, id_: str) -> WorkerSpec:
        more: dict[str, Any] = {"pool": 2} if self.rng.random() < 0.3 else {}
        skills = set(self.rng.sample(["x", "y"], self.rng.randint(0, 2)))
        return WorkerSpec(id=id_, execute=self._works, breaker=None, capabilities=skills, **more)

    async def _works(self, task: Any, context: Any) -> int:
        rng = random.Random(f"{self.seed} {task} {context.path}")  # noqa: S311
        for _ in range(rng.randint(0, 3)):
            await asyncio.sleep(rng.choice([0, 0, 0.001, 0.003]))
        if rng.random() < 0.15:
            raise ValueError("it fails")
        known = [*self.names, "m0", "m1"] if "team" in context.path else self.names
        rounds = 0 if str(task).count(">") >= 3 else rng.choice([0, 1, 1, 2])
        for _ in range(rounds):
            words = [f"{task}>{rng.randint(0, 9)}.{number}" for number in range(rng.choice([1, 1, 2, 3]))]
            await asyncio.gather(*(self._ask(context, rng.choice(known), each) for each in words))
        return rounds

    async def _ask(self, context: Any, to: str, instruction: str) -> None:
        with contextlib.suppress(RecursionDetectedError, SubtaskFailedError, NoCapableWorkerError):
            await context.ask(to, instruction)

    def spec(self) -> SupervisorSpec:
        rng = self.rng
        parts = [Subtask(f"p{n}", f"P{n}>", worker=rng.choice(["m0", "m1"])) for n in range(rng.randint(1, 3))]
        tasks = Tasks(planner=StaticPlan(parts), on_failure=self._ladder(), max_parallel=rng.choice([1, 2, 8]))
        members = [WorkerSpec(id=id_, execute=self._works, breaker=None) for id_ in ("m0", "m1")]
        group = SupervisorSpec(id="team", breaker=None, tasks=tasks, children=members)
        to = [*self.ids, "team"]
        plan = [Subtask(f"s{n}", f"S{n}", worker=rng.choice(to), required=False) for n in range(rng.randint(2, 5))]
        return shop(*self.workers, group, plan=plan, on_failure=self._ladder(), max_parallel=rng.choice([1, 2, 8, 64]))

    def _ladder(self) -> list[Any]:
        return self.rng.choice([[], [Failover()], [AT_ONCE], [AT_ONCE, Failover()]])


@pytest.mark.parametrize("seed", range(12))
def test_whatever_workers_ask_of_each_other_every_task_ends(seed: int) -> None:
    crowd = Crowd(seed)
    with start(crowd.spec()) as tree:
        handles = [tree.submit(f"goal {number}") for number in range(crowd.rng.randint(1, 3))]
        if crowd.rng.random() < 0.4:
            id_ = crowd.rng.choice(crowd.ids)
            for child in [each for each in tree.which_children("p") if each.id.partition("#")[0] == id_]:
                tree.terminate_child(child.path)
        for handle in handles:
            with contextlib.suppress(TaskFailedError):
                handle.result(LONG_S)
        settle(tree)
        assert_nothing_left(tree)
