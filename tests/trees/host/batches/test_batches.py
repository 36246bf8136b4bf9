"""S32: ``tree.map`` gives many items to a worker, and accounts for each of them."""

from __future__ import annotations

import asyncio
import itertools
import threading
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from actors import (
    ActorStoppedError,
    ConfigError,
    Context,
    RecursionDetectedError,
    ReplyTimeoutError,
    TreeDownError,
    UnknownPathError,
    Worker,
    WorkerCrashedError,
)
from actors.testing import settle
from trees import (
    Mailbox,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    TaskFailedError,
    Tasks,
    TaskStatus,
    Tree,
    WorkerSpec,
    start,
)

PATIENCE_S = 60.0
LIMIT_S = 5.0
"""Of an item, more than a busy machine takes for one."""
CROWD = 10_000


def double(item: int) -> int:
    return 2 * item


def fussy(item: int) -> int:
    """One in ten is bad."""
    if item % 10 == 3:
        raise ValueError(item)
    return 2 * item


class Fussy(Worker):
    """A worker with state, which crashes over bad items: a function does not."""

    def on_receive(self, item: int) -> int:
        return fussy(item)


class Careless(Worker):
    """A worker with state, which crashes over bad items, also with what is no ``Exception``."""

    def on_receive(self, item: int) -> int:
        if item % 10 == 3:
            raise SystemExit(item)
        return fussy(item)


def work(task: Subtask, context: Context) -> int:
    return fussy(context.inputs["item"])


async def work_async(task: Subtask, context: Context) -> int:
    return fussy(context.inputs["item"])


def messages(**fields: Any) -> SupervisorSpec:
    return SupervisorSpec(id="t", children=[WorkerSpec(id="w", **fields)])


def tasks(**fields: Any) -> SupervisorSpec:
    return SupervisorSpec(id="t", tasks=Tasks(on_failure=[]), children=[WorkerSpec(id="w", **fields)])


KINDS: dict[str, tuple[SupervisorSpec, str]] = {
    "a handler": (messages(handle=fussy), "t/w"),
    "a pool of handlers": (messages(handle=fussy, pool=4), "t/w"),
    "one member of a pool": (messages(handle=fussy, pool=4), "t/w#2"),
    "a class": (messages(actor=Careless, pool=2), "t/w"),
    "an executable": (tasks(execute=work), "t/w"),
    "a pool of executables": (tasks(execute=work, pool=4), "t/w"),
    "a member of a pool of executables": (tasks(execute=work, pool=4), "t/w#1"),
    "an async executable": (tasks(execute=work_async, pool=4), "t/w"),
    "a worker by its id": (tasks(execute=work), "w"),
    "a capability": (tasks(execute=work, capabilities={"parsing"}), "parsing"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_item_is_accounted_for_once_with_its_result_or_its_error(kind: str) -> None:
    spec, to = KINDS[kind]
    with start(spec) as tree:
        found = list(tree.map(range(60), to))

    assert sorted(item for item, _ in found) == list(range(60))
    assert all(result == 2 * item for item, result in found if item % 10 != 3)
    assert [type(result) for item, result in found if item % 10 == 3] == [_error_of(spec)] * 6


def _error_of(spec: SupervisorSpec) -> type[Exception]:
    if spec.tasks is not None:
        return TaskFailedError
    return WorkerCrashedError if spec.children[0].actor is Careless else ValueError


def test_bad_items_cost_no_supervisor_its_restart_limit() -> None:
    """All defaults: three restarts in five seconds. An ask of the host's own that crashes still counts."""
    with start(messages(actor=Fussy, pool=2)) as tree:
        found = dict(tree.map([3] * 50, "t/w"))
        with pytest.raises(ValueError, match="13"):
            tree.ref("t/w").ask(13)
        settle(tree)

        assert isinstance(found[3], ValueError)
        assert "restarts 1/3" in tree.dump()


def test_a_crash_over_an_item_restarts_its_siblings_where_the_strategy_says_so() -> None:
    spec = SupervisorSpec(
        id="t",
        strategy="one_for_all",
        max_restarts=0,
        children=[WorkerSpec(id="w", actor=Fussy), WorkerSpec(id="other", handle=double)],
    )
    with start(spec) as tree:
        dict(tree.map([3, 13], "t/w"))
        settle(tree)

        assert tree.child("t/other").incarnation == 3


# -- what hangs --------------------------------------------------------------------------------------------


def test_an_async_item_that_hangs_is_cancelled() -> None:
    cancelled: list[int] = []

    async def hang(item: int) -> int:
        try:
            await asyncio.sleep(PATIENCE_S if item == 0 else 0)
        except asyncio.CancelledError:
            cancelled.append(item)
            raise
        return item

    with start(messages(handle=hang)) as tree:
        found = dict(tree.map(range(5), "t/w", timeout_s=LIMIT_S))
        settle(tree)

    assert type(found.pop(0)) is ReplyTimeoutError
    assert found == {item: item for item in range(1, 5)}
    assert cancelled == [0]


def test_five_thousand_documents_of_which_some_are_bad_or_hang_are_accounted_for_with_all_defaults() -> None:
    gate = threading.Event()

    def read(document: int) -> int:
        if document % 100 == 3:
            raise ValueError("no text")
        if document % 1000 == 7:
            gate.wait(PATIENCE_S)
        return document

    with start(messages(handle=read, pool=8)) as tree:
        try:
            found = dict(tree.map(range(5_000), "t/w", timeout_s=LIMIT_S))
        finally:
            gate.set()

    assert Counter(type(result).__name__ for result in found.values()) == {
        "int": 4945,
        "ValueError": 50,
        "ReplyTimeoutError": 5,
    }


# -- how many at a time ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "wanted", "most"),
    [
        ({"pool": 4}, None, 4),
        ({"pool": 4}, 2, 2),
        ({"pool": 4}, 50, 4),
        ({}, None, 1),
        ({"pool": 4, "mailbox": Mailbox(capacity=2, overflow="reject")}, None, 2),
    ],
)
def test_no_more_items_are_given_at_a_time_than_its_target_works_on(
    fields: dict[str, Any], wanted: int | None, most: int
) -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(100):
            taken += 1
            yield item

    with start(messages(handle=double, **fields)) as tree:
        for number, _ in enumerate(tree.map(items(), "t/w", max_in_flight=wanted)):
            assert taken - number <= most


def test_tasks_are_given_up_to_the_limit_and_no_further() -> None:
    running = most = 0
    lock = threading.Lock()

    def count(task: Subtask, context: Context) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.005)
        with lock:
            running -= 1
        return 1

    with start(tasks(execute=count, pool=8)) as tree:
        assert len(list(tree.map(range(40), "t/w", max_in_flight=3))) == 40

    assert 1 < most <= 3


