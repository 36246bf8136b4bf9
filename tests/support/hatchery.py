"""Real processes that run ``python -m trees`` or a program, forked from one that has imported all that they need.

To start Python and to import a command, its database drivers included, takes the better part of a second of work, and
most tests of commands start several. Here one process a run imports them once, and each command is a fork of it,
with a number, signals, streams, an environment, a working directory and an exit of its own, as if it had been started.
Its session and its parent are those of the hatchery.
The parent of these processes is the hatchery, which hands over how each one ended; that it ended shows in its pidfd.

All processes of a run have the same one: each order brings the socket on which it is answered.

Where there are no pidfds (they are Linux's), the commands are started as they are.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
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
import sysconfig
import tempfile
import threading
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import IO, Any, Self

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
_LIMIT = 1 << 20
"""Bytes of a request: arguments and an environment."""
_MOST_FILES = 8
_END = b"{}"
"""The order to end."""
_ALL = (
    "actors.testing",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "trees.cli",
    "trees.store.sql",
)
"""What is imported before the first fork."""
_SPENT_S: list[float] = []
_PACKAGES = [
    *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    ROOT / "actors",
    ROOT / "trees",
]

# -- in the process of the tests ---------------------------------------------------------------------------


class Hatched:
    """One process; what of ``subprocess.Popen`` the tests use."""

    def __init__(
        self,
        hatchery: Hatchery,
        args: list[str],
        cwd: Path,
        env: Mapping[str, str],
        *,
        talks: bool = False,
        keeps: Sequence[int] = (),
        imports: Sequence[str] = (),
    ) -> None:
        """Start one.

        Args:
            hatchery: Forks it.
            args: Those of Python: ``-W error`` or not; then ``-m module``, ``-c program`` or a file; and its own.
            cwd: Where it works.
            env: Its environment.
            talks: It reads ``stdin``; else it has no input.
            keeps: File descriptors of this process that it has under the same numbers.
            imports: Modules of packages that are imported before it is forked, and so for all that follow.
        """
        self.args = args
        self.returncode: int | None = None
        self._hatchery = hatchery
        theirs = dict(zip(keeps, keeps, strict=True))
        out, theirs[1] = os.pipe()
        err, theirs[2] = os.pipe()
        self.stdin: IO[str] | None = None
        if talks:
            theirs[0], ours = os.pipe()
            self.stdin = os.fdopen(ours, "w", encoding="utf-8")
        self.pid = hatchery.hatch(args, cwd, env, theirs, imports)
        for number, fd in theirs.items():
            if number not in keeps:
                os.close(fd)
        self._ended = os.pidfd_open(self.pid)
        self.stdout: IO[str] = os.fdopen(out, encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(err, encoding="utf-8")

    def poll(self) -> int | None:
        """Return its exit code, if it has ended."""
        if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
            self.returncode = self._hatchery.exit_code(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if self.returncode is None and not select.select([self._ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def stands_still(self) -> bool:
        """Wait until it stands still, once it was sent SIGSTOP; False where it has ended instead."""
        return self._hatchery.stands_still(self.pid)

    def communicate(self, said: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Say the last of its input, read what is left of its output, and wait for its end."""
        if self.stdin is not None and said:
            with contextlib.suppress(BrokenPipeError):  # it has ended, or does not want it
                self.stdin.write(said)
        self._end_input()
        found: dict[str, str] = {}
        readers = [
            threading.Thread(target=lambda name=name, stream=stream: found.update({name: stream.read()}), daemon=True)  # type: ignore[misc]
            for name, stream in (("out", self.stdout), ("err", self.stderr))
        ]
        for each in readers:
            each.start()
        for each in readers:
            each.join(timeout)
        if any(each.is_alive() for each in readers):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        self.wait(timeout)
        return found["out"], found["err"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is not None:
            self.kill()
        self._end_input()
        self.wait(PATIENCE_S)
        self.close()

    def _end_input(self) -> None:
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # what is left of it is for nobody
                self.stdin.close()

    def close(self) -> None:
        """Close what this process has of it; once: its numbers may be those of other files by the second time."""
        self._end_input()
        for each in (self.stdout, self.stderr):
            each.close()
        ended, self._ended = self._ended, -1
        if ended >= 0:
            os.close(ended)


class Hatchery:
    """The process that waits for orders, and imports what they need with the first one."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._starter = os.getpid()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.hatchery", str(theirs.fileno())],
                cwd=ROOT,
                env=os.environ | {"PYTHONUTF8": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # as it is for its forks: what Python does with a stream depends on its kind
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
            )

    def _order(self, order: dict[str, Any], fds: list[int]) -> str:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                socket.send_fds(self._socket, [json.dumps(order).encode()], [theirs.fileno(), *fds])
            answer = ours.recv(_LIMIT)
        assert answer, f"the hatchery has ended: {self._process.communicate()[1].decode()}"
        return answer.decode()

    def hatch(
        self, args: list[str], cwd: Path, env: Mapping[str, str], fds: Mapping[int, int], imports: Sequence[str] = ()
    ) -> int:
        """Fork a process; its number. It has the cores of this one, as a child of it would, and files by number."""
        order = {"args": args, "cwd": str(cwd), "env": dict(env), "cores": sorted(os.sched_getaffinity(0))}
        return int(self._order(order | {"numbers": list(fds), "imports": list(imports)}, list(fds.values())))

    def stands_still(self, pid: int) -> bool:
        """Wait until a process that was sent SIGSTOP stands still; False where it has ended instead."""
        return self._order({"stopped": pid}, []) == "1"

    def exit_code(self, pid: int) -> int:
        """How a process that has ended did: as ``subprocess`` tells it."""
        code, spent_s = self._order({"reap": pid}, []).split()
        _SPENT_S.append(float(spent_s))
        return int(code)

    def close(self) -> None:
        """Leave nothing of it, if this process has started it."""
        if os.getpid() == self._starter:
            with contextlib.suppress(OSError), self._socket:  # it has ended
                self._socket.send(_END)
            self._process.communicate(timeout=PATIENCE_S)


@functools.cache
def hatchery() -> Hatchery:
    """Return the one of this run, started when it is first needed, or before the run was split into processes."""
    return Hatchery()


def spent_s() -> float:
    """Return how many seconds of CPU time those have needed that this process has had forked, and that have ended."""
    return sum(_SPENT_S)


def share() -> None:
    """Start the one of this run, for all forks of this process."""
    if hasattr(os, "pidfd_open"):
        hatchery()


def close() -> None:
    """End the one of this run, if this process has started one."""
    if hatchery.cache_info().currsize:
        hatchery().close()
        hatchery.cache_clear()


def started(
    *args: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Hatched | subprocess.Popen[str]:
    """Start ``python -m trees`` with these arguments."""
    return python("-m", "trees", *args, cwd=cwd, env=env)


def python(
    *args: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    talks: bool = False,
    keeps: Sequence[int] = (),
    imports: Sequence[str] = (),
) -> Hatched | subprocess.Popen[str]:
    """Start Python; see ``Hatched`` for the arguments."""
    words = [str(each) for each in args]
    if hasattr(os, "pidfd_open"):
        own = os.environ if env is None else env
        return Hatched(hatchery(), words, cwd or Path.cwd(), own, talks=talks, keeps=keeps, imports=imports)
    pipes: dict[str, int] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    pipes["stdin"] = subprocess.PIPE if talks else subprocess.DEVNULL
    return subprocess.Popen([sys.executable, *words], cwd=cwd, env=env, text=True, pass_fds=keeps, **pipes)


def wait_until_stopped(process: Hatched | subprocess.Popen[str]) -> None:
    """Wait until one that was sent SIGSTOP stands still."""
    if isinstance(process, Hatched):
        assert process.stands_still()
    else:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def ran(
    *args: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    said: str | None = None,
    timeout: float = PATIENCE_S,
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end, with this input; ended if that takes longer than so many seconds."""
    with python(*args, cwd=cwd, env=env, talks=said is not None) as process:
        out, err = process.communicate(said, timeout=timeout)
        code = process.wait(timeout)
    return subprocess.CompletedProcess([str(each) for each in args], code, out, err)


# -- in the process that is forked -------------------------------------------------------------------------


def _serve(orders: socket.socket) -> Callable[[], None] | None:
    """Take orders until it is to end, or nobody can give any. In a fork: return what it has to do."""
    told, tells = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    while True:
        message, fds, _, _ = socket.recv_fds(orders, _LIMIT, _MOST_FILES)
        if message in {b"", _END}:
            told.close()
            tells.close()
            return None
        order = json.loads(message)
        with socket.socket(fileno=fds[0]) as answer:
            if "reap" in order:
                _, status, used = os.wait4(order["reap"], 0)
                answer.send(f"{os.waitstatus_to_exitcode(status)} {used.ru_utime + used.ru_stime:.3f}".encode())
                with contextlib.suppress(BlockingIOError):
                    _learn(told.recv(_LIMIT).decode().split())
                continue
            if "stopped" in order:
                found = os.waitid(os.P_PID, order["stopped"], os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                answer.send(b"1" if found is not None and found.si_code == os.CLD_STOPPED else b"0")
                continue
            _learn([*_ALL, *order["imports"]])
            pid = os.fork()
            if not pid:
                orders.close()
                told.close()
                return functools.partial(_become, order, fds[1:], tells)
            answer.send(str(pid).encode())
        for each in fds[1:]:
            os.close(each)


def _learn(names: Sequence[str]) -> None:
    """Import what a fork has imported, or will."""
    new = [name for name in names if name not in sys.modules]
    for name in new:
        with contextlib.suppress(ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fork imports it under the filters of its user
            importlib.import_module(name)
    if new:
        gc.collect()
        gc.freeze()


def _tell(tells: socket.socket, known: frozenset[str]) -> None:
    """Say which modules of packages this fork has imported."""
    new = [name for name, module in list(sys.modules.items()) if name not in known and _is_of_a_package(module)]
    with tells, contextlib.suppress(BlockingIOError):
        if new:
            tells.send(" ".join(new).encode())


def _is_of_a_package(module: ModuleType) -> bool:
    """Say whether a module is installed, or one of this repository's two packages."""
    origin = getattr(getattr(module, "__spec__", None), "origin", None) or ""
    return origin == "built-in" or any(Path(origin).is_relative_to(root) for root in _PACKAGES)


def _become(order: dict[str, Any], fds: list[int], tells: socket.socket) -> None:
    """Be the process that was ordered."""
    above = max(order["numbers"]) + 1
    tells = socket.socket(fileno=fcntl.fcntl(tells.detach(), fcntl.F_DUPFD_CLOEXEC, above))
    atexit.register(_tell, tells, frozenset(sys.modules))
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in fds]  # one may be in the place of another
    for each in fds:
        os.close(each)
    for number, fd in zip(order["numbers"], moved, strict=True):
        os.dup2(fd, number)
        os.close(fd)
    if 0 in order["numbers"]:
        sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - of a pipe, not of nothing
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    os.sched_setaffinity(0, order["cores"])
    tempfile.tempdir = None  # found anew, in its own environment
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests were started by nohup
    args = order["args"]
    more = order["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [each for each in more if each and each not in sys.path]
    if args[:1] == ["-W"]:
        sys.warnoptions.append(args[1])
        warnings.simplefilter(args[1])
        args = args[2:]
    if args[0] == "-m":
        sys.path[0] = order["cwd"]
        sys.argv = args[1:]
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    elif args[0] == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *args[2:]]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(args[1], "<string>", "exec"), main.__dict__)  # noqa: S102 - it is ours
    else:
        sys.path[0] = str(Path(args[0]).resolve().parent)
        sys.argv = args
        runpy.run_path(args[0], run_name="__main__")


def main() -> None:
    """Take orders, and fork."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the tests
    with contextlib.closing(socket.socket(fileno=int(sys.argv[1]))) as orders:
        act = _serve(orders)
    if act is not None:
        act()


if __name__ == "__main__":
    main()
