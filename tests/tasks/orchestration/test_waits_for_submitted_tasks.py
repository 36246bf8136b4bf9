"""Workers that submit a task and wait for it: such a wait is like an ask, for slots and for circles."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise
from typing import Any

import pytest

from actors import RecursionDetectedError, carry
from actors.messaging.reply import Reply
from actors.testing import settle
from tests.support.asking import LONG_S, assert_nothing_left, does
from tests.tasks.dispatching import until
from trees import Plan, Subtask, SupervisorSpec, Task, Tasks, TaskTimeoutError, Tree, WorkerSpec, start


def team(id_: str, *members: WorkerSpec, **words: Any) -> SupervisorSpec:
    return SupervisorSpec(id=id_, tasks=Tasks(on_failure=[], **words), children=members)


def task_of(*workers: str) -> Task:
    """A task whose subtasks are done one after the other."""
    subtasks = [Subtask(f"of-{id_}", worker=id_, depends_on=[f"of-{one}"]) for one, id_ in pairwise(workers)]
    return Task(f"for {' and '.join(workers)}", plan=Plan([Subtask(f"of-{workers[0]}", worker=workers[0]), *subtasks]))


class Waiter:
    """Its first work waits for a task of another team, when the test wants that; the next one is done at once."""

    def __init__(self, path: str, *workers: str, timeout: float | None = None) -> None:
        self.tree: Any = None
        self.begun, self.may_wait = threading.Event(), threading.Event()
        self._to, self._timeout, self._calls = (path, workers), timeout, 0
        self.seen: Any = None

    def _submit(self) -> Any:
        path, workers = self._to
        return self.tree.submit(task_of(*workers), path)

    def sync(self, task: Any, context: Any) -> str:
        self._calls += 1
        if self._calls > 1:
            return does(task, context)
        self.begun.set()
        assert self.may_wait.wait(LONG_S)
        try:
            return f"has {self._submit().result(self._timeout).results}"
        except RecursionDetectedError as error:
            return "refused: " + " > ".join(error.chain)
        except TaskTimeoutError:
            until(lambda: not asks_of(self.tree))
            self.seen = waiting(self.tree)
            return "too late"

    async def on_loop(self, task: Any, context: Any) -> str:
        self._calls += 1
        if self._calls > 1:
            return does(task, context)
        self.begun.set()
        assert await asyncio.to_thread(self.may_wait.wait, LONG_S)
        try:
            return f"has {(await self._submit()).results}"
        except RecursionDetectedError as error:
            return "refused: " + " > ".join(error.chain)


def asks_of(tree: Tree) -> dict[str, Any]:
    asks: dict[str, Any] = tree._system.services["tasks"].asks.copy()
    return asks


def waiting(tree: Tree) -> int:
    return sum(port.attempts.waiting for port in tree._system.services["tasks"].ports.values())


def waits(tree: Tree, waiter: Waiter, number: int) -> None:
    """It begins to wait, and its orchestrator knows."""
    waiter.may_wait.set()
    until(lambda: len(asks_of(tree)) == waiting(tree) == number)


@pytest.mark.parametrize("how", ["sync", "on_loop"])
def test_of_two_workers_that_wait_for_tasks_of_each_other_the_last_one_is_refused(how: str) -> None:
    a, b = Waiter("p/b", "n"), Waiter("p/a", "m")
    teams = [
        team("a", WorkerSpec(id="m", execute=getattr(a, how))),
        team("b", WorkerSpec(id="n", execute=getattr(b, how))),
    ]
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=teams)) as tree:
        a.tree = b.tree = tree
        first, last = tree.submit(task_of("m"), "p/a"), tree.submit(task_of("n"), "p/b")
        assert a.begun.wait(LONG_S)
        assert b.begun.wait(LONG_S)
        waits(tree, a, 1)
        b.may_wait.set()

        assert last.result(LONG_S).results == {"of-n": "refused: p/b/n > p/a/m > p/b/n"}
        assert first.result(LONG_S).results == {"of-m": "has {'of-n': 'did for n'}"}
        settle(tree)
        tree.submit(task_of("m"), "p/a").result(LONG_S)  # the one that nobody waited for is done by then
        settle(tree)
        assert_nothing_left(tree)


def test_a_circle_is_found_that_is_closed_when_a_subtask_of_the_task_stands_in_line() -> None:
    """The first waits for a task whose first subtask runs still: its second one is for who waits for the first."""
    free, gate = threading.Event(), threading.Event()

    def slow(*_: Any) -> str:
        free.set()
        assert gate.wait(LONG_S)
        return "slow"

    a, b = Waiter("p/b", "slow", "n"), Waiter("p/a", "m")
    teams = [
        team("a", WorkerSpec(id="m", execute=a.sync)),
        team("b", WorkerSpec(id="n", execute=b.sync), WorkerSpec(id="slow", execute=slow)),
    ]
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=teams)) as tree:
        a.tree = b.tree = tree
        first, last = tree.submit(task_of("m"), "p/a"), tree.submit(task_of("n"), "p/b")
        assert a.begun.wait(LONG_S)
        assert b.begun.wait(LONG_S)
        waits(tree, a, 1)
        assert free.wait(LONG_S)
        waits(tree, b, 2)
        gate.set()

        said = [*first.result(LONG_S).results.values(), *last.result(LONG_S).results.values()]
        assert sum(each.startswith("refused") for each in said) == 1, said


def test_whoever_waits_for_a_task_has_no_slot_meanwhile() -> None:
    gate = threading.Event()

    def slow(*_: Any) -> str:
        assert gate.wait(LONG_S)
        return "slow"

    a = Waiter("p/b", "n")
    teams = [
        team("a", WorkerSpec(id="m", execute=a.sync), WorkerSpec(id="other", execute=does), max_parallel=1),
        team("b", WorkerSpec(id="n", execute=slow)),
    ]
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=teams)) as tree:
        a.tree = tree
        first = tree.submit(task_of("m"), "p/a")
        assert a.begun.wait(LONG_S)
        waits(tree, a, 1)

        assert tree.submit(task_of("other"), "p/a").result(LONG_S).results == {"of-other": "did for other"}
        gate.set()
        assert first.result(LONG_S).results == {"of-m": "has {'of-n': 'slow'}"}
        settle(tree)
        assert_nothing_left(tree)


def test_whoever_waits_no_longer_for_a_task_has_its_slot_again() -> None:
    gate = threading.Event()
    a = Waiter("p/b", "n", timeout=0.05)
    teams = [
        team("a", WorkerSpec(id="m", execute=a.sync)),
        team("b", WorkerSpec(id="n", execute=lambda *_: gate.wait(LONG_S))),
    ]
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=teams)) as tree:
        a.tree = tree
        first = tree.submit(task_of("m"), "p/a")
        a.may_wait.set()

        assert first.result(LONG_S).results == {"of-m": "too late"}
        gate.set()
        settle(tree)
        assert_nothing_left(tree)


def test_a_task_whose_team_is_stopped_and_comes_back_is_waited_for_as_before() -> None:
    a, begun = Waiter("p/b", "n"), threading.Event()
    calls: list[Any] = []

    async def once(*_: Any) -> str:
        calls.append(1)
        begun.set()
        if len(calls) == 1:
            await asyncio.get_running_loop().create_future()
        return "at last"

    teams = [team("a", WorkerSpec(id="m", execute=a.sync)), team("b", WorkerSpec(id="n", execute=once))]
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=teams)) as tree:
        a.tree = tree
        first = tree.submit(task_of("m"), "p/a")
        assert a.begun.wait(LONG_S)
        waits(tree, a, 1)
        assert begun.wait(LONG_S)
        tree.terminate_child("p/b")
        tree.restart_child("p/b")

        assert first.result(LONG_S).results == {"of-m": "has {'of-n': 'at last'}"}


def test_a_task_that_a_worker_waits_for_is_begun_though_a_team_that_waits_for_that_worker_has_all_slots() -> None:
    a, b = Waiter("p/b", "n"), Waiter("p", "w")
    plan = Plan([Subtask("of-m", worker="m")])
    teams = [
        team("a", WorkerSpec(id="m", execute=a.sync), planner=lambda *_: plan),
        team("b", WorkerSpec(id="n", execute=b.sync)),
    ]
    root = SupervisorSpec(id="p", tasks=Tasks(max_parallel=1), children=[*teams, WorkerSpec(id="w", execute=does)])
    with start(root) as tree:
        a.tree = b.tree = tree
        first, other = tree.submit(task_of("a")), tree.submit(task_of("n"), "p/b")
        assert a.begun.wait(LONG_S)
        assert b.begun.wait(LONG_S)
        waits(tree, a, 1)
        b.may_wait.set()

        assert other.result(LONG_S).results == {"of-n": "has {'of-w': 'did for w'}"}
        assert first.result(LONG_S).results == {"of-a": {"of-m": "has {'of-n': 'did for n'}"}}
        settle(tree)
        assert_nothing_left(tree)


def test_whoever_has_waited_for_a_task_goes_on_though_a_team_that_waits_for_it_has_all_slots() -> None:
    """The team's member has asked the worker above, which waits for a task of another team."""
    a, gate = Waiter("p/b", "n"), threading.Event()

    def slow(*_: Any) -> str:
        assert gate.wait(LONG_S)
        return "slow"

    async def asks(_: Any, context: Any) -> Any:
        return await context.ask("w", "something")

    plan = Plan([Subtask("of-m", worker="m")])
    teams = [
        team("a", WorkerSpec(id="m", execute=asks), planner=lambda *_: plan),
        team("b", WorkerSpec(id="n", execute=slow)),
    ]
    root = SupervisorSpec(id="p", tasks=Tasks(max_parallel=1), children=[*teams, WorkerSpec(id="w", execute=a.sync)])
    with start(root) as tree:
        a.tree = tree
        first = tree.submit(task_of("a"))
        assert a.begun.wait(LONG_S)
        waits(tree, a, 2)
        gate.set()

        assert first.result(LONG_S).results == {"of-a": {"of-m": "has {'of-n': 'slow'}"}}
        settle(tree)
        assert_nothing_left(tree)


