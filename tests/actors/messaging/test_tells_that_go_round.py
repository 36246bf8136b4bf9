"""Workers that tell each other for ever are a program, not a fault: the tells are delivered, and one event says so."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import actors
from actors import DeadLetter, Event, HopLimitError, RecursionRefused, RecursionSuspected
from actors.testing import settle
from trees import SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start

WAIT_S = 20.0
FOLLOWING = {"s/a": "s/b", "s/b": "s/c", "s/c": "s/a"}


def pass_on(message: Any, own: str) -> None:
    """Tell the next one of the ring that there is one round less to go; at the end do what is to be done there."""
    left, at_end = message
    if left > 1:
        actors.ref(FOLLOWING[own]).tell((left - 1, at_end))
    else:
        at_end()


async def pass_on_async(message: Any, own: str) -> None:
    left, at_end = message
    if left > 1:
        await actors.ref(FOLLOWING[own]).tell_async((left - 1, at_end))
    else:
        at_end()


def ring(handle: Any = pass_on) -> SupervisorSpec:
    workers = [WorkerSpec(id=path[2:], handle=handle, kwargs={"own": path}) for path in FOLLOWING]
    return SupervisorSpec(id="s", tasks=Tasks(), children=[*workers, WorkerSpec(id="echo", handle=str)])


def go_round(tree: Tree, hops: int, at_end: Any = lambda: None) -> list[Event]:
    """Send a message on, ``hops`` times in all after the first; return what was published meanwhile."""
    events: list[Event] = []
    done = threading.Event()

    def end() -> None:
        try:
            at_end()
        finally:
            done.set()

    unsubscribe = tree.subscribe(events.append)
    tree.ref("s/a").tell((hops + 1, end))
    assert done.wait(WAIT_S)
    settle(tree)
    unsubscribe()
    return events


def suspected(events: list[Event]) -> list[RecursionSuspected]:
    return [event for event in events if isinstance(event, RecursionSuspected)]


@pytest.mark.parametrize("handle", [pass_on, pass_on_async])
def test_tells_are_delivered_and_one_event_comes_at_max_hops_and_at_each_doubling(handle: Any) -> None:
    with start(ring(handle)) as tree:
        events = go_round(tree, 300)
    assert [event.hops for event in suspected(events)] == [64, 128, 256]
    assert {event.max_hops for event in suspected(events)} == {64}
    assert not [event for event in events if isinstance(event, DeadLetter | RecursionRefused)]


def test_no_event_comes_before_max_hops() -> None:
    with start(ring(), max_hops=10) as tree:
        assert suspected(go_round(tree, 9)) == []
        assert [event.hops for event in suspected(go_round(tree, 10))] == [10]


def test_the_event_names_the_last_addresses_and_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    with start(ring(), max_hops=10) as tree:
        [event] = suspected(go_round(tree, 10))
    assert event.path == event.chain[-1] == "s/b"
    assert event.chain[-4:] == ("s/b", "s/c", "s/a", "s/b")
    [line] = [line for line in capsys.readouterr().err.splitlines() if "RecursionSuspected" in line]
    assert line.startswith("WARNING")
    assert "s/c" in line
    assert event.as_dict()["name"] == "recursion_suspected"


def test_an_ask_and_a_task_after_more_than_max_hops_are_refused() -> None:
    raised: list[BaseException] = []

    def ask() -> None:
        for call in (lambda: actors.ref("s/echo").ask(1), lambda: tree.submit(Task("echo"))):
            try:
                call()
            except HopLimitError as error:
                raised.append(error)

    with start(ring(), max_hops=10) as tree:
        go_round(tree, 9, ask)
        assert raised == []
        events = go_round(tree, 11, ask)
    assert len(raised) == 2
    assert "max_hops=10" in str(raised[0])
    assert [event.max_hops for event in events if isinstance(event, RecursionRefused)] == [10, 10]


def test_an_ask_without_a_wait_is_refused_by_its_future() -> None:
    futures: list[Any] = []
    with start(ring(), max_hops=10) as tree:
        go_round(tree, 11, lambda: futures.append(actors.ref("s/echo").ask(1, block=False)))
        with pytest.raises(HopLimitError):
            futures[0].get(timeout=WAIT_S)


def test_refuse_tells_makes_one_more_a_dead_letter() -> None:
    events: list[Event] = []
    with start(ring(), max_hops=10, refuse_tells=True) as tree:
        tree.subscribe(events.append)
        tree.ref("s/a").tell((100, lambda: None))
        settle(tree)
    [letter] = [event for event in events if isinstance(event, DeadLetter)]
    [refused] = [event for event in events if isinstance(event, RecursionRefused)]
    assert (letter.reason, refused.hops) == ("hops", 11)
    assert suspected(events) == []


def test_a_detached_tell_begins_a_new_chain() -> None:
    count = [0]

    def again(_message: Any) -> None:
        count[0] += 1
        if count[0] < 100:
            actors.ref("s/y" if count[0] % 2 else "s/x").tell("again", detached=True)

    events: list[Event] = []
    spec = SupervisorSpec(id="s", children=[WorkerSpec(id=id_, handle=again) for id_ in ("x", "y")])
    with start(spec) as tree:
        tree.subscribe(events.append)
        tree.ref("s/x").tell("begin")
        settle(tree)
        assert count == [100]
    assert suspected(events) == []
