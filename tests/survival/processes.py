"""Processes that live with the scene (``tests.survival.life``), and what may happen to a process."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.programs import python, wait_until_stopped
from tests.trees.store.stores import PATIENCE_S

ROOT = Path(__file__).parents[2]


class Notes:
    """What is done outside, in the order in which it was, by all processes of a test: it outlives each of them."""

    def __init__(self) -> None:
        self._reads, self.writes = os.pipe()
        os.set_blocking(self._reads, False)
        self._text = ""

    def note(self, what: str) -> None:
        """Of this process."""
        os.write(self.writes, f"{os.getpid()} {what}\n".encode())

    def lines(self) -> list[tuple[int, str]]:
        """All so far: the process, and what it noted."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._text += os.read(self._reads, 65536).decode()
        return [(int(who), what) for who, _, what in (line.partition(" ") for line in self._text.splitlines())]

    def done(self) -> list[str]:
        """The same, whoever did it."""
        return [what for _, what in self.lines()]

    def wait_for(self, what: str) -> None:
        """Wait until it was noted."""
        while what not in self.done():
            readable, _, _ = select.select([self._reads], [], [], PATIENCE_S)
            assert readable, f"{what!r} does not come after {self.done()}"

    def forget(self) -> None:
        """Begin anew."""
        self.lines()
        self._text = ""

    def close(self) -> None:
        """There will be none any more."""
        os.close(self._reads)
        os.close(self.writes)


class Process:
    """One process, waiting; its tree starts with ``go``."""

    def __init__(self, notes: Notes, under: tuple[str, ...] = ()) -> None:
        words = ("-m", "tests.survival.life", str(notes.writes))
        self._popen: subprocess.Popen[str]
        if not under:
            self._popen = python(*words, cwd=ROOT, talks=True, keeps=[notes.writes])
        else:
            self._popen = subprocess.Popen(
                [*under, sys.executable, *words],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[notes.writes],
                start_new_session=True,  # so that what it runs under (strace) and itself can be killed as one
            )
        self._is_one = not under
        self.pid = self._popen.pid

    def answer(self) -> str:
        """The next line that it says."""
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        line = self._popen.stdout.readline()
        assert line, f"the process has ended with {self._popen.wait(PATIENCE_S)}: {self._popen.stderr.read()}"
        return line.strip()

    def tell(self, line: str) -> None:
        """One line for it."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(f"{line}\n")
        self._popen.stdin.flush()

    def go(self, store: str | None, **options: Any) -> str:
        """Start its tree; its role. The options are those of ``start``, and ``lease_s`` in place of ``ha``."""
        self.tell(json.dumps({"store": store} | options))
        return self.answer()

    def do(self, act: str) -> Any:
        """Have it do something, and wait for its answer."""
        self.tell(act)
        return json.loads(self.answer())

    def kill(self) -> None:
        """SIGKILL, also for what it runs under."""
        if self._is_one:
            self._popen.kill()
        elif self._popen.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait(PATIENCE_S)

    def freeze(self) -> None:
        """SIGSTOP; returns when it stands still."""
        self._popen.send_signal(signal.SIGSTOP)
        wait_until_stopped(self._popen)

    def thaw(self) -> None:
        """SIGCONT."""
        self._popen.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def limited(self, what: int, most: int) -> Iterator[None]:
        """It gets no more of this from the system meanwhile."""
        soft, hard = resource.prlimit(self.pid, what)
        resource.prlimit(self.pid, what, (most, hard))
        yield
        resource.prlimit(self.pid, what, (soft, hard))

    def stop(self) -> None:
        """End it in order."""
        self._popen.communicate(timeout=PATIENCE_S)
        assert self._popen.returncode == 0

    def close(self) -> None:
        """Leave nothing of it."""
        self.kill()
        with self._popen:
            pass
