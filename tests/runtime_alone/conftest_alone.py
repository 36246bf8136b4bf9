"""What holds for every test in the copy: nothing is left behind, and there are no tasks."""

from __future__ import annotations

import importlib.util
import signal

import pytest

from actors.testing import no_stray_actors
from tests.support.patience import be_patient
from tests.support.quiet_log import quiet_log

__all__ = ["no_stray_actors", "quiet_log"]


@pytest.fixture(autouse=True)
def _nothing_is_left(no_stray_actors: None) -> None:
    """Every test is checked for stray trees, actors and threads."""


def pytest_configure() -> None:
    """Be sure that this is the copy; wait as long as the other tests do, and hear Ctrl-C, as they do."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    be_patient()
    assert importlib.util.find_spec("actors.tasks") is None
