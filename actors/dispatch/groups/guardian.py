"""Program of the guardian: a small process that outlives its host, to end what the host has left running.

Run by path, with nothing but the standard library. Standard input is the pipe from the host: a line ``+PGID`` or
``-PGID`` for each process group that begins or ends. The host is gone when that pipe ends, when its pidfd says so, or
when this process has another parent: a child of a fork may hold the pipe open. Then every group is killed, and, where
``/proc`` shows environments, each process that carries the mark of the host: one that had no time to be told of, and
one that has left its group.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress

LOOK_S = 0.25
"""Seconds between two looks at the parent, where there is no pidfd."""
CLEAN_LOOKS = 3
"""Looks in a row that find nothing, before it is over: what was being started when the host died shows up meanwhile."""
PAUSE_S = 0.1
MOST_LOOKS = 100


def main(host: int, mark: bytes) -> None:
    """Wait for the end of the host, and kill what it leaves."""
    with suppress(OSError):
        os.setsid()
    os.chdir("/")
    os.closerange(3, 1024)
    os.set_blocking(0, False)
    groups: set[int] = set()
    _wait(host, groups)
    clean = 0
    for _ in range(MOST_LOOKS):
        clean = 0 if _kill(groups, mark) else clean + 1
        if clean == CLEAN_LOOKS:
            return
        select.select([], [], [], PAUSE_S)


def _wait(host: int, groups: set[int]) -> None:
    """Note the groups until the host is gone."""
    watched, rest = [0], b""
    with suppress(AttributeError, OSError):
        watched.append(os.pidfd_open(host))
    while True:
        gone = os.getppid() != host
        ready = select.select(watched, [], [], 0 if gone else None if len(watched) > 1 else LOOK_S)[0]
        gone = gone or any(each != 0 for each in ready)
        try:
            data: bytes | None = os.read(0, 65536)
        except BlockingIOError:
            data = None
        *lines, rest = (rest + (data or b"")).split(b"\n")
        for line in lines:
            with suppress(ValueError):
                (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
        if data == b"" or (gone and data is None):
            return


def _kill(groups: set[int], mark: bytes) -> bool:
    """Kill what there is; True if anything of it was there."""
    found = False
    for group in list(groups):
        try:
            os.killpg(group, signal.SIGKILL)
            found = True
        except ProcessLookupError:
            groups.discard(group)
        except PermissionError:  # nothing of it is ours to end any more
            groups.discard(group)
    return any([found, *(_kill_marked(each, mark) for each in _processes())])


def _processes() -> list[str]:
    try:
        return [each for each in os.listdir("/proc") if each.isdigit()]  # noqa: PTH208 - see below
    except OSError:
        return []


def _kill_marked(pid: str, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - a light start: nothing more is imported
            if mark not in file.read():
                return False
        os.kill(int(pid), signal.SIGKILL)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2].encode())
