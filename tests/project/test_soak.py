"""A short soak; ``python -m tests.faults.soak --seconds 60`` is the long one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from loguru import logger

from tests.faults.soak import Soak


@pytest.fixture
def silence() -> Iterator[None]:
    logger.disable("actors")
    yield
    logger.enable("actors")


@pytest.mark.stress
@pytest.mark.usefixtures("silence")
def test_the_books_balance_after_two_seconds_in_which_everything_breaks() -> None:
    soak = Soak(seed=secrets.randbelow(10**6), seconds=2.0)

    problems = soak.run()

    assert problems == [], str(soak)
    assert soak.books.begun, "nothing was handled: the soak shows nothing"
    assert {"crashed", "killed", "normal", "shutdown"} <= set(soak.ends)
