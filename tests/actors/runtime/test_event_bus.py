"""Subscribers that raise, are slow or leave, and the log, which must not be lost (``actors.runtime.event_bus``)."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from loguru import logger

from actors import (
    ChildExited,
    Event,
    RestartLimitError,
    SubscriberDropped,
    Worker,
)
from actors.testing import settle
from tests.support.hardening import LONG_S, Gate
from trees import SupervisorSpec, WorkerSpec, start


def test_who_waits_for_the_delivery_is_told_also_after_the_subscriber_has_left() -> None:
    with start(SupervisorSpec(id="r", children=[WorkerSpec(id="w", actor=Worker)])) as tree:
        gate = Gate()
        end = tree.subscribe(lambda _: gate())
        tree.ref("r/w").tell("nobody handles this")
        gate.wait_reached()
        waits = threading.Thread(target=settle, args=(tree,))
        waits.start()
        end()
        gate.open.set()
        waits.join(60)

        assert not waits.is_alive()


class Unprintable(Exception):  # noqa: N818 - the name says what is wrong with it
    """Raises wherever its text is asked for."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class BadNotes(Exception):  # noqa: N818
    """Python itself cannot format it."""

    @property
    def __notes__(self) -> list[str]:
        raise SystemExit("notes")


class BadTruth(Exception):  # noqa: N818
    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


class BadKind(type):
    @property
    def __name__(cls) -> str:
        raise RuntimeError("no name")

    @property
    def __module__(cls) -> str:
        raise RuntimeError("no module")


class BadEqual(Exception):  # noqa: N818
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = Exception.__hash__


BadName = BadKind("BadName", (Exception,), {})

HOSTILE = [Unprintable, BadNotes, BadTruth, BadEqual, BadName]


@pytest.mark.parametrize("kind", HOSTILE, ids=["str", "notes", "bool", "eq", "name"])
def test_a_worker_that_dies_of_an_error_that_cannot_be_formatted_is_restarted(kind: Callable[[], Exception]) -> None:
    def handle(message: str) -> str:
        if message == "die":
            raise kind()
        return message

    with start(SupervisorSpec(id="r", children=[WorkerSpec(id="w", handle=handle)])) as tree:
        heard: list[Event] = []
        tree.subscribe(heard.append)
        tree.ref("r/w").tell("die")

        assert tree.ref("r/w").ask("again") == "again"
        assert tree.child("r/w").incarnation == 2
        settle(tree)
        assert [type(event) for event in heard if isinstance(event, (ChildExited, SubscriberDropped))] == [ChildExited]
        assert "last exit: crashed" in tree.dump()


@pytest.fixture
def sink() -> Iterator[list[Any]]:
    """Takes what the sink is to do with each line: raise what stands there first, else keep it."""
    script: list[Any] = []
    kept: list[Any] = []

    def write(message: Any) -> None:
        if script:
            raise script.pop()
        kept.append((message.record["level"].name, str(message)))

    number = logger.add(write, catch=False, level="TRACE")
    yield [script, kept]
    logger.remove(number)


def test_a_sink_that_raises_loses_its_line_and_no_other(sink: list[Any]) -> None:
    script, kept = sink
    with start(
        SupervisorSpec(id="r", children=[WorkerSpec(id="w", handle=lambda _: 1 / 0, restart="permanent")])
    ) as tree:
        settle(tree)
        kept.clear()
        script[:] = [OSError("disk full"), SystemExit("a sink")]
        tree.ref("r/w").tell(1)
        settle(tree)
        tree.ref("r/w").tell(1)
        settle(tree)

    assert not script
    assert any("EventsLost count=2" in line for _, line in kept), kept
    assert any("ChildRestarting" in line for _, line in kept), kept


def test_a_root_that_gives_up_is_critical_in_the_log_also_after_a_line_that_failed(sink: list[Any]) -> None:
    script, kept = sink
    spec = SupervisorSpec(
        id="r", max_restarts=1, children=[WorkerSpec(id="w", handle=lambda _: 1 / 0, restart="permanent")]
    )
    tree = start(spec)
    settle(tree)
    script[:] = [OSError("disk full")]
    for _ in range(3):
        tree.ref("r/w").tell(1)
    with pytest.raises(RestartLimitError):
        tree.wait(60)

    assert "CRITICAL" in [level for level, _ in kept]


# -- what waits is bounded ---------------------------------------------------------------------------------


async def awaits(_: Event) -> None:
    """Nothing that anybody would await."""


def test_a_subscriber_that_is_async_is_refused_and_one_that_returns_a_coroutine_is_dropped() -> None:
    dropped, heard = threading.Event(), list[Event]()

    def leaves_it(event: Event) -> object:
        return awaits(event)

    def hear(event: Event) -> None:
        heard.append(event)
        if isinstance(event, SubscriberDropped):
            dropped.set()

    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="w", handle=str)])) as tree:
        with pytest.raises(TypeError, match="subscribe: a function is async, and nobody awaits it there"):
            tree.subscribe(awaits)
        tree.subscribe(hear)
        tree.subscribe(leaves_it)
        tree.terminate_child("t/w")
        assert dropped.wait(LONG_S)
    assert sum(isinstance(event, SubscriberDropped) for event in heard) == 1
