"""Decides which tests run side by side, and looks for what they leave behind when all are done.

A run of whole folders has ``PER_CORE`` processes for each core (up to ``MOST``): half of the time of a test is a wait,
for a thread, a lease or another process. They are forks of the one that collects (``tests.support.forked_run``). Three
lanes go to one process each, one test after another, and first: tests that use the server of PostgreSQL (one server is
enough), those that use a cluster of Ray, and all others that are marked ``serial`` (real leases, measures of time or
memory). So do the tests of each file that is marked ``together``, or of all that are marked with one name, which share
what is costly to make. All other tests are handed out one by one. Half of the processes begin at one end with the
lanes, and half at the other with the tests that are marked ``slow``, so that none of these is the last one. Between
them the files stand in an order that means nothing: the tests of a folder work alike, and where all of them wait, cores
would be idle. A run of named files or tests, or on one core, stays in one process. ``-n`` of the caller wins.

Each process keeps to one core, and so does what it starts. Only one thread of Python runs at a time, and to wake one
on another core that is idle costs an interrupt there: where that is a virtual core, most of the time of tests with many
threads went into it (38 s of CPU for 388 tests of recovery in one process, of which 23 s in the kernel; 16 s and 2 s on
one core). Where all cores are busy anyhow it changes little. Only the lane of Ray has all of them, for the many
processes of a cluster. A lane is what a run waits for in the end, so tests of none give way to it.

The name of a test must be the same in every run: one that holds an address in memory is refused.

Processes that the tests started carry ``MARK`` in their environment, or hold the pipe of the run if they were forked,
however many generations lie between. After the last test none may be left; those that are left are ended, and the run
fails.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from actors.dispatch.host.fork_server import SERVERS
from tests.support import hatchery, turns
from tests.support.forked_run import NUMBER, Run
from tests.support.ids import unstable

try:
    import resource
except ImportError:  # it is of POSIX
    resource = None  # type: ignore[assignment]

MARK = "REGROW_TEST_RUN"
PROCESSES = "regrow_processes"
COSTS = "regrow_costs"
SERIAL = "serial"
TOGETHER = "together"
SLOW = "slow"
POSTGRES = "postgres"
CLUSTER = "cluster"
PER_CORE = 4
LATE = {
    "langchain_core": ("langchain_core.tracers.run_collector", "trees.agents.langchain_events"),
    "langgraph": ("trees.agents.langgraph_run", "trees.agents.langgraph_state"),
    "openai": ("openai.lib.streaming.responses", "openai.types.responses"),
}
"""Modules that frameworks, or what wraps them, import when they are first used. They take a second in all."""
GIVES_WAY = 5
"""How much nicer a process is that runs no lane."""
MOST = 12
PATIENCE_S = 10.0
SHOWN = Path("/proc")


def workers(paths: Iterable[str], cores_: int) -> int:
    """Return how many processes a run of these paths gets; 0 is the caller's own one."""
    named = [path for path in paths if not Path(path).is_dir()]
    return 0 if named or cores_ < 2 else min(PER_CORE * cores_, MOST)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``-n``, as other runners call it. pytest keeps small letters for itself: ``addoption`` would refuse it."""
    group: Any = parser.getgroup("lanes", "tests side by side")
    group._addoption(
        "--costs", dest=COSTS, action="store_true", help="measure what each test costs (tests/support/turns.py)"
    )
    group._addoption("-n", dest=PROCESSES, type=int, metavar="N", help="run the tests in N processes; 0: in this one")


def pytest_sessionstart() -> None:
    """Mark everything that is started from here on; what dies of a signal on purpose leaves no core in this folder."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.environ[MARK] = str(os.getpid())
    _HELD.extend(() if _HELD else os.pipe())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse names that differ between runs; leave out what has no turn; put the rest in order."""
    wrong = unstable(item.nodeid for item in items)
    if wrong:
        raise pytest.UsageError(
            f"names of tests hold an address, so they differ in every run: {', '.join(wrong)}. "
            "Give the rows names: ids=tests.support.ids.stable"
        )
    is_all, measures = config.args_source is pytest.Config.ArgsSource.TESTPATHS, getattr(config.option, COSTS)
    if measures and not is_all:
        raise pytest.UsageError("--costs with names of folders or tests: it writes what all tests cost, so name none")
    if is_all and not measures:
        choice, left = turns.apply(items)
        config.stash[_CHOICE] = choice
        config.hook.pytest_deselected(items=left)
    items.sort(key=_order)


def _order(item: pytest.Item) -> tuple[int, bytes]:
    """Return a key: lanes, others file by file in an order that means nothing, slow ones. Both ends begin at once."""
    if lane_of(item):
        return 0, b""
    if item.get_closest_marker(SLOW) is not None:
        return 2, b""
    return 1, hashlib.sha256(item.nodeid.partition("::")[0].encode()).digest()


def pytest_collection_finish() -> None:
    """Set what is there by now apart: no collection of garbage looks at the tests themselves again."""
    _set_apart()


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Say which of the costly tests are run, where not all are."""
    choice = config.stash.get(_CHOICE, None)
    return [] if choice is None or not choice.left else [str(choice)]


