"""Orders of which incarnation after incarnation of an orchestrator dies: none is lost silently, all others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors.tasks.orchestration.messages import Cancel, Delegate, DelegationAnswered, RunOnLoop, SetPriority, StepMade
from actors.tasks.orchestration.orchestrator import COMMAND_TRIES, Orchestrator
from tests.support.dispatching import LONG_S, until
from tests.support.orchestrators import BugError
from trees import (
    OrderDamaged,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    TaskHandle,
    Tasks,
    TaskStatus,
    Tree,
    WorkerSpec,
    start,
)


def deadly(monkeypatch: pytest.MonkeyPatch, kind: type[Any]) -> list[object]:
    """Have every orchestrator die of an order of this kind, but for those about the task ``good``; the deaths."""
    deaths, handler = list[object](), Orchestrator._HANDLERS[kind]

    def handle(orchestrator: Orchestrator, order: Any) -> None:
        if any("good" in str(getattr(order, name, "")) for name in ("task", "ask")):
            handler(orchestrator, order)
            return
        deaths.append(order)
        raise BugError

    monkeypatch.setitem(Orchestrator._HANDLERS, kind, handle)
    return deaths


def office(work: Callable[..., Any], *, in_team: bool = False) -> SupervisorSpec:
    """A root, with restarts as by default, whose worker, or that of its team, does this; and a helper to be asked."""
    settings = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), on_failure=[])
    worker = WorkerSpec(id="w", execute=work, breaker=None)
    if in_team:
        worker = SupervisorSpec(id="w", tasks=settings, children=[worker])  # type: ignore[assignment]
    helper = WorkerSpec(id="helper", execute=lambda *_: "help", breaker=None)
    return SupervisorSpec(id="p", tasks=settings, children=[worker, helper])


def failed(handle: TaskHandle) -> str:
    with pytest.raises(TaskFailedError) as raised:
        handle.result(timeout=LONG_S)
    return str(raised.value)


def goes_on(tree: Tree) -> bool:
    return tree.run(Task("good", id="good"), timeout=LONG_S).status is TaskStatus.SUCCEEDED


def test_whoever_waits_for_what_it_has_asked_for_hears_that_nobody_can_carry_that_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard, deaths = list[BaseException](), deadly(monkeypatch, Delegate)

    def ask(_: Any, context: Any) -> str:
        """On a thread, which nothing but an answer wakes."""
        try:
            return str(context.ask_sync("helper", "help"))
        except Exception as error:
            heard.append(error)
            raise

    with start(office(ask)) as tree:
        handle = tree.submit(Task("bad", id="bad"))
        failed(handle)
        until(lambda: heard)
        assert goes_on(tree)
    assert deaths


def test_an_answer_of_another_orchestrator_comes_though_all_have_died_of_the_news_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deaths = deadly(monkeypatch, DelegationAnswered)
    with start(office(lambda _, context: context.ask_sync("helper", "help"), in_team=True)) as tree:
        report = tree.run(Task("bad", id="bad"), timeout=LONG_S)
        assert goes_on(tree)
    assert report.results == {"a": {"a": "help"}}
    assert deaths


async def hangs(_: Any, context: Any) -> str:
    if context.goal == "bad":
        await asyncio.get_running_loop().create_future()
    return "done"


@pytest.mark.parametrize(
    ("kind", "order"),
    [(Cancel, lambda handle: handle.cancel("enough")), (SetPriority, lambda handle: handle.set_priority(3))],
    ids=["cancel", "priority"],
)
def test_whoever_waits_for_a_task_hears_that_its_orchestrators_have_died_of_an_order(
    monkeypatch: pytest.MonkeyPatch, kind: type[Any], order: Callable[[TaskHandle], object]
) -> None:
    deaths = deadly(monkeypatch, kind)
    with start(office(hangs)) as tree:
        handle = tree.submit(Task("bad", id="bad"))
        until(lambda: tree._system.services["tasks"].attempts)  # type: ignore[attr-defined]
        order(handle)
        assert "its orchestrator died of it" in failed(handle)
        assert goes_on(tree)
    assert deaths


def test_a_step_that_no_orchestrator_can_record_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, deaths = list[BaseException](), deadly(monkeypatch, StepMade)

    async def work(_: Any, context: Any) -> Any:
        try:
            return await context.step("one", lambda: 1)
        except BaseException as error:
            heard.append(error)
            raise

    with start(office(work)) as tree:
        monkeypatch.setattr("actors.tasks.orchestration.step_records._record", _raising)
        handle = tree.submit(Task("bad", id="bad"))
        failed(handle)
        until(lambda: heard)
        monkeypatch.undo()
        assert goes_on(tree)
    assert deaths


def _raising(*_: object) -> None:
    raise BugError


def test_an_order_that_is_given_up_is_told_by_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of another process names no task that could be ended."""
    deaths, lost = deadly(monkeypatch, RunOnLoop), list[OrderDamaged]()
    with start(office(hangs)) as tree:
        tree.subscribe(lambda event: lost.append(event) if isinstance(event, OrderDamaged) else None)
        tree._system.services["tasks"].ports["p"].tell(RunOnLoop(lambda: None))  # type: ignore[attr-defined]
        until(lambda: lost)
        assert goes_on(tree)

    (event,) = lost
    assert (event.path, event.task) == ("p", "")
    assert "RunOnLoop was given up: 4 incarnations have died of it" in str(event.error)
    assert len(deaths) == COMMAND_TRIES
