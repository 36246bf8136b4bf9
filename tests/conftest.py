"""What holds for every test: nothing is left behind, and what was logged is shown with a test that fails."""

from __future__ import annotations

import faulthandler
import importlib
import inspect
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from loguru import logger

from actors import Ref, Reply
from actors.runtime.system import System
from actors.testing import Hang, ScriptedExecutable, leaving_nothing_behind, no_stray_actors, settle
from tests.support.clusters import cluster
from tests.support.databases import postgres, postgres_url, sqlite_url, store_url

__all__ = ["cluster", "no_stray_actors", "postgres", "postgres_url", "sqlite_url", "store_url"]

PATIENT_S = 60.0
"""What is not told how long to wait waits so long: several processes of tests share a core."""
WAITS: dict[Callable[..., Any], str] = {
    Ref.ask: "timeout",
    Ref.ask_async: "timeout",
    settle: "timeout_s",
    Hang.wait_until_entered: "timeout_s",
    ScriptedExecutable.wait_for_calls: "timeout_s",
    leaving_nothing_behind.__wrapped__: "patience_s",  # type: ignore[attr-defined]
}
OF_THE_LIBRARY = {
    "actors.supervision.child_control.GRACE_S": 5.0,
    "actors.supervision.hung_children.GRACE_S": 5.0,
    "actors.runtime.system.CLOSE_S": 5.0,
    "actors.dispatch.host.forked_handle.CODE_S": 20.0,
    "actors.dispatch.host.ray_handle.CALLS_S": 20.0,
    "trees.host.console.PATIENCE_S": PATIENT_S,
    "trees.host.tree_health.WITHIN_S": 20.0,
    "trees.ha.leader.FIRST_ANSWER_S": PATIENT_S,
}
"""How long the library waits for something that is alive and may get no time of the processor."""


def pytest_configure() -> None:
    """Set what holds for a whole run: one core for each process of xdist, more patience, and a log that pytest shows.

    Threads of Python that wake each other on two cores cost twice as much as on one. And Ctrl-C is heard: a shell
    starts a job in its background deaf to it, and every program that a test starts would inherit that.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not faulthandler.is_enabled():
        faulthandler.enable()
    logger.remove()
    logger.add(_write, level="DEBUG", format="{level: <8} {message}", diagnose=False)
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")
    for function, parameter in WAITS.items():
        _set_default(function, parameter)
    for name, seconds in OF_THE_LIBRARY.items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(module), constant, seconds)


def _write(line: str) -> None:
    sys.stderr.write(line)  # what pytest has put there by now


def _set_default(function: Any, parameter: str) -> None:
    if parameter in (function.__kwdefaults__ or ()):
        function.__kwdefaults__[parameter] = PATIENT_S
        return
    given = [each for each in inspect.signature(function).parameters.values() if each.default is not each.empty]
    in_order = [each for each in given if each.kind is not each.KEYWORD_ONLY]
    function.__defaults__ = tuple(PATIENT_S if each.name == parameter else each.default for each in in_order)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two processes for each core, since most tests wait; a run of named files or tests stays in this process."""
    named = any(not Path(path).is_dir() for path in config.option.file_or_dir)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 0 if named else 2 * cores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one process run all tests that share what takes long to start: a cluster of Ray, the browser."""
    for item in items:
        for shared in {"cluster", "browser"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(shared))


@pytest.fixture(autouse=True)
def _nothing_is_left(no_stray_actors: None) -> None:
    """Every test is checked for stray trees, actors and threads."""


def _asleep(system: System) -> set[str]:
    """Paths of workers that are idle though a message waits for them, and that nobody has woken."""
    boxes = [child.mailbox for child in list(system.children.values())]
    return {box.path for box in boxes if box.queue and box.idle is not None and box.roused != box.runs}


@pytest.fixture(autouse=True)
def _nobody_sleeps_while_a_message_waits() -> Iterator[None]:
    """Each tree is looked at when it is told to stop: a lost wake-up shows as a message that nobody takes."""
    slept: set[str] = set()
    stop = System.stop

    def looks(system: System) -> Reply:
        if asleep := _asleep(system):
            time.sleep(0.1)  # who has put a message may be just about to wake its worker
            slept.update(asleep & _asleep(system))
        return stop(system)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(System, "stop", looks)
        yield
    assert not slept, f"messages wait, and nobody was woken: {slept}"


@pytest.fixture(autouse=True)
def _the_log_is_on() -> None:
    """An example or a program that a test runs in this process may have switched it off, as its user would."""
    logger.enable("actors")


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """Switch the log of the library off, for tests that crash things by the thousand."""
    logger.disable("actors")
    yield
    logger.enable("actors")
