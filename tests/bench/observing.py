"""What it costs a tree to be observed: by nobody, by metrics and alerts, by traces, by ten pages that are open.

Each figure is compared with that of a tree that nobody observes, all in turn in the same run. Metrics, alerts and
traces are measured as fast as the tree can go; pages where some thousand events happen in a second, which is what a
page is promised for. Then a crash, or a task, comes at its own time: what it costs is the time from its beginning to
its end, not the pause before the next. The pages are in another process.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import perf_counter

from actors.testing import settle
from tests.bench.onlookers import Onlookers, onlookers
from tests.bench.sides import CRASH, ENDLESS, echo, fragile, logs_to_nowhere
from tests.bench.table import Measure, Row, Size, count, limit, micros, overheads, percent
from trees import Alert, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start
from trees.observe import alerts as shipped

WAIT_S = 120.0
METERED, TRACED, PAGES = "metrics and alerts", "traces", "ten pages"
MOST_METERED, MOST_PAGES, MOST_OF_A_CORE = 0.05, 0.15, 0.02
OPEN = 10
RATE = 1_000
"""Events a second, where they come at their own time."""
EVENTS_OF_A_CRASH, EVENTS_OF_A_TASK = 3, 19
"""Events of one crash, and of a task of ``LINKS`` subtasks."""
LINKS = 5
MANY = 3
"""Times as many rounds as there are pairs elsewhere, of a shorter time each: it is about a few parts in a hundred."""


def tree_of_bench(number: int) -> SupervisorSpec:
    """Workers to crash, to tell, and to give subtasks to: plans of so many that wait for nothing, and short chains."""
    wide = StaticPlan([Subtask(f"n{at}", worker="w") for at in range(number)])
    chain = StaticPlan([Subtask(f"n{at}", worker="w", depends_on=[f"n{at - 1}"] if at else []) for at in range(LINKS)])
    rooms = {"wide": Tasks(planner=wide, max_parallel=10, max_subtasks=number), "chain": Tasks(planner=chain)}
    teams = [
        SupervisorSpec(id=id_, tasks=tasks, children=[WorkerSpec(id="w", execute=_work, pool=10)])
        for id_, tasks in rooms.items()
    ]
    workers = [WorkerSpec(id="fragile", handle=fragile), WorkerSpec(id="echo", handle=echo)]
    return SupervisorSpec(id="bench", max_restarts=ENDLESS, children=[*workers, *teams])


async def _work(*_: object) -> str:
    return "done"


@dataclass
class Side:
    """A tree, and what is measured of it."""

    tree: Tree
    onlookers: Onlookers | None = None

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self._fragile, self._echo = self.tree.ref("bench/fragile"), self.tree.ref("bench/echo")

    def crash(self) -> float:
        """Seconds from a tell that crashes a worker to the reply of the next one."""
        began = perf_counter()
        self._fragile.tell(CRASH)
        self._fragile.ask("back", timeout=WAIT_S)
        return perf_counter() - began

    def crashes(self, number: int) -> float:
        """Seconds for each of so many, without a pause."""
        return sum(self.crash() for _ in range(number)) / number

    def tells(self, number: int) -> float:
        """Seconds for each of so many messages, until all are handled."""
        began = perf_counter()
        for _ in range(number):
            self._echo.tell("message")
        self._echo.ask("the last", timeout=WAIT_S)
        return (perf_counter() - began) / number

    def subtasks(self, team: str, number: int) -> float:
        """Seconds for each subtask of a task that has so many, from the goal to the report."""
        began = perf_counter()
        report = self.tree.run(Task("go", id=f"run{next(self._numbers)}"), WAIT_S, f"bench/{team}")
        took = perf_counter() - began
        assert len(report.results) == number
        return took / number


def paced(act: Callable[[], float], number: int, every_s: float) -> float:
    """Do something so often, each time ``every_s`` after the time before: the mean of what it says that it costs."""
    costs, due = [], perf_counter()
    for _ in range(number):
        time.sleep(max(0.0, due - perf_counter()))
        due = max(due + every_s, perf_counter())
        costs.append(act())
    return statistics.fmean(costs)


@contextmanager
def meanwhile(act: Callable[[], float], every_s: float) -> Iterator[None]:
    """Do something again and again while something else is measured."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_s):
            act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# -- sides ---------------------------------------------------------------------------------------------------------


@contextmanager
def unobserved(spec: SupervisorSpec) -> Iterator[Side]:
    with start(spec) as tree:
        yield Side(tree)


@contextmanager
def metered(spec: SupervisorSpec) -> Iterator[Side]:
    """Every metric, and an alert for each condition that is shipped; none of them fires."""
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - it is optional

    from trees.observe.metrics import metrics  # noqa: PLC0415

    conditions = {
        "gave_up": shipped.gave_up(),
        "parked": shipped.parked(),
        "restarts_over": shipped.restarts_over(ENDLESS, 60.0),
        "breaker_open": shipped.breaker_open(),
        "question_waiting": shipped.question_waiting(60.0),
        "task_failed": shipped.task_failed(),
        "queue_over": shipped.queue_over(ENDLESS, 60.0),
        "mailbox_over": shipped.mailbox_over(ENDLESS),
        "store_paused": shipped.store_paused(),
        "lease_lost": shipped.lease_lost(),
        "stalled": shipped.stalled(),
    }
    fired: list[object] = []
    registry = CollectorRegistry()
    with start(spec, alerts=[Alert(name, when, fired.append) for name, when in conditions.items()]) as tree:
        metrics(tree, registry)
        yield Side(tree)
        assert not fired
        exits = {"path": "bench/fragile", "reason": "crashed"}
        assert registry.get_sample_value("regrow_child_exits_total", exits), "nothing was counted"


