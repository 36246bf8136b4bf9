"""An order of which orchestrators die is tried a few times, in however many processes, and then dropped and told of."""

from __future__ import annotations

from typing import Any

import pytest

from actors import RestartLimitError
from actors.tasks.orchestration.messages import Cancel, RunOnLoop
from actors.tasks.orchestration.orchestrator import COMMAND_TRIES, Orchestrator
from actors.testing import AsyncScriptedExecutable, Hang
from tests.support.databases import sqlite_url
from tests.support.dispatching import LONG_S, until
from tests.support.orchestrators import BugError
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.command.store_client import StoreClient

__all__ = ["sqlite_url"]


def office(max_restarts: int) -> SupervisorSpec:
    worker = WorkerSpec(id="a", execute=AsyncScriptedExecutable(Hang(), by="call").execute, breaker=None)
    settings = Tasks(planner=StaticPlan([Subtask("a")]), on_failure=[], max_losses=10)
    return SupervisorSpec(id="p", tasks=settings, max_restarts=max_restarts, children=[worker])


def deadly(monkeypatch: pytest.MonkeyPatch, kind: type[Any], most: list[int]) -> list[Any]:
    """Have orchestrators die of an order of this kind that came by way of the store; the deaths.

    After the last one of ``most`` the next orchestrator exits at it: that counts, and ends a tree without restarts.
    """
    deaths, handler = list[Any](), Orchestrator._HANDLERS[kind]

    def handle(orchestrator: Orchestrator, order: Any) -> None:
        if order.given_by is None:
            handler(orchestrator, order)
            return
        if len(deaths) == most[-1]:
            raise SystemExit
        deaths.append(order)
        raise BugError

    monkeypatch.setitem(Orchestrator._HANDLERS, kind, handle)
    return deaths


def rows(url: str) -> list[Any]:
    with StoreClient(url) as outside, outside._store._database.reading() as connection:
        return list(connection.exec_driver_sql("SELECT task, kind, body FROM regrow_orders").all())


def with_an_order(url: str) -> None:
    """A task that runs when its tree stops, and is cancelled by somebody else then."""
    with start(office(50), store=url) as tree:
        tree.submit(Task("do it", id="t"))
        until(lambda: tree._system.services["tasks"].attempts)  # type: ignore[attr-defined]
    with StoreClient(url) as outside:
        outside.cancel(outside.task("t")[0], "enough", 0.0)


@pytest.mark.parametrize("kind", [Cancel, RunOnLoop], ids=["the order", "what carries it out"])
def test_the_deaths_of_all_processes_count_and_the_order_is_dropped_and_told_of(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, kind: type[Any]
) -> None:
    with_an_order(sqlite_url)
    most = [0]
    deaths = deadly(monkeypatch, kind, most)
    for number in range(1, COMMAND_TRIES):
        most.append(number)
        with pytest.raises(RestartLimitError), start(office(0), store=sqlite_url) as tree:
            tree.wait(LONG_S)
        assert len(deaths) == number, "one, and then its process ended"
        ((task, what, body),) = rows(sqlite_url)
        assert (task, what) == ("t", "cancel")
        assert f'"tries":{len(deaths)}' in body.replace(" ", "")

    most.append(COMMAND_TRIES)
    with start(office(0), store=sqlite_url) as tree:
        until(lambda: rows(sqlite_url) == [])
        tree.task("t").cancel("enough").get(timeout=LONG_S)
        assert tree.is_alive, "what somebody else orders is carried out"
    assert len(deaths) == COMMAND_TRIES


def test_an_order_that_nobody_has_died_of_stays_as_it_is_where_a_tree_ends_before_it_is_carried_out(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_an_order(sqlite_url)
    before, waiting = (
        rows(sqlite_url),
        next(each for each in Orchestrator._HANDLERS if each.__name__ == "CommandsWaiting"),
    )
    monkeypatch.setitem(Orchestrator._HANDLERS, waiting, lambda *_: None)
    with start(office(1), store=sqlite_url) as tree:
        until(lambda: tree._system.services["tasks"].ports["p"].orders)  # type: ignore[attr-defined]

    assert rows(sqlite_url) == before
