"""Work that would wait for itself is refused, whatever way it goes round; the error has the chain."""

from __future__ import annotations

import asyncio
import concurrent.futures
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import actors
from actors import RecursionDetectedError
from tests.support.load import beside_others
from trees import (
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskRetrying,
    SupervisorSpec,
    Task,
    TaskFailedError,
    TaskJoined,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

LONG_S = 60.0
PATIENT = Retry(max_attempts=5, initial_s=0.0, max_s=0.0, jitter=0.0)
Code = Callable[[Any, Any], Any]


class Caught:
    """What an ``execute`` met when it went round."""

    def __init__(self) -> None:
        self.errors: list[RecursionDetectedError] = []
        self.tree: Tree | None = None

    def raised(self, error: RecursionDetectedError) -> None:
        self.errors.append(error)

    @property
    def there(self) -> Tree:
        assert self.tree is not None
        return self.tree


def only(worker: str, *children: WorkerSpec | SupervisorSpec, **words: Any) -> SupervisorSpec:
    """A tree whose plan is one subtask for one worker."""
    plan = StaticPlan([Subtask("only", "the first thing", worker=worker)])
    return SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=[PATIENT]), children=children, **words)


def failed(spec: SupervisorSpec, caught: Caught | None = None) -> Report:
    """The report of a run that fails; with what was written meanwhile."""
    with start(spec) as tree:
        if caught is not None:
            caught.tree = tree
        begun = time.monotonic()
        with pytest.raises(TaskFailedError) as info:
            tree.run("the goal", timeout=LONG_S)
        took = time.monotonic() - begun
        report = info.value.report
        assert report is not None
        records = list(tree.task(report.task_id).events())
        assert not any(isinstance(record, SubtaskRetrying) for record in records), "a recursion is never tried again"
        assert took < beside_others(1.0)
        assert {child.incarnation for child in tree.which_children("p")} == {1}, "nobody crashed"
    return report


def asks(caught: Caught, to: str, instruction: str = "the next thing") -> Code:
    async def execute(_: Any, context: Any) -> Any:
        try:
            return await context.ask(to, instruction)
        except RecursionDetectedError as error:
            caught.raised(error)
            raise

    return execute


def asks_sync(caught: Caught, to: str, instruction: str = "the next thing") -> Code:
    def execute(_: Any, context: Any) -> Any:
        try:
            return context.ask_sync(to, instruction)
        except RecursionDetectedError as error:
            caught.raised(error)
            raise

    return execute


@pytest.mark.parametrize("asking", [asks, asks_sync])
def test_a_worker_that_asks_itself_is_refused(asking: Any) -> None:
    caught = Caught()

    report = failed(only("a", WorkerSpec(id="a", execute=asking(caught, "a"))))

    assert [error.chain for error in caught.errors] == [("p", "p/a", "p/a")]
    assert "p > p/a > p/a" in report.failed["only"]


@pytest.mark.parametrize("asking", [asks, asks_sync])
def test_a_worker_that_asks_one_who_asks_it_is_refused(asking: Any) -> None:
    caught = Caught()
    workers = [
        WorkerSpec(id="a", execute=asking(Caught(), "b")),
        WorkerSpec(id="b", execute=asking(caught, "a", "yet another thing")),
    ]

    report = failed(only("a", *workers))

    assert [error.chain for error in caught.errors] == [("p", "p/a", "p/b", "p/a")]
    assert "p > p/a > p/b > p/a" in report.failed["only"]


def test_a_worker_that_asks_for_a_capability_that_another_one_has_too_is_given_the_other_one() -> None:
    def thinks(task: Any, _: Any) -> str:
        return f"thought of {task}"

    workers = [
        WorkerSpec(id="a", execute=asks(Caught(), "think"), capabilities={"think"}),
        WorkerSpec(id="b", execute=thinks, capabilities={"think"}),
    ]

    with start(only("a", *workers)) as tree:
        report = tree.run("the goal", timeout=LONG_S)

    assert report.results == {"only": "thought of the next thing"}


