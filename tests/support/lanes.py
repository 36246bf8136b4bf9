"""Decides which tests run side by side, and looks for what they leave behind when all are done.

A run of whole folders has three processes of pytest-xdist for each core (up to ``MOST``): more than half of the time of
a test is a wait, for a thread, a lease or another process. Two lanes go to one process each, one test after another,
and first: tests that use the server of PostgreSQL (one server is enough), and all others that are marked ``serial``
(real leases, measures of time or memory). Tests marked ``slow`` begin before all others, so that none of them is the
last one. All other tests are handed out one by one, so no core is idle while there is work. A run of named files or
tests, or on one core, stays in one process. ``-n`` and ``--dist`` of the caller win.

A test is run by its place in the collection, so every process must collect the same names; pytest-xdist shows where
they differ. A name that holds an address in memory is refused also where there is one process.

Processes that the tests started carry ``MARK`` in their environment, however many generations lie between. After the
last test none may be left; those that are left are ended, and the run fails.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.dispatch.host.fork_server import SERVERS
from tests.support.first_imports import import_share, share_of
from tests.support.ids import unstable

try:
    import resource
except ImportError:  # it is of POSIX
    resource = None  # type: ignore[assignment]

MARK = "REGROW_TEST_RUN"
SERIAL = "serial"
SLOW = "slow"
POSTGRES = "postgres"
CLUSTER = "cluster"
LANES = "regrow_lanes"
PER_CORE = 3
MOST = 8
"""More processes than that are not used: each one imports and collects everything."""
PATIENCE_S = 10.0
PROCESSES = Path("/proc")


def workers(paths: Iterable[str], cores_: int) -> int:
    """Return how many processes a run of these paths gets; 0 is the caller's own one."""
    named = [path for path in paths if not Path(path).is_dir()]
    return 0 if named or cores_ < 2 else min(PER_CORE * cores_, MOST)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_worker() -> bool:
    """Say whether this process is one of several, and not the one that hands out the tests."""
    return "PYTEST_XDIST_WORKER" in os.environ


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Choose the number of processes, before pytest-xdist reads it."""
    option = config.option
    if is_worker() or getattr(option, "numprocesses", 0) is not None or option.collectonly or option.usepdb:
        return
    option.numprocesses = workers(option.file_or_dir, cores())


def pytest_sessionstart() -> None:
    """Mark everything that is started from here on; what dies of a signal on purpose leaves no core in this folder."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if not is_worker():
        os.environ[MARK] = str(os.getpid())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker where to note which test is of which lane: the process that hands them out collects none."""
    node.workerinput[LANES] = str(_noted(node.config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out each lane as one unit of work, and every other test by itself.

    pytest-xdist has groups as well; up to its version 3.8 they have no effect with pytest 9.
    """
    if config.option.dist != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - without pytest-xdist nobody calls this

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return self.lanes.get(nodeid, nodeid)

        def remove_node(self, node: Any) -> str | None:
            """Give the others what a process that died has not done: units without a test left would leave them idle.

            A process gets its next unit when it reports a test; one of which all tests are done reports none.
            """
            units = self.assigned_work[node]
            self.assigned_work[node] = {scope: unit for scope, unit in units.items() if not all(unit.values())}
            died_in: str | None = super().remove_node(node)
            return died_in

        @functools.cached_property
        def lanes(self) -> dict[str, str]:
            found: dict[str, str] = json.loads(_noted(config).read_text(encoding="utf-8"))
            return found

    return Lanes(config, log)


def _noted(config: pytest.Config) -> Path:
    """Return the file in which the workers note the lanes of the tests that are of one."""
    stash = config.stash
    if _LANE not in stash:
        folder = tempfile.TemporaryDirectory(prefix="regrow-lanes-")
        config.add_cleanup(folder.cleanup)
        stash[_LANE] = Path(folder.name) / "lanes.json"
    return stash[_LANE]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse names that differ between processes; put the lanes first and then the slow tests; note the lanes."""
    wrong = unstable(item.nodeid for item in items)
    if wrong and not is_worker():
        raise pytest.UsageError(
            f"names of tests hold an address, so they differ in every process: {', '.join(wrong)}. "
            "Give the rows names: ids=tests.support.ids.stable"
        )
    lanes = {item: lane for item in items if (lane := lane_of(item))}
    items.sort(key=lambda item: (item not in lanes, item.get_closest_marker(SLOW) is None))
    if LANES in getattr(config, "workerinput", {}):
        noted = Path(config.workerinput[LANES])  # type: ignore[attr-defined]
        own = noted.with_suffix(f".{os.getpid()}")
        own.write_text(json.dumps({item.nodeid: lane for item, lane in lanes.items()}), encoding="utf-8")
        own.replace(noted)  # every worker notes the same


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import a share of the files first, where several processes collect them."""
    config = session.config
    share = share_of(config)
    if share is not None and LANES in config.workerinput:  # type: ignore[attr-defined]
        folders = [path for path in (config.invocation_params.dir / each for each in config.args) if path.is_dir()]
        import_share(config.rootpath, folders, Path(config.workerinput[LANES]).parent, *share)  # type: ignore[attr-defined]


def pytest_collection_finish() -> None:
    """Set what is there by now apart: no collection of garbage looks at the tests themselves again."""
    gc.collect()
    gc.freeze()


def lane_of(item: pytest.Item) -> str:
    """Return the lane of a test, or nothing: that of PostgreSQL, that of Ray, or that of what is marked."""
    row = item.callspec.params.values() if hasattr(item, "callspec") else ()
    uses = {*getattr(item, "fixturenames", ()), *(each for each in row if isinstance(each, str))}
    if uses & {POSTGRES, f"{POSTGRES}_url"}:
        return POSTGRES
    if CLUSTER in uses:
        return CLUSTER
    return SERIAL if item.get_closest_marker(SERIAL) is not None else ""


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if a process is left, and end it."""
    if is_worker():
        return
    SERVERS.dismiss()  # without workers of pytest's this is their host, and goes on
    left = _outliving(os.environ[MARK], PATIENCE_S)
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        session.config.stash[_LEFT] = left
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the processes that were left."""
    for pid, command in terminalreporter.config.stash.get(_LEFT, {}).items():
        terminalreporter.write_line(f"LEFT BEHIND: process {pid}, ended now: {command}", red=True)


_LANE = pytest.StashKey[Path]()
_LEFT = pytest.StashKey[dict[int, str]]()


def _outliving(mark: str, patience_s: float) -> dict[int, str]:
    """Return the processes of a run that are still there after a moment's patience, with their commands."""
    end = time.monotonic() + patience_s
    while (found := dict(_started_by(mark))) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _started_by(mark: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the command of every process of the run, but this one.

    A child that was forked shows the environment that its parent began with, so the children of this process, which
    began without the mark, are found by their parent.
    """
    wanted, own = f"{MARK}={mark}".encode(), os.getpid()
    for place in PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            state, parent = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            marked = wanted in (place / "environ").read_bytes().split(b"\0")
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            helps = "multiprocessing.resource_tracker" in command  # ends with the process that it serves
            if (marked or int(parent) == own) and int(place.name) != own and state != "Z" and not helps:
                yield int(place.name), command
