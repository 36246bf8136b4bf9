"""Output of a command: bytes come in as they come, lines go out, as many as others can take.

A command may write more than anybody can read: then the oldest lines of a moment are passed on, the others are counted,
and the last ones are kept in any case. Nothing here waits, and what is kept does not grow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

MOST_LINE: Final = 8 * 1024
"""Bytes of a line; what comes after them is left out."""
KEPT: Final = 20
"""Last lines that are kept."""
BURST: Final = 10_000
"""Lines that are passed on at once, after a quiet time."""
PER_S: Final = 2_000
"""Lines that are passed on each second, for as long as it takes."""
BURST_BYTES: Final = 8 * 1024 * 1024
BYTES_PER_S: Final = 2 * 1024 * 1024


class Allowance:
    """How many lines may be passed on now: a burst, and then so many a second."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._at = now()
        self._lines = float(BURST)
        self._bytes = float(BURST_BYTES)

    def lines(self) -> int:
        """Lines that may be passed on now."""
        now = self._now()
        passed, self._at = now - self._at, now
        self._lines = min(BURST, self._lines + passed * PER_S)
        self._bytes = min(BURST_BYTES, self._bytes + passed * BYTES_PER_S)
        return int(self._lines) if self._bytes > 0 else 0

    def spend(self, lines: list[bytes]) -> None:
        """Note that these were passed on."""
        self._lines -= len(lines)
        self._bytes -= sum(map(len, lines))


class Lines:
    """One stream: splits what comes in at the ends of lines."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_cut = False
        """True where the line that is being read was passed on already, at its greatest length."""

    def feed(self, data: bytes, most: int) -> tuple[list[bytes], list[bytes], int]:
        """Take what came in.

        Args:
            data: it.
            most: lines to be passed on, at most.

        Returns:
            The lines to be passed on; the last lines of those that are not; and how many those are.
        """
        complete, newline, rest = data.rpartition(b"\n")
        if not newline:
            return self._append(rest)
        found = [self._rest + complete]
        if self._is_cut:  # its beginning was passed on
            found = complete.split(b"\n", 1)[1:]
        self._rest, self._is_cut = b"", False
        lines = [each for text in found for each in (text.split(b"\n", most) if most else [text])]
        later = lines.pop() if len(lines) > most else None
        tail, lost = ([], 0) if later is None else (later.rsplit(b"\n", KEPT)[-KEPT:], later.count(b"\n") + 1)
        more, _, _ = self._append(rest)
        return [*lines, *more], tail, lost

    def _append(self, data: bytes) -> tuple[list[bytes], list[bytes], int]:
        """Take a part of a line; a line that is too long already is passed on as it stands."""
        if self._is_cut or not data:
            return [], [], 0
        self._rest += data[: MOST_LINE + 1 - len(self._rest)]
        if len(self._rest) <= MOST_LINE:
            return [], [], 0
        line, self._rest, self._is_cut = self._rest, b"", True
        return [line], [], 0

    def end(self) -> list[bytes]:
        """Return what is left when the stream ends, without the end of a line."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


def text_of(line: bytes) -> str:
    """Return the text of a line: cut, without its end, and with what is no UTF-8 replaced."""
    return line[:MOST_LINE].removesuffix(b"\r").decode("utf-8", "replace")


class Tail:
    """The last lines of all streams of a command."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=KEPT)

    def add(self, lines: list[bytes]) -> None:
        """Keep these."""
        self._lines.extend(line[:MOST_LINE] for line in lines[-KEPT:])

    def texts(self) -> tuple[str, ...]:
        """Return them, the newest last; on any thread."""
        return tuple(map(text_of, self._lines.copy()))