@pytest.mark.slow
def test_memory_is_flat_over_a_hundred_thousand_items() -> None:
    with start(messages(handle=double, pool=4)) as tree:
        batch = tree.map(itertools.count(), "t/w")
        for _ in range(2_000):
            next(batch)
        tracemalloc.start()
        try:
            for _ in range(CROWD):
                next(batch)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            batch.close()

    assert held < 300_000


# -- leaving it early --------------------------------------------------------------------------------------


def test_a_consumer_that_breaks_off_leaves_nothing_running_of_messages() -> None:
    gate, handled, closed = threading.Event(), list[int](), list[str]()

    def items() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.append("items")

    def wait(item: int) -> int:
        handled.append(item)
        if item:
            gate.wait(PATIENCE_S)
        return item

    with start(messages(handle=wait, pool=3)) as tree:
        for _ in tree.map(items(), "t/w"):
            break
        gate.set()
        settle(tree)

        assert closed == ["items"]
        assert set(handled) <= {0, 1, 2, 3}
        assert tree.ref("t/w").depth == 0


def test_a_consumer_that_breaks_off_leaves_nothing_running_of_tasks() -> None:
    async def wait(task: Subtask, context: Context) -> int:
        if context.inputs["item"]:
            await asyncio.sleep(PATIENCE_S)
        return 1

    with start(tasks(execute=wait, pool=3)) as tree:
        for _ in tree.map(itertools.count(), "t/w"):
            break
        settle(tree)

        assert {handle.status for handle in tree.tasks()} <= {TaskStatus.SUCCEEDED, TaskStatus.CANCELLED}


@pytest.mark.parametrize("leave", ["close", "with", "drop"])
def test_a_batch_is_closed_by_close_by_with_and_by_being_dropped(leave: str) -> None:
    gate = threading.Event()
    with start(messages(handle=lambda item: gate.wait(PATIENCE_S) and item, pool=2)) as tree:
        batch = tree.map([0, 1, 2, 3], "t/w")
        threading.Timer(0.0, gate.set).start()
        next(batch)
        if leave == "close":
            batch.close()
            batch.close()
        elif leave == "with":
            with batch:
                next(batch)
        if leave == "drop":
            gone = weakref.ref(batch)
            del batch
            assert gone() is None
        else:
            assert list(batch) == []


