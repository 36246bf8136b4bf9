"""What had ended of a team's part before the team was started again is taken up when the orchestrator above goes on.

Until then nobody knows whether the part is wanted. What its attempts have given is kept meanwhile, and not done again.
The scene: a team is stopped, and its part waits to be given on, because all others who could do it are busy.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest

from actors.tasks.orchestration.registry_feed import RegistryFeed
from tests.tasks.dispatching import LONG_S, by_goal, heard, until
from trees import Plan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start


class Gated:
    """Code on a thread: its first call waits at a gate."""

    def __init__(self) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()
        self.calls = 0

    def call(self) -> str:
        self.calls += 1
        number = self.calls
        if number == 1:
            self.begun.set()
            assert self.gate.wait(LONG_S)
        return f"call {number}"


def scene(code: Gated, where: Literal["work", "plan"]) -> SupervisorSpec:
    """A root with a team, in which this code works or plans, and with somebody else who could do its part."""

    def work(_: Any, context: Any) -> str:
        return code.call() if where == "work" else "done"

    def plan(_: Any, catalogue: Any, feedback: str) -> Plan:
        said = code.call() if where == "plan" else "do it"
        return Plan([Subtask("w", said, worker="w")])

    async def busy(_: Any, context: Any) -> None:
        await asyncio.get_running_loop().create_future()

    settings = Tasks(planner=plan, on_failure=[])
    members = [WorkerSpec(id="w", execute=work)]
    team = SupervisorSpec(id="team", capabilities={"sell"}, tasks=settings, children=members)
    other = WorkerSpec(id="other", execute=busy, capabilities={"sell"})
    plans = {"busy": [Subtask("b", worker="other")], "go": [Subtask("only", capability="sell")]}
    return SupervisorSpec(id="p", tasks=Tasks(planner=by_goal(plans), on_failure=[]), children=[team, other])


@contextmanager
def stopped(code: Gated, where: Literal["work", "plan"]) -> Iterator[tuple[Tree, Any]]:
    """A tree whose team is stopped: the code is at its gate, and nobody there has heard how it goes on."""
    with start(scene(code, where)) as tree:
        tree.submit(Task("busy", id="t0"))
        until(lambda: "t0/b#1.1" in attempts(tree))
        handle = tree.submit(Task("go", id="t"))
        assert code.begun.wait(LONG_S)
        tree.terminate_child("p/team/orchestrator")
        try:
            yield tree, handle
        finally:
            code.gate.set()


def attempts(tree: Tree) -> dict[str, Any]:
    found: dict[str, Any] = tree._system.services["tasks"].attempts
    return found


def ends(tree: Tree, code: Gated, key: str) -> None:
    """The code comes back, and its attempt has its outcome."""
    attempt = attempts(tree)[key]
    code.gate.set()
    assert attempt.wait(LONG_S)


def is_put_back(tree: Tree) -> None:
    """The team stops, and the orchestrator above has heard so: the part is in line again."""
    tree.terminate_child("p/team")
    heard(tree, "p")


@contextmanager
def unheard(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """The orchestrator above hears nothing of the team before it is to: the part is held meanwhile."""
    feed: Any = tree._system.supervisors["p"].observer
    tell, news = RegistryFeed._tell, list[Any]()
    with monkeypatch.context() as patch:
        patch.setattr(RegistryFeed, "_tell", lambda self, each: news.append(each) if self is feed else tell(self, each))
        yield lambda: [tell(feed, each) for each in news] and None


def test_a_result_of_a_part_that_is_held_is_kept_and_not_worked_for_again() -> None:
    code = Gated()
    with stopped(code, "work") as (tree, handle):
        ends(tree, code, "t@only:1.1/w#1.1")
        is_put_back(tree)
        tree.restart_child("p/team")

        assert handle.result(timeout=LONG_S).results == {"only": {"w": "call 1"}}
        assert code.calls == 1


@pytest.mark.parametrize("when", ["before it is held", "while it is held"])
def test_a_plan_of_a_part_that_is_held_is_kept_whenever_it_comes(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    code, key = Gated(), "t@only:1.1/plan#1"
    with stopped(code, "plan") as (tree, handle):
        if when == "before it is held":
            ends(tree, code, key)
        is_put_back(tree)
        with unheard(tree, monkeypatch) as tell:
            tree.restart_child("p/team")
            heard(tree, "p/team")
            if when == "while it is held":
                ends(tree, code, key)
            heard(tree, "p/team")
            assert key in attempts(tree)
            tell()

        assert handle.result(timeout=LONG_S).results == {"only": {"w": "done"}}
        assert code.calls == 1


def test_what_a_part_has_under_way_that_ends_while_it_is_held_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    code, key = Gated(), "t@only:1.1/plan#1"
    with stopped(code, "plan") as (tree, handle):
        is_put_back(tree)
        with unheard(tree, monkeypatch) as tell:
            tree.restart_child("p/team")
            heard(tree, "p/team")
            assert not attempts(tree)[key].done
            handle.cancel()
            until(lambda: tree.task("t@only:1.1").report is not None)
            tell()

        assert key not in attempts(tree)
        assert tree.task("t@only:1.1").status == "cancelled"
