"""What a subtask costs, against LangGraph and bare asyncio in the same run.

Ours runs with everything on: supervision, journal, a subscriber that hears every event, log lines at the default level,
and a dump of the tree in the middle of each run. Its time is from ``run`` to the report, so it includes the planning;
theirs is without making and compiling the graph.
"""

import contextlib
import gc
import statistics
from collections.abc import Iterator
from time import perf_counter

from actors import Context, Event
from actors.testing import settle
from tests.bench import graphs
from tests.bench.sides import logs_to_nowhere
from tests.bench.table import Measure, Row, Size, compare, limit, micros, times
from trees import StaticPlan, Subtask, SubtaskSucceeded, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.store.retention import Durability

WAIT_S = 300.0
FLOOR, WISHED = 2.0, 4.0
FLOOR_GROWTH, WISHED_GROWTH = 2.0, 1.2
FEW = 10
"""``max_parallel`` where not all run at once."""
SMALL_RUNS = 5
"""A small plan is over so soon that one run says little."""


def independent(size: Size) -> Iterator[Row]:
    """Subtasks that wait for nothing."""
    number = size.independent
    for at_once, how in ((number, "all at once"), (FEW, f"{FEW} at a time")):
        name = f"{number:,} independent, {how}"
        with logs_to_nowhere(), ours(number, chained=False, at_once=at_once) as mine:
            theirs = graphs.langgraph(number, chained=False, at_once=at_once)
            yield _against_langgraph(name, mine, theirs, size)
            if at_once == number:
                bare = graphs.gathered(number)
                yield compare(f"{name} : asyncio.gather", mine, bare, pairs=size.pairs, show=micros)


def chained(size: Size) -> Iterator[Row]:
    """Subtasks that each wait for the one before."""
    number = size.chained
    with logs_to_nowhere(), ours(number, chained=True, at_once=FEW) as mine:
        yield _against_langgraph(f"{number:,} chained", mine, graphs.langgraph(number, chained=True), size)
        bare = graphs.one_by_one(number)
        yield compare(f"{number:,} chained : asyncio.gather", mine, bare, pairs=size.pairs, show=micros)


def dispatch(size: Size) -> Iterator[Row]:
    """Whether a subtask costs the same where a hundred times as many are ready."""
    few, many = size.ready
    with (
        logs_to_nowhere(),
        ours(few, chained=False, at_once=FEW, dumps=False) as small,  # a dump shows all there is, so it is not flat
        ours(many, chained=False, at_once=FEW, dumps=False) as big,
    ):
        pairs = [(_median(small, SMALL_RUNS), _median(big, 1)) for _ in range(size.pairs)]
    yield limit(f"dispatch, each of {few:,} ready", statistics.median(cost for cost, _ in pairs), show=micros)
    yield limit(f"dispatch, each of {many:,} ready", statistics.median(cost for _, cost in pairs), show=micros)
    growth = statistics.median(of_many / of_few for of_few, of_many in pairs)
    name = f"dispatch: growth from {few:,} to {many:,} ready"
    yield limit(name, growth, show=times, floor=FLOOR_GROWTH, wish=WISHED_GROWTH)


def _against_langgraph(name: str, mine: Measure, theirs: Measure | None, size: Size) -> Row:
    name = f"{name} : LangGraph"
    if theirs is None:
        return Row(name, micros(_median(mine, size.pairs)), "not installed")
    return compare(name, mine, theirs, pairs=size.pairs, show=micros, floor=FLOOR, wish=WISHED)


def _median(measure: Measure, number: int) -> float:
    costs = []
    for _ in range(number):
        gc.collect()
        costs.append(measure())
    return statistics.median(costs)


@contextlib.contextmanager
def ours(
    number: int,
    *,
    chained: bool,
    at_once: int,
    dumps: bool = True,
    store: str | None = None,
    durability: Durability = "process",
) -> Iterator[Measure]:
    """Seconds for one subtask of so many, from the goal to the report; with the journal in memory, or at an address."""
    heard = dumped = runs = 0

    def hear(event: Event) -> None:
        nonlocal heard
        heard += isinstance(event, SubtaskSucceeded)

    async def work(task: Subtask, _: Context) -> str:
        nonlocal dumped
        if dumps and task.id == f"n{number // 2}":
            dumped += f"run{runs}" in tree.dump()
        return "done"

    def run() -> float:
        nonlocal runs
        settle(tree, WAIT_S)  # what is still to be told of the last run is no part of this one, nor of theirs
        runs += 1
        began = perf_counter()
        report = tree.run(Task(goal="go", id=f"run{runs}"), timeout=WAIT_S)
        took = perf_counter() - began
        assert len(report.results) == number
        return took / number

    plan = [Subtask(f"n{at}", worker="w", depends_on=[f"n{at - 1}"] if chained and at else []) for at in range(number)]
    tasks = Tasks(planner=StaticPlan(plan), max_parallel=at_once, max_subtasks=number)
    worker = WorkerSpec(id="w", execute=work, pool=at_once)
    spec = SupervisorSpec(id="bench", tasks=tasks, children=[worker])
    with start(spec, store=store, durability=durability) as tree:
        tree.subscribe(hear)
        yield run
        settle(tree, WAIT_S)
        assert (heard, dumped) == (runs * number, runs * dumps)
