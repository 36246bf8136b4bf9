"""Workers for processes: a process imports this, and nothing else of the tests."""

import asyncio
import ctypes
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from loguru import logger

import actors
from actors.dispatch.ray import node_here

SLEEPS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"

KEPT: dict[str, actors.Ref] = {}


class OddError(Exception):
    """An error that can be pickled, and not rebuilt."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Buffer:
    """A value with a large buffer, as an array of numbers has one."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Buffer, (pickle.PickleBuffer(self.data),)


class Explosive:
    """A message that can be pickled, and not rebuilt."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def asked_for(path: str) -> Any:
    """Rebuild a message with the reply of somebody else."""
    return (KEPT.get(path) or actors.ref(path)).ask("anything", timeout=60)


class Asking:
    """A message whose code asks somebody where it is rebuilt."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return asked_for, (self.path,)


class WatchfulError(Exception):
    """An error that ends whoever looks at one of its attributes."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(name)


class Leaving:
    """A message that can be pickled, and ends the program where it is rebuilt."""

    def __reduce__(self) -> Any:
        return sys.exit, ("rebuilt",)


def give(message: Any) -> Any:
    """Answer with something that ends whoever rebuilds it, or with twice a number."""
    return Leaving() if message == "leaving" else message * 2


def spin() -> None:
    while True:
        pass


def below() -> int:
    """Start a process that is deaf to SIGTERM; its number."""
    process = subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process.pid


def segfault() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def do(message: Any) -> Any:  # noqa: C901, PLR0911, PLR0912 - one word, one act
    """Act on a word, or on (word, argument ...)."""
    word, *rest = message if isinstance(message, tuple) else (message,)
    match word:
        case "echo":
            return rest[0]
        case "pid":
            return os.getpid()
        case "node":
            return node_here()
        case "ids":
            return os.getpid(), os.getpgid(0), os.getsid(0), threading.current_thread() is threading.main_thread()
        case "watchful":
            raise WatchfulError("said")
        case "segfault":
            segfault()
        case "null":
            ctypes.string_at(0)
        case "exit":
            os._exit(rest[0])
        case "raise":
            raise rest[0]
        case "odd":
            raise OddError(1, 2)
        case "leave":
            sys.exit(3)
        case "lock":
            return threading.Lock()
        case "ask":
            return actors.ref(rest[0]).ask(rest[1], timeout=rest[2] if len(rest) > 2 else 5.0)
        case "ask later":
            return actors.ref(rest[0]).ask(rest[1], timeout=60.0, block=False).get(timeout=rest[2])
        case "ask and go":
            late = actors.ref(rest[0]).ask(rest[1], timeout=60.0, block=False)
            with suppress(actors.ReplyTimeoutError):
                late.get(timeout=0.01)
            return actors.ref(rest[2]).ask(rest[3], timeout=60.0)
        case "tell":
            actors.ref(rest[0]).tell(rest[1])
        case "keep":
            KEPT[rest[0]] = actors.ref(rest[0])
        case "kept":
            return getattr(KEPT[rest[0]], rest[1])(*rest[2:])
        case "spin":
            spin()
        case "hold the gil":
            Path(rest[0]).touch()
            re.match(r"(a+)+b", "a" * 100)
        case "below":
            return below()
        case "eat":
            return len(bytearray(rest[0] * 1024 * 1024))
        case "environment":
            return os.environ.get(rest[0]), str(Path.cwd())
        case "log":
            logger.warning(rest[0])
        case "until stopped":
            Path(rest[0]).touch()
            actors.sleep(rest[1] if len(rest) > 1 else 600)
            return "stopped"
        case "beat":
            for _ in range(int(rest[0] / 0.02)):
                threading.Event().wait(0.02)
                actors.heartbeat()
            return "beaten"
        case _:
            return message * 2
    return None


class Counter(actors.Worker):
    """A worker with state that notes its hooks in a file."""

    def __init__(self, notes: str = os.devnull) -> None:
        self.notes = Path(notes)
        self.n = 0

    def note(self, what: str) -> None:
        with self.notes.open("a") as file:
            file.write(f"{what}\n")

    def on_start(self) -> None:
        self.note("on_start")

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, int):
            self.n += message
            return self.n
        if message == "end":
            self.stop()
            return "ended"
        return do(message)

    def total(self) -> int:
        return self.n

    def on_stop(self) -> None:
        self.note("on_stop")

    def on_failure(self, kind: Any, value: Any, traceback: Any) -> None:
        self.note(f"on_failure {kind.__name__}")


class Knob:
    """A traversable attribute."""

    pykka_traversable = True

    def __init__(self) -> None:
        self.volume = 3

    def louder(self, by: int) -> int:
        self.volume += by
        return self.volume


class Shown(actors.Worker):
    """What a proxy shows."""

    limit = 10
    knob = Knob()

    def __init__(self) -> None:
        self.count = 0
        self.own = Knob()

    def add(self, number: int, *, times: int = 1) -> int:
        self.count += number * times
        return self.count

    def add_later(self, number: int) -> None:
        """Leave work for itself."""
        self.actor_ref.proxy().add(number)


def by_proxy(message: tuple[str, str]) -> Any:
    """Use the proxy of a path as a user would; what came of it. In any process."""
    path, use = message
    proxy = actors.ref(path).proxy()
    return _USES[use](proxy) if use in _USES else getattr(proxy, use).get(timeout=60)


def _set(proxy: Any) -> Any:
    proxy.count = 5
    return proxy.count.get(timeout=60), proxy.limit.get(timeout=60)


def _traverse(proxy: Any) -> Any:
    knob = proxy.knob
    knob.volume = 7
    return knob.louder(4).get(timeout=60), knob.volume.get(timeout=60)


_LOOKED_FOR = {"add", "limit", "_regrow_incarnation"}
_USES: dict[str, Callable[[Any], Any]] = {
    "call": lambda proxy: proxy.add(2, times=3).get(timeout=60),
    "defer": lambda proxy: (proxy.add.defer(10), proxy.count.get(timeout=60)),
    "read and set": _set,
    "traverse": _traverse,
    "look": lambda proxy: (
        [name for name in dir(proxy) if name in _LOOKED_FOR],
        repr(proxy),
    ),
    "class": lambda proxy: proxy.actor_ref.actor_class.__name__,
    "stop": lambda proxy: proxy.stop().get(timeout=60),
}


async def by_proxy_on_a_loop(message: tuple[str, str]) -> Any:
    """As ``by_proxy``, for what does not wait."""
    path, number = message
    return await actors.ref(path).proxy().add(number)


class Broken(actors.Worker):
    """A worker that cannot start."""

    def __init__(self, how: str) -> None:
        self.how = how

    def on_start(self) -> None:
        if self.how == "ignore":
            raise actors.Ignore
        if self.how == "tell, and spin":
            actors.ref("p/hears").tell("begun")
            do("spin")
        do((self.how, 3) if self.how == "exit" else self.how)


class Async(actors.Worker):
    """A worker whose code is async."""

    async def on_receive(self, message: Any) -> Any:
        if message == "sleep":
            await asyncio.sleep(600)
        if isinstance(message, tuple):
            return await actors.ref(message[0]).ask_async(message[1])
        await asyncio.sleep(0)
        return message * 2


@contextmanager
def owned() -> Iterator[str]:
    yield f"resource of {os.getpid()}"


def resource_of(_: object) -> Any:
    return actors.resource(), os.getpid()


def body(notes: str, how: str = "") -> None:
    """Run until it is to stop."""
    Path(notes).write_text("up")
    if how:
        do((how, 0) if how == "exit" else how)
    while not actors.sleep(0.01):
        pass
    Path(notes).write_text("stopped")


def _write(notes: str, text: str) -> None:
    Path(notes).write_text(text)


async def async_body(notes: str) -> None:
    """Run until it is cancelled."""
    _write(notes, "up")
    try:
        await asyncio.sleep(600)
    finally:
        _write(notes, "stopped")


def spinning_body(notes: str) -> None:
    """Hear nothing."""
    Path(notes).write_text("up")
    spin()


async def async_do(message: Any) -> Any:
    """Act on a word, on the loop."""
    return do(message)


class Keeper(actors.Worker):
    """A worker that is sent Refs."""

    def on_receive(self, message: Any) -> Any:
        match message:
            case "own ref":
                return self.actor_ref
            case ("ask", {"whom": [ref]}, said):
                return ref.ask(said)
            case ("tell", {"whom": [ref]}, said):
                ref.tell(said)
                return None
            case ("by proxy", proxy):
                proxy.n = 3
                return proxy.total().get(timeout=60)
        return do(message)


class AskingAnswer:
    """An answer whose code asks somebody where it is pickled."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        try:
            found = str(actors.ref(self._path).ask("back", timeout=60))
        except actors.ActorsError as error:
            found = f"{type(error).__name__}: {error}"
        return str, (found,)


def answer_that_asks(path: str) -> AskingAnswer:
    """Answer with what asks at this path."""
    return AskingAnswer(path)
