"""What an idle child takes that has handled a message: the growth of a fresh process, by the operating system's count.

`python -m tests.bench.memory KIND NUMBER` prints the bytes of one child.
"""

import gc
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.sides import Raw, Started, echo, tree_of
from tests.bench.table import BELOW, OK, UNJUDGED, WISH, Row, Size, kibi
from trees import WorkerSpec

FLOOR, WISHED = 2048, 1024
RUNS = 3


def memory(size: Size) -> Iterator[Row]:
    """A fresh process for each figure, ours and raw in turn."""
    kinds = {
        "pool": "a member of a pool",
        "class": "an object of its own",
        "specs": "declared by a spec of its own",
    }
    for kind, what in kinds.items():
        figures = [
            (_fresh(kind, size.resident), _fresh("raw", size.resident // 10)) for _ in range(min(RUNS, size.pairs))
        ]
        ratios = sorted(raw / max(own, 1.0) for own, raw in figures)
        cost = statistics.median(own for own, _ in figures)
        judged = (WISH if cost <= WISHED else OK if cost <= FLOOR else BELOW) if size.resident > 1000 else UNJUDGED
        yield Row(
            f"idle child, {what}",
            kibi(cost),
            kibi(statistics.median(raw for _, raw in figures)),
            f"{statistics.median(ratios):.1f}x ({ratios[0]:.1f}..{ratios[-1]:.1f})",
            f"<= {FLOOR // 1024} KiB",
            f"<= {WISHED // 1024} KiB",
            judged,
        )


def _fresh(kind: str, number: int) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.memory", kind, str(number)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return float(done.stdout)


def _resident_bytes() -> int:
    gc.collect()
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


def _ours(children: list[WorkerSpec], ids: list[str]) -> float:
    with tree_of(WorkerSpec(id="warm", handle=echo)) as warm:
        warm.ref("bench/warm").ask("up")
    before = _resident_bytes()
    with tree_of(*children) as tree:
        for id_ in ids:
            tree.ref(f"bench/{id_}").ask("message")
        return (_resident_bytes() - before) / len(ids)


def _raw(number: int) -> float:
    Raw.start().stop()
    before = _resident_bytes()
    refs = [Raw.start() for _ in range(number)]
    for ref in refs:
        ref.ask("message")
    took = _resident_bytes() - before
    for ref in refs:
        ref.stop()
    return took / number


def main(kind: str, number: int) -> None:
    """Print the bytes of one child."""
    members, single = [f"w#{n}" for n in range(number)], [f"w{n}" for n in range(number)]
    kinds: dict[str, Callable[[], float]] = {
        "raw": lambda: _raw(number),
        "pool": lambda: _ours([WorkerSpec(id="w", handle=echo, pool=number)], members),
        "class": lambda: _ours([WorkerSpec(id="w", actor=Started, pool=number)], members),
        "specs": lambda: _ours([WorkerSpec(id=id_, handle=echo) for id_ in single], single),
    }
    print(kinds[kind]())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
