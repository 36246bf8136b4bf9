"""CONTRACT 15: a task that has failed, or was cancelled, is tried again: what is done stays, all else begins anew."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors import Escalated
from tests.support.crew import LONG_S
from trees import (
    Approve,
    Budget,
    Escalate,
    Plan,
    Reject,
    StaticPlan,
    Subtask,
    SubtaskStarted,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskError,
    TaskFailedError,
    TaskFinished,
    TaskRetried,
    Tasks,
    UnknownTaskError,
    WorkerSpec,
    start,
)


class Shop:
    """Two that run one after the other; the second one, or the planner, fails as long as it is told to."""

    def __init__(self, *, undo: bool = False, plans: bool = True) -> None:
        self.is_broken, self.plans = True, plans
        self.calls: Counter[str] = Counter()
        self.keys: list[str] = []
        self.undone: list[Any] = []
        self._undo = undo

    def first(self, task: Any, context: Any) -> str:
        self.calls[task.id] += 1
        context.use(tokens=6)
        return "first"

    def second(self, task: Any, context: Any) -> str:
        self.calls[task.id] += 1
        self.keys.append(context.idempotency_key)
        if self.is_broken:
            raise ValueError("out of order")
        return f"after {context['a']}"

    def plan(self, *_: object) -> Plan:
        if self.is_broken and not self.plans:
            raise ValueError("no idea")
        return Plan([Subtask("a", worker="first"), Subtask("b", worker="second", depends_on=["a"])])

    def spec(self) -> SupervisorSpec:
        undo = {"undo": lambda *args: self.undone.append(args[1])} if self._undo else {}
        return SupervisorSpec(
            id="shop",
            tasks=Tasks(planner=self.plan, on_failure=[]),
            children=[
                WorkerSpec(id="first", execute=self.first, **undo),
                WorkerSpec(id="second", execute=self.second),
            ],
        )


def regrow(*words: str) -> str:
    """What the command says, as another process."""
    done = subprocess.run(
        [sys.executable, "-m", "trees", *words], capture_output=True, text=True, timeout=LONG_S, check=False
    )
    return done.stdout + done.stderr


def failed(handle: Any) -> Any:
    with pytest.raises(TaskFailedError):
        handle.result(LONG_S)
    return handle


def test_what_is_done_is_kept_and_what_failed_begins_with_a_new_key() -> None:
    shop = Shop()
    with start(shop.spec()) as tree:
        handle = failed(tree.submit(Task("go", id="t")))
        shop.is_broken = False
        again = handle.retry()
        report = again.result(LONG_S)
        events = list(again.events())

        assert report.results == {"a": "first", "b": "after first"}
        assert shop.calls == {"a": 1, "b": 2}
        assert shop.keys == ["t@b:1", "t@b:2"]
        assert [type(each) for each in events if isinstance(each, TaskRetried | TaskFinished)] == [
            TaskFinished,
            TaskRetried,
            TaskFinished,
        ]
        failed(handle)  # what is done stays as it is
        assert tree.task("t").result(LONG_S) == report
        with pytest.raises(TaskError, match="succeeded"):
            again.retry()


def test_what_was_undone_is_done_anew() -> None:
    shop = Shop(undo=True)
    with start(shop.spec()) as tree:
        failed(tree.submit(Task("go", id="t")))
        assert shop.undone == ["first"]
        shop.is_broken = False
        assert tree.retry("t").result(LONG_S).results == {"a": "first", "b": "after first"}
    assert shop.calls == {"a": 2, "b": 2}


def test_a_plan_that_failed_is_made_again() -> None:
    shop = Shop(plans=False)
    with start(shop.spec()) as tree:
        handle = tree.submit(Task("go", id="t"))
        with pytest.raises(TaskError):
            handle.result(LONG_S)
        shop.is_broken = False
        assert handle.retry().result(LONG_S).results["b"] == "after first"


def test_a_cancelled_task_goes_on_and_its_budget_begins_again() -> None:
    shop = Shop()
    with start(shop.spec()) as tree:
        handle = failed(tree.submit(Task("go", id="t", budget=Budget(tokens=10))))
        shop.is_broken = False
        shop.calls.clear()
        report = handle.retry().result(LONG_S)
    assert report.usage.tokens == 6
    assert shop.calls == {"b": 1}


def test_a_person_who_has_said_no_is_asked_again() -> None:
    def pay(_: Any, context: Any) -> str:
        if not context.answers:
            raise Escalated("Pay?")
        return "paid"

    tasks = Tasks(planner=StaticPlan([Subtask("pay")]))
    spec = SupervisorSpec(id="shop", tasks=tasks, children=[WorkerSpec(id="pay", execute=pay, on_failure=[Escalate()])])
    with start(spec) as tree:
        handle = tree.submit(Task("go"))
        tree.respond(next(iter(handle.questions())), Reject("no"))
        again = failed(handle).retry()
        tree.respond(next(iter(again.questions())), Approve())
        assert again.result(LONG_S).results == {"pay": "paid"}


def test_an_id_that_nobody_knows_is_refused() -> None:
    with start(Shop().spec()) as tree, pytest.raises(UnknownTaskError):
        tree.retry("never")


def test_a_task_that_the_store_has_forgotten_is_refused_also_by_its_handle() -> None:
    shop = Shop()
    with start(shop.spec()) as tree:
        handle = tree.submit(Task("go", id="t"))
        with pytest.raises(TaskFailedError):
            handle.result(LONG_S)
        tree.remove_task("t")

        with pytest.raises(UnknownTaskError):
            handle.retry()


def test_the_members_of_a_team_that_are_done_do_not_run_again() -> None:
    shop = Shop()
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=shop.plan, on_failure=[]),
        children=[WorkerSpec(id="first", execute=shop.first), WorkerSpec(id="second", execute=shop.second)],
    )
    plan = StaticPlan([Subtask("part", worker="team")])
    with start(SupervisorSpec(id="house", tasks=Tasks(planner=plan, on_failure=[]), children=[team])) as tree:
        handle = failed(tree.submit(Task("go", id="t")))
        shop.is_broken = False
        report = handle.retry().result(LONG_S)
        starts = [each.subtask for each in handle.events() if isinstance(each, SubtaskStarted) and each.role == "work"]
    assert report.results == {"part": {"a": "first", "b": "after first"}}
    assert starts == ["part", "part/a", "part/b", "part", "part/b"]


def test_the_command_line_lists_failed_tasks_and_tries_one_again(tmp_path: Path) -> None:
    shop, url = Shop(), f"sqlite:///{tmp_path}/shop.db"
    with start(shop.spec(), store=url) as tree:
        failed(tree.submit(Task("go", id="t")))
    listed = regrow("tasks", "--status", "failed", "--store", url)
    assert "t " in listed
    assert "out of order" in listed
    regrow("tasks", "retry", "t", "--store", url, "--wait", "0")
    shop.is_broken = False
    with start(shop.spec(), store=url) as tree:
        assert [handle.id for handle in tree.resumed()] == ["t"]
        assert tree.submit(Task("go", id="t")).result(LONG_S).results["b"] == "after first"


def test_a_handle_of_before_cancels_what_goes_on_now() -> None:
    entered, calls = threading.Event(), list[str]()

    async def work(*_: Any) -> None:
        calls.append("call")
        if len(calls) == 1:
            raise ValueError("out of order")
        entered.set()
        await asyncio.Event().wait()

    worker = WorkerSpec(id="a", execute=work, on_failure=[])
    spec = SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan([Subtask("a")])), children=[worker])
    with start(spec) as tree:
        before = tree.submit("go")
        with pytest.raises(TaskFailedError):
            before.result(timeout=LONG_S)
        after = before.retry()
        assert entered.wait(LONG_S)

        assert before.status == "running"
        before.cancel().get(timeout=LONG_S)
        with pytest.raises(TaskCancelledError):
            after.result(timeout=LONG_S)
