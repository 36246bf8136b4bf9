"""The worker's half in a cluster: an actor of Ray whose methods carry the bytes of the wire, and nothing else.

What runs there is what runs in a process of the host (``actors.dispatch.worker.worker_main``), on a thread of the
actor. The wire ends in a socket of this process; Ray carries what is written to it and what is read from it. This
module does not import Ray: the host makes an actor of ``RayWorker`` (``actors.dispatch.ray``).
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from actors.concurrency.thread_state import start_thread
from actors.dispatch.remote import Kind
from actors.dispatch.worker.worker_main import Link, Setup, find_main_later, run_worker

PIECE: Final = 1024 * 1024
"""Bytes that one message of Ray carries at most."""
_MAIN: Final = ("init_main_from_name", "init_main_from_path")


class RayWorker:
    """One incarnation of a worker. Its methods run on threads of their own, beside each other."""

    def __init__(self, node: Callable[[], str]) -> None:
        self._node = node
        self._here, self._there = socket.socketpair()

    def begin(self) -> str:
        """Begin to run the worker's half; the id of this node."""
        start_thread(threading.Thread(target=self._run, name="worker", daemon=True))
        return self._node()

    def take(self, piece: bytes) -> None:
        """Hand on what the host has written."""
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended: the host hears of it from ``told``
            self._here.sendall(piece)

    def told(self) -> Iterator[bytes]:
        """Yield what the worker has written, up to its end."""
        while piece := self._here.recv(PIECE):
            yield piece

    def _run(self) -> None:
        try:
            link = Link(self._there)
            link.send(Kind.HELLO, os.getpid(), [b""])
            run_worker(link, _prepare)
        finally:
            self._there.close()


def _prepare(setup: Setup) -> None:
    """Set this process up as far as it is not Ray's: modules of the host are found where this node has them as well."""
    os.environ.update(setup.env)
    python: dict[str, Any] = setup.python
    sys.path += [each for each in python.get("sys_path", ()) if each not in sys.path]
    find_main_later({name: python[name] for name in _MAIN if name in python})
    importlib.invalidate_caches()
