"""A fixture for tests that crash things by the thousand: the library writes no log lines meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from loguru import logger


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """Switch the log of the library off, and on again."""
    logger.disable("actors")
    yield
    logger.enable("actors")
