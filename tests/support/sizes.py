"""How much the tests try: a sample by default, most with ``REGROW_TESTS=most`` (``.ci/run``), all with ``=all``.

A sample tries each kind of case. What is sampled: crowds of many thousands, every record at which something may end,
random walks and plans, orders of threads. ``most`` takes no bench that takes long, and of what is tried record by
record as few as the sample.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

import pytest

Row = TypeVar("Row")
LEVEL: Final = os.environ.get("REGROW_TESTS", "sample")
if LEVEL not in {"sample", "most", "all"}:
    raise pytest.UsageError(f"REGROW_TESTS={LEVEL}: expected sample, most or all")
ALL: Final = LEVEL == "all"
MOST: Final = LEVEL != "sample"
"""True for ``all``, too."""

only_in_most = pytest.mark.skipif(not MOST, reason="takes long: runs with REGROW_TESTS=most, as in .ci/run")
"""Marks a test or a row that is no part of the sample."""
only_in_all = pytest.mark.skipif(not ALL, reason="takes long: runs with REGROW_TESTS=all")
"""Marks one that ``.ci/run`` leaves out, too."""


def size(all_: int, most: int, sample: int) -> int:
    """Return how many of a thing there are."""
    return all_ if ALL else most if MOST else sample


def sampled(rows: Sequence[Row], one_in: int, first: int = 0) -> list[Row]:
    """Return all rows, or one in some of them, spread evenly, and always the last."""
    if ALL or not rows:
        return list(rows)
    return [*rows[first:-1:one_in], rows[-1]]
