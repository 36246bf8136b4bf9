"""A durable store that needs no database: each change is a line of JSON in one file.

The records are in memory as well (``MemoryStore``). A change is written before memory has it. ``open`` reads the file
and writes it anew without the tasks that ``Keep`` lets go. One process at a time; nobody else reads the file meanwhile.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from actors.messaging.reply import Reply
from actors.model.events import Event
from actors.tasks.journal.codec import decode, encode
from actors.tasks.journal.store import DurableStore, RemoteCommand
from actors.tasks.model import StoreBusyError, StoreError, StorePaused, StoreResumed
from trees.store.memory import MemoryStore
from trees.store.retention import Keep

SUFFIX: Final = ".jsonl"
RETRY_S: Final = 0.2
"""Seconds between two tries to write what is late."""


class JournalFile(MemoryStore, DurableStore):
    """Store in one file of lines. What is kept survives the death of the process, not a loss of power.

    Args:
        path: the file; made if it is not there. Beside it stands ``PATH.lock``.
        root: the id of the tree's root, for errors.
        keep: how long finished tasks stay. None: ``Keep()``.
    """

    def __init__(self, path: str | Path, *, root: str, keep: Keep | None = None) -> None:
        super().__init__(keep)
        self._path, self._root = Path(path), root
        self._write_lock = threading.RLock()
        self._file = self._lock_file = -1
        self._starts, self._latest = 0, 0.0
        self._orders: dict[int, RemoteCommand] = {}
        """Those that an earlier process, or this one at its end, has left, and that nobody has carried out."""
        self._for_now: list[RemoteCommand] = []
        """Those of them that the listener has still to be given."""
        self._late: deque[list[Any]] = deque()
        """Lines that could not be written yet: memory has them, and nobody was told that they are kept."""
        self._paused_at = 0.0
        self._kept = Reply()
        """Completed when no line is late any more."""
        self._closing = threading.Event()

    def open(self) -> None:
        """Read the file, and begin to write it.

        Raises:
            StoreBusyError: another process has it open.
            StoreError: it cannot be opened, or a line of it is damaged.
        """
        lock = Path(f"{self._path}.lock")
        try:
            self._lock_file = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.write_text(f"{platform.node() or 'localhost'}, process {os.getpid()}", encoding="utf-8")
            self._read()
            self._rewrite()
        except BaseException as error:
            self.close()
            if isinstance(error, BlockingIOError):
                holder = lock.read_text(encoding="utf-8", errors="replace")
                raise StoreBusyError(self.name, self._root, holder or "another process") from None
            if isinstance(error, OSError):
                what = f"cannot be opened: {error.strerror}. Check that its directory exists and may be written"
                raise StoreError(self.name, what) from error
            raise
        self._wall, self._steady = max(time.time(), self._latest), time.monotonic()

    def _read(self) -> None:
        lines = self._path.read_bytes().split(b"\n") if self._path.exists() else [b""]
        # The last one is empty, or was cut short by the death of the process before anybody was told that it is kept.
        for number, line in enumerate(lines[:-1], 1):
            try:
                verb, *given = json.loads(line)
                if verb in {"starts", "order", "done"}:
                    self._read_own(verb, given)
                    continue
                if (
                    verb == "create" and self._find(given[0]) is not None
                ):  # the first one was pruned before this one began
                    super().remove(given[0])
                *names, record = [decode(*each) if isinstance(each, list) else each for each in given]
                getattr(super(), verb)(*names, record)
            except (StoreError, ValueError, TypeError, KeyError, AttributeError) as error:
                what = f"line {number} is damaged ({type(error).__name__}). Restore the file, or move it away"
                raise StoreError(self.name, what) from error
            if isinstance(record, Event):
                self._latest = max(self._latest, record.at)

        self._for_now = list(self._orders.values())

    def _read_own(self, verb: str, given: list[Any]) -> None:
        """Read a line that is about no stream."""
        if verb == "starts":
            self._starts = given[0]
        elif verb == "order":
            self._orders[given[0]] = RemoteCommand(*given)
        else:
            self._orders.pop(given[0], None)

    def _rewrite(self) -> None:
        self._starts += 1
        lines: list[list[Any]] = [["starts", self._starts]]
        for stream in (*self._unfinished, *self._finished):
            first, *others = self.read(stream)
            known = self._finished.get(stream) or self._unfinished[stream]
            lines.append(["create", stream, known.owner, encode(first)])
            lines += (["append", stream, encode(record)] for record in others)
        lines += (["finish", stream] for stream in self._finished)
        lines += map(_line_of, self._orders.values())
        fresh = self._path.with_name(f"{self._path.name}.new")
        self._file = os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        for line in lines:
            self._put(line)
        os.fsync(self._file)
        fresh.replace(self._path)

    def _put(self, line: list[Any]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        before = os.lseek(self._file, 0, os.SEEK_CUR)
        if not os.fstat(self._file).st_nlink:
            raise StoreError(self.name, "was removed or replaced while it was in use. Start the tree again")
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:  # a full disk, for example: no part of the line may stay
            os.ftruncate(self._file, before)
            os.lseek(self._file, before, os.SEEK_SET)
            raise StoreError(self.name, f"cannot be written: {error.strerror}") from error

    def _put_or_wait(self, line: list[Any]) -> None:
        """Write a line. If there is no room for it, it is written later, after those that wait already."""
        if not self._late:
            try:
                self._put(line)
            except StoreError as error:
                self._paused_at, self._kept = time.monotonic(), Reply()
                self._tell(StorePaused(self._root, error))
                threading.Thread(target=self._catch_up, name=f"{self._root}-store", daemon=True).start()
            else:
                return
        self._late.append(line)

    def _catch_up(self) -> None:
        while not self._closing.wait(RETRY_S):
            with self._write_lock:
                with suppress(StoreError):
                    self._put_late()
                if self._late:
                    continue
                kept, after_s = self._kept, time.monotonic() - self._paused_at
            self._tell(StoreResumed(self._root, after_s))
            kept.complete()
            return

    def _put_late(self) -> None:
        while self._late:
            self._put(self._late[0])
            self._late.popleft()

    def _tell(self, event: Event) -> None:
        if self.listener is not None:
            self.listener.publish(event)

    def flush(self) -> Reply | None:
        """None: all is kept. Else completed when there is room for what is late; fails if ``close`` comes before."""
        return self._kept if self._late else None

    @property
    def paused_s(self) -> float | None:
        """Seconds for which there has been no room; None: it writes."""
        return time.monotonic() - self._paused_at if self._late else None

    def _change(self, change: Callable[..., Any], verb: str, stream: str, *given: str | Event) -> Any:
        with self._write_lock:
            line = [verb, stream, *(encode(each) if isinstance(each, Event) else each for each in given)]
            if verb == "create":
                if self._find(stream) is not None:
                    return False
                if self._late:
                    raise StoreError(self.name, "cannot be written now: there is no room. Nothing new is begun")
                self._put(line)
            elif verb == "append" and self._find(stream) is None:
                raise KeyError(stream)
            else:
                self._put_or_wait(line)
            return change(stream, *given)

    def create(self, stream: str, owner: str, record: Event) -> bool:
        """Begin a stream; False if it exists already."""
        return bool(self._change(super().create, "create", stream, owner, record))

    def append(self, stream: str, *records: Event) -> None:
        """Add records to the end of a stream, a line for each."""
        for record in records:
            self._change(super().append, "append", stream, record)

    def remove(self, stream: str) -> None:
        """Forget a stream, and its parts."""
        self._change(super().remove, "remove", stream)

    def finish(self, stream: str) -> None:
        """Note that nothing more comes."""
        self._change(super().finish, "finish", stream)

    @property
    def name(self) -> str:
        """Path of the file."""
        return str(self._path)

    @property
    def token(self) -> int:
        """How often the file was opened."""
        return self._starts

    def time(self) -> float:
        """Seconds since 1970: they go on evenly, and are never less than what a record was told."""
        return self._wall + time.monotonic() - self._steady

    def heard_orders(self) -> Reply:
        """Completed at once, with the listener given what an earlier process has left: nobody else can leave any."""
        given, self._for_now = self._for_now, []
        for order in given:
            if self.listener is not None and order.id in self._orders:
                self.listener.order(order)
        heard = Reply()
        heard.complete()
        return heard

    def order_done(self, order: RemoteCommand) -> None:
        """Forget an order that an earlier process has left."""
        with self._write_lock:
            if order.id in self._orders:
                self._put_or_wait(["done", order.id])
                del self._orders[order.id]

    def leave_order(self, task: str, kind: str, body: dict[str, Any], at: float) -> bool:
        """Keep an order for the process that goes on; False where it cannot be written."""
        with self._write_lock:
            order = RemoteCommand(max(self._orders, default=0) + 1, task, kind, body, at)
            try:
                self._put_late()
                self._put(_line_of(order))
            except StoreError:
                return False
            self._orders[order.id] = order
        return True

    def close(self) -> None:
        """Write what is late, if there is room now, and let the file and its lock go."""
        self._closing.set()
        with self._write_lock:
            if self._late:
                try:
                    self._put_late()
                except StoreError as error:
                    self._kept.fail(error)
                else:
                    self._kept.complete()
            self._let_go()

    def _let_go(self) -> None:
        for descriptor in (self._file, self._lock_file):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock_file = -1


def _line_of(order: RemoteCommand) -> list[Any]:
    return ["order", order.id, order.task, order.kind, order.body, order.at]
