"""Measuring in pairs, and the rows of the table."""

import gc
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

Measure = Callable[[], float]
"""Runs something once; what it cost (less is better)."""
Show = Callable[[float], str]

WISH, OK, BELOW, UNJUDGED = "wish", "ok", "BELOW", ""


@dataclass(frozen=True)
class Size:
    """How much is run."""

    pairs: int
    """Pairs of ours and raw, for the median."""
    tells: int
    asks: int
    crashes: int
    children: int
    """For the start."""
    resident: int
    """Children whose memory is measured; a tenth as many raw actors, because each has a thread."""
    group: int
    """Children of one_for_all."""
    crowd: tuple[int, int, int]
    """Children in one tree, for the flatness of the cost and, the last, for the big tree."""
    asked: int
    """How many of the big tree are asked."""
    independent: int
    """Subtasks of one task that wait for nothing."""
    chained: int
    """Subtasks of one task that each wait for the one before."""
    ready: tuple[int, int]
    """Subtasks that are ready at once, for the flatness of the cost."""
    queued: int
    """Tasks that are queued at once."""
    echoes: int
    """Asks of a process."""
    kills: int
    brood: int
    """Workers in processes that are started at once."""
    handlings: int
    """Handlings of 5 ms in each turn; 5,000 in all."""
    reply_mb: int


FULL = Size(
    pairs=7,
    tells=200_000,
    asks=2_000,
    crashes=500,
    children=3_000,
    resident=10_000,
    group=100,
    crowd=(1_000, 10_000, 100_000),
    asked=1_000,
    independent=1_000,
    chained=200,
    ready=(100, 10_000),
    queued=10_000,
    echoes=2_000,
    kills=50,
    brood=50,
    handlings=720,
    reply_mb=50,
)
QUICK = Size(
    pairs=1,
    tells=1_000,
    asks=50,
    crashes=10,
    children=30,
    resident=200,
    group=5,
    crowd=(20, 40, 80),
    asked=10,
    independent=20,
    chained=10,
    ready=(10, 100),
    queued=50,
    echoes=10,
    kills=2,
    brood=2,
    handlings=4,
    reply_mb=2,
)


@dataclass(frozen=True)
class Row:
    """One line of the table, as text."""

    name: str
    ours: str
    raw: str = ""
    ratio: str = ""
    floor: str = ""
    wish: str = ""
    verdict: str = UNJUDGED

    def cells(self) -> tuple[str, ...]:
        return (self.name, self.ours, self.raw, self.ratio, self.floor, self.wish, self.verdict)


def compare(
    name: str,
    ours: Measure,
    raw: Measure,
    *,
    pairs: int,
    show: Show,
    floor: float | None = None,
    wish: float | None = None,
) -> Row:
    """How many times less ours costs than raw: the median over pairs that ran one after the other."""
    costs = [(_measured(ours), _measured(raw)) for _ in range(pairs)]
    ratios = sorted(theirs / own for own, theirs in costs)
    median = statistics.median(ratios)
    return Row(
        name,
        show(statistics.median(own for own, _ in costs)),
        show(statistics.median(theirs for _, theirs in costs)),
        f"{median:.1f}x ({ratios[0]:.1f}..{ratios[-1]:.1f})",
        _at_least(floor),
        _at_least(wish),
        UNJUDGED if floor is None else _verdict(floor <= median, met=wish is not None and wish <= median),
    )


def limit(
    name: str, cost: float, *, show: Show, floor: float | None = None, wish: float | None = None, raw: str = ""
) -> Row:
    """One figure that may be at most so much."""
    return Row(
        name,
        show(cost),
        raw,
        floor="" if floor is None else f"<= {show(floor)}",
        wish="" if wish is None else f"<= {show(wish)}",
        verdict=UNJUDGED if floor is None else _verdict(cost <= floor, met=wish is not None and cost <= wish),
    )


def overheads(
    name: str,
    bare: Measure,
    sides: Mapping[str, Measure],
    *,
    pairs: int,
    show: Show,
    floors: Mapping[str, float],
) -> Iterator[Row]:
    """How much more each side costs than bare: medians over rounds in which all ran, in an order that changes."""
    measures = [bare, *sides.values()]
    order, shuffled = [*range(len(measures))], random.Random(1)  # noqa: S311 - whoever runs first may have it easier
    rounds: list[list[float]] = []
    for _ in range(pairs):
        shuffled.shuffle(order)
        found = {at: _measured(measures[at]) for at in order}
        rounds.append([found[at] for at in range(len(measures))])
    for at, side in enumerate(sides, start=1):
        more = sorted(costs[at] / costs[0] - 1 for costs in rounds)
        median, most = statistics.median(more), floors.get(side)
        yield Row(
            f"{name} : {side}",
            show(statistics.median(costs[at] for costs in rounds)),
            show(statistics.median(costs[0] for costs in rounds)),
            f"{median:+.1%} ({more[0]:+.0%}..{more[-1]:+.0%})",
            "" if most is None else f"<= {most:+.0%}",
            verdict=UNJUDGED if most is None else _verdict(median <= most, met=False),
        )


def _measured(measure: Measure) -> float:
    gc.collect()
    return measure()


def _at_least(ratio: float | None) -> str:
    return "" if ratio is None else f">= {ratio:.3g}x"


def _verdict(enough: bool, *, met: bool) -> str:
    if not enough:
        return BELOW
    return WISH if met else OK


def micros(seconds: float) -> str:
    """Seconds, shown as microseconds."""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-4 else f"{seconds * 1e6:,.0f} us"


def seconds(value: float) -> str:
    """Seconds."""
    return f"{value:.2f} s"


def kibi(size_bytes: float) -> str:
    """Bytes, shown as KiB."""
    return f"{size_bytes / 1024:.2f} KiB"


def times(factor: float) -> str:
    """A plain factor."""
    return f"{factor:.1f}x"


def percent(share: float) -> str:
    """A share of something whole."""
    return f"{share:.2%}"


def count(number: float) -> str:
    """A whole number."""
    return f"{number:,.0f}"


WIDTHS = (44, 13, 13, 22, 10, 10, 5)


def lines(rows: Iterable[Row], raw: str = "raw Pykka") -> Iterator[str]:
    """The table, line by line as the rows come; ``raw`` is the name of the other side."""
    yield _line(Row("", "ours", raw, "ratio (min..max)", "floor", "wish", ""))
    yield "-" * (sum(WIDTHS) + 2 * (len(WIDTHS) - 1))
    for row in rows:
        yield _line(row)


def _line(row: Row) -> str:
    name, *others = row.cells()
    cells = [name.ljust(WIDTHS[0]), *(cell.rjust(width) for cell, width in zip(others, WIDTHS[1:], strict=True))]
    return "  ".join(cells).rstrip()
