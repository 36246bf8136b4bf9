"""A worker for a process that dies on command, and notes its hooks in a file: a process imports this alone."""

import ctypes
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import actors

EATEN = 3_000 * 1024 * 1024
"""Bytes; more than any limit of a test."""


def say(notes: str, line: str) -> None:
    """One line, by one write: what was said is there whatever the process dies of."""
    file = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


class Mortal(actors.Worker):
    """Acts on a word. ``fault`` is what one of its hooks does."""

    def __init__(self, name: str, notes: str, fault: str = "") -> None:
        self.name = name
        self.notes = notes
        self.fault = fault

    def on_start(self) -> None:
        say(self.notes, f"on_start {self.name}")
        starts = Path(self.notes).read_text().splitlines().count(f"on_start {self.name}")
        if self.fault == "second on_start raises" and starts == 2:
            raise OSError

    def on_receive(self, message: Any) -> Any:  # noqa: C901 - one word, one act
        if isinstance(message, BaseException):
            raise message
        match message:
            case "stop":
                self.stop()
            case "raise":
                raise ValueError("boom")
            case "segfault":
                ctypes.string_at(0)
            case "exit":
                os._exit(3)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "pid":
                return os.getpid()
            case "starve":
                used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (used + EATEN // 4, resource.RLIM_INFINITY))
                return len(bytearray(EATEN))
            case "eat":
                return len(bytearray(EATEN))
            case "hang":
                say(self.notes, "hangs")
                time.sleep(600)
        return message

    def on_stop(self) -> None:
        say(self.notes, f"on_stop {self.name}")
        if self.fault == "on_stop raises":
            raise OSError
        if self.fault == "on_stop hangs":
            time.sleep(600)

    def on_failure(self, *_: object) -> None:
        say(self.notes, f"on_failure {self.name}")


class Stillborn(Mortal):
    """Acts on its word while it starts."""

    def on_start(self) -> None:
        super().on_start()
        self.on_receive(self.fault)
