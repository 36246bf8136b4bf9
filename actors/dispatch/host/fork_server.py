"""Processes for workers, forked by a server: ``multiprocessing``'s forkserver, with a group and an environment of ours.

A host has threads, so it never forks: a child would inherit their locks and none of them. A server of one thread,
started fresh, imports what is to be preloaded and forks on demand: a start costs about 10 ms. There is one server for
each set of modules; it lives as long as its host: a pipe tells it of the end of that.

A server that was killed is started again with the next process that is wanted. Processes that it has forked go on: what
joins them to their host is a socket, and their end is seen without the server (``actors.dispatch.host.forked_handle``).

``_lock`` guards the server of one set of modules; a start of it takes as long as starting a program.
"""

from __future__ import annotations

import errno
import os
import pickle
import select
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing import connection, reduction, resource_tracker
from typing import Final

from actors.dispatch.groups.process_reader import see_to_guardian
from actors.dispatch.worker.worker_imports import IMPORTS, Imported
from actors.dispatch.worker.worker_main import Entry
from actors.model.errors import StartError

_AGAIN_AS_PYTHON: Final = "REGROW_RUN_AS_PYTHON"
"""Variable of what is run as an interpreter. A program that has it was run in place of one, by itself."""
READY_S: Final = 30.0
"""Seconds that an interpreter may take to start."""
_COMMAND: Final = (
    "import os, sys; os.environ.pop({again!r}); os.write({ready}, b'.'); os.close({ready}); sys.path[:] = {path!r}; "
    "from actors.dispatch.worker.worker_imports import preload; preload({modules!r}); "
    "from multiprocessing.forkserver import main; main({listener}, {alive}, [])"
)
_AGAIN: Final[dict[Imported, tuple[str, str]]] = {
    "script": (
        (
            "the process of a worker imports this script to find the worker's code, and the script starts its tree "
            "again while it is imported"
        ),
        "Put what starts the tree under 'if __name__ == \"__main__\":'.",
    ),
    "module": (
        (
            "the process of a worker imports the module of the worker's code, and that starts its tree again while it "
            "is imported"
        ),
        "Start the tree in a function, such as main() or the lifespan of an app, and not where its module is imported.",
    ),
}
"""Words for what is wrong, and for what to do."""


def refuse_while_importing(path: str) -> None:
    """Refuse to start the process of the worker at a path where this one imports the code of a worker.

    That process would import it as well, and so start another one, without end.

    Raises:
        StartError: it does.
    """
    if IMPORTS.what is not None:
        what, hint = _AGAIN[IMPORTS.what]
        raise StartError(path, what, hint, said=f"{what}. {hint}")


_NO_PYTHON: Final = (
    "The process of a worker needs a Python interpreter. Run the program by Python, set sys.executable to an "
    "interpreter where another program embeds Python, or run the worker on a thread or as a command."
)


class InterpreterError(RuntimeError):
    """There is no Python interpreter to run the process of a worker: ``sys.executable`` is another program, or none."""


