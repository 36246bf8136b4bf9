"""Server of a page: a thread with an event loop of its own, which cannot hurt the tree.

It knows a source, and nothing of the tree behind it: no worker, no supervisor and no thread of the tree runs its code,
and nothing of the tree waits for it. So it has no part in any restart limit. Its life::

    open     the port is bound, in the thread of whoever opens the page: a port that is taken is an error there
    serving  the thread runs uvicorn on that port
    crashed  the loop ended by itself: told by ``PageFailed``, and begun anew after a pause that grows up to 5 s; the
             port stays bound meanwhile, so browsers wait and do not fail
    stopped  ``stop()``, or the end of the tree: streams end, connections are closed, the port is free

There is no lock between the thread and whoever stops it, who may be a signal handler or a finalizer. The thread makes
a server known and then looks whether it is to stop; who stops it says so and then looks for a server. So one of them
sees the other. A server that hears of its end before it serves does not begin.
"""

from __future__ import annotations

import asyncio
import errno
import os
import platform
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import uvicorn

from actors.concurrency.thread_state import after_fork, join_thread
from actors.concurrency.wakeup import Flag
from actors.execution.daemon_executor import DaemonExecutor
from trees.observe.source import Source
from trees.observe.web.access import Access
from trees.observe.web.event_feed import EventFeed
from trees.observe.web.patient_protocol import MOST_ACCEPTED, MOST_HEAD, PatientProtocol
from trees.observe.web.web_app import MOST_ACTS, Handlers, web_app
from trees.observe.web.web_settings import Web, WebError

STOP_S: Final = 5.0
"""Seconds that a stop waits for the thread."""
GRACE_S: Final = 1
"""Seconds for requests that are under way at a stop."""
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
KEEP_ALIVE_S: Final = 15
MOST_AT_WORK: Final = 4
"""Calls of the source at a time; more wait for their turn."""
_TICK_S: Final = 1.0
Failed = Callable[[BaseException, float], object]
"""Is told of an error and, where the server begins anew, after how many seconds; 0: it goes on."""


class WebServer:
    """An open page: ``.url`` is the link to it, ``stop()`` closes it."""

    def __init__(self, source: Source, settings: Web, failed: Failed, without_token: Source | None = None) -> None:
        self._source = source
        self._without_token = source if without_token is None else without_token
        self._failed = failed
        self._listener = _listen(settings.host, settings.port)
        self._token = settings.token if settings.token is not None else secrets.token_urlsafe(32)
        self.port: int = self._listener.getsockname()[1]
        """Port that it listens at."""
        self.host = settings.host
        """Address that it listens at."""
        names = frozenset(name.lower() for name in settings.names)
        self._access = Access(settings.host, self.port, platform.node() or "localhost", self._token, names)
        self._server: _Uvicorn | None = None
        self._stopped = Flag()
        self.restarts = 0
        """Restarts after a crash of its own."""
        name = f"{source.name}-web"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        after_fork(self)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._listener.close()
            raise WebError(self.address, "the machine gives no thread for the page", "Open it later.") from error

    def __repr__(self) -> str:
        return f"<WebServer {self.address} {'up' if self.is_up else 'down'}>"

    @property
    def address(self) -> str:
        """Address without the token."""
        host = self.host.strip("[]")
        if host in {"0.0.0.0", "::"}:  # noqa: S104 - it is shown, not bound
            host = platform.node() or "localhost"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    @property
    def url(self) -> str:
        """Link to the page, with the token in its query: whoever has it may operate the tree."""
        return f"{self.address}?token={self._token}"

    @property
    def token(self) -> str:
        """Token, for programs: ``Authorization: Bearer TOKEN``."""
        return self._token

    @property
    def is_up(self) -> bool:
        """True until it is stopped."""
        return not self._stopped.is_set()

    def stop(self) -> None:
        """Close the page and free its port; returns when that is done. A second call changes nothing."""
        self.end()
        join_thread(self._thread, STOP_S)

    def end(self) -> None:
        """Do this without waiting."""
        self._stopped.set()
        server = self._server
        with suppress(OSError):
            self._listener.close()
        if server is not None:
            server.leave()

    def forked(self) -> None:
        """In the child of a fork: its copy of the socket must not keep the port."""
        self._stopped = Flag()
        self._stopped.set()
        self._server = None
        self._listener.close()

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._stopped.is_set():
            try:
                asyncio.run(self._serve())
            except BaseException as error:  # noqa: BLE001 - whatever it dies of, the page comes back
                if not self._stopped.is_set():
                    self._failed(error, pause)
            if not self._stopped.is_set():
                self.restarts += 1
                self._stopped.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
        self._source.close()

    async def _serve(self) -> None:
        calls = DaemonExecutor(f"{self._source.name}-web-call", most=MOST_AT_WORK)
        asyncio.get_running_loop().set_default_executor(calls)
        sources = [self._source, self._without_token]
        feeds = [EventFeed(source) for source in sources]
        acts = DaemonExecutor(f"{self._source.name}-web-act", most=MOST_ACTS)
        full, plain = (Handlers(source, feed, self._access, acts) for source, feed in zip(sources, feeds, strict=True))
        app = web_app(full, plain, self._access, lambda error: self._failed(error, 0.0))
        server = _Uvicorn(_config(app), feeds)
        try:
            listening = self._listener.dup()  # uvicorn closes what it is given
        except OSError:
            if self._stopped.is_set():
                return
            raise
        self._server = server
        try:
            if not self._stopped.is_set():
                await server.serve([listening])
        finally:
            self._server = None
            for feed in feeds:
                feed.close()
            acts.shutdown()
            listening.close()


def _config(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=MOST_HEAD,
        backlog=MOST_ACCEPTED,
    )


class _Uvicorn(uvicorn.Server):
    """The server of uvicorn: signals are those of its host, and it sleeps while nothing happens."""

    def __init__(self, config: uvicorn.Config, feeds: list[EventFeed]) -> None:
        super().__init__(config)
        self._feeds = feeds
        self._has_left = False
        self._over: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    def leave(self) -> None:
        """End soon; from any thread."""
        self._has_left = True
        loop, over = self._loop, self._over
        if loop is not None and over is not None:
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(over.set)

    async def main_loop(self) -> None:
        """Turn once a second, for the time in the headers, until it is to end."""
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        counter = 0
        while not self._has_left and not await self.on_tick(counter):
            counter += 10
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _TICK_S)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then all else."""
        for feed in self._feeds:
            feed.close()
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    name = host.strip("[]")
    where = f"{host}:{port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise WebError(where, "is no address of this machine", "Give host='127.0.0.1', or leave it out.") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(MOST_ACCEPTED)
    except OSError as error:
        listener.close()
        raise _cannot_bind(where, error) from error
    listener.setblocking(False)  # noqa: FBT003 - its name
    return listener


def _cannot_bind(where: str, error: OSError) -> WebError:
    if error.errno == errno.EADDRINUSE:
        what, hint = "the port is taken by another program, or another tree", "Give another port, or 0 for a free one."
    elif error.errno == errno.EACCES:
        what, hint = "this user may not listen there", "Give a port from 1024 on, or 0 for a free one."
    else:
        what, hint = f"cannot be listened at ({error.strerror or error})", "Give host='127.0.0.1', or leave it out."
    return WebError(where, what, hint)
