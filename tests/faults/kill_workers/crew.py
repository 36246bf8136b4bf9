"""What runs in the processes: each piece of work notes its begin and its end in a file that outlives it."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import actors

NOTES = "KILL_WORKERS_NOTES"
"""Variable of the environment that names the file."""
DEEDS = ("work",) * 12 + ("forward",) * 3 + ("raise", "die", "segfault", "below", "rest")
FORWARD_S = 5.0


@dataclass(frozen=True, slots=True)
class Note:
    """A message; ``other`` is whom a forwarded one goes to, as number ``-number``."""

    number: int
    deed: str
    other: str = ""


class Told(Note):
    """One that nobody waits for: what becomes of it is a matter of the books alone."""


class Asked(Note):
    """One that somebody waits for."""


def write(what: str, number: int) -> None:
    """One line, by one call: a kill leaves all of it or nothing."""
    file = os.open(os.environ[NOTES], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{what} {number}\n".encode())
    finally:
        os.close(file)


@contextmanager
def noted(number: int) -> Iterator[None]:
    """Note begin and end, also an end by an exception."""
    write("begun", number)
    try:
        yield
    except BaseException:
        write("raised", number)
        raise
    write("done", number)


def act(note: Note) -> int:
    """Do what it says; the number is the reply."""
    with noted(note.number):
        if note.deed == "forward":
            try:
                actors.ref(note.other).ask(Asked(-note.number, "work"), timeout=FORWARD_S)
            except (actors.ActorsError, ValueError):
                return note.number  # the other one died of something: that is its own matter
        else:
            _do(note.deed)
    return note.number


def _do(deed: str) -> None:
    match deed:
        case "raise":
            raise ValueError("boom")
        case "die":
            os._exit(3)
        case "segfault":
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.kill(os.getpid(), signal.SIGSEGV)
        case "below":
            subprocess.Popen(["/bin/sleep", "600"])
        case "rest":
            time.sleep(0.02)
        case "hang":
            while True:
                time.sleep(1)


class Sync(actors.Worker):
    """A worker with an object."""

    def on_receive(self, note: Note) -> int:
        """Act."""
        return act(note)


class Async(actors.Worker):
    """A worker whose code is async."""

    async def on_receive(self, note: Note) -> int:
        """Act, after a turn of the loop."""
        with noted(note.number):
            await asyncio.sleep(0)
            if note.deed != "forward":
                _do(note.deed)
                return note.number
            try:
                await actors.ref(note.other).ask_async(Asked(-note.number, "work"), timeout=FORWARD_S)
            except (actors.ActorsError, ValueError):
                return note.number
        return note.number


def body() -> None:
    """Run until it is to stop."""
    while not actors.sleep(0.05):
        pass


async def async_body() -> None:
    """Run until it is cancelled."""
    await asyncio.sleep(600)


def execute(task: Any, context: Any) -> str:
    """Do a piece of a task."""
    context.progress(0.5)
    return f"{task.id} done"
