"""Measures what each test costs, for ``tests.support.turns``: ``REGROW_TESTS=most python -m pytest --costs``.

Counted is the CPU time of the process that runs the test, of what that has started and waited for, and of what the
hatchery has forked for it. The processes of a cluster are neither: its tests count as a third of their time by the
clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from typing import Final

import pytest

from tests.support import hatchery, turns
from tests.support.lanes import CLUSTER, lane_of

CLUSTER_SHARE: Final = 1 / 3
_KEY: Final = "cpu seconds"
_BEGAN = pytest.StashKey[tuple[float, float]]()


class Costs:
    """A plugin that measures each test and, where the run ends, writes what the costly ones need."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin to count."""
        item.stash[_BEGAN] = _now()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Have the last report of a test tell what it has needed."""
        report = yield
        if call.when == "teardown":
            cpu, clock = (now - began for now, began in zip(_now(), item.stash[_BEGAN], strict=True))
            spent = max(cpu, clock * CLUSTER_SHARE) if lane_of(item) == CLUSTER else cpu
            report.user_properties.append((_KEY, spent))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what was told."""
        for key, spent in report.user_properties:
            if key == _KEY:
                assert isinstance(spent, float)
                self._spent[report.nodeid] = spent

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file, unless the run was ended early. It is called in the process of the run only."""
        if self._spent.keys() >= {item.nodeid for item in session.items}:
            turns.write(self._spent, turns.FILE)


def _now() -> tuple[float, float]:
    times = os.times()
    return sum(times[:4]) + hatchery.spent_s(), time.monotonic()
