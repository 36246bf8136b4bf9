"""What a piece of code costs, as a figure that does not depend on what else the machine has to do."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def work_s(act: Callable[[], object], times: int = 3) -> float:
    """The seconds that the calling thread works for it, the least of several times; waiting is not counted."""
    took = []
    for _ in range(times):
        gc.collect()
        began = time.thread_time()
        act()
        took.append(time.thread_time() - began)
    return min(took)