@contextmanager
def traced(spec: SupervisorSpec) -> Iterator[Side]:
    """Spans, which nobody keeps."""
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - it is optional

    from trees.agents.telemetry import instrument  # noqa: PLC0415

    with start(spec) as tree:
        traces = instrument(tree, TracerProvider())
        yield Side(tree)
        traces.stop()


@contextmanager
def watched(spec: SupervisorSpec) -> Iterator[Side]:
    """Ten pages."""
    with start(spec) as tree:
        page = tree.serve(0)
        with onlookers(page.address, page.token, OPEN) as pages:
            yield Side(tree, pages)


# -- rows ----------------------------------------------------------------------------------------------------------


Open = Callable[[SupervisorSpec], AbstractContextManager[Side]]


def fresh(size: Size, open_: Open, run: Callable[[Side], float]) -> Measure:
    """Measure this of a tree that is started for it: two trees that are alike differ by a tenth for all their lives."""
    spec = tree_of_bench(size.independent)

    def measure() -> float:
        with open_(spec) as side:
            side.crash()
            side.subtasks("chain", LINKS)
            settle(side.tree, WAIT_S)
            gc.collect()
            cost = run(side)
            settle(side.tree, WAIT_S)  # what is still to be told of it belongs to no other measure
            return cost

    return measure


def flat_out(size: Size) -> Iterator[Row]:
    """As fast as the tree can go."""
    measures: dict[str, Callable[[Side], float]] = {
        "crash to reply": lambda side: side.crashes(max(1, size.crashes // 2)),
        "tell": lambda side: side.tells(size.tells // 4),
        "subtask": lambda side: side.subtasks("wide", size.independent),
    }
    sides: dict[str, Open] = {METERED: metered, TRACED: traced, PAGES: watched}
    with logs_to_nowhere():
        for name, run in measures.items():
            yield from overheads(
                name,
                fresh(size, unobserved, run),
                {each: fresh(size, open_, run) for each, open_ in sides.items()},
                pairs=MANY * size.pairs,
                show=micros,
                floors={METERED: MOST_METERED},
            )


def paced_events(size: Size) -> Iterator[Row]:
    """Some thousand events a second, and ten pages that read them."""
    crash_s, task_s = EVENTS_OF_A_CRASH / RATE, EVENTS_OF_A_TASK / RATE
    crashes = max(1, size.crashes // 5)
    chains = max(1, crashes * EVENTS_OF_A_CRASH // EVENTS_OF_A_TASK)

    def tells(side: Side) -> float:
        with meanwhile(side.crash, crash_s):
            return side.tells(size.tells // 4)

    measures: dict[str, Callable[[Side], float]] = {
        "crash to reply": lambda side: paced(side.crash, crashes, crash_s),
        "tell": tells,
        "subtask": lambda side: paced(lambda: side.subtasks("chain", LINKS), chains, task_s),
    }
    with logs_to_nowhere():
        for name, run in measures.items():
            yield from overheads(
                f"{name}, {RATE:,} events/s",
                fresh(size, unobserved, run),
                {PAGES: fresh(size, watched, run)},
                pairs=MANY * size.pairs,
                show=micros,
                floors={PAGES: MOST_PAGES},
            )
        spec = tree_of_bench(1)
        with unobserved(spec) as bare, watched(spec) as side:
            yield from _shares(size, bare, side)


def _shares(size: Size, bare: Side, side: Side) -> Iterator[Row]:
    """What a page costs of a core: its part of the serving thread, and of all that the process does more."""
    assert side.onlookers is not None
    serving, more = list[float](), list[float]()
    [thread] = [each for each in threading.enumerate() if each.name == "bench-web"]
    clock = time.pthread_getcpuclockid(thread.ident or 0)
    for _ in range(size.pairs):
        alone = _process_share(bare, size)
        began, used = perf_counter(), time.clock_gettime(clock)
        both = _process_share(side, size)
        serving.append((time.clock_gettime(clock) - used) / (perf_counter() - began) / OPEN)
        more.append((both - alone) / OPEN)
    end = perf_counter() + WAIT_S
    while side.onlookers.seen()[0] < size.pairs * size.crashes * EVENTS_OF_A_CRASH and perf_counter() < end:
        time.sleep(0.05)
    fewest, losses = side.onlookers.seen()
    yield Row("events that each page has had", count(fewest))
    yield limit("events that a page has lost", losses, show=count, floor=0)
    yield limit("a page: of a core, its serving thread", statistics.median(serving), show=percent, floor=MOST_OF_A_CORE)
    yield limit("a page: of a core, the whole process", statistics.median(more), show=percent, floor=MOST_OF_A_CORE)


def _process_share(side: Side, size: Size) -> float:
    began, used = perf_counter(), time.process_time()
    paced(side.crash, size.crashes, EVENTS_OF_A_CRASH / RATE)
    settle(side.tree, WAIT_S)
    return (time.process_time() - used) / (perf_counter() - began)
