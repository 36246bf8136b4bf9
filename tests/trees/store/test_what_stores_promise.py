"""What users rely on of a store: what is kept and for how long, orders from outside, damage, another version."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest

from actors import ActorsError, Escalated, Event
from actors.testing import settle
from trees import (
    Approve,
    Escalate,
    LeaseLostError,
    StaticPlan,
    StoreError,
    Subtask,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskError,
    Tasks,
    TaskStatus,
    UnknownTaskError,
    WorkerSpec,
    start,
)
from trees.store import Keep

LONG_S = 60.0


def shop(work: Callable[[Any, Any], Any], **words: Any) -> SupervisorSpec:
    """A tree whose tasks have one subtask."""
    worker = WorkerSpec(id="work", execute=work, shutdown=0.2, **words)
    return SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan([Subtask("work")])), children=[worker])


def doubled(_task: object, context: Any) -> Any:
    return context.inputs["value"] * 2


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


async def hangs(_task: object, _context: object) -> None:
    await asyncio.Event().wait()


def regrow(*words: str) -> str:
    """What the command says, as another process."""
    done = subprocess.run(
        [sys.executable, "-m", "trees", *words], capture_output=True, text=True, timeout=LONG_S, check=False
    )
    return done.stdout + done.stderr


# -- kept, and for how long --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [1, "é😀" * 100, [None, {"a": [1.5]}], "x" * 300_000], ids=["number", "text", "nested", "large"]
)
def test_a_result_is_the_same_in_the_next_process(store_url: str, value: Any) -> None:
    with start(shop(lambda _task, context: context.inputs["value"]), store=store_url) as tree:
        tree.submit(Task("go", id="t", inputs={"value": value})).result(LONG_S)
    with start(shop(doubled), store=store_url) as tree:
        report = tree.task("t").result(LONG_S)
        assert report.results == {"work": value}
        assert next(iter(tree.task("t").events())).seq == 1


def test_as_many_finished_tasks_stay_as_keep_says_and_those_that_go_on_all_stay(store_url: str) -> None:
    release = threading.Event()

    def work(_task: object, context: Any) -> str:
        if context.inputs.get("waits"):
            release.wait(LONG_S)
        return "done"

    with start(shop(work, pool=2), store=store_url, keep=Keep(age_s=None, count=3)) as tree:
        waits = tree.submit(Task("go", id="waits", inputs={"waits": True}))
        for number in range(6):
            tree.submit(Task("go", id=f"t-{number}")).result(LONG_S)
        release.set()
        waits.result(LONG_S)
    with start(shop(work), store=store_url, keep=Keep(age_s=None, count=3)) as tree:
        eventually(lambda: {row.id for row in tree.tasks()} == {"t-4", "t-5", "waits"})  # deleted in spare time
        with pytest.raises(UnknownTaskError):
            tree.task("t-0")


def test_a_removed_task_is_gone_and_its_id_is_free_and_one_that_goes_on_is_not_removed(store_url: str) -> None:
    begun, release = threading.Event(), threading.Event()

    def work(_task: object, context: Any) -> int:
        if context.inputs["value"] == 2:
            begun.set()
            release.wait(LONG_S)
        return context.inputs["value"] * 10

    with start(shop(work), store=store_url) as tree:
        tree.submit(Task("go", id="t", inputs={"value": 1})).result(LONG_S)
        tree.remove_task("t")
        with pytest.raises(UnknownTaskError):
            tree.task("t")
        again = tree.submit(Task("go", id="t", inputs={"value": 2}))
        assert begun.wait(LONG_S)
        with pytest.raises(TaskError):
            tree.remove_task("t")
        release.set()
        assert again.result(LONG_S).results == {"work": 20}
    with start(shop(work), store=store_url) as tree:
        assert tree.task("t").result(LONG_S).results == {"work": 20}


def test_what_was_submitted_and_not_begun_runs_in_the_next_process(store_url: str) -> None:
    begun, release = threading.Event(), threading.Event()

    def hangs(_task: object, _context: object) -> None:
        begun.set()
        release.wait(LONG_S)

    with start(shop(hangs), store=store_url) as tree:
        ids = [tree.submit(Task("go", inputs={"value": number})).id for number in range(20)]
        assert begun.wait(LONG_S)
        tree.stop(timeout=0.1)
        release.set()
    with start(shop(doubled, pool=4), store=store_url) as tree:
        assert [tree.task(id_).result(LONG_S).results["work"] for id_ in ids] == [2 * number for number in range(20)]


# -- orders from outside, while the tree runs and while it does not ----------------------------------------------


def asks(_task: object, context: Any) -> str:
    if not context.answers:
        raise Escalated("Ship it?")
    return f"shipped: {type(context.answers[-1]).__name__}"


def test_an_answer_that_was_given_while_nothing_ran_counts_at_the_next_start(store_url: str) -> None:
    with start(shop(asks, on_failure=[Escalate()]), store=store_url) as tree:
        tree.submit(Task("go", id="t"))
        settle(tree)
        (question,) = tree.escalations()
    assert "t" in regrow("tasks", "--store", store_url)
    regrow("tasks", "respond", question.id, "approve", "--store", store_url, "--wait", "0")

    with start(shop(asks, on_failure=[Escalate()]), store=store_url) as tree:
        assert tree.task("t").result(LONG_S).results == {"work": "shipped: Approve"}
        assert tree.escalations() == []
        tree.respond(question.id, Approve())  # the same answer once more is no error


def test_a_cancel_from_outside_reaches_a_tree_that_runs_and_one_that_is_down(store_url: str) -> None:
    with start(shop(hangs), store=store_url) as tree:
        running = tree.submit(Task("go", id="running"))
        later = tree.submit(Task("go", id="later"))
        regrow("tasks", "cancel", "running", "--store", store_url)
        with pytest.raises(TaskCancelledError):
            running.result(LONG_S)
        assert later.status != TaskStatus.CANCELLED
    regrow("tasks", "cancel", "later", "--store", store_url, "--wait", "0")
    with start(shop(hangs), store=store_url) as tree, pytest.raises(TaskCancelledError):
        tree.task("later").result(LONG_S)


# -- damage and versions: the tables are read and written by hand, as damage would -------------------------------


def test_a_damaged_journal_is_told_and_costs_that_task_only(sqlite_url: str) -> None:
    with start(shop(hangs, pool=2), store=sqlite_url) as tree:
        for id_ in ("broken", "sound"):
            tree.submit(Task("go", id=id_, inputs={"value": 4}))
        tree.stop(timeout=0.1)
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as file:
        file.execute("UPDATE regrow_records SET body = '{' WHERE stream = 'broken' AND n = 0")
        file.commit()

    told: list[Event] = []
    with start(shop(doubled), store=sqlite_url) as tree:
        tree.subscribe(told.append)
        assert tree.task("sound").result(LONG_S).results == {"work": 8}
        assert [row.id for row in tree.tasks() if row.id == "broken"] in ([], ["broken"])
        tree.remove_task("broken")
        assert tree.submit(Task("go", id="broken", inputs={"value": 1})).result(LONG_S).results == {"work": 2}


def test_a_record_that_the_database_never_takes_leaves_no_hole_and_the_next_process_goes_on(sqlite_url: str) -> None:
    def work(_task: object, _context: object) -> str:
        return "refused"

    with start(shop(work), store=sqlite_url):
        pass
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as file:
        ours = "SELECT name FROM sqlite_schema WHERE name LIKE 'regrow_%' AND sql LIKE 'CREATE TABLE%'"
        for (table,) in file.execute(ours).fetchall():
            columns = [f'NEW."{row[1]}"' for row in file.execute(f'PRAGMA table_info("{table}")')]
            has_it = " OR ".join(f"CAST({column} AS TEXT) LIKE '%refused%'" for column in columns)
            refuse = "BEGIN SELECT RAISE(ABORT, 'no'); END"
            file.execute(f'CREATE TRIGGER "no_{table}" BEFORE INSERT ON "{table}" WHEN {has_it} {refuse}')
        file.commit()
    tree = start(shop(work), store=sqlite_url)
    with suppress(ActorsError):  # what cannot be kept ends this task, or the tree
        tree.submit(Task("go", id="t", inputs={"value": 4})).result(LONG_S)
    with suppress(StoreError):
        tree.stop()
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as file:
        for (trigger,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            file.execute(f'DROP TRIGGER "{trigger}"')
        file.commit()

    with start(shop(doubled), store=sqlite_url) as tree:
        assert tree.task("t").result(LONG_S).results == {"work": 8}


def test_who_has_lost_its_root_to_another_process_removes_nothing_there(sqlite_url: str) -> None:
    tree = start(shop(doubled), store=sqlite_url)
    tree.submit(Task("go", id="t", inputs={"value": 4})).result(LONG_S)
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as file:
        file.execute("UPDATE regrow_tokens SET token = token + 1")  # as whoever takes it over does
        file.commit()
    with pytest.raises(LeaseLostError):
        tree.remove_task("t")
    with suppress(LeaseLostError):
        tree.stop()
    with start(shop(doubled), store=sqlite_url) as tree:
        assert tree.task("t").result(LONG_S).results == {"work": 8}


@pytest.mark.parametrize("version", [1, 99])
def test_a_store_of_another_version_is_refused_with_words_and_left_alone(sqlite_url: str, version: int) -> None:
    with start(shop(doubled), store=sqlite_url) as tree:
        tree.submit(Task("go", id="t", inputs={"value": 1})).result(LONG_S)
    path = sqlite_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE regrow_meta SET value = ? WHERE key = 'schema'", (str(version),))
        file.commit()
    with pytest.raises(StoreError, match="version"):
        start(shop(doubled), store=sqlite_url)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM regrow_records").fetchone()[0] > 0
