"""How much the tests try: a sample by default, and all of it with ``REGROW_TESTS=all``, which ``.ci/run`` sets.

A sample tries each kind of case. What is sampled: crowds of many thousands, every record at which something may end,
random walks and plans, orders of threads. Benches and rounds of killed processes are in the whole alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

Row = TypeVar("Row")
WHOLE = os.environ.get("REGROW_TESTS") == "all"

only_in_the_whole = pytest.mark.skipif(not WHOLE, reason="takes long: runs with REGROW_TESTS=all, as in .ci/run")
"""Marks a test or a row that is no part of the sample."""


def size(whole: int, sample: int) -> int:
    """Return how many of a thing there are."""
    return whole if WHOLE else sample


def sampled(rows: Sequence[Row], one_in: int, first: int = 0) -> list[Row]:
    """Return all rows, or one in some of them, spread evenly, and always the last."""
    if WHOLE or not rows:
        return list(rows)
    return [*rows[first:-1:one_in], rows[-1]]
