"""One tree of 100,000 children: start, ask, dump, crash them all, stop; and whether a child costs the same in it."""

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from actors.testing import settle
from tests.bench.sides import CRASH, ENDLESS, echo, logs_to_nowhere
from tests.bench.table import Row, Size, count, limit, micros, seconds, times
from trees import SupervisorSpec, Tree, WorkerSpec, start

WAIT_S = 300.0
STEP_S = 0.005


@dataclass(frozen=True)
class Costs:
    """Seconds for one tree."""

    start: float
    ask: float
    """Of one ask."""
    dump: float | None
    """None: there is no dump yet."""
    storm: float
    """All crashed and back."""
    threads: int
    """The most there were meanwhile."""
    stop: float


def crowd(size: Size) -> Iterator[Row]:
    """The figures of the big tree, then the cost of a child in trees of three sizes."""
    small, middle, big = size.crowd
    with logs_to_nowhere():
        costs = {number: _costs(number, size.asked) for number in (small, middle, big)}
        separate = _start_separate(big)
    most = costs[big]
    yield limit(f"{big:,} children: start as a pool", most.start, show=seconds, floor=5.0)
    yield limit(f"{big:,} children: start as separate specs", separate, show=seconds, floor=5.0)
    yield limit(f"{big:,} children: ask {size.asked:,} of them, each", most.ask, show=micros)
    if most.dump is not None:
        yield limit(f"{big:,} children: dump, folded", most.dump, show=seconds, floor=1.0)
    yield limit(f"{big:,} children: all crashed and back", most.storm, show=seconds, floor=30.0)
    yield limit(f"{big:,} children: threads meanwhile", most.threads, show=count, floor=199)
    yield limit(f"{big:,} children: stop", most.stop, show=seconds, floor=5.0)
    phases: dict[str, Callable[[Costs], float]] = {
        "start": lambda cost: cost.start,
        "crash and back": lambda cost: cost.storm,
        "stop": lambda cost: cost.stop,
    }
    for phase, of in phases.items():
        each = [of(costs[number]) / number for number in size.crowd]
        for number, cost in zip(size.crowd, each, strict=True):
            yield limit(f"{phase}, each of {number:,}", cost, show=micros)
        yield limit(f"{phase}: growth from {small:,} to {big:,}", each[2] / each[0], show=times, floor=2.0, wish=1.2)


class Fragile:
    """A handler that counts who is back."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.all_back = threading.Event()
        self._count = itertools.count(1)

    def __call__(self, message: Any) -> Any:
        if message == CRASH:
            raise ValueError
        if message == "back" and next(self._count) == self.number:
            self.all_back.set()
        return message


def _costs(number: int, asked: int) -> Costs:
    handler = Fragile(number)
    children = [WorkerSpec(id="w", handle=handler, pool=number)]
    spec = SupervisorSpec(id="bench", max_restarts=ENDLESS, children=children)
    began = perf_counter()
    tree = start(spec)
    started = perf_counter()
    refs = [tree.ref(f"bench/w#{at}") for at in range(number)]
    asking = perf_counter()
    for ref in refs[:: max(1, number // asked)]:
        ref.ask("message", timeout=WAIT_S)
    ask = (perf_counter() - asking) / len(refs[:: max(1, number // asked)])
    dump = _dump(tree)
    storm, threads = _storm(refs, handler)
    settle(tree, WAIT_S)  # the log lines of the storm are not a part of the stop
    stopping = perf_counter()
    tree.stop()
    return Costs(started - began, ask, dump, storm, threads, perf_counter() - stopping)


def _dump(tree: Tree) -> float | None:
    dump = getattr(tree, "dump", None)
    if dump is None:
        return None
    began = perf_counter()
    dump()
    return perf_counter() - began


def _storm(refs: list[Any], handler: Fragile) -> tuple[float, int]:
    """Seconds until all have crashed and are back, and the most threads there were."""
    most, over = [threading.active_count()], threading.Event()

    def watch() -> None:
        while not over.wait(STEP_S):
            most[0] = max(most[0], threading.active_count() - 1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = perf_counter()
    for ref in refs:
        ref.tell(CRASH)
        ref.tell("back")
    assert handler.all_back.wait(WAIT_S)
    took = perf_counter() - began
    over.set()
    watcher.join()
    return took, most[0]


def _start_separate(number: int) -> float:
    children = [WorkerSpec(id=f"w{at}", handle=echo) for at in range(number)]
    spec = SupervisorSpec(id="bench", children=children)
    began = perf_counter()
    with start(spec):
        return perf_counter() - began
