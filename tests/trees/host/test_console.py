"""The console of a running tree: who may ask, what is answered, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pykka
import pytest

from actors import RestartLimitError, StartError
from tests.support.crew import LONG_S, doomed, faulty, running, shop
from tests.support.programs import ran
from trees import start, start_async


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for sockets of its own, with a path short enough for one."""
    place = Path(tempfile.mkdtemp(prefix="rg"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    yield place
    shutil.rmtree(place)


def sockets(runtime: Path) -> list[str]:
    return sorted(path.name for path in runtime.glob("regrow/*"))


# -- asking ------------------------------------------------------------------------------------------------


# -- who may ask -------------------------------------------------------------------------------------------


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


def test_an_async_tree_closes_its_console_too(runtime: Path) -> None:
    async def main() -> int:
        async with start_async(shop(), console=True):
            return len(sockets(runtime))

    open_then = asyncio.run(main())

    assert open_then == 1
    assert sockets(runtime) == []


def test_a_root_that_gave_up_closes_its_console_without_being_stopped(runtime: Path) -> None:
    with doomed(shop(faulty("ledger"), max_restarts=0), console=True) as tree:
        tree.ref("shop/ledger").tell("raise OSError")
        with pytest.raises(RestartLimitError):
            tree.wait(LONG_S)
        for thread in threading.enumerate():
            if thread.name in {"shop-close", "shop-console"}:
                thread.join(LONG_S)

        assert sockets(runtime) == []


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


UNSTOPPED = """
from trees import SupervisorSpec, start
tree = start(SupervisorSpec(id="unstopped"), console=True)
"""


def test_a_program_that_ends_without_stopping_its_tree_leaves_no_socket(runtime: Path) -> None:
    ended = ran("-c", UNSTOPPED)

    assert ended.returncode == 0
    assert sockets(runtime) == []


FORKS = """
import os, sys, time
from trees import SupervisorSpec, start
from trees.host.console import ConsoleRequest, ask, find
tree = start(SupervisorSpec(id="parent"), console=True)
(path,) = find(os.getpid())
ready, go = os.pipe()
child = os.fork()
if child == 0:
    os.close(go)
    os.read(ready, 1)          # until the parent has stopped its tree
    try:
        ask(path, ConsoleRequest(), timeout_s=5)
    except Exception as error:
        os._exit(0 if "nobody listens" in str(error) else 1)
    os._exit(2)
before = ask(path, ConsoleRequest(), timeout_s=20)
tree.stop()
os.close(go)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not before.startswith("parent"))
"""


def test_a_forked_child_does_not_hold_the_console_of_its_parent() -> None:
    ended = ran("-c", FORKS)

    assert ended.returncode == 0


# -- no descriptors ----------------------------------------------------------------------------------------