@pytest.mark.parametrize("asking", [asks, asks_sync])
def test_a_member_that_asks_the_worker_above_that_waits_for_its_team_is_refused(asking: Any) -> None:
    caught = Caught()
    plan = StaticPlan([Subtask("part", "a part of it", worker="member")])
    member = WorkerSpec(id="member", execute=asking(caught, "a", "back to you"))
    team = SupervisorSpec(id="team", tasks=Tasks(planner=plan, on_failure=[PATIENT]), children=[member])

    report = failed(only("a", WorkerSpec(id="a", execute=asking(Caught(), "team")), team))

    assert [error.chain for error in caught.errors] == [
        ("p", "p/a", "p/team", "p/team/member", "p/a"),
    ]
    assert "orchestrator" not in report.failed["only"]


# -- through other code --------------------------------------------------------------------------------------


async def in_a_task(caught: Caught, _: Any) -> Any:
    return await asyncio.create_task(caught.there.arun("round"))


async def in_a_thread(caught: Caught, _: Any) -> Any:
    return await asyncio.to_thread(caught.there.run, "round")


async def submitted(caught: Caught, _: Any) -> Any:
    return await caught.there.submit("round")


async def asked_in_a_thread(_: Caught, context: Any) -> Any:
    return await asyncio.to_thread(context.ask_sync, "a", "round")


def run(caught: Caught, _: Any) -> Any:
    return caught.there.run("round", timeout=LONG_S)


def submitted_and_waited_for(caught: Caught, _: Any) -> Any:
    return caught.there.submit("round").result(LONG_S)


def carried(caught: Caught, _: Any) -> Any:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(actors.carry(caught.there.run), "round").result(LONG_S)


@pytest.mark.parametrize(
    "way", [in_a_task, in_a_thread, submitted, asked_in_a_thread, run, submitted_and_waited_for, carried]
)
def test_a_worker_that_waits_for_a_task_of_its_own_supervisor_is_refused(way: Any) -> None:
    caught = Caught()

    if asyncio.iscoroutinefunction(way):

        async def execute(_: Any, context: Any) -> Any:
            try:
                return await way(caught, context)
            except RecursionDetectedError as error:
                caught.raised(error)
                raise
    else:

        def execute(_: Any, context: Any) -> Any:  # type: ignore[misc]
            try:
                return way(caught, context)
            except RecursionDetectedError as error:
                caught.raised(error)
                raise

    report = failed(only("a", WorkerSpec(id="a", execute=execute)), caught)

    # One that submits first has its task done, which goes round as well: what is submitted ends at max_hops, or here.
    assert caught.errors[0].chain in {("p", "p/a", "p"), ("p", "p/a", "p/a")}
    assert 1 <= len(caught.errors) <= 65
    assert "RecursionDetectedError" in report.failed["only"]


def test_a_member_that_submits_to_its_own_team_and_waits_is_refused() -> None:
    caught = Caught()

    def execute(_: Any, __: Any) -> Any:
        try:
            return caught.there.submit("round", "p/team").result(LONG_S)
        except RecursionDetectedError as error:
            caught.raised(error)
            raise

    plan = StaticPlan([Subtask("part", "a part of it", worker="member")])
    member = WorkerSpec(id="member", execute=execute)
    team = SupervisorSpec(id="team", tasks=Tasks(planner=plan, on_failure=[PATIENT]), children=[member])

    failed(only("team", team), caught)

    assert caught.errors[0].chain == ("p", "p/team", "p/team/member", "p/team")


def test_a_worker_may_wait_for_a_task_of_a_team_that_does_not_wait_for_it() -> None:
    caught = Caught()
    plan = StaticPlan([Subtask("part", "a part of it", worker="member")])
    member = WorkerSpec(id="member", execute=lambda task, _: f"did {task}")
    team = SupervisorSpec(id="team", tasks=Tasks(planner=plan), children=[member])

    def execute(_: Any, __: Any) -> Any:
        return caught.there.run("over there", path="p/team", timeout=LONG_S).results

    with start(only("a", WorkerSpec(id="a", execute=execute), team)) as tree:
        caught.tree = tree
        report = tree.run("the goal", timeout=LONG_S)

    assert report.results == {"only": {"part": "did a part of it"}}


