"""The program around a tree: frozen, embedded, a zip file, killed; SIGCHLD ignored, nest_asyncio, logs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipapp
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

import actors
import trees

WAIT_S = 60.0
HEAD = """
import asyncio, logging, os, signal, sys, time, warnings
from loguru import logger
from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start, start_async
logger.remove()
COMMAND = WorkerSpec(id="w", command=["sleep", "1000"])
PROCESS = WorkerSpec(id="w", handle="os.path:basename", dispatch="process")
"""


def ran(tmp_path: Path, code: str, **environment: str) -> str:
    """Run a program, and return what it has written."""
    file = tmp_path / "program.py"
    file.write_text(HEAD + code)
    done = subprocess.run(
        [sys.executable, str(file)],
        check=False,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert not done.returncode, done.stderr
    return done.stdout


def told(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def is_alive(pid: int) -> bool:
    state = told("ps", "-o", "stat=", "-p", str(pid)).strip()
    return bool(state) and not state.startswith("Z")


def gone(pid: int) -> bool:
    until = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_alive(pid)


# -- who starts what -------------------------------------------------------------------------------------------

TRY = """
def tried(child):
    try:
        with start(SupervisorSpec(id="p", children=[child])) as tree:
            return tree.child("p/w").state
    except Exception as error:
        return f"{type(error).__name__} {error.__cause__}"
