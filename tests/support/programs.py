"""Programs in processes of their own: ``python -m trees``, a module, a script or a text."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

PATIENCE_S = 60.0


class Program(subprocess.Popen[str]):
    """A process that is killed where the block that uses it fails, so that nobody waits for it then."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, tb)


def python(
    *args: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    talks: bool = False,
    keeps: Sequence[int] = (),
) -> Program:
    """Start Python with these arguments.

    Args:
        args: A file, ``-m`` and a module, or ``-c`` and a text, and what the program itself takes.
        cwd: Where it works.
        env: Its environment.
        talks: It reads ``stdin``; else it has no input.
        keeps: File descriptors of this process that it has under the same numbers.
    """
    return Program(
        [sys.executable, *map(str, args)],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=keeps,
    )


def started(*args: object, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Program:
    """Start the command ``regrow`` with these arguments."""
    return python("-m", "trees", *args, cwd=cwd, env=env)


def ran(
    *args: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    said: str | None = None,
    timeout: float = PATIENCE_S,
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end, with this input; it is killed if that takes longer than so many seconds."""
    with python(*args, cwd=cwd, env=env, talks=said is not None) as process:
        out, err = process.communicate(said, timeout=timeout)
    return subprocess.CompletedProcess([str(each) for each in args], process.returncode, out, err)


def wait_until_stopped(process: subprocess.Popen[str]) -> None:
    """Wait until one that was sent SIGSTOP stands still."""
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
