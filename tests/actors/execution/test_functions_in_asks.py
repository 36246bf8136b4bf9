"""An exception of a ``handle=`` function in an ask is a failed request: a function has no state that could be wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

import actors
from actors import ChildExited, Event, RequestFailed, Worker, WorkerCrashedError
from actors.testing import settle
from trees import SupervisorSpec, Tree, WorkerSpec, start

WAIT_S = 20.0


def parse(message: Any) -> Any:
    """Raise as told, or parse a number."""
    if message == "exit":
        raise SystemExit(3)
    if message == "group":
        raise ExceptionGroup("two", [ValueError("a"), KeyError("b")])
    if message == "exit in a group":
        raise BaseExceptionGroup("two", [ValueError("a"), SystemExit(1)])
    return int(message)


def ask_or_parse(message: Any, path: str) -> Any:
    """Ask another worker, which fails; or fail by itself."""
    if message == "ask":
        return actors.ref(path).ask("bad", timeout=WAIT_S)
    return parse(message)


async def parse_async(message: Any) -> Any:
    return parse(message)


@contextlib.contextmanager
def a_resource() -> Iterator[str]:
    yield "open"


class Parser(Worker):
    def on_receive(self, message: Any, /) -> Any:
        return parse(message)


PLACES = {
    "a pool thread": {"handle": parse},
    "a thread of its own": {"handle": parse, "dispatch": "thread"},
    "the loop": {"handle": parse_async},
    "a process": {"handle": parse, "dispatch": "process"},
    "a loop in a process": {"handle": parse_async, "dispatch": "process"},
    "a pool of workers": {"handle": parse, "pool": 3},
}


class Seen:
    """A running tree of one worker, and what happened in it."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.ref = tree, tree.ref("s/w")
        self._events: list[Event] = []
        tree.subscribe(self._events.append)

    def of(self, kind: type[Event]) -> list[Any]:
        settle(self.tree)
        return [event for event in self._events if isinstance(event, kind)]

    def ask(self, message: object) -> Any:
        return self.ref.ask(message, timeout=WAIT_S)


@contextlib.contextmanager
def running(**fields: Any) -> Iterator[Seen]:
    with start(SupervisorSpec(id="s", max_restarts=3, children=[WorkerSpec(id="w", **fields)])) as tree:
        yield Seen(tree)


@pytest.mark.parametrize("place", PLACES)
def test_bad_requests_fail_one_by_one_and_the_worker_serves_on(place: str) -> None:
    with running(**PLACES[place]) as seen:
        for _ in range(8):
            with pytest.raises(ValueError, match="invalid literal"):
                seen.ask("bad")
        with pytest.raises(ExceptionGroup):
            seen.ask("group")
        assert seen.ask("7") == 7
        assert seen.of(ChildExited) == []
        assert [event.reason for event in seen.of(RequestFailed)] == ["ValueError"] * 8 + ["ExceptionGroup"]


@pytest.mark.parametrize("place", ["a pool thread", "the loop", "a process", "a pool of workers"])
def test_in_a_tell_the_exception_is_a_crash(place: str) -> None:
    with running(**PLACES[place]) as seen:
        seen.ref.tell("bad")
        assert [type(event.error) for event in seen.of(ChildExited)] == [ValueError]
        assert seen.ask("7") == 7


@pytest.mark.parametrize(
    ("place", "message"),
    [("a pool thread", "exit"), ("a pool thread", "exit in a group"), ("the loop", "exit"), ("a process", "exit")],
)
def test_what_is_no_exception_ends_the_worker_in_an_ask_too(place: str, message: str) -> None:
    with running(**PLACES[place]) as seen:
        with pytest.raises(WorkerCrashedError):
            seen.ask(message)
        assert len(seen.of(ChildExited)) == 1
        assert seen.ask("7") == 7


@pytest.mark.parametrize(
    "fields", [{"actor": Parser}, {"handle": parse, "lifespan": a_resource}], ids=["an object", "a lifespan"]
)
def test_objects_and_functions_with_a_lifespan_crash_as_what_they_hold_may_be_wrong(
    fields: dict[str, Any],
) -> None:
    with running(**fields) as seen:
        with pytest.raises(ValueError, match="invalid literal"):
            seen.ask("bad")
        assert len(seen.of(ChildExited)) == 1
        assert seen.ask("7") == 7


@pytest.mark.parametrize("dispatch", ["auto", "process"])
def test_crash_on_ask_error_makes_an_error_of_the_functions_own_ask_a_crash_and_no_other(dispatch: str) -> None:
    asks = WorkerSpec(
        id="asks", handle=ask_or_parse, kwargs={"path": "s/w"}, crash_on_ask_error=True, dispatch=dispatch
    )
    with start(SupervisorSpec(id="s", children=[WorkerSpec(id="w", handle=parse), asks])) as tree:
        seen = Seen(tree)
        with pytest.raises(ValueError, match="invalid literal"):
            tree.ref("s/asks").ask("bad", timeout=WAIT_S)
        assert seen.of(ChildExited) == []
        with pytest.raises(ValueError, match="invalid literal"):
            tree.ref("s/asks").ask("ask", timeout=WAIT_S)
        assert [event.path for event in seen.of(ChildExited)] == ["s/asks"]


def test_items_of_a_map_that_fail_cost_no_worker() -> None:
    with running(handle=parse, pool=2) as seen:
        results = dict(seen.tree.map(["1", "x", "3"], to="s/w"))
        assert results["1"] == 1
        assert isinstance(results["x"], ValueError)
        assert results["3"] == 3
        assert seen.of(ChildExited) == []


def test_a_request_that_fails_is_no_log_line_above_debug(capsys: pytest.CaptureFixture[str]) -> None:
    with running(handle=parse) as seen:
        with pytest.raises(ValueError, match="invalid literal"):
            seen.ask("bad")
        assert len(seen.of(RequestFailed)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert not [line for line in lines if line.startswith(("WARNING", "ERROR", "CRITICAL"))]


@pytest.mark.slow
def test_on_a_cluster_bad_requests_fail_one_by_one_too(cluster: object) -> None:
    with running(handle=parse, dispatch="ray") as seen:
        for _ in range(5):
            with pytest.raises(ValueError, match="invalid literal"):
                seen.ask("bad")
        assert seen.ask("7") == 7
        assert seen.of(ChildExited) == []
