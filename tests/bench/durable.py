"""What it costs to lose nothing: subtasks that are recorded in a database, against DBOS on the same one.

Ours runs with everything on, as in ``tests.bench.tasks``. A subtask of ours is recorded three times (queued, started,
succeeded), each before what follows from it; a step of theirs once, when it is done. The price is against the same run
with the journal in memory.
"""

import contextlib
import statistics
from collections.abc import Iterator
from time import perf_counter

from actors import Context
from tests.bench.sides import logs_to_nowhere
from tests.bench.steps import dbos
from tests.bench.table import Measure, Row, Size, compare, limit, micros
from tests.bench.tasks import FEW, ours
from tests.faults.fresh import databases
from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start

FLOORS = {"sqlite": (13.0, 7.0), "postgres": (6.0, 5.0)}
"""Of each database: of what is independent, and of a chain."""
SHAPES = ((False, "independent, 10 at a time"), (True, "chained"))
LINKS = 3
FLOOR_BURST_S = 1e-3
"""Of one task of so many links, submitted with thousands of others."""
WAIT_S = 300.0
FLOOR_STEPS = 3.0
"""Of steps, against those of DBOS."""
FLOOR_SUBTASK = 1 / 1.3
"""Of a step, against a subtask of a chain."""
FLOOR_STEP_S = 15e-6
"""Of a step in memory."""


def sqlite(size: Size) -> Iterator[Row]:
    """On a file."""
    yield from _against_dbos("sqlite", size)


def postgres(size: Size) -> Iterator[Row]:
    """On a server of its own on this machine."""
    yield from _against_dbos("postgres", size)


def price(size: Size) -> Iterator[Row]:
    """The same work with the journal in memory and in each database: how many times as much it costs."""
    for chained, shape in SHAPES:
        number = size.chained if chained else size.independent
        for kind, durability in (("sqlite", "process"), ("sqlite", "power"), ("postgres", "process")):
            name = f"{number:,} {shape}: {kind}, {durability}"
            with (
                logs_to_nowhere(),
                databases(kind) as fresh,
                ours(number, chained=chained, at_once=FEW, store=fresh(), durability=durability) as written,
                ours(number, chained=chained, at_once=FEW) as remembered,
            ):
                row = compare(name, remembered, written, pairs=size.pairs, show=micros)
            yield row


def burst(size: Size) -> Iterator[Row]:
    """Thousands of small tasks that are all submitted before anybody looks, on a file: what one of them costs."""
    number = 2 * size.queued
    plan = [Subtask(f"{n}", worker="w", depends_on=[f"{n - 1}"] if n else []) for n in range(LINKS)]
    tree = SupervisorSpec(
        id="bench",
        tasks=Tasks(planner=StaticPlan(plan), max_parallel=FEW),
        children=[WorkerSpec(id="w", execute=_work, pool=FEW)],
    )
    with logs_to_nowhere(), databases("sqlite") as fresh, start(tree, store=fresh()) as running:
        running.run("go", WAIT_S)
        began = perf_counter()
        handles = [running.submit("go") for _ in range(number)]
        done = sum(len(handle.result(WAIT_S).results) for handle in handles)
        cost = (perf_counter() - began) / number
    assert done == number * LINKS
    yield limit(f"sqlite: {number:,} tasks of {LINKS} links, each", cost, show=micros, floor=FLOOR_BURST_S)


async def _work(*_: object) -> int:
    return 1


def steps(size: Size) -> Iterator[Row]:
    """Steps of one attempt, one after the other: against theirs, against subtasks of our own, and in memory."""
    number = size.chained
    for kind in ("sqlite", "postgres"):
        name = f"{kind}: {number:,} steps of an attempt : DBOS"
        with logs_to_nowhere(), databases(kind) as fresh, _stepped(number, fresh()) as mine, dbos(fresh()) as theirs:
            if theirs is None:
                yield Row(name, micros(mine()), "not installed")
            else:
                yield compare(name, mine, theirs(number, 1), pairs=size.pairs, show=micros, floor=FLOOR_STEPS)
    with (
        logs_to_nowhere(),
        databases("sqlite") as fresh,
        _stepped(number, fresh()) as mine,
        ours(number, chained=True, at_once=FEW, store=fresh()) as subtasks,
    ):
        name = f"sqlite: {number:,} steps of an attempt : chained subtasks"
        yield compare(name, mine, subtasks, pairs=size.pairs, show=micros, floor=FLOOR_SUBTASK)
    with logs_to_nowhere(), _stepped(number, None) as mine:
        cost = statistics.median(mine() for _ in range(size.pairs))
    yield limit(f"in memory: {number:,} steps of an attempt, each", cost, show=micros, floor=FLOOR_STEP_S)


@contextlib.contextmanager
def _stepped(number: int, store: str | None) -> Iterator[Measure]:
    """One attempt after the other, of so many steps; what a step of one costs."""
    costs: list[float] = []

    async def work(_: object, context: Context) -> int:
        began = perf_counter()
        done = [await context.step("step", _step, at) for at in range(number)]
        costs.append((perf_counter() - began) / number)
        return len(done)

    tree = SupervisorSpec(
        id="bench",
        tasks=Tasks(planner=StaticPlan([Subtask("x", worker="w")])),
        children=[WorkerSpec(id="w", execute=work)],
    )
    with start(tree, store=store) as running:

        def measure() -> float:
            assert running.run("go", WAIT_S).results == {"x": number}
            return costs[-1]

        yield measure


async def _step(at: int) -> str:
    return f"done {at}"


def _against_dbos(kind: str, size: Size) -> Iterator[Row]:
    for chained, shape in SHAPES:
        number = size.chained if chained else size.independent
        name = f"{kind}: {number:,} {shape} : DBOS"
        with (
            logs_to_nowhere(),
            databases(kind) as fresh,
            ours(number, chained=chained, at_once=FEW, store=fresh()) as mine,
            dbos(fresh()) as theirs,
        ):
            if theirs is None:
                yield Row(name, micros(mine()), "not installed")
                continue
            measure = theirs(number, 1) if chained else _cheaper(theirs(number, 1), theirs(number, FEW))
            yield compare(name, mine, measure, pairs=size.pairs, show=micros, floor=FLOORS[kind][chained])


def _cheaper(one: Measure, other: Measure) -> Measure:
    """Whichever way suits them better: with SQLite, workflows that run at once stand in each other's way."""
    one(), other()  # the first time costs more
    return one if one() <= other() else other
