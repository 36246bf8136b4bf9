"""Starts the processes of the workers of a cluster as forks of one that has imported what they need.

By itself a node starts Python for each, which imports Ray and this library: the better part of a second of work. Here
it starts this file in place of Ray's ``default_worker.py`` (Ray's option ``worker_path``), which hands its arguments,
environment and streams over, and ends. Ray reads the number of a job and of a node's process once, when it is
imported, so the workers of each job on each node are forks of a process of their own, which runs ``default_worker.py``
as that is in each. All of those are forks of the process that ``ray_workers`` starts.

A cluster that the library itself starts has nothing of this (``tests/actors/dispatch/host_in_a_cluster.py``), so both
ways are tried. Where there are no abstract sockets (they are Linux's), the cluster of other tests has neither.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PLACE = "REGROW_RAY_WORKERS"
"""Name of the variable that says where one listens who forks."""
_SERVES = "serves"
_PATIENCE_S = 60.0
_LIMIT = 1 << 20
"""Bytes of a request: arguments and an environment."""
_FIRST = ("trees",)
_THEN = ("ray._private.node", "ray._private.async_compat", "ray._private.runtime_env.setup_hook")
_FIXED = ("RAY_JOB_ID", "RAY_RAYLET_PID")
"""What Ray reads when it is imported."""
_SAME = ("PYTHONPATH", "VIRTUAL_ENV")
"""Variables by which Python finds what it imports: a process that has others is none of ours."""


@contextlib.contextmanager
def ray_workers() -> Iterator[dict[str, str]]:
    """Start the process that is forked; what a node is to be given to ask it. It ends with the block, or with us."""
    if sys.platform != "linux":
        yield {}
        return
    place = f"regrow-ray-workers-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{place}")
        listener.listen(64)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.ray_workers", _SERVES, str(listener.fileno())],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )
    os.environ[PLACE] = place  # of every node that is started from here on
    try:
        yield {"worker_path": __file__}
    finally:
        del os.environ[PLACE]
        process.communicate(timeout=_PATIENCE_S)


# -- in the process that a node starts -----------------------------------------------------------------------


def ask_for_a_fork() -> None:
    """Have a fork do what this process was started for."""
    order = {"args": sys.argv[1:], "env": dict(os.environ), "cwd": str(Path.cwd()), "python": sys.executable}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
        asked.connect(f"\0{os.environ[PLACE]}")
        socket.send_fds(asked, [json.dumps(order).encode()], [0, 1, 2])
        file = asked.recv(_LIMIT).decode()
    if file:  # it would have imported something else
        os.execv(sys.executable, [sys.executable, file, *sys.argv[1:]])  # noqa: S606 - it is this one


# -- in the processes that are forked ------------------------------------------------------------------------


def _serve(listener: socket.socket, file: str) -> socket.socket | None:
    """Hand on what is asked for, until the input ends.

    Returns in a fork that is to do it, for one job on one node: where it hears of it.
    """
    doers: dict[tuple[str | None, ...], socket.socket] = {}
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        asked, _ = listener.accept()
        with asked:
            message, fds, _, _ = socket.recv_fds(asked, _LIMIT, 3)
            order: dict[str, Any] = json.loads(message)
            env = order["env"]
            is_ours = order["python"] == sys.executable and all(env.get(name) == os.environ.get(name) for name in _SAME)
            if is_ours:
                whose = tuple(env.get(name) for name in _FIXED)
                if whose not in doers:
                    doers[whose], hears = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                    if not os.fork():
                        for each in doers.values():
                            each.close()
                        os.environ.update({name: env[name] for name in _FIXED if name in env})
                        return hears
                    hears.close()
                socket.send_fds(doers[whose], [message], fds)
            asked.send(b"" if is_ours else file.encode())
        for each in fds:
            os.close(each)
    return None


def _fork(hears: socket.socket) -> dict[str, Any] | None:
    """Fork as often as somebody is asked for. In a fork: return the order; None: there will be no more."""
    while True:
        message, fds, _, _ = socket.recv_fds(hears, _LIMIT, 3)
        if not message:
            return None
        if not os.fork():
            os.setpgid(0, 0)  # as a node has them: it ends the group of one that ends
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
                os.close(fd)
            order: dict[str, Any] = json.loads(message)
            return order
        for each in fds:
            os.close(each)


def _imported(*names: str) -> None:
    for name in names:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    """Import what a worker needs, and fork."""
    ray = find_spec("ray")
    assert ray is not None
    assert ray.origin is not None
    file = str(Path(ray.origin).parent / "_private" / "workers" / "default_worker.py")
    _imported(*_FIRST)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for its forks
    with socket.socket(fileno=int(sys.argv[2])) as listener:
        hears = _serve(listener, file)
    if hears is None:
        return
    with hears:
        _imported(*_THEN)
        order = _fork(hears)
    if order is not None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["cwd"])
        sys.path[0] = str(Path(file).parent)
        sys.argv = [file, *order["args"]]
        runpy.run_path(file, run_name="__main__")


if __name__ == "__main__":
    main() if sys.argv[1:2] == [_SERVES] else ask_for_a_fork()
