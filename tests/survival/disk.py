"""What a disk holds for sure, by the system calls of a process: what was written, and synced after that.

Comes in: what ``strace`` wrote down of a process (``under`` is how to start it). Goes out: the files as they would be
if everything else were lost at a given moment, which is the worst that a power cut may do to them.
"""

from __future__ import annotations

import codecs
import functools
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

CALLS = "pwrite64,pwritev,write,ftruncate,fdatasync,fsync"
_LINE = re.compile(r"(?P<thread>\d+) +(?:<\.\.\. )?(?P<call>\w+)(?P<rest>.*)")
_FILE = re.compile(r"\((?P<number>\d+)<(?P<path>[^>]*)>(?:, (?P<rest>.*))?")
_DATA = re.compile(r'"(?P<data>(?:[^"\\]|\\.)*)", \d+(?:, (?P<at>\d+))?')


def under(log: Path) -> tuple[str, ...]:
    """What to start a process with, so that its calls are written to this file."""
    return ("strace", "-f", "-qq", "-y", "-s", "1000000", "-e", f"trace={CALLS}", "-e", "signal=none", "-o", str(log))


@functools.cache
def can_trace() -> bool:
    """Whether there is strace, and it may look at processes here."""
    found = shutil.which("strace")
    return found is not None and subprocess.run([found, "-qq", "-e", "trace=none", "true"], check=False).returncode == 0


@dataclass
class Disk:
    """Files, by path."""

    written: dict[str, bytearray] = field(default_factory=dict)
    synced: dict[str, bytes] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    """What went to pipes, in order: what others were told."""
    _syncing: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """By thread."""

    def read(self, log: Path, until: str) -> None:
        """Do what a process did, up to the moment when it said something."""
        for line in log.read_text(encoding="ascii").splitlines():
            self._do(line)
            if until in self.said[-1:]:
                return
        raise LookupError(f"it never said {until!r}")

    def _do(self, line: str) -> None:
        found = _LINE.match(line)
        if found is None:
            return
        thread, call, rest = found["thread"], found["call"], found["rest"]
        file = _FILE.match(rest)
        if call in {"fdatasync", "fsync"}:
            self._sync(thread, file["path"] if file is not None else None, ends=rest.endswith(" = 0"))
        elif file is not None:
            self._write(call, file["path"], file["rest"])

    def _sync(self, thread: str, path: str | None, *, ends: bool) -> None:
        """What was written when a sync began is there when it has ended."""
        if path is not None:
            self._syncing[thread] = path, bytes(self.written.get(path, b""))
        if ends:
            path, content = self._syncing.pop(thread)
            self.synced[path] = content

    def _write(self, call: str, path: str, rest: str) -> None:
        content = self.written.setdefault(path, bytearray())
        if call == "ftruncate":
            del content[int(rest.partition(")")[0]) :]
            return
        found = _DATA.match(rest)
        if found is None:
            raise ValueError(f"{call} of {path}: cannot read {rest[:100]}")
        data = codecs.escape_decode(found["data"].encode())[0]  # type: ignore[attr-defined]
        if found["at"] is None:
            self.said.append(data.decode(errors="replace").strip())
            return
        at = int(found["at"])
        content.extend(b"\0" * (at - len(content)))
        content[at : at + len(data)] = data