class ForkServer:
    """One server, for the processes of workers that preload the same modules."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._modules = modules
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._address = ""
        self._alive = -1

    def dismiss(self) -> None:
        """End it, where nothing is being started; the processes that it has forked go on."""
        with self._lock:
            server, self._server = self._server, None
            if server is not None:
                os.close(self._alive)
                server.kill()  # it does nothing just now
                server.wait()

    def start_process(self, end: socket.socket) -> int:
        """Have a process forked that has this end of a socket; closes it here.

        Returns:
            Pipe from which the number of the process can be read, and later its exit code, as multiprocessing has it.

        Raises:
            OSError: none can be started.
            InterpreterError: there is no Python to run it.
        """
        try:
            for is_last in (False, True):
                with self._lock:
                    self._ensure()
                    address = self._address
                try:
                    return self._fork(address, end.fileno())
                except OSError:  # it was killed just now
                    if is_last:
                        raise
        finally:
            end.close()
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def _fork(self, address: str, end: int) -> int:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(address)
            status, told = os.pipe()
            heard, data = os.pipe()
            null = os.open(os.devnull, os.O_RDONLY)
            try:
                # In place of the pipe that keeps the server alive: a worker that runs on must not keep it.
                reduction.sendfds(client, [heard, told, null, resource_tracker.getfd() or 0, end])
                os.write(data, pickle.dumps({}) + pickle.dumps(Entry()))
            except BaseException:
                os.close(status)
                raise
            finally:
                for each in (heard, told, data, null):
                    os.close(each)
        return status

    def _ensure(self) -> None:
        server = self._server
        if server is not None:
            if server.poll() is None:
                return
            os.close(self._alive)
            self._server = None
        with socket.socket(socket.AF_UNIX) as listener:
            address = connection.arbitrary_address("AF_UNIX")  # type: ignore[attr-defined]
            listener.bind(address)
            with suppress(OSError):
                os.chmod(address, 0o600)  # noqa: PTH101 - an address, perhaps in no folder
            listener.listen(128)
            alive, kept = os.pipe()
            try:
                self._server = self._launch(listener.fileno(), alive)
            except BaseException:
                os.close(kept)
                raise
            finally:
                os.close(alive)
        self._address, self._alive = address, kept

    def _launch(self, listener: int, alive: int) -> subprocess.Popen[bytes]:
        program = sys.executable
        if getattr(sys, "frozen", False) or hasattr(sys.modules["__main__"], "__compiled__"):
            raise InterpreterError(f"this is a frozen program, and {program!r} is the program itself. {_NO_PYTHON}")
        if not program or _AGAIN_AS_PYTHON in os.environ:
            raise InterpreterError(f"sys.executable is {program!r}, which is no Python interpreter. {_NO_PYTHON}")
        see_to_guardian()
        path = [each or os.getcwd() for each in sys.path]  # noqa: PTH109 - as it stands there
        heard, ready = os.pipe()
        command = _COMMAND.format(
            again=_AGAIN_AS_PYTHON, ready=ready, path=path, modules=self._modules, listener=listener, alive=alive
        )
        try:
            server = subprocess.Popen(  # noqa: S603 - this interpreter
                [program, "-c", command],
                env=os.environ | {_AGAIN_AS_PYTHON: "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=(listener, alive, ready),
                start_new_session=True,
            )
            os.close(ready)
            ready = -1
            if not (select.select([heard], [], [], READY_S)[0] and os.read(heard, 1)):
                server.kill()
                code = server.wait()
                raise OSError(errno.ENOEXEC, f"it did not run Python code, and ended with code {code}")  # noqa: TRY301
        except OSError as error:
            what = f"the Python interpreter {program!r} cannot be run: {error.strerror}"
            raise InterpreterError(f"{what}. {_NO_PYTHON}") from error
        finally:
            os.close(heard)
            if ready >= 0:
                os.close(ready)
        return server


class ForkServers:
    """Servers of this host, by the modules that they preload."""

    def __init__(self) -> None:
        self._follows_forks = False
        self._lock = threading.Lock()
        self._servers: dict[tuple[str, ...], ForkServer] = {}

    def of(self, modules: tuple[str, ...]) -> ForkServer:
        """Return the server for these modules; it is started with its first process."""
        with self._lock:
            if not self._follows_forks:
                self._follows_forks = True
                os.register_at_fork(after_in_child=self._forked)
            found = self._servers.get(modules)
            if found is None:
                found = self._servers[modules] = ForkServer(modules)
            return found

    def dismiss(self) -> None:
        """End them all; they are started again when they are wanted."""
        with self._lock:
            servers = list(self._servers.values())
        for each in servers:
            each.dismiss()

    def _forked(self) -> None:
        """In the child of a fork: the servers are those of the parent."""
        self._lock = threading.Lock()
        self._servers = {}


SERVERS: Final = ForkServers()
"""The servers of this host."""