def test_a_batch_that_has_handed_out_an_error_is_gone_once_it_is_dropped() -> None:
    with start(messages(handle=fussy, pool=2)) as tree:
        batch = tree.map([3, 0, 1, 2], "t/w")
        kept = next(batch)
        gone = weakref.ref(batch)
        del batch

        assert (gone(), kept[0]) == (None, 3)


# -- errors ------------------------------------------------------------------------------------------------


def test_with_raise_the_first_error_ends_it() -> None:
    with start(messages(handle=fussy)) as tree:
        found = []
        with pytest.raises(ValueError, match="3"):
            found.extend(tree.map(range(10), "t/w", on_error="raise"))
        batch = tree.map(range(10), "t/w", on_error="raise")
        ended = [next(batch) for _ in range(3)]
        with pytest.raises(ValueError, match="3"):
            next(batch)

        assert ended == [(0, 0), (1, 2), (2, 4)]
        assert list(batch) == []


def test_what_the_iterator_raises_is_raised_when_all_that_was_taken_is_handed_out() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise OSError("no more")

    found: list[Any] = []
    with start(messages(handle=double, pool=8)) as tree:
        batch = tree.map(items(), "t/w")
        with pytest.raises(OSError, match="no more"):
            found.extend(iter(batch.__next__, None))

        assert sorted(found) == [(item, 2 * item) for item in range(5)]
        assert list(batch) == []


@pytest.mark.parametrize("kind", ["a handler", "an executable"])
def test_an_item_that_cannot_be_given_is_an_error_of_its_own(kind: str) -> None:
    spec, to = KINDS[kind]
    with start(spec) as tree:
        found = {id(item): result for item, result in tree.map([1, _UNFIT, 2], to)}

    assert isinstance(found[id(_UNFIT)], (ConfigError, TypeError))
    assert [found[id(1)], found[id(2)]] == [2, 4]


_UNFIT: Any = object()


# -- the target changes ------------------------------------------------------------------------------------


def test_a_target_that_is_restarted_in_the_middle_goes_on() -> None:
    with start(messages(handle=double)) as tree:
        found = {}
        for item, result in tree.map(range(50), "t/w"):
            found[item] = result
            if item in {10, 30}:
                tree.ref("t/w").stop()

    lost = {item for item, result in found.items() if isinstance(result, Exception)}
    assert len(found) == 50
    assert all(isinstance(found[item], ActorStoppedError) for item in lost)
    assert len(lost) <= 2


def test_a_target_that_is_terminated_answers_each_item_with_that() -> None:
    with start(messages(handle=double)) as tree:
        found = []
        for item, result in tree.map(range(5), "t/w"):
            found.append((item, type(result)))
            if item == 1:
                tree.terminate_child("t/w")

    assert [item for item, _ in found] == [0, 1, 2, 3, 4]
    assert [kind for _, kind in found] == [int, int, ActorStoppedError, ActorStoppedError, ActorStoppedError]


@pytest.mark.parametrize(
    ("to", "says"), [("t/v", "t/w"), ("parsin", "parsing"), ("", "no such path"), ("t/w/x", "t/w")]
)
def test_an_unknown_target_is_an_error_before_anything_is_taken_and_says_what_is_there(to: str, says: str) -> None:
    with start(tasks(execute=work, capabilities={"parsing"})) as tree, pytest.raises(UnknownPathError, match=says):
        tree.map(iter([]), to)


@pytest.mark.parametrize("kind", ["a handler", "an executable"])
def test_a_tree_that_stops_in_the_middle_ends_it_when_all_that_was_taken_is_accounted_for(kind: str) -> None:
    spec, to = KINDS[kind]
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in itertools.count(10):
            taken.append(item)
            yield item

    tree = start(spec)
    batch = tree.map(items(), to)
    found = [next(batch)[0] for _ in range(3)]
    tree.stop()
    with pytest.raises(TreeDownError):
        found.extend(item for item, _ in batch)

    assert sorted(found) == taken
    assert list(batch) == []


# -- tasks -------------------------------------------------------------------------------------------------


