"""A short soak; ``python -m tests.faults.soak --seconds 60`` is the long one."""

from __future__ import annotations

import secrets

import pytest

from tests.faults.soak import Soak


@pytest.mark.usefixtures("quiet_log")
def test_the_books_balance_after_two_seconds_in_which_everything_breaks() -> None:
    soak = Soak(seed=secrets.randbelow(10**6), seconds=2.0)

    problems = soak.run()

    assert problems == [], str(soak)
    assert soak.books.begun, "nothing was handled: the soak shows nothing"
    assert {"crashed", "killed", "normal", "shutdown"} <= set(soak.ends)
