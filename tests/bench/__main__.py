"""`python -m tests.bench SUITE [--quick] [--only NAME]`: the table of a suite; 1 where a floor was not reached."""

import argparse
import sys
from collections.abc import Callable, Iterator

from tests.bench import (
    agents,
    barest,
    crowd,
    durable,
    isolation,
    lives,
    memory,
    messages,
    observing,
    opening,
    page_sizes,
    queued,
    tasks,
)
from tests.bench.table import BELOW, FULL, QUICK, Row, Size, lines

SUITES: dict[str, dict[str, Callable[[Size], Iterator[Row]]]] = {
    "core": {
        "tell": messages.tell,
        "ask": messages.ask,
        "ask_async": messages.ask_async,
        "between": messages.between,
        "barest": barest.barest,
        "start": lives.starting,
        "memory": memory.memory,
        "crash": lives.crash,
        "one_for_all": lives.group,
        "crowd": crowd.crowd,
    },
    "tasks": {
        "independent": tasks.independent,
        "chained": tasks.chained,
        "dispatch": tasks.dispatch,
        "queued": queued.queued,
        "attempt": agents.attempt,
    },
    "durable": {
        "sqlite": durable.sqlite,
        "postgres": durable.postgres,
        "price": durable.price,
        "burst": durable.burst,
        "steps": durable.steps,
        "opening": opening.opening,
    },
    "isolation": {
        "ask_process": isolation.ask,
        "large": isolation.large,
        "kill": isolation.kill,
        "start_processes": isolation.starting,
        "work": isolation.work,
    },
    "observe": {
        "flat_out": observing.flat_out,
        "paced": observing.paced_events,
        "sizes": page_sizes.sizes,
    },
}
OTHERS = {"core": "raw Pykka", "tasks": "theirs", "durable": "theirs", "isolation": "theirs", "observe": "unobserved"}
"""The other side of each suite, as its column is called."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Ours against others, in one run.")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--quick", action="store_true", help="only show that everything runs; the figures say nothing")
    parser.add_argument("--only", metavar="NAME", choices=sorted(set().union(*SUITES.values())), help="one benchmark")
    chosen = parser.parse_args()
    if chosen.only is not None and chosen.only not in SUITES[chosen.suite]:
        parser.error(f"{chosen.only!r} is not in {chosen.suite}, which has {', '.join(SUITES[chosen.suite])}")
    size = QUICK if chosen.quick else FULL
    below = False
    for line in lines(_rows(chosen.suite, chosen.only, size), OTHERS[chosen.suite]):
        print(line, flush=True)
        below = below or line.endswith(BELOW)
    other = OTHERS[chosen.suite]
    how = "how much more ours costs" if chosen.suite == "observe" else "how many times less ours costs"
    print(f"\nMedians of {size.pairs} pairs, ours and {other} in turn. ratio: {how}.")
    if chosen.suite == "core" and chosen.only in {None, "ask", "ask_async", "between", "barest", "start"}:
        print("", *barest.notes(), sep="\n")
    return int(below and not chosen.quick)


def _rows(suite: str, only: str | None, size: Size) -> Iterator[Row]:
    for name, bench in SUITES[suite].items():
        if only in {None, name}:
            yield from bench(size)


if __name__ == "__main__":
    sys.exit(main())