def test_a_worker_is_told_the_item_as_text_and_gets_it_as_input() -> None:
    def show(task: Subtask, context: Context) -> list[Any]:
        return [str(task), context.inputs]

    items: list[Any] = ["read me", "", 7, {"page": 3}, [1, 2]]
    with start(tasks(execute=show)) as tree:
        found = [result for _, result in tree.map(items, "t/w", max_in_flight=1)]

    assert found == [
        ["read me", {"item": "read me"}],
        ['""', {"item": ""}],
        ["7", {"item": 7}],
        ['{"page": 3}', {"item": {"page": 3}, "page": 3}],
        ["[1, 2]", {"item": [1, 2]}],
    ]


def test_a_team_gets_a_task_for_each_item_and_its_output_is_the_result() -> None:
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("a"), Subtask("b")])),
        children=[
            WorkerSpec(id="a", execute=lambda task, context: f"a {task}"),
            WorkerSpec(id="b", execute=lambda task, context: f"b {task}"),
        ],
    )
    with start(SupervisorSpec(id="t", tasks=Tasks(), children=[team])) as tree:
        below = dict(tree.map(["x", "y"], "t/team"))
    with start(team) as tree:
        root = dict(tree.map(["x", "y"], "team"))

    assert below == root == {"x": {"a": "a x", "b": "b x"}, "y": {"a": "a y", "b": "b y"}}


def test_a_handler_can_map_over_others_and_is_refused_where_it_would_wait_for_itself() -> None:
    class Asker(Worker):
        tree: Tree

        def on_receive(self, to: str) -> list[Any]:
            return [result for _, result in Asker.tree.map([1, 2], to)]

    spec = SupervisorSpec(
        id="t", children=[WorkerSpec(id="asker", actor=Asker), WorkerSpec(id="w", handle=double, pool=2)]
    )
    with start(spec) as tree:
        Asker.tree = tree

        assert sorted(tree.ref("t/asker").ask("t/w")) == [2, 4]
        assert [type(each) for each in tree.ref("t/asker").ask("t/asker")] == [RecursionDetectedError] * 2


# -- progress, and wrong arguments -------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
def test_progress_is_told_after_each_item_how_many_of_how_many(known: bool) -> None:
    told: list[tuple[int, int | None]] = []
    with start(messages(handle=fussy)) as tree:
        items: Any = range(4) if known else iter(range(4))
        list(tree.map(items, "t/w", progress=lambda done, total: told.append((done, total))))

    assert told == [(done, 4 if known else None) for done in (1, 2, 3, 4)]


async def awaits(*_: object) -> None:
    """Nothing that anybody would await."""


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"on_error": "ignore"}, ValueError, "'keep' or 'raise'"),
        ({"max_in_flight": 0}, ValueError, "1 or more"),
        ({"max_in_flight": True}, ValueError, "1 or more"),
        ({"timeout_s": -1}, ValueError, "number of seconds"),
        ({"timeout_s": "soon"}, ValueError, "number of seconds"),
        ({"progress": 3}, TypeError, "cannot be called"),
        ({"progress": awaits}, TypeError, "nobody awaits it there"),
        ({"items": 3}, TypeError, "Give a list"),
        ({"to": 3}, TypeError, "is not a path"),
        ({"items": "letters"}, TypeError, "Give a list"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_given(
    wrong: dict[str, Any], error: type[Exception], says: str
) -> None:
    arguments: dict[str, Any] = {"items": [1], "to": "t/w"} | wrong
    with start(messages(handle=double)) as tree, pytest.raises(error, match=says):
        tree.map(**arguments)


@pytest.mark.parametrize("to", ["b", "t/b", "bees"])
@pytest.mark.parametrize("state", ["stopped", "parked"])
def test_an_item_for_a_worker_that_is_down_says_so_and_what_starts_it_again(state: str, to: str) -> None:
    def fragile(task: Subtask, context: Context) -> str:
        if str(task) == "bad":
            raise SystemExit
        return "done"

    breaks = WorkerSpec(id="b", execute=fragile, capabilities={"bees"}, breaker=None)
    children = [breaks, WorkerSpec(id="other", execute=work)]
    with start(SupervisorSpec(id="t", tasks=Tasks(on_failure=[]), children=children, max_restarts=0)) as tree:
        if state == "parked":
            assert len(dict(tree.map(["bad"], to="b"))) == 1
        else:
            tree.terminate_child("t/b")
        settle(tree)
        ((_, error),) = tree.map(["good"], to=to)
        tree.restart_child("t/b")
        again = dict(tree.map(["good"], to=to))

    assert isinstance(error, TaskFailedError)
    assert f"t/b is {state}: tree.restart_child('t/b') starts it again" in str(error)
    assert again == {"good": "done"}