def test_a_worker_that_looks_for_a_result_again_and_again_leaves_nothing_behind() -> None:
    """Each look is a wait of its own, which is over long before the task is."""
    trees, may_end = list[Tree](), threading.Event()
    left: list[int] = []

    def looks(_: Any, __: Any) -> Any:
        handle = trees[0].submit(task_of("slow"), "p/t")
        for _number in range(20):
            with pytest.raises(TaskTimeoutError):
                handle.result(0.0)
        left.append(len(handle._done._callbacks or ()))
        may_end.set()
        return handle.result(LONG_S).results

    slow = WorkerSpec(id="slow", execute=lambda *_: may_end.wait(LONG_S))
    spec = SupervisorSpec(id="p", children=[team("s", WorkerSpec(id="w", execute=looks)), team("t", slow)])
    with start(spec) as there:
        trees.append(there)
        assert there.submit(task_of("w"), "p/s").result(LONG_S).results == {"of-w": {"of-slow": True}}
        settle(there)
        assert_nothing_left(there)

    assert left == [0]


@pytest.mark.parametrize("how", ["awaits", "waits in a thread"])
def test_code_that_outlives_its_attempt_still_has_the_result_that_it_waits_for(how: str) -> None:
    trees, may_end, has = list[Tree](), threading.Event(), Reply()
    tasks = list[asyncio.Task[None]]()

    async def hears(handle: Any) -> None:
        try:
            has.complete((await handle).results)
        except BaseException as error:
            has.fail(error)
            raise

    async def starts(_: Any, __: Any) -> str:
        handle = await trees[0].asubmit(task_of("slow"), "p/t")
        if how == "awaits":
            tasks.append(asyncio.ensure_future(hears(handle)))
        else:
            threading.Thread(target=carry(lambda: has.complete(handle.result(LONG_S).results))).start()
        await asyncio.to_thread(until, lambda: asks_of(trees[0]))
        return "started"

    slow = WorkerSpec(id="slow", execute=lambda *_: may_end.wait(LONG_S))
    spec = SupervisorSpec(id="p", children=[team("s", WorkerSpec(id="w", execute=starts)), team("t", slow)])
    with start(spec) as tree:
        trees.append(tree)
        assert tree.submit(task_of("w"), "p/s").result(LONG_S).results == {"of-w": "started"}
        until(lambda: not asks_of(tree))
        may_end.set()

        assert has.get(timeout=LONG_S) == {"of-slow": True}
        settle(tree)
        assert_nothing_left(tree)
