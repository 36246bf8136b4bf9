"""Results of every kind: what JSON can be made of is kept as that, and anything else is a failed attempt."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import math
import pathlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from tests.tasks.outcomes import TWO, ended, one_worker, raises, said_of
from trees import (
    Report,
    SubtaskSucceeded,
    SupervisorSpec,
    Tasks,
    TaskStatus,
    WorkerSpec,
    start,
)


class Typed(BaseModel):
    pages: int


# -- results of every kind -------------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Colour(enum.Enum):
    RED = "red"


class Unfriendly:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")


async def async_items() -> AsyncIterator[int]:
    yield 1


async def never_awaited() -> int:
    return 1


def deep(depth: int = 100_000) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def round_and_round() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


STORED: list[tuple[str, Callable[[], Any], Any]] = [
    ("None", lambda: None, None),
    ("bytes", lambda: b"abc", "abc"),
    ("a set", lambda: {1}, [1]),
    ("a frozenset", lambda: frozenset({1}), [1]),
    ("a tuple", lambda: (1, (2,)), [1, [2]]),
    ("a dataclass", lambda: Point(1, 2), {"x": 1, "y": 2}),
    ("a model", lambda: Typed(pages=1), {"pages": 1}),
    ("an enum", lambda: Colour.RED, "red"),
    ("a date", lambda: dt.date(2020, 1, 2), "2020-01-02"),
    ("a decimal", lambda: decimal.Decimal("1.5"), "1.5"),
    ("a path", lambda: pathlib.Path("a/b"), "a/b"),
    ("keys that are numbers", lambda: {1: 2}, {"1": 2}),
    ("a number of 200 digits", lambda: 10**200, 10**200),
    ("infinity", lambda: math.inf, math.inf),
    ("an empty text", lambda: "", ""),
    ("a complex number", lambda: 1j, "1j"),
    ("half a character, as in odd file names", lambda: "\udc80", "\udc80"),
    ("half a character in a list", lambda: ["\udc80"], ["\udc80"]),
]

UNSTORABLE: list[tuple[str, Callable[[], Any]]] = [
    ("an object", object),
    ("an unfriendly object", Unfriendly),
    ("a function", lambda: raises),
    ("a class", lambda: Typed),
    ("an exception", lambda: ValueError("secret")),
    ("bytes that are no text", lambda: b"\xff\xfe"),
    ("an async iterator", async_items),
    ("something nested too deep", deep),
    ("something that holds itself", round_and_round),
]


def both_ways(make: Callable[[], Any]) -> Iterator[Report]:
    """What becomes of such a result of a sync and of an async worker."""

    async def execute_async(task: Any, context: Any) -> Any:
        return make()

    for execute in (lambda task, context: make(), execute_async):
        with start(one_worker(execute)) as tree:
            handle = tree.submit("do it")
            report, _ = ended(handle)
            assert handle.dump("json")
            assert handle.dump("text")
            assert tree.is_alive
            assert tree.child("p/w").incarnation == 1
            yield report


@pytest.mark.parametrize(("name", "make", "kept"), STORED, ids=[name for name, _, _ in STORED])
def test_a_result_that_json_can_be_made_of_is_kept_as_that(name: str, make: Callable[[], Any], kept: Any) -> None:
    for report in both_ways(make):
        assert report.results == {"a": kept}
        assert type(report.results["a"]) is type(kept)


@pytest.mark.parametrize(("name", "make"), UNSTORABLE, ids=[name for name, _ in UNSTORABLE])
def test_any_other_result_is_a_failed_attempt_that_names_its_type_only(name: str, make: Callable[[], Any]) -> None:
    for report in both_ways(make):
        assert report.status is TaskStatus.FAILED
        assert "cannot be stored" in report.failed["a"]
        assert "secret" not in said_of(report)


def test_nan_stays_what_it_is() -> None:
    for report in both_ways(lambda: [math.nan]):
        assert math.isnan(report.results["a"][0])


def test_an_awaitable_that_an_async_worker_returns_is_refused_and_closed() -> None:
    async def execute(task: Any, context: Any) -> Any:
        return never_awaited()

    with start(one_worker(execute)) as tree:
        report, _ = ended(tree.submit("do it"))

    assert "cannot be stored" in report.failed["a"]


def test_an_awaitable_that_a_sync_worker_returns_is_refused_and_says_what_to_do() -> None:
    with start(one_worker(lambda task, context: never_awaited())) as tree:
        report, _ = ended(tree.submit("do it"))

    assert "awaitable" in report.failed["a"]
    assert "async def" in report.failed["a"]


def test_a_result_of_15_mb_is_stored_once_is_in_the_report_and_a_dump_is_quick() -> None:
    big = "x" * 15_000_000
    seen: list[int] = []

    def execute(task: Any, context: Any) -> Any:
        if task.id == "a":
            return big
        seen.append(len(context.results["a"]))
        return len(context.results["a"])

    spec = SupervisorSpec(id="p", tasks=Tasks(planner=TWO), children=[WorkerSpec(id="w", execute=execute)])
    with start(spec) as tree:
        handle = tree.submit("do it")
        report = handle.result(timeout=60)
        kept = [event for event in handle.events() if isinstance(event, SubtaskSucceeded) and event.value is big]
        begin = time.thread_time()
        texts = [
            tree.dump(),
            tree.dump(format="json"),
            handle.dump(),
            handle.dump("mermaid"),
            str(report),
            repr(report),
        ]
        took = time.thread_time() - begin

    assert report.results["a"] is big
    assert report.results["b"] == seen[0] == len(big)
    assert report.output["a"] is big
    assert len(kept) == 1
    assert max(len(text) for text in texts) < 20_000
    assert took < 2.0
