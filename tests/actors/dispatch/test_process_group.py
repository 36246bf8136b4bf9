"""The guardian: no process of a host outlives it, whatever it dies of."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from actors.dispatch.groups.process_group import MARK, ProcessGroups, end_group, has_others, signal_group
from tests.support.hardening import eventually

ROOT = Path(__file__).parents[3]


def runs(pid: int) -> bool:
    """True if the process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in {b"Z", b"X"}


@contextmanager
def host(*ways: str) -> Iterator[tuple[subprocess.Popen[str], int, list[int]]]:
    """A host with processes: itself, its guardian, and what it has started."""
    program = [sys.executable, "-m", "tests.actors.dispatch.host_of_processes", *ways]
    process = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    pids: list[int] = []
    try:
        assert process.stdout is not None
        guardian, *pids = map(int, process.stdout.readline().split())
        yield process, guardian, pids
    finally:
        process.kill()
        process.communicate()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["guarded", "below", "apart", "marked"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_if_the_host_dies_every_process_and_what_it_started_is_gone(way: str, end: signal.Signals) -> None:
    with host(way) as (process, guardian, pids):
        assert all(map(runs, pids))

        process.send_signal(end)
        process.wait()

        eventually(lambda: not any(map(runs, [*pids, guardian])))


@pytest.mark.slow
def test_ctrl_c_of_the_terminal_does_not_end_the_guardian_before_its_host() -> None:
    with host("guarded") as (_, guardian, pids):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(guardian, number)

        eventually(lambda: os.getsid(guardian) != os.getsid(0))  # Ctrl-C goes to the group of the host
        assert all(map(runs, [*pids, guardian]))


def test_a_guardian_of_a_host_within_a_host_does_its_own_work_first() -> None:
    environment = os.environ | {MARK: "above"}
    groups = ProcessGroups()
    try:
        assert groups.marked({})[MARK].endswith(groups.mark)
        os.environ[MARK] = "above"
        marked = groups.marked({"other": "1"})
    finally:
        os.environ.pop(MARK)
        groups.dismiss()

    assert marked[MARK] == f"{environment[MARK]}:{groups.mark}"
    assert marked["other"] == "1"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a group."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def _killed(groups: ProcessGroups) -> None:
    pid = groups._guardian
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.slow
@pytest.mark.parametrize(
    "look", [lambda groups, pid: groups.mended(), lambda groups, pid: groups.guard(pid)], ids=["mended", "guard"]
)
def test_a_guardian_that_was_killed_is_replaced_and_told_all(
    sleeper: subprocess.Popen[bytes], look: Callable[[ProcessGroups, int], None]
) -> None:
    groups = ProcessGroups()
    groups.guard(sleeper.pid)
    first = groups._guardian
    _killed(groups)

    look(groups, sleeper.pid)

    assert groups._guardian != first
    os.close(groups._told or -1)  # as if the host were gone; its pid is not, so this is the end of the pipe
    groups._told = None
    assert sleeper.wait(60) == -signal.SIGKILL
    groups.unguard(sleeper.pid)
    assert groups.dismiss()


@pytest.mark.slow
def test_a_guardian_is_dismissed_only_where_no_group_is_left(sleeper: subprocess.Popen[bytes]) -> None:
    groups = ProcessGroups()
    groups.guard(sleeper.pid)

    assert not groups.dismiss()
    groups.unguard(sleeper.pid)
    assert groups.dismiss()
    assert runs(sleeper.pid)


@pytest.mark.slow
def test_a_guardian_that_hears_nothing_is_replaced_and_ends_nothing(sleeper: subprocess.Popen[bytes]) -> None:
    groups = ProcessGroups()
    groups.guard(sleeper.pid)
    first = groups._guardian
    os.kill(first, signal.SIGSTOP)

    for _ in range(30_000):
        groups.guard(sleeper.pid)
        if groups._guardian != first:
            break

    assert groups._guardian != first
    assert runs(sleeper.pid)
    groups.unguard(sleeper.pid)
    assert groups.dismiss()


@pytest.mark.slow
def test_a_group_that_is_over_can_be_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    assert not has_others(sleeper.pid)
    end_group(sleeper.pid)
    assert sleeper.wait(60) == -signal.SIGKILL

    assert not signal_group(sleeper.pid, signal.SIGTERM)


@pytest.mark.slow
def test_others_of_a_group_are_seen() -> None:
    program = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); print(1)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    assert has_others(process.pid)
    end_group(process.pid)
    eventually(lambda: not has_others(process.pid))
    process.communicate()


FORKS = """
import os, sys
from actors.dispatch.groups.process_group import GROUPS, MARK

if sys.argv[1] == "after":
    GROUPS.marked({})
for _ in range(2):
    heard, told = os.pipe()
    if not os.fork():
        os.write(told, GROUPS.marked({})[MARK].encode())
        os._exit(0)
    print(os.read(heard, 1000).decode())
    os.wait()
print(GROUPS.marked({})[MARK])
"""


@pytest.mark.slow
@pytest.mark.parametrize("forked", ["before", "after"])
def test_each_fork_of_a_process_has_a_mark_of_its_own_whether_it_had_a_guardian_before_or_not(forked: str) -> None:
    """Else the guardian of one would end what the other has started."""
    said = subprocess.run([sys.executable, "-c", FORKS, forked], capture_output=True, text=True, timeout=60, check=True)

    own = [line.rpartition(":")[2] for line in said.stdout.split()]
    assert len(set(own)) == len(own) == 3, own
