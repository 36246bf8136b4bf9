"""The console of a running tree: who may ask, what is answered, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pykka
import pytest

from actors import RestartLimitError, StartError
from actors.testing import Hang
from tests.support.crew import LONG_S, doomed, faulty, meanwhile, running, shop
from tests.support.programs import ran
from trees import start, start_async
from trees.host.console import Console, ConsoleError, ConsoleRequest, ask, find, server, session
from trees.host.console.place import folder, sweep


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for sockets of its own, with a path short enough for one."""
    place = Path(tempfile.mkdtemp(prefix="rg"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    yield place
    shutil.rmtree(place)


def sockets(runtime: Path) -> list[str]:
    return sorted(path.name for path in runtime.glob("regrow/*"))


def only(pid: int | None = None) -> Path:
    (path,) = find(os.getpid() if pid is None else pid)
    return path


# -- asking ------------------------------------------------------------------------------------------------


def test_a_console_shows_what_the_tree_shows() -> None:
    with running(shop(faulty("ledger"), faulty("parse", pool=2)), console=True) as tree:
        whole = ask(only(), ConsoleRequest())
        part = ask(only(), ConsoleRequest(path="shop/parse"))
        graph = ask(only(), ConsoleRequest(format="mermaid"))
        data = json.loads(ask(only(), ConsoleRequest(format="json")))

        assert whole == tree.dump()
        assert part == tree.dump("shop/parse")
        assert graph == tree.dump(format="mermaid")
        assert data["top"]["path"] == "shop"


def test_an_unknown_path_is_answered_with_what_is_wrong() -> None:
    with running(shop(faulty("ledger")), console=True), pytest.raises(ConsoleError) as caught:
        ask(only(), ConsoleRequest(path="shop/legder"))

    assert "shop/legder: no such path in this tree. Listed there: shop/ledger" in str(caught.value)


def test_every_tree_of_a_process_has_a_console_of_its_own() -> None:
    with running(shop(), console=True), running(shop(faulty("second")), console=True):
        shown = [ask(path, ConsoleRequest()) for path in find(os.getpid())]

    assert [len(text.splitlines()) for text in shown] == [1, 2]


def test_a_tree_that_hangs_in_its_start_can_be_looked_at() -> None:
    hang = Hang()
    spec = shop(faulty("slow", on_start=hang))
    with meanwhile(start, spec, console=True) as started:
        hang.wait_until_entered()
        shown = ask(only(), ConsoleRequest(stacks=True))
        hang.release()
    started.result().stop()

    assert "starting" in shown
    assert "in hold" in shown


def test_a_console_answers_while_a_worker_hangs() -> None:
    hang = Hang()
    with running(shop(faulty("busy")), console=True) as tree:
        tree.ref("shop/busy").tell(hang)
        hang.wait_until_entered()
        shown = ask(only(), ConsoleRequest(verbose=True))
        hang.release()

    assert "handles Hang" in shown


def test_a_caller_that_says_nothing_holds_nobody_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PATIENCE_S", 0.05)
    with running(shop(), console=True), socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(only()))
        assert silent.recv(1) == b"", "it was let go"
        monkeypatch.setattr(session, "PATIENCE_S", LONG_S)
        shown = ask(only(), ConsoleRequest())

    assert shown.startswith("shop ")


def test_nonsense_is_answered_and_changes_nothing() -> None:
    with running(shop(), console=True):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(LONG_S)
            caller.connect(str(only()))
            caller.sendall(b'{"format": "text", "stop": true}\n')
            answer = caller.makefile("rb").readline()
        still = ask(only(), ConsoleRequest())

    assert b"does not understand" in answer
    assert still.startswith("shop ")


def test_a_dump_that_fails_is_an_answer_and_not_the_end_of_the_console() -> None:
    def broken(_: ConsoleRequest) -> str:
        raise KeyError("secret")

    opened = Console("shop")
    opened.serve(broken)
    try:
        for _ in range(2):
            with pytest.raises(ConsoleError, match="the console failed with KeyError") as caught:
                ask(opened.path, ConsoleRequest())
    finally:
        opened.close()

    assert "secret" not in str(caught.value)


# -- who may ask -------------------------------------------------------------------------------------------


def test_only_the_owner_can_reach_the_socket(runtime: Path) -> None:
    with running(shop(), console=True):
        file, folder = only().stat(), (runtime / "regrow").stat()

    assert stat.S_ISSOCK(file.st_mode)
    assert stat.S_IMODE(file.st_mode) == 0o600
    assert stat.S_IMODE(folder.st_mode) == 0o700


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the kernel does not tell who calls")
def test_a_caller_who_is_somebody_else_gets_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(shop(), console=True):
        path, me = only(), os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
        with pytest.raises(ConsoleError, match="runs as another user"):
            ask(path, ConsoleRequest())


def test_a_folder_that_others_may_look_into_is_refused_and_nothing_has_run(runtime: Path) -> None:
    (runtime / "regrow").mkdir(mode=0o755)
    diary: list[str] = []

    with pytest.raises(ConsoleError, match="is not yours alone"):
        start(shop(faulty("ledger", diary=diary)), console=True)

    assert diary == []


def test_a_folder_that_is_a_link_is_refused(runtime: Path) -> None:
    elsewhere = runtime / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (runtime / "regrow").symlink_to(elsewhere)

    with pytest.raises(ConsoleError, match="is not yours alone"):
        start(shop(), console=True)


def test_a_path_too_long_for_a_socket_is_said_to_be_so(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime / ("x" * 100)))

    with pytest.raises(ConsoleError, match=r"cannot be opened \(AF_UNIX path too long\).*a short path"):
        start(shop(), console=True)


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


