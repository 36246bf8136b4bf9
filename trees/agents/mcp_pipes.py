"""Pipes of a process on an event loop, without a single ``await``: nothing can be cancelled half way.

``ReadingPipe`` can be paused: what its process writes too fast waits in the pipe, and the process with it.
``WritingPipe`` never makes anybody wait: what the process does not read yet is kept, up to a limit.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Final

CHUNK: Final = 64 * 1024


class ReadingPipe:
    """Output of a process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, file: IO[bytes], takes: Callable[[bytes], object]) -> None:
        """Begin to read; ``takes`` is called with what there is, and with nothing at the end."""
        self._loop, self._file, self._takes = loop, file, takes
        self._reads = False
        self.is_over = False
        """True once all was read."""
        os.set_blocking(file.fileno(), False)
        self.resume()

    def resume(self) -> None:
        """Read on."""
        if not self._reads and not self._file.closed:
            self._reads = True
            self._loop.add_reader(self._file.fileno(), self._read)

    def pause(self) -> None:
        """Read no more for now."""
        if self._reads:
            self._reads = False
            with suppress(RuntimeError):  # the loop is closed
                self._loop.remove_reader(self._file.fileno())

    def close(self) -> None:
        """Read no more."""
        self.pause()
        self._file.close()

    def _read(self) -> None:
        try:
            data = os.read(self._file.fileno(), CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.is_over = True
            self.close()
        self._takes(data)


class WritingPipe:
    """Input of a process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, file: IO[bytes], broken: Callable[[], object]) -> None:
        """Open it; ``broken`` is called once if the process closes it."""
        self._loop, self._file, self._broken = loop, file, broken
        self._rest = bytearray()
        self._waits = False
        os.set_blocking(file.fileno(), False)
        loop.add_reader(file.fileno(), self._breaks)  # its end of a pipe that nobody can read any more shows so

    @property
    def unread(self) -> int:
        """Bytes that the process has not taken yet."""
        return len(self._rest)

    def write(self, data: bytes) -> None:
        """Send it, as soon as the process reads."""
        if not self._file.closed:
            self._rest += data
            if not self._waits:
                self._send()

    def close(self) -> None:
        """Close it; what was not taken is gone."""
        if not self._file.closed:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.remove_reader(self._file.fileno())
                self._loop.remove_writer(self._file.fileno())
            self._file.close()

    def _send(self) -> None:
        try:
            sent = os.write(self._file.fileno(), self._rest)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._breaks()
            return
        del self._rest[:sent]
        if bool(self._rest) != self._waits:
            self._waits = not self._waits
            if self._waits:
                self._loop.add_writer(self._file.fileno(), self._send)
            else:
                self._loop.remove_writer(self._file.fileno())

    def _breaks(self) -> None:
        self.close()
        self._broken()
