"""A target that ``regrow top`` starts: ``regrow run`` in a process of its own, looked at through its console.

So the program runs exactly as without a picture, with its main, its store and its exit code, and whatever it prints
stays off the screen: it goes to a file, and is printed when the picture is closed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from actors.messaging.reply import Reply
from trees.host.console import ConsoleError, find

POLL_S: Final = 0.05
END_S: Final = 60.0
"""How long the end of a program may take before it is killed."""


def run_target(arguments: Sequence[str], show: Callable[[Path], object], say: Callable[[str], object]) -> int:
    """Run ``regrow run`` with these arguments while ``show(socket)`` shows it; what it printed is said afterwards.

    Returns the exit code of the program.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
        with subprocess.Popen(  # noqa: S603 - this interpreter, with the arguments of our own user
            [sys.executable, "-m", "trees", "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as program:
            try:
                socket = _opened(program)
                if socket is not None:
                    show(socket)
            finally:
                code = _ended(program)
        printed.seek(0)
        say(printed.read().rstrip())
    return code


def _opened(program: subprocess.Popen[bytes]) -> Path | None:
    """The socket of the program, once it is open; None: the program has ended before."""
    nothing = Reply()
    while program.poll() is None:
        with suppress(ConsoleError):
            sockets = find(program.pid)
            if sockets:
                return sockets[0]
        nothing.wait(POLL_S)  # nobody can wake us: it is another process
    return None


def _ended(program: subprocess.Popen[bytes]) -> int:
    """End the program as a service manager does; its exit code."""
    if program.poll() is None:
        program.terminate()
    try:
        return program.wait(END_S)
    except subprocess.TimeoutExpired:
        program.kill()
        return program.wait()
