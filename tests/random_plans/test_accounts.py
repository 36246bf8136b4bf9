"""Random trees: groups restart, tasks are cancelled, processes end. Usage counts once, and nothing is done twice."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.random_plans.accounts import NEAR_S, Account, Grove, done_twice, parts_of, wrong_accounts
from tests.support.crew import LONG_S
from tests.support.hardening import eventually
from tests.tasks.resuming import Change, NotingStore
from trees import Approve, Task, TaskError, TaskHandle, Tree, start

SEEDS = range(0, 60, 6)
STEPS, TASKS = 12, 5


@contextmanager
def answered(tree: Tree) -> Iterator[None]:
    """Every question is answered with yes: about an undo that could not be made while its team was down."""
    over = threading.Event()

    def answer() -> None:
        while not over.wait(0.02):
            for each in tree.escalations():
                with suppress(Exception):  # its task may have ended
                    tree.task(each.task).respond(each.id, Approve())

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def all_ended(tree: Tree) -> bool:
    return all(each.status.is_final for each in tree.tasks())


class Weather:
    """What happens to a tree while it works."""

    def __init__(self, tree: Tree, seed: int) -> None:
        self.tree, self.random = tree, random.Random(seed)  # noqa: S311 - no secret
        self.handles: list[TaskHandle] = []

    def submits(self) -> None:
        if len(self.handles) < TASKS:
            limit = self.random.choice([None, None, 0.2])
            task = Task("go", id=f"t{len(self.handles)}", priority=self.random.randrange(6), deadline_s=limit)
            self.handles.append(self.tree.submit(task))

    def cancels(self) -> None:
        self.random.choice(self.handles).cancel()

    def restarts_a_group(self) -> None:
        self.tree.ref("root/culprit").tell("raise ValueError")

    def stops_one(self) -> None:
        path = self.random.choice(["root/a", "root/b", "root/w1", "root/a/a2"])
        with suppress(Exception):  # its group is being restarted
            self.tree.terminate_child(path)
            self.tree.restart_child(path)

    def blows(self) -> None:
        acts: list[Callable[[], None]] = [self.submits, self.cancels, self.restarts_a_group, self.stops_one]
        chosen = [self.submits, *self.random.sample(acts, 1 + self.random.randrange(len(acts)))]
        self.submits()
        pause = threading.Event()
        for _ in range(STEPS):
            pause.wait(0.04 * self.random.random())
            self.random.choice(chosen)()


def lives(seed: int) -> list[Change]:
    """Live through the weather of this seed to the end of all tasks, and look at the account; what was stored."""
    account, store = Account(seed), NotingStore()
    with start(Grove(account).spec(), store=store) as tree, answered(tree):
        weather = Weather(tree, seed)
        weather.blows()
        account.is_calm = True
        for handle in weather.handles:
            with suppress(TaskError):
                handle.result(timeout=LONG_S)
        eventually(lambda: all_ended(tree), "the end of all parts")
        reports = [handle.report for handle in weather.handles]
    assert not wrong_accounts(store)
    assert not done_twice(store)
    late = {part.partition("@")[0] for part, _, before_s in parts_of(store) if before_s <= NEAR_S}
    for report in reports:
        assert report is not None
        if report.task_id not in late:
            used = account.used[report.task_id]
            assert used <= report.usage.tokens <= used + account.perhaps[report.task_id], report.task_id
    return store.changes


@pytest.mark.parametrize("seed", SEEDS)
def test_usage_counts_once_and_nothing_is_done_twice_whatever_happens_to_a_tree_of_teams(seed: int) -> None:
    changes, chosen = lives(seed), random.Random(seed)  # noqa: S311 - no secret
    for _ in range(3):  # the process ends after so many changes, and the next one goes on
        store, account = NotingStore(changes[: chosen.randrange(3, len(changes))]), Account(seed)
        spec = Grove(account).spec()
        account.is_calm = True
        with start(spec, store=store) as tree, answered(tree):
            eventually(lambda tree=tree: all_ended(tree), "the end of all tasks")  # type: ignore[misc]
        assert not wrong_accounts(store)
        assert not done_twice(store)
