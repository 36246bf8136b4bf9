"""The host's end of the wire to one worker elsewhere: a stream of frames, written and read on the loop's thread.

Nothing here blocks: what cannot be written at once is kept, and written when there is room. What stands at the other
end, how it is started and how its end is seen, is said by whoever derives from it: a process of this host
(``actors.dispatch.host.forked_handle``), or an actor of a cluster (``actors.dispatch.host.ray_handle``).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from actors.dispatch.remote import Frame, FrameReader, Kind, Parts, frame

ROOM: Final = 1024 * 1024
"""Bytes that the socket may hold, where the system allows it."""


class HandleOwner(Protocol):
    """Owner of a worker elsewhere."""

    def took(self, frame: Frame) -> None:
        """Take a frame of the worker."""

    def died(self, exit_code: int | None, number: int | None, node: str | None = None, pid: int | None = None) -> None:
        """Take note of its end, once: its exit code, or a signal, where these are known; or the node that is lost."""


class WorkerPlace(Protocol):
    """Place where the incarnations of a worker run that are not in this process."""

    def handle(self, owner: HandleOwner) -> WorkerHandle:
        """Return the handle of one incarnation, which is not started yet. On the thread of the loop."""


class WorkerHandle:
    """One worker elsewhere. Used on the thread of one event loop."""

    def __init__(self, owner: HandleOwner) -> None:
        self.pid: int | None = None
        """Number of its process on this host, while it is there."""
        self.node: str | None = None
        """Id of the node of a cluster that it runs on; None: it runs on this host, or on none yet."""
        self.environment: Mapping[str, str] | None = None
        """Environment of this host, for a process of it. None: it runs where there is another environment."""
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._ours, self._theirs = socket.socketpair()
        for each in (self._ours, self._theirs):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                with suppress(OSError):
                    each.setsockopt(socket.SOL_SOCKET, option, ROOM)
        self._ours.settimeout(0)
        self._reader = FrameReader(self._ours)
        self._unsent: deque[Any] = deque()
        self._is_open = True
        self._is_gone = False
        """True once its end was told."""
        self._last = -1
        """Number of the message that was written last, where nothing was written after it."""
        self._is_unread = False
        """True where something that was written last has never been read."""

    # -- what each kind says -------------------------------------------------------------------------------

    @property
    def waits_for(self) -> str:
        """Description of what its start waits for."""
        return "its process has not been started"

    async def start(self) -> None:
        """Have it started; returns when it is there.

        Raises:
            Exception: it cannot be.
        """
        raise NotImplementedError

    def kill(self) -> None:
        """Kill it, whatever it does; its end is told as any."""
        raise NotImplementedError

    async def end(self) -> None:
        """Kill it, and wait until it is gone."""
        raise NotImplementedError

    def _said_hello(self, number: int) -> None:
        """Take note that it is there."""
        raise NotImplementedError

    def _wire_ended(self) -> None:
        """Take note that nobody is at the other end any more."""
        raise NotImplementedError

    # -- frames --------------------------------------------------------------------------------------------

    def send(self, kind: Kind, number: int, parts: Parts) -> None:
        """Write a frame, as soon as there is room. To a worker that is gone nothing is written."""
        is_message = kind is Kind.MESSAGE
        if not self._is_open or self._is_gone:
            if is_message:
                self._last, self._is_unread = number, True
            return
        self._last = number if is_message else -1
        pieces = frame(kind, number, parts)
        if self._unsent:
            self._unsent.extend(memoryview(each) for each in pieces)
            return
        for at, piece in enumerate(pieces):
            sent = self._sent(piece)
            if sent < len(piece):
                self._unsent.append(memoryview(piece)[sent:])
                self._unsent.extend(memoryview(each) for each in pieces[at + 1 :])
                self._loop.add_writer(self._ours, self._writable)
                return

    def is_unread(self, number: int) -> bool:
        """True where it has ended without having read this message: nobody has begun to handle it."""
        return self._is_gone and self._is_unread and self._last == number

    def _sent(self, piece: Any) -> int:
        try:
            return self._ours.send(piece)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self._is_unread = True
            return len(piece)  # it is gone: its end is seen elsewhere

    def _writable(self) -> None:
        while self._unsent:
            piece = self._unsent[0]
            sent = self._sent(piece)
            if sent < len(piece):
                self._unsent[0] = piece[sent:]
                return
            self._unsent.popleft()
        self._loop.remove_writer(self._ours)

    def _listen(self) -> None:
        """Read from now on."""
        self._loop.add_reader(self._ours, self._readable)

    def _readable(self) -> None:
        if self._receive() or not self._is_open:
            return
        self._loop.remove_reader(self._ours)
        self._wire_ended()

    def _receive(self) -> bool:
        """Read once; False at the end."""
        try:
            more = self._reader.receive()
        except (BlockingIOError, InterruptedError):
            return True
        except ConnectionResetError:
            self._is_unread, more = True, False
        except OSError:
            more = False
        frames = self._reader.frames
        while frames and self._is_open:
            each = frames.popleft()
            if each.kind == Kind.HELLO:
                self._said_hello(each.number)
            else:
                self._owner.took(each)
        return more

    def _drain(self) -> None:
        """Read what it has written before it ended."""
        while True:
            try:
                if not self._reader.receive():
                    break
            except ConnectionResetError:
                self._is_unread = True
                break
            except OSError:
                break
        while self._reader.frames:
            self._owner.took(self._reader.frames.popleft())

    def _close_wire(self) -> None:
        self._loop.remove_writer(self._ours)
        self._loop.remove_reader(self._ours)
        self._ours.close()
