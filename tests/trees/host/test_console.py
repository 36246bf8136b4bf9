"""The console of a running tree: what is answered, and that nothing stays behind.

It imports ``trees.host.console``: what a process of another version, or a wrong one, says there goes by no public name.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pykka
import pytest

from actors import StartError
from actors.testing import settle
from tests.support.crew import LONG_S, faulty, running, shop
from tests.support.programs import ran
from trees import start
from trees.host.console import ConsoleSource, find
from trees.observe.operator_events import Operated


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for sockets of its own, with a path short enough for one."""
    place = Path(tempfile.mkdtemp(prefix="rg"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    yield place
    shutil.rmtree(place)


def sockets(runtime: Path) -> list[str]:
    return sorted(path.name for path in runtime.glob("regrow/*"))


# -- asking: what a caller does, or does not do, hurts nobody else ------------------------------------------


def said_to(request: bytes, path: Path) -> bytes:
    """What the console answers to these bytes."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(LONG_S)
        caller.connect(str(path))
        caller.sendall(request)
        with caller.makefile("rb") as lines:
            return lines.readline()


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (b"hello\n", b"does not understand"),
        (b'{"version": 2, "do": "dump"}\n', b"speaks version 1"),
        (b'{"version": 1, "do": "eval"}\n', b"cannot do that"),
        (b'{"version": 1, "do": "child", "given": {"path": "none"}}\n', b'"status": 404'),
        (b'{"version": 1, "do": "child", "given": {"of": "shop"}}\n', b"Use the regrow of the same version"),
        (b"x" * 3_000_000 + b"\n", b"does not understand"),
    ],
    ids=["no JSON", "another version", "an unknown call", "an unknown child", "other arguments", "no JSON, and long"],
)
def test_a_wrong_request_is_answered_and_the_console_goes_on(request_: bytes, says: bytes) -> None:
    with running(shop(), console=True):
        (path,) = find(os.getpid())

        assert says in said_to(request_, path)
        assert ConsoleSource(path).dump().startswith("shop")


def test_callers_that_say_nothing_hold_up_nobody() -> None:
    with running(shop(), console=True), ExitStack() as silent:
        (path,) = find(os.getpid())
        for _ in range(40):
            silent.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
        assert ConsoleSource(path).dump().startswith("shop")


def test_a_subscriber_that_reads_slowly_is_told_how_many_events_it_has_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    total, gate, told = 12_000, threading.Event(), SimpleQueue[dict[str, Any]]()
    monkeypatch.setattr("actors.runtime.event_bus.BACKLOG", 1000)

    def slowly(event: dict[str, Any]) -> None:
        gate.wait(LONG_S)
        told.put(event)

    with running(shop(), console=True) as tree, closing(ConsoleSource(*find(os.getpid()))) as source:
        source.subscribe(slowly)
        for _ in range(total):
            tree._system.publish(Operated("shop", "x" * 200, "nobody"))  # many events, at once
        gate.set()
        settle(tree)
        tree.stop()
        events = [told.get(timeout=LONG_S)]
        while events[-1]["name"] != "source_ended":
            events.append(told.get(timeout=LONG_S))

    lost = sum(event["count"] for event in events if event["name"] == "events_lost")
    assert lost > 0
    assert lost + sum(event["name"] == "operated" for event in events) == total


def test_a_tree_ends_though_a_subscriber_reads_nothing() -> None:
    with running(shop(), console=True) as tree, socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(*find(os.getpid())))
        caller.sendall(b'{"version": 1, "do": "subscribe"}\n')
        assert caller.recv(1) == b"{"
        for _ in range(12_000):
            tree._system.publish(Operated("shop", "x" * 200, "nobody"))
        tree.stop()

    assert not [thread for thread in threading.enumerate() if "console" in thread.name]


# -- nothing stays -----------------------------------------------------------------------------------------


def test_without_being_asked_for_no_console_is_opened(runtime: Path) -> None:
    with running(shop()):
        assert sockets(runtime) == []


def test_a_console_ends_with_its_tree(runtime: Path) -> None:
    with running(shop(), console=True):
        open_then = sockets(runtime)

    assert len(open_then) == 1
    assert sockets(runtime) == []
    assert not [thread for thread in threading.enumerate() if "console" in thread.name]


def test_a_tree_that_is_stopped_through_pykka_closes_its_console(runtime: Path) -> None:
    with running(shop(), console=True):
        pykka.ActorRegistry.stop_all()
        for thread in threading.enumerate():
            if thread.name in {"shop-close", "shop-console"}:
                thread.join(LONG_S)

        assert sockets(runtime) == []


def test_a_start_that_fails_leaves_no_console(runtime: Path) -> None:
    with pytest.raises(StartError):
        start(shop(faulty("broken", on_start="raise OSError")), console=True)

    assert sockets(runtime) == []


FORKS = """
import os, sys, time
from trees import SupervisorSpec, start
from trees.host.console import ConsoleSource, find
tree = start(SupervisorSpec(id="parent"), console=True)
(path,) = find(os.getpid())
ready, go = os.pipe()
child = os.fork()
if child == 0:
    os.close(go)
    os.read(ready, 1)          # until the parent has stopped its tree
    try:
        ConsoleSource(path, 5).dump()
    except Exception as error:
        os._exit(0 if "nobody listens" in str(error) else 1)
    os._exit(2)
before = ConsoleSource(path, 20).dump()
tree.stop()
os.close(go)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not before.startswith("parent"))
"""


def test_a_forked_child_does_not_hold_the_console_of_its_parent() -> None:
    ended = ran("-c", FORKS)

    assert ended.returncode == 0