"""


@pytest.mark.parametrize("mark", ["sys.frozen = True"])
def test_a_frozen_program_runs_commands_and_is_never_started_again_in_place_of_python(
    tmp_path: Path, mark: str
) -> None:
    program, notes = tmp_path / "frozen", tmp_path / "starts"
    program.write_text(f"#!/bin/sh\necho started >> {notes}\nexit 1\n")
    program.chmod(0o755)
    code = f"{TRY}\nsys.executable = {str(program)!r}\n{mark}\nprint(tried(COMMAND))\nprint(tried(PROCESS))\n"
    command, process = ran(tmp_path, code).splitlines()
    assert command == "running"
    assert process.startswith("StartError this is a frozen program")
    assert str(program) in process
    assert not notes.exists()


@pytest.mark.parametrize("name", [None, "/bin/false"])
def test_where_another_program_embeds_python_commands_run_and_a_process_names_the_interpreter(
    tmp_path: Path, name: str | None
) -> None:
    code = f"{TRY}\nsys.executable = {name!r}\nprint(tried(COMMAND))\nprint(tried(PROCESS))\n"
    command, process = ran(tmp_path, code).splitlines()
    assert command == "running"
    assert process.startswith("StartError")
    assert repr(name) in process
    assert "basename" not in process


# -- the end of the program ------------------------------------------------------------------------------------

HOST = """
from trees import Web
def main():
    with start(SupervisorSpec(id="p", children=[COMMAND]), web=Web(port=0)) as tree:
        import urllib.request
        print(tree.child("p/w").pid, urllib.request.urlopen(tree.page.url).status, flush=True)
        time.sleep(1000)
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("kind", ["zip"])
def test_a_program_that_is_killed_leaves_no_command_whatever_it_was_started_as(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "build"
    folder.mkdir()
    (folder / "__main__.py").write_text(HEAD + HOST)
    target = folder
    if kind == "zip":
        for package in (actors, trees):
            copytree(Path(package.__file__).parent, folder / package.__name__, ignore=ignore_patterns("__pycache__"))
        target = tmp_path / "app.pyz"
        zipapp.create_archive(folder, target)
    with subprocess.Popen([sys.executable, str(target)], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pid, status = map(int, host.stdout.readline().split())
        assert status == 200
        assert is_alive(pid)
        host.kill()
    assert gone(pid)


def test_a_guardian_that_is_killed_is_replaced_and_still_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(HEAD + HOST)
    with subprocess.Popen([sys.executable, str(tmp_path / "program.py")], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pid = int(host.stdout.readline().split()[0])

        def guardians() -> set[int]:
            return {int(each) for each in told("pgrep", "-f", f"guardian of {host.pid}$").split()}

        first = guardians()
        assert len(first) == 1
        os.kill(first.pop(), signal.SIGKILL)
        until = time.monotonic() + 10
        while not guardians() and time.monotonic() < until:
            time.sleep(0.02)
        assert is_alive(pid), "the end of the guardian is not the end of the program"
        host.kill()
    assert gone(pid)


# -- exit codes ------------------------------------------------------------------------------------------------

CODES = """
import threading
seen = []
def main():
    ends = [WorkerSpec(id=f"w{n}", command=["sh", "-c", f"sleep 0.2; {how}"], restart="temporary")
            for n, how in enumerate(["exit 3", "kill -SEGV $$", "exit 0"])]
    with start(SupervisorSpec(id="p", children=ends)) as tree:
        tree.subscribe(lambda event: seen.append((event.path, event.reason)) if event.name == "child_exited" else None)
        while len(seen) < 3:
            time.sleep(0.01)
"""


@pytest.mark.parametrize("run", ["main()\n"], ids=["main"])
def test_a_failure_of_a_command_is_one_though_sigchld_was_ignored(tmp_path: Path, run: str) -> None:
    code = f"signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n{CODES}{run}print(*[str(r) for _, r in sorted(seen)])"
    assert ran(tmp_path, code).split() == ["crashed", "crashed", "normal"]


def test_an_exit_code_that_other_code_has_taken_is_no_normal_end(tmp_path: Path) -> None:
    thief = """
def steal(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        print("none left", file=sys.stderr)
signal.signal(signal.SIGCHLD, steal)
"""
    reasons = ran(tmp_path, f"{thief}{CODES}main()\nprint(*[str(r) for _, r in sorted(seen)])").split()
    assert reasons[:2] == ["crashed", "crashed"]


# -- asyncio ---------------------------------------------------------------------------------------------------


def test_what_is_awaited_works_after_nest_asyncio_was_applied(tmp_path: Path) -> None:
    pytest.importorskip("nest_asyncio")
    code = """
import nest_asyncio
nest_asyncio.apply()
tasks = Tasks(planner=StaticPlan([Subtask("e")]))
workers = [WorkerSpec(id="s", handle=str.upper), WorkerSpec(id="e", execute=lambda task, context: "ok")]
async def main():
    async with start_async(SupervisorSpec(id="p", tasks=tasks, children=workers)) as tree:
        print(await tree.ref("p/s").ask_async("x"), (await tree.arun("g")).status, (await tree.submit("g")).status)
asyncio.run(main())
"""
    assert ran(tmp_path, code).split() == ["X", "succeeded", "succeeded"]


def test_a_loop_that_nest_asyncio_runs_within_a_task_hears_of_answers_too(tmp_path: Path) -> None:
    pytest.importorskip("nest_asyncio")
    code = """
import nest_asyncio, threading
nest_asyncio.apply()
may = threading.Event()
def says(text):
    may.wait()
    may.clear()
    return text.upper()
async def main():
    async with start_async(SupervisorSpec(id="p", children=[WorkerSpec(id="s", handle=says)])) as tree:
        async def asks(text):
            asyncio.get_running_loop().call_soon(may.set)  # it comes once this waits
            return await tree.ref("p/s").ask_async(text, timeout=20)
        print(await asks("x"), asyncio.get_running_loop().run_until_complete(asks("y")))
asyncio.run(main())
"""
    assert ran(tmp_path, code).split() == ["X", "Y"]


# -- logs ------------------------------------------------------------------------------------------------------

LOGS = """
class Odd:
    def __reduce__(self): raise TypeError("stays here")
    def __repr__(self): return "odd"
def work(message):
    log = logging.getLogger("my.app")
    log.info("count %d of %s", 3, "x", extra={"user": "bob"})
    log.debug("detail")
    log.info("odd %s", Odd())
    logging.getLogger("my.loud").debug("loud")
    logger.bind(user="eve", odd=Odd()).info("bound")
    try:
        {}["key"]
    except KeyError:
        log.exception("failed")
        logger.exception("failed too")
    warnings.warn("careful", DeprecationWarning)
    return os.getpid()
class Keep(logging.Handler):
    def emit(self, record): records.append(record)
records, lines, warned = [], [], []
def main():
    logging.basicConfig(level=logging.INFO, handlers=[Keep()])
    logging.getLogger("my.loud").setLevel(logging.DEBUG)
    logger.add(lambda line: lines.append(line.record), filter=lambda record: "worker" in record["extra"])
    warnings.showwarning = lambda message, category, *_: warned.append((str(message), category))
    warnings.simplefilter("always")
    os.environ["PYTHONWARNINGS"] = "always"
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=work, dispatch="process")])) as tree:
        pid = tree.ref("p/w").ask(0, timeout=30)
    mine = [each for each in records if each.name.startswith("my.")]
    assert [each.getMessage() for each in mine] == ["count 3 of x", "odd odd", "loud", "failed"], mine
    first, *_, last = mine
    assert (first.args, first.msg, first.user, first.worker) == ((3, "x"), "count %d of %s", "bob", "p/w")
    assert (first.process, first.funcName, last.exc_info[0]) == (pid, "work", KeyError)
    assert "KeyError: 'key'" in logging.Formatter().format(last)
    bound, failed = lines
    assert bound["extra"] == {"user": "eve", "odd": "odd", "worker": "p/w"}
    assert (bound["process"].id, bound["function"], failed["exception"].type) == (pid, "work", KeyError)
    assert warned == [("careful", DeprecationWarning)] or not warned, warned
    print("ok", len(warned))
if __name__ == "__main__":
    main()
"""


def test_what_a_worker_in_a_process_logs_reaches_the_handlers_of_its_program(tmp_path: Path) -> None:
    assert ran(tmp_path, LOGS, PYTHONWARNINGS="always").split() == ["ok", "1"]


def test_handlers_that_a_module_gives_its_own_logger_write_each_record_once_and_in_the_host(tmp_path: Path) -> None:
    code = """
class Show(logging.Handler):
    def emit(self, record):
        print("host" if os.getpid() == HOST else "process", record.getMessage(), flush=True)
HOST = int(os.environ.setdefault("HOST_OF_TEST", str(os.getpid())))
log = logging.getLogger("my.app")
log.addHandler(Show())
log.propagate = False
log.setLevel(logging.INFO)
def work(message):
    log.info("done")
if __name__ == "__main__":
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=work, dispatch="process")])) as tree:
        tree.ref("p/w").ask(0, timeout=30)
"""
    assert ran(tmp_path, code).splitlines() == ["host done"]
