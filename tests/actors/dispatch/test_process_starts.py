"""A worker in a process: where the process comes from, what is imported once, and the way of large values."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from loguru import logger

from actors import StartError
from actors.dispatch.host.fork_server import SERVERS
from actors.dispatch.remote import dumped, loaded, packed
from actors.dispatch.worker import worker_main
from actors.testing import ManualClock
from tests.actors.dispatch import process_workers as there
from tests.actors.dispatch.process_trees import Exits, running, runs, spec_of, worker
from tests.support.hardening import eventually
from trees import Process, WorkerSpec, start


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


# -- 1.2: started from a fork server ---------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system shows no process by /proc")
def test_a_process_is_forked_by_a_server_of_one_thread_and_never_by_the_host() -> None:
    with running(worker(), worker("x")) as (tree, ask):
        server = parent_of(ask("pid"))
        assert server == parent_of(tree.ref("p/x").ask("pid")) != os.getpid()
        assert server in {each._server.pid for each in SERVERS._servers.values() if each._server is not None}
        assert len(list(Path(f"/proc/{server}/task").iterdir())) == 1, (
            "what forks has no lock that another thread holds"
        )


def test_preload_names_modules_that_the_server_imports_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imports = tmp_path / "imports"
    (tmp_path / "heavy_to_import.py").write_text(
        f"import os\nwith open({str(imports)!r}, 'a') as file:\n    file.write(f'{{os.getpid()}}\\n')\n"
        "def where(message):\n    return os.getpid()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    process = Process(preload=("heavy_to_import",))
    try:
        with running(worker(handle="heavy_to_import:where", dispatch=process, pool=2)) as (tree, _):
            pids = {tree.ref(f"p/w#{n}").ask("") for n in range(2)}
            os.kill(tree.child("p/w#0").pid or 0, signal.SIGKILL)
            assert eventually(lambda: tree.child("p/w#0").incarnation == 2)
            pids.add(tree.ref("p/w#0").ask("", timeout=60))
    finally:
        sys.modules.pop("heavy_to_import", None)
        (key,) = (each for each in SERVERS._servers if "heavy_to_import" in each)
        SERVERS._servers.pop(key).dismiss()
    importers = {int(each) for each in imports.read_text().split()} - {os.getpid()}
    assert len(pids) == 3
    assert len(importers) == 1, "one for three processes"
    assert not importers & pids, "it was the server"


def test_a_process_begins_with_the_environment_that_its_host_has_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server that forks it has begun before, and has the one of that time."""
    monkeypatch.setenv("GOES", "soon")
    monkeypatch.setenv("CHANGES", "before")
    SERVERS.dismiss()
    with running(worker(), worker("own", dispatch=Process(env={"CHANGES": "declared"}))) as (tree, ask):
        assert ask(("environment", "GOES"))[0] == "soon"
        server = parent_of(ask("pid"))
        monkeypatch.delenv("GOES")
        monkeypatch.setenv("CHANGES", "after")
        monkeypatch.setenv("COMES", "now")
        for path in ("p/w", "p/own"):
            os.kill(tree.child(path).pid or 0, signal.SIGKILL)
            assert eventually(lambda path=path: tree.child(path).incarnation == 2)
        assert parent_of(ask("pid")) == server
        assert [ask(("environment", name))[0] for name in ("GOES", "CHANGES", "COMES")] == [None, "after", "now"]
        assert tree.ref("p/own").ask(("environment", "CHANGES"))[0] == "declared"


def test_what_a_preloaded_module_sets_in_the_environment_of_its_server_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sets_when_imported.py").write_text("import os\nos.environ['SET_BY_MODULE'] = str(os.getpid())\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with running(worker(dispatch=Process(preload=("sets_when_imported",)))) as (_, ask):
            assert ask(("environment", "SET_BY_MODULE"))[0] == str(parent_of(ask("pid")))
    finally:
        (key,) = (each for each in SERVERS._servers if "sets_when_imported" in each)
        SERVERS._servers.pop(key).dismiss()


# -- 1.3: large buffers, and the log ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("process", "said"),
    [
        (Process(cwd="/no/such/SECRET"), r"^p/w: cwd of its process is not a folder\. Give one that exists"),
        (Process(memory_mb=20), r"^p/w: its process needs more memory to start than memory_mb=20\. Raise it"),
    ],
)
def test_a_start_that_its_declaration_makes_impossible_says_which_field_and_shows_no_folder(
    process: Process, said: str
) -> None:
    with pytest.raises(StartError) as caught, start(spec_of(worker(dispatch=process))):
        pass
    chain = [caught.value, *causes(caught.value)]
    assert any(re.match(said, str(each)) for each in chain)
    assert not [each for each in chain if "SECRET" in str(each)]


def causes(error: BaseException) -> Iterator[BaseException]:
    while (cause := error.__cause__) is not None:
        yield cause
        error = cause


def test_a_start_that_takes_too_long_says_what_it_waits_for() -> None:
    clock = ManualClock()
    hears = WorkerSpec(id="hears", handle=lambda _: clock.advance(1.0))
    slow = worker(actor=there.Broken, args=("tell, and spin",), start_timeout_s=0.5)
    with pytest.raises(StartError) as caught, start(spec_of(hears, slow), clock=clock):
        pass
    assert "p/w: did not start within 0.5 s (its code is being imported there, or on_start still running)" in str(
        caught.value
    )


def test_large_buffers_cross_out_of_band() -> None:
    value = bytearray(os.urandom(100_000))
    body, *buffers = dumped(there.Buffer(value))
    assert len(body) < 1_000, "what is pickled has none of it"
    assert [bytes(each) for each in buffers] == [value]
    assert loaded([body, *buffers]).data == value
    with running(worker()) as (_, ask):
        assert ask(("echo", there.Buffer(value))).data == value


def test_a_message_is_what_it_was_when_it_was_sent() -> None:
    value = bytearray(array("B", [1, 2, 3]))
    message = packed("p/w", there.Buffer(value))
    value[0] = 9
    assert loaded(message.parts).data == b"\1\2\3"


def test_the_log_of_a_crash_shows_the_frames_of_the_worker_itself() -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, format="{message}", level="WARNING")
    try:
        with start(spec_of(worker())) as tree:
            exits = Exits(tree)
            tree.ref("p/w").tell(("raise", KeyError("worse")))
            exits.one()
            assert eventually(lambda: any("process_workers.py" in each and "in do" in each for each in lines))
    finally:
        logger.remove(sink)


# -- 1.6: stopping is real -------------------------------------------------------------------------------------


def test_a_loop_in_c_that_holds_the_gil_is_killed_at_the_end_of_shutdown(tmp_path: Path) -> None:
    up = tmp_path / "up"
    with running(worker(shutdown=0.2)) as (tree, ask):
        pid = ask("pid")
        tree.ref("p/w").tell(("hold the gil", str(up)))
        assert eventually(up.exists)
        tree.terminate_child("p/w")
        assert eventually(lambda: not runs(pid))


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "no room"), True),
        (OSError(errno.ENOENT, "no file"), False),
        (ImportError("x.so: failed to map segment from shared object"), True),
        (ImportError("x.so: cannot allocate memory in static TLS block"), True),
        (ImportError("no module x"), False),
        (ValueError("failed to map segment"), False),
    ],
    ids=repr,
)
def test_an_error_for_want_of_memory_is_known_however_it_is_said(error: BaseException, *, is_one: bool) -> None:
    assert worker_main._is_without_memory(error) is is_one
