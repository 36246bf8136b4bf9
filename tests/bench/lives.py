"""What a life costs: starting children, and coming back from a crash."""

import itertools
import queue
import threading
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import pykka

from actors import ChildStarted, Event
from tests.bench.sides import CRASH, Built, Raw, Started, echo, fragile, logs_to_nowhere, tree_of
from tests.bench.table import Row, Size, compare, micros
from trees import SupervisorSpec, WorkerSpec, start

WAIT_S = 60.0


def starting(size: Size) -> Iterator[Row]:
    """Start children: declared before (as a pool, one by one, as a class that runs code when it starts), and added."""
    number = size.children
    kinds = {
        "as a pool": ([WorkerSpec(id="w", handle=echo, pool=number)], 30.0),
        "as separate specs": ([WorkerSpec(id=f"w{n}", handle=echo) for n in range(number)], 12.0),
        "as Workers with an __init__": ([WorkerSpec(id="w", actor=Built, pool=number)], 12.0),
        "as Workers with an on_start": ([WorkerSpec(id="w", actor=Started, pool=number)], 8.0),
    }
    for kind, (children, floor) in kinds.items():
        spec = SupervisorSpec(id="bench", children=children)
        yield compare(
            f"start {number:,} children {kind}",
            lambda spec=spec: _start_ours(spec, number),  # type: ignore[misc]
            lambda: start_raw(number),
            pairs=size.pairs,
            show=micros,
            floor=floor,
        )
    yield compare(
        f"start_child {number:,} times, one after the other",
        lambda: _add_ours(number),
        lambda: start_raw(number),
        pairs=size.pairs,
        show=micros,
        floor=4.0,
    )


def _add_ours(number: int) -> float:
    with tree_of() as tree:
        began = perf_counter()
        for n in range(number):
            tree.start_child("bench", WorkerSpec(id=f"w{n}", handle=echo))
        return (perf_counter() - began) / number


def _start_ours(spec: SupervisorSpec, number: int) -> float:
    began = perf_counter()
    with start(spec):
        return (perf_counter() - began) / number


def start_raw(number: int) -> float:
    began = perf_counter()
    refs = [Raw.start() for _ in range(number)]
    took = perf_counter() - began
    # One stop for each: a second one races with the end of the actor, and may then wait for ever.
    for end in [ref.stop(block=False) for ref in refs]:
        end.get(timeout=WAIT_S)
    return took / number


def crash(size: Size) -> Iterator[Row]:
    """From the tell that crashes a worker to the reply of the next one. Log lines on, and one subscriber."""
    with logs_to_nowhere(), tree_of(WorkerSpec(id="w", handle=fragile)) as tree:
        events: list[Event] = []
        tree.subscribe(events.append)
        worker = tree.ref("bench/w")
        yield compare(
            "crash to next reply",
            lambda: _crashes_of_ours(worker, size.crashes),
            lambda: _crashes_of_raw(size.crashes),
            pairs=size.pairs,
            show=micros,
            floor=2.0,
        )


def _crashes_of_ours(worker: Any, number: int) -> float:
    began = perf_counter()
    for _ in range(number):
        worker.tell(CRASH)
        worker.ask("back", timeout=WAIT_S)
    return (perf_counter() - began) / number


class Phoenix(pykka.ThreadingActor):
    """What one writes by hand."""

    def __init__(self, successors: Any) -> None:
        super().__init__()
        self.successors = successors

    def on_receive(self, message: Any) -> Any:
        return fragile(message)

    def on_failure(self, *_: Any) -> None:
        self.successors.put(Phoenix.start(self.successors))


def _crashes_of_raw(number: int) -> float:
    successors: queue.SimpleQueue[Any] = queue.SimpleQueue()
    worker: Any = Phoenix.start(successors)
    began = perf_counter()
    for _ in range(number):
        worker.tell(CRASH)
        worker = successors.get(timeout=WAIT_S)
        worker.ask("back", timeout=WAIT_S)
    took = perf_counter() - began
    worker.stop()
    return took / number


def group(size: Size) -> Iterator[Row]:
    """One crash under one_for_all, until all siblings were stopped in order and are back."""
    number = size.group
    children = [WorkerSpec(id=f"w{n}", handle=fragile) for n in range(number)]
    with logs_to_nowhere(), tree_of(*children, strategy="one_for_all") as tree:
        numbers, back = itertools.count(1), threading.Event()

        def hear(event: Event) -> None:
            if isinstance(event, ChildStarted) and next(numbers) % number == 0:
                back.set()

        tree.subscribe(hear)
        culprit = tree.ref(f"bench/w{number // 2}")
        yield compare(
            f"one_for_all of {number}, crash to all back",
            lambda: _group_of_ours(culprit, back),
            lambda: _group_of_raw(number),
            pairs=size.pairs,
            show=micros,
        )


def _group_of_ours(culprit: Any, back: threading.Event) -> float:
    began = perf_counter()
    culprit.tell(CRASH)
    assert back.wait(WAIT_S)
    took = perf_counter() - began
    back.clear()
    return took


class OneOfAll(pykka.ThreadingActor):
    """One of a group that is restarted by hand: whoever crashes stops the others and starts as many."""

    def __init__(self, members: list[Any], back: threading.Event) -> None:
        super().__init__()
        self.members = members
        self.back = back

    def on_receive(self, message: Any) -> Any:
        return fragile(message)

    def on_failure(self, *_: Any) -> None:
        for member in reversed(self.members):
            if member.actor_urn != self.actor_urn:
                member.stop()
        self.members[:] = [OneOfAll.start(self.members, self.back) for _ in self.members]
        self.back.set()


def _group_of_raw(number: int) -> float:
    members: list[Any] = []
    back = threading.Event()
    members.extend([OneOfAll.start(members, back) for _ in range(number)])
    began = perf_counter()
    members[number // 2].tell(CRASH)
    assert back.wait(WAIT_S)
    took = perf_counter() - began
    for member in members:
        member.stop()
    return took
