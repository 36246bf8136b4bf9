"""Reading what a process of a worker uses: from ``/proc`` where the system has it, else nothing is known."""

from __future__ import annotations

import os
from pathlib import Path

from trees.views.snapshot import ProcessSnapshot

_USER, _SYSTEM, _RESIDENT = 11, 12, 21
"""Places in ``/proc/PID/stat``, counted from the field after the name of the program."""


def process_of(pid: int) -> ProcessSnapshot:
    """Look at a process. One that has ended meanwhile is shown by its number alone.

    Its memory is unknown as long as the kernel says 0 pages: one that has just begun or ended. The kernel counts the
    pages of each CPU apart and adds them up late ("this value is inaccurate", proc_pid_stat(5)).
    """
    try:
        told = Path("/proc", str(pid), "stat").read_bytes()
    except OSError:  # no Linux, or it is over
        return ProcessSnapshot(pid=pid, memory_bytes=None, cpu_s=None)
    fields = told.rpartition(b")")[2].split()  # the name of a program may hold anything
    ticks = int(fields[_USER]) + int(fields[_SYSTEM])
    resident = int(fields[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE")
    return ProcessSnapshot(pid=pid, memory_bytes=resident or None, cpu_s=ticks / os.sysconf("SC_CLK_TCK"))
