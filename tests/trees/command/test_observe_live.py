"""A real tree through its real console: looked at, operated, subscribed to, drawn, and served as a page elsewhere."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import queue
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
from textual.widgets import DataTable

from actors.testing import ScriptedExecutable, settle
from tests.support.command import runtime
from tests.support.crew import LONG_S, faulty
from tests.trees.store.stores import asked
from trees import Escalate, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start
from trees.command.consoles import the_socket
from trees.command.top.app import Top
from trees.command.top_command import serve_page
from trees.host.console import ConsoleError, ConsoleSource, find
from trees.observe.source import SourceError

__all__ = ["runtime"]
pytestmark = pytest.mark.usefixtures("runtime")


@contextmanager
def shop() -> Iterator[tuple[Tree, ConsoleSource]]:
    """A tree with a worker, and a task that asks a person; and its console."""
    stuck = ScriptedExecutable(OSError("disk"), "done", by="call")
    spec = SupervisorSpec(
        id="shop",
        max_restarts=100,
        tasks=Tasks(planner=StaticPlan([Subtask("pay")])),
        children=[
            faulty("mail"),
            WorkerSpec(id="pay", execute=stuck.execute, on_failure=[Escalate(question="Pay all of it?")]),
        ],
    )
    with start(spec, console=True) as tree, closing(ConsoleSource(*find(os.getpid()))) as source:
        yield tree, source


def of(source: ConsoleSource, path: str) -> dict[str, Any]:
    """One row of its snapshot."""
    return {row["path"]: row for row in source.snapshot()["rows"]}[path]


def test_a_tree_is_looked_at_and_operated_through_its_console() -> None:
    told: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    with shop() as (tree, source):
        source.subscribe(told.put)
        handle = tree.submit(Task("settle the bill", id="t-1"))
        question = asked(handle, tree)
        (asks,) = source.questions()["questions"]
        first = of(source, "shop/mail")
        source.act("shop/mail", "restart")
        again = of(source, "shop/mail")
        source.act("shop/mail", "terminate")
        stopped = of(source, "shop/mail")
        source.answer(question, "approve")
        report = handle.result(LONG_S)
        (task,) = source.tasks()["tasks"]
        page, child = source.task("t-1"), source.child("shop/pay")
        with pytest.raises(SourceError) as unknown:
            source.child("shop/none")
        with pytest.raises(SourceError) as ended:
            source.cancel("t-1")
        tree.stop()
        events = [told.get(timeout=LONG_S)]
        while events[-1]["name"] != "source_ended":
            events.append(told.get(timeout=LONG_S))

    names = [event["name"] for event in events]
    assert (asks["id"], asks["text"]) == (question, "Pay all of it?")
    assert (first["state"], again["state"], stopped["state"]) == ("running", "running", "stopped")
    assert again["incarnation"] == first["incarnation"] + 1
    assert report.status == task["status"] == page["status"] == "succeeded"
    assert task["goal"] == "settle the bill"
    assert child["row"]["path"] == "shop/pay"
    assert (unknown.value.status, ended.value.status) == (404, 409)
    assert {"child_exited", "child_started", "escalation_raised", "task_finished"} <= set(names)
    acts = [event for event in events if event["name"] == "operated"]
    assert [event["act"] for event in acts] == ["restart", "terminate", "approve"]
    assert all(f"pid {os.getpid()}" in event["by"] for event in acts)


def test_whoever_comes_after_a_crash_is_told_its_text_where_it_was_raised_and_how_long_the_child_was_up() -> None:
    """Most people look because something has crashed: the console notes it before anybody has asked anything."""
    with shop() as (tree, source):
        tree.ref("shop/mail").tell("raise OSError no room")
        settle(tree)
        (exit_,) = source.child("shop/mail")["exits"]
        (crash,) = source.snapshot()["now"]["crashes"]

    assert (exit_["reason"], exit_["type"], exit_["text"]) == ("crashed", "OSError", "OSError: no room")
    assert any("faulty" in frame for frame in exit_["frames"])
    assert exit_["lasted_s"] >= 0
    assert (crash["path"], crash["type"], crash["count"]) == ("shop/mail", "OSError", 1)


def test_a_live_tree_is_drawn_and_a_crash_shows() -> None:
    async def main(tree: Tree, source: ConsoleSource) -> tuple[list[str], list[list[str]]]:
        app = Top(source, every_s=0.5)
        async with app.run_test(size=(140, 40)) as pilot:
            crashes = app.query_one("#crashes-rows", DataTable)
            tree.ref("shop/mail").tell("raise OSError")
            while not crashes.row_count:
                await pilot.pause(0.01)
            rows = app.query_one("#tree-rows", DataTable)
            drawn = [str(rows.get_row_at(n)[0]) for n in range(rows.row_count)]
            return drawn, [[str(cell) for cell in crashes.get_row_at(n)][:3] for n in range(crashes.row_count)]

    with shop() as (tree, source):
        drawn, crashed = asyncio.run(main(tree, source))

    assert [name.strip() for name in drawn] == ["▾ shop", "orchestrator", "mail", "pay"]
    assert crashed == [["shop/mail", "OSError", "1"]]


def test_the_page_of_a_tree_of_another_process_is_served_from_here() -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("sse_starlette")
    said: list[str] = []
    seen: list[dict[str, Any]] = []

    def look() -> None:
        address = said[0].split("http://")[1].split("/")[0]
        with closing(http.client.HTTPConnection(address, timeout=LONG_S)) as connection:
            connection.request("GET", "/api/snapshot")
            seen.append(json.loads(connection.getresponse().read()))
        raise KeyboardInterrupt

    with shop() as (_, source):
        serve_page(source, 0, said.append, look)

    assert [row["path"] for row in seen[0]["rows"]] == ["shop", "shop/orchestrator", "shop/mail", "shop/pay"]


@pytest.mark.usefixtures("runtime")
def test_a_tree_of_several_is_chosen_by_its_whole_id_however_long_that_is() -> None:
    ids = [f"{'a-tree-with-a-long-name-' * 2}{end}" for end in ("north", "south")] + ["short"]
    with ExitStack() as trees:
        for id_ in ids:
            spec = SupervisorSpec(id=id_, children=[WorkerSpec(id="w", handle=str)])
            trees.enter_context(start(spec, console=True))
        for id_ in ids:
            assert ConsoleSource(the_socket(os.getpid(), id_)).snapshot()["name"] == id_
        with pytest.raises(ConsoleError, match=f"has several trees.*{ids[0]}, {ids[1]}, short"):
            the_socket(os.getpid(), None)
        with pytest.raises(ConsoleError, match="has no tree 'shor'"):
            the_socket(os.getpid(), "shor")