def import_early(late: Mapping[str, Iterable[str]] = LATE) -> None:
    """Import, once for all processes, what each of them would import with its first test of a framework."""
    for name in (name for framework, names in late.items() if framework in sys.modules for name in names):
        with contextlib.suppress(ImportError):  # of another version: the tests that need it say so
            importlib.import_module(name)


def _set_apart() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in several processes, unless there is to be one, or something is wrong with the collection."""
    option = session.config.option
    count = getattr(option, PROCESSES)
    if count is None:
        count = workers(option.file_or_dir, cores())
    if not count or session.testsfailed or option.collectonly or option.usepdb:
        return None
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.showfspath = False  # tests of many files end in turn
    hatchery.share()
    import_early()
    _set_apart()
    Run(session, units(session.items), count).run()
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """In one of several processes: take what the next test may have of the machine."""
    stash = item.config.stash
    if NUMBER not in stash or (lane := lane_of(item)) == CLUSTER:
        return
    taken = stash.setdefault(_TAKEN, set())
    if "a core" not in taken and hasattr(os, "sched_setaffinity"):
        taken.add("a core")
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {mine[stash[NUMBER] % len(mine)]})
    if not lane and "less" not in taken:
        taken.add("less")
        os.nice(GIVES_WAY)


def units(items: Iterable[pytest.Item]) -> Iterator[list[int]]:
    """Yield the places of what one process runs: each lane, and each other test."""
    lanes: dict[str, list[int]] = {}
    alone: list[list[int]] = []
    for place, item in enumerate(items):
        lane = lane_of(item)
        if lane:
            lanes.setdefault(lane, []).append(place)
        else:
            alone.append([place])
    yield from lanes.values()
    yield from alone


def lane_of(item: pytest.Item) -> str:
    """Return the lane of a test, or nothing: that of PostgreSQL, that of Ray, that of its file or of what is marked."""
    row = item.callspec.params.values() if hasattr(item, "callspec") else ()
    uses = {*getattr(item, "fixturenames", ()), *(each for each in row if isinstance(each, str))}
    if CLUSTER in uses:  # first: a cluster takes longer to start than a server
        return CLUSTER
    if uses & {POSTGRES, f"{POSTGRES}_url"}:
        return POSTGRES
    together = item.get_closest_marker(TOGETHER)
    if together is not None:
        return str(*together.args) or item.nodeid.partition("::")[0]
    return SERIAL if item.get_closest_marker(SERIAL) is not None else ""


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if a process is left, and end it."""
    SERVERS.dismiss()  # a run in one process is their host, and goes on
    hatchery.close()
    left = _outliving(os.environ[MARK], PATIENCE_S)
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        session.config.stash[_LEFT] = left
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if left:
        _outliving(os.environ[MARK], PATIENCE_S)  # a signal is only sent: the process ends when it is next to run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the processes that were left."""
    for pid, command in terminalreporter.config.stash.get(_LEFT, {}).items():
        terminalreporter.write_line(f"LEFT BEHIND: process {pid}, ended now: {command}", red=True)


_CHOICE = pytest.StashKey[turns.Choice]()
_LEFT = pytest.StashKey[dict[int, str]]()
_TAKEN = pytest.StashKey[set[str]]()
"""What this process has taken of the machine, once and for all."""
_HELD: list[int] = []
"""Ends of a pipe that every fork of this process inherits, and what it forks, until one is another program."""


def _outliving(mark: str, patience_s: float) -> dict[int, str]:
    """Return the processes of a run that are still there after a moment's patience, with their commands."""
    end = time.monotonic() + patience_s
    while (found := dict(_started_by(mark))) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _started_by(mark: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the command of every process of the run, but this one.

    A child that was forked shows the environment that its parent began with, so it is known by the pipe that it holds.
    """
    wanted, own = f"{MARK}={mark}".encode(), os.getpid()
    for place in SHOWN.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            state = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            marked = wanted in (place / "environ").read_bytes().split(b"\0") or _holds_pipe(place)
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            helps = "multiprocessing.resource_tracker" in command  # ends with the process that it serves
            if marked and int(place.name) != own and state != "Z" and not helps:
                yield int(place.name), command


def _holds_pipe(place: Path) -> bool:
    ours = {(SHOWN / "self" / "fd" / str(end)).readlink() for end in _HELD}
    for end in (place / "fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if end.readlink() in ours:
                return True
    return False