def test_an_ended_console_is_said_to_be_ended() -> None:
    with running(shop(), console=True):
        path = only()

    with pytest.raises(ConsoleError, match=r"nobody listens there\. The tree has ended"):
        ask(path, ConsoleRequest())


KILLED = """
import os, signal
from trees import SupervisorSpec, start
start(SupervisorSpec(id="killed"), console=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_not_found_and_is_swept_away_by_the_next(runtime: Path) -> None:
    killed = ran("-c", KILLED)
    left = sockets(runtime)
    found = find(int(left[0].partition("-")[0]))

    with running(shop(), console=True):
        now = sockets(runtime)

    assert killed.returncode == -9
    assert [name.partition("-")[2] for name in left] == ["killed-0.sock"]
    assert found == []
    assert len(now) == 1
    assert now[0].startswith(f"{os.getpid()}-shop-")


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


def test_closing_twice_and_from_several_threads_is_fine(runtime: Path) -> None:
    opened = Console("shop")
    opened.serve(lambda _: "text")
    threads = [threading.Thread(target=opened.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    opened.close()

    assert sockets(runtime) == []


@pytest.mark.parametrize("step", ["bind", "chmod", "listen"])
def test_a_process_that_sweeps_while_another_one_opens_its_console_takes_nothing_away(
    step: str, monkeypatch: pytest.MonkeyPatch, runtime: Path
) -> None:
    """A socket that is bound and does not listen yet answers as one whose process was killed."""
    place = Path if step == "chmod" else socket.socket
    real = getattr(place, step)

    def swept(self: object, *args: object) -> object:
        done = real(self, *args)
        sweep(runtime / "regrow")
        return done

    monkeypatch.setattr(place, step, swept)
    opened = Console("shop")
    try:
        assert [path.name for path in find(os.getpid())] == sockets(runtime) == [opened.path.name]
        assert stat.S_IMODE(opened.path.stat().st_mode) == 0o600
    finally:
        opened.close()
    assert sockets(runtime) == []


# -- no descriptors ----------------------------------------------------------------------------------------


class Full:
    """A listener of a process that has as many files open as it may, until it is told otherwise."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener, self.tries = listener, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)

    def accept(self) -> Any:
        self.tries += 1
        if self.tries < 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()


def test_a_process_without_a_free_descriptor_does_not_spin_and_answers_once_it_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Full] = []
    listen = Console.serve

    def serve(self: Console, *given: Any) -> None:
        made.append(Full(self._listener))
        self._listener = made[0]  # type: ignore[assignment]
        listen(self, *given)

    monkeypatch.setattr(Console, "serve", serve)
    with running(shop(faulty("ledger")), console=True) as tree:
        began = time.monotonic()
        shown = ask(only(), ConsoleRequest())

        assert shown == tree.dump()
        assert time.monotonic() - began >= 2 * server.FULL_S
    assert made[0].tries == 4  # whoever looks for consoles knocks once


def test_a_console_that_cannot_be_opened_for_want_of_descriptors_says_so(
    monkeypatch: pytest.MonkeyPatch, runtime: Path
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    sweep(folder())  # before: it looks at the sockets of others
    monkeypatch.setattr("trees.host.console.server.socket.socketpair", full)
    with pytest.raises(ConsoleError, match="Too many open files"):
        Console("shop")
    assert sockets(runtime) == []
