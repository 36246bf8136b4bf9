"""The other side of the durable bench: DBOS, the workflow engine that records each step in the same kind of database.

It is optional (``pip install '.[bench]'``): imported only here, and only when it is measured. Its workflows and
steps are plain functions: measured first, they cost it half of what coroutines do. Work that waits for nothing is
spread over as many workflows as may run at once, because it records the steps of one workflow one by one.
"""

import contextlib
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from tests.bench.table import Measure

Measures = Callable[[int, int], Measure]
"""(steps, at once) -> seconds for one step."""


@contextlib.contextmanager
def dbos(url: str) -> Iterator[Measures | None]:
    """DBOS on a database; None where it is not installed."""
    try:
        from dbos import DBOS  # noqa: PLC0415 - see above
    except ImportError:
        yield None
        return
    config: Any = {
        "name": "bench",
        "system_database_url": url,
        "run_admin_server": False,
        "log_level": "ERROR",
    }
    DBOS(config=config)

    @DBOS.step()
    def step(at: int) -> str:
        return f"done {at}"

    @DBOS.workflow()
    def chain(steps: int) -> int:
        return sum(step(at) == f"done {at}" for at in range(steps))

    def measures(steps: int, at_once: int) -> Measure:
        def run() -> float:
            began = perf_counter()
            if at_once == 1:
                done = chain(steps)
            else:
                handles = [DBOS.start_workflow(chain, steps // at_once) for _ in range(at_once)]
                done = sum(handle.get_result() for handle in handles)
            took = perf_counter() - began
            assert done == steps
            return took / steps

        return run

    DBOS.launch()
    try:
        yield measures
    finally:
        DBOS.destroy(destroy_registry=True)
