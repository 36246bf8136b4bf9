"""What it costs to lose nothing: subtasks that are recorded in a database, against DBOS on the same one.

Ours runs with everything on, as in ``tests.bench.tasks``. A subtask of ours is recorded three times (queued, started,
succeeded), each before what follows from it; a step of theirs once, when it is done. The price is against the same run
with the journal in memory.
"""

from collections.abc import Iterator

from tests.bench.sides import logs_to_nowhere
from tests.bench.steps import dbos
from tests.bench.table import Measure, Row, Size, compare, micros
from tests.bench.tasks import FEW, ours
from tests.faults.fresh import databases

FLOOR = 5.0
SHAPES = ((False, "independent, 10 at a time"), (True, "chained"))


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
            yield compare(name, mine, measure, pairs=size.pairs, show=micros, floor=FLOOR)


def _cheaper(one: Measure, other: Measure) -> Measure:
    """Whichever way suits them better: with SQLite, workflows that run at once stand in each other's way."""
    one(), other()  # the first time costs more
    return one if one() <= other() else other