def test_what_begins_after_a_worker_has_begun_to_wait_for_its_task_is_refused_what_it_asks_of_that_worker() -> None:
    caught, joined = Caught(), threading.Event()

    def waits(_: Any) -> Any:
        return caught.there.submit("go").result(LONG_S).results

    def first(*_: Any) -> None:
        assert joined.wait(LONG_S)

    def second(*_: Any) -> Any:
        return caught.there.ref("p/w").ask("again", timeout=LONG_S)

    plan = StaticPlan([Subtask("one", worker="first"), Subtask("two", worker="second", depends_on=["one"])])
    workers = [WorkerSpec(id=code.__name__, execute=code) for code in (first, second)]
    spec = SupervisorSpec(
        id="p", tasks=Tasks(planner=plan, on_failure=[PATIENT]), children=[*workers, WorkerSpec(id="w", handle=waits)]
    )
    with start(spec) as tree:
        caught.tree = tree
        tree.subscribe(lambda event: joined.set() if isinstance(event, TaskJoined) else None)
        with pytest.raises(TaskFailedError, match="p/w > p > p/second > p/w"):
            tree.ref("p/w").ask("go", timeout=LONG_S)


def test_members_of_two_teams_that_wait_for_each_others_tasks_crosswise_are_refused() -> None:
    caught, both = Caught(), threading.Barrier(2)

    def waits(_: Any, context: Any) -> Any:
        both.wait(LONG_S)
        return caught.there.task("y" if context.task_id == "x" else "x").result(LONG_S).results

    plan = StaticPlan([Subtask("only", worker="member")])
    teams = [
        SupervisorSpec(id=f"team_{id_}", tasks=Tasks(planner=plan, on_failure=[]), children=[member])
        for id_, member in (
            ("x", WorkerSpec(id="member", execute=waits)),
            ("y", WorkerSpec(id="member", execute=waits)),
        )
    ]
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=teams)) as tree:
        caught.tree = tree
        handles = [tree.submit(Task("wait", id=id_), path=f"p/team_{id_}") for id_ in "xy"]
        errors = []
        for handle in handles:
            with pytest.raises(TaskFailedError) as info:
                handle.result(LONG_S)
            errors.append(str(info.value))

    assert any("p/team_x/member > p/team_y/member > p/team_x/member" in each for each in errors) or any(
        "p/team_y/member > p/team_x/member > p/team_y/member" in each for each in errors
    )


# -- the same instruction ------------------------------------------------------------------------------------


def relay(caught: Caught, *, inputs: list[dict[str, Any]] | None = None, words: list[str]) -> SupervisorSpec:
    """``a`` asks ``b`` the first of ``words``, ``b`` asks ``c`` the second."""
    given = inputs or [{}, {}]

    async def first(_: Any, context: Any) -> Any:
        return await context.ask("b", words[0], given[0])

    async def second(_: Any, context: Any) -> Any:
        try:
            return await context.ask("c", words[1], given[1])
        except RecursionDetectedError as error:
            caught.raised(error)
            raise

    workers = [
        WorkerSpec(id="a", execute=first),
        WorkerSpec(id="b", execute=second),
        WorkerSpec(id="c", execute=lambda task, _: f"c did {task}"),
    ]
    return only("a", *workers)


@pytest.mark.parametrize("again", ["compare them", "  Compare \n THEM "])
def test_an_instruction_that_is_in_the_chain_already_is_refused_whatever_its_spaces_and_case(again: str) -> None:
    caught = Caught()

    failed(relay(caught, words=["compare them", again]))

    assert [error.chain for error in caught.errors] == [("p", "p/a", "p/b", "p/c")]
    told = str(pickle.loads(pickle.dumps(caught.errors[0])))  # noqa: S301 - as it crosses to a process
    assert "p > p/a > p/b > p/c: 'p/c' would be asked for what is asked for already, in the same words" in told


def test_the_same_instruction_about_something_else_is_another_thing() -> None:
    caught = Caught()

    with start(relay(caught, words=["compare", "compare"], inputs=[{"x": 1}, {"x": 2}])) as tree:
        report = tree.run("the goal", timeout=LONG_S)

    assert report.results == {"only": "c did compare"}
    assert caught.errors == []


def test_the_same_instruction_in_two_branches_is_no_recursion() -> None:
    async def twice(_: Any, context: Any) -> Any:
        return await asyncio.gather(context.ask("b", "compare"), context.ask("c", "compare"))

    workers = [
        WorkerSpec(id="a", execute=twice),
        WorkerSpec(id="b", execute=lambda task, _: f"b did {task}"),
        WorkerSpec(id="c", execute=lambda task, _: f"c did {task}"),
    ]
    with start(only("a", *workers)) as tree:
        report = tree.run("the goal", timeout=LONG_S)

    assert report.results == {"only": ["b did compare", "c did compare"]}


# -- long chains ---------------------------------------------------------------------------------------------
