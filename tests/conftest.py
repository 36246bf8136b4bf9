"""What holds for every test: nothing is left behind, and what was logged is shown with a test that fails."""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
from collections.abc import Iterator

import pytest
from loguru import logger

from actors.tasks.orchestration.orchestrator import Orchestrator
from actors.testing import no_stray_actors
from tests.support.clusters import cluster, pytest_runtest_teardown
from tests.support.costs import Costs
from tests.support.databases import postgres, postgres_url, sqlite_url, store_url
from tests.support.lanes import (
    COSTS,
    pytest_addoption,
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_report_collectionfinish,
    pytest_runtest_protocol,
    pytest_runtestloop,
    pytest_sessionfinish,
    pytest_sessionstart,
    pytest_terminal_summary,
)
from tests.support.patience import OWN_WAITS, be_patient
from tests.support.patience_of_trees import OF_TREES
from tests.support.quiet_log import quiet_log
from tests.support.waiting import stranded

__all__ = [
    "cluster",
    "no_stray_actors",
    "postgres",
    "postgres_url",
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_report_collectionfinish",
    "pytest_runtest_protocol",
    "pytest_runtest_teardown",
    "pytest_runtestloop",
    "pytest_sessionfinish",
    "pytest_sessionstart",
    "pytest_terminal_summary",
    "quiet_log",
    "sqlite_url",
    "store_url",
]


@pytest.fixture(autouse=True)
def _nothing_is_left(no_stray_actors: None) -> None:
    """Every test is checked for stray trees, actors and threads."""


@pytest.fixture(autouse=True)
def _somebody_acts_on_all_that_is_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After every message of every orchestrator it is looked whether it has left something behind."""
    found: list[str] = []
    monkeypatch.setattr(Orchestrator, "watch", lambda self: found.extend(stranded(self)))
    yield
    assert found == []


@pytest.fixture(autouse=True)
def _the_log_is_on() -> None:
    """An example or a program that a test runs in this process may have switched it off, as its user would."""
    logger.enable("actors")


def pytest_configure(config: pytest.Config) -> None:
    """Log to whatever is stderr at that moment, so that pytest shows a test's own lines; stacks on a hard crash.

    Wait longer than the library does by itself. And hear Ctrl-C: a shell starts a job in its background deaf to it, and
    every program that a test starts would inherit that.
    """
    config.stash[OWN_WAITS] = be_patient(OF_TREES)
    if getattr(config.option, COSTS):
        config.pluginmanager.register(Costs())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not faulthandler.is_enabled():
        faulthandler.enable()
    logger.remove()
    logger.add(_write, level="DEBUG", format="{level: <8} {message}", diagnose=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is marked ``own_thread`` in a thread of its own.

    A tracer that raises inside an ``except`` block leaves that exception behind as one being handled (CPython 3.11).
    It would be the context of every exception that a later test of the same thread sees.
    """
    if pyfuncitem.get_closest_marker("own_thread") is None:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    raised: list[BaseException] = []

    def call() -> None:
        try:
            pyfuncitem.obj(**arguments)
        except BaseException as error:  # noqa: BLE001 - raised below
            raised.append(error)

    thread = threading.Thread(target=call, name="a test")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return True


def _write(line: str) -> None:
    sys.stderr.write(line)
