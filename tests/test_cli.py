"""The command ``regrow``, as a user runs it: in a process of its own."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from actors.clock import monotonic
from trees import cli
from trees.target import TargetError, load

WAIT_S = 60.0

SHOP = """
import sys

import actors
from trees import SupervisorSpec, WorkerSpec


def beat():
    actors.stopping(600)


def parse(line):
    return len(line)


TREE = SupervisorSpec(
    id="shop",
    children=[
        WorkerSpec(id="beat", run=beat),
        WorkerSpec(id="parse", handle=parse, pool=3, args=(), description="counts"),
        SupervisorSpec(id="team", strategy="one_for_all", children=[WorkerSpec(id="helper", handle=parse)]),
    ],
)

if __name__ == "__main__":
    sys.exit("a check must not run this")
"""

DRAWN = """\
shop                one_for_one   supervisor     up to 3 restarts in 5 s
├─ beat             permanent     run beat       thread of its own
├─ parse ×3         permanent     handle parse   on the pool   counts
└─ team             one_for_all   supervisor     up to 3 restarts in 5 s
   └─ helper        permanent     handle parse   on the pool

worst case: the root gives up at crash 16 of one worker
"""

WITH_MAIN = """
from trees import SupervisorSpec, WorkerSpec


def parse(line):
    if line == "bad":
        raise ValueError(line)
    return len(line)


def tree(n: str = "2") -> SupervisorSpec:
    return SupervisorSpec(id="made", max_restarts=0, children=[WorkerSpec(id="parse", handle=parse, pool=int(n))])


{main}
"""


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for sockets of its own, with a path short enough for one."""
    place = Path(tempfile.mkdtemp(prefix="rg"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    monkeypatch.setenv("PYTHONUTF8", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    yield place
    shutil.rmtree(place)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return _file(tmp_path, "shop.py", SHOP)


def _file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def regrow(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trees", *map(str, args)]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, timeout=WAIT_S)


@contextmanager
def running(*args: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A ``regrow run`` that is up, and the line that says so."""
    command = [sys.executable, "-m", "trees", "run", *map(str, args)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, _out(process).readline()
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(WAIT_S)


def _out(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


# -- check -------------------------------------------------------------------------------------------------


def test_check_draws_a_tree_without_starting_it(shop: Path) -> None:
    checked = regrow("check", shop)

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, DRAWN, "")


@pytest.mark.parametrize("target", ["shop", "shop:TREE", "shop.py", "shop.py:TREE", "./shop.py"])
def test_a_target_is_a_file_or_a_module_with_or_without_an_attribute(shop: Path, target: str) -> None:
    assert regrow("check", target, cwd=shop.parent).stdout == DRAWN


def test_check_says_every_mistake_with_its_place_and_what_to_do(tmp_path: Path) -> None:
    text = SHOP.replace("run=beat", "run='no_such_module:f'").replace(
        "handle=parse, pool=3", "handle=parse, args=(1, 2)"
    )
    text = text.replace('args=(), description="counts"', 'description="counts"')

    checked = regrow("check", _file(tmp_path, "wrong.py", text))

    assert checked.returncode == 1
    assert checked.stdout == ""
    first, second = checked.stderr.splitlines()
    assert first.startswith("shop/beat.run: module 'no_such_module' not found. Correct the name")
    assert second.startswith("shop/parse.handle: args and kwargs do not fit parse: too many positional arguments.")


def test_a_declaration_that_is_wrong_while_it_is_imported_is_shown_the_same_way(tmp_path: Path) -> None:
    text = "from trees import *\nTREE = SupervisorSpec(id='shop', strategy='all', max_restarts=-1)\n"

    checked = regrow("check", _file(tmp_path, "wrong.py", text))

    assert checked.returncode == 1
    assert [line.partition(":")[0] for line in checked.stderr.splitlines()] == ["shop.strategy", "shop.max_restarts"]


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("", "empty.py", "empty.py: has no tree. Declare one: TREE = SupervisorSpec(id=..., children=[...])."),
        ("x = 1", "x.py:x", "x.py:x: an int is no tree. Name a SupervisorSpec, or a function that makes one."),
        (SHOP, "x.py:TREES", "x.py: has no 'TREES'. Did you mean 'TREE'? Write x.py:TREE."),
        (SHOP + "OTHER = TREE.children[2]\nTREE2 = TREE\ndel TREE", "x.py", "x.py: has several trees and none called"),
        ("raise OSError('secret')", "x.py", "x.py:1: raised OSError on import. The traceback shows where."),
        ("import sys\nsys.exit(3)", "x.py", "x.py:2: raised SystemExit on import."),
        ("TREE = lambda: 5", "x.py", "returned an int. It must return a SupervisorSpec."),
    ],
)
def test_a_target_that_leads_to_no_tree_is_an_error_that_says_what_to_write(
    tmp_path: Path, text: str, target: str, said: str
) -> None:
    _file(tmp_path, target.partition(":")[0], text)

    checked = regrow("check", target, cwd=tmp_path)

    assert checked.returncode == 1
    assert said in checked.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere.py", "nowhere.py: no such file."),
        ("no_such_module", "no_such_module: module 'no_such_module' not found."),
        ("a-b", "a-b: is no file and no module name."),
        ("shop.py:a b", "shop.py:a b: is no target. Write FILE.py, FILE.py:ATTR"),
        ("./", "is a folder. Name a Python file"),
    ],
)
def test_a_target_that_is_not_there_is_an_error(target: str, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        load(target, {})

    assert said in str(caught.value)


def test_the_only_tree_is_found_whatever_its_name(tmp_path: Path) -> None:
    checked = regrow("check", _file(tmp_path, "named.py", SHOP.replace("TREE", "anything")))

    assert checked.stdout == DRAWN


# -- run ---------------------------------------------------------------------------------------------------


def test_run_goes_on_until_ctrl_c_and_then_ends_cleanly_with_the_dump(shop: Path, runtime: Path) -> None:
    with running(shop) as (process, first):
        open_then = list(runtime.glob("regrow/*"))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)

    assert first == f"shop: up, 6 children. Ctrl-C ends it; 'regrow dump --pid {process.pid}' looks at it.\n"
    assert process.returncode == 0
    assert err == ""
    assert out.splitlines()[:3] == [
        "shop: stopping",
        "",
        "shop                one_for_one   running   restarts 0/3 in 5 s",
    ]
    assert len(open_then) == 1
    assert list(runtime.glob("regrow/*")) == []


def test_a_sigterm_is_as_good_as_ctrl_c(shop: Path) -> None:
    with running(shop) as (process, _):
        process.terminate()
        out, _err = process.communicate(timeout=WAIT_S)

    assert process.returncode == 0
    assert "└─ team" in out


def test_a_second_ctrl_c_does_not_wait_for_what_does_not_stop(tmp_path: Path) -> None:
    text = SHOP.replace("actors.stopping(600)", "import time\n    time.sleep(600)").replace(
        "run=beat)", "run=beat, shutdown='infinity')"
    )
    with running(_file(tmp_path, "deaf.py", text)) as (process, _):
        process.send_signal(signal.SIGINT)
        stopping = _out(process).readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)

    assert stopping == "shop: stopping\n"
    assert process.returncode == 130


def test_a_tree_that_cannot_start_is_exit_code_1_with_the_cause(tmp_path: Path) -> None:
    text = SHOP.replace('WorkerSpec(id="beat", run=beat)', "WorkerSpec(id='bad', actor=Bad)").replace(
        "TREE =", "class Bad(actors.Worker):\n    def on_start(self):\n        raise OSError('disk')\n\n\nTREE ="
    )

    ran = regrow("run", _file(tmp_path, "bad.py", text))

    assert ran.returncode == 1
    assert "OSError: disk" in ran.stderr
    assert ran.stderr.splitlines()[-1] == "shop/bad: raised OSError while it started."


def test_a_root_that_gives_up_is_exit_code_3_and_said(tmp_path: Path) -> None:
    text = SHOP.replace("actors.stopping(600)", "raise ConnectionError")

    ran = regrow("run", _file(tmp_path, "doomed.py", text))

    assert ran.returncode == 3
    assert "gave up: shop: restart 4 within 5 s, limit 3. Last: 'beat', ConnectionError." in ran.stdout
    assert "shop: restart 4 within 5 s, limit 3." in ran.stderr


def test_away_from_a_terminal_each_thing_that_goes_wrong_is_a_line(tmp_path: Path) -> None:
    main = """
import time
def main(tree):
    tree.ref("made/parse#0").tell("bad")
    while not tree.child("made/parse").restarts:
        time.sleep(0.01)
"""
    text = WITH_MAIN.format(main=main).replace("max_restarts=0", "max_restarts=3")

    ran = regrow("run", _file(tmp_path, "made.py", text))

    assert ran.returncode == 0
    assert ran.stdout.splitlines()[1:4] == [
        "made/parse#0: crashed ValueError",
        "made/parse#0: restart 1 in a row",
        "made: stopping",
    ]


def test_a_tree_that_ends_by_itself_ends_the_run(tmp_path: Path) -> None:
    text = SHOP.replace("run=beat)", "run=beat, restart='transient', significant=True)").replace(
        'id="shop",', 'id="shop", auto_shutdown="any_significant",'
    )

    ran = regrow("run", _file(tmp_path, "ends.py", text.replace("actors.stopping(600)", "pass")))

    assert ran.returncode == 0
    assert "shop                one_for_one   stopped" in ran.stdout


MAIN = """
def main(tree, word, times="1"):
    print("sum", sum(tree.ref("made/parse").ask(word) for _ in range(int(times))))
"""
ASYNC_MAIN = """
async def main(tree, word):
    print("sum", await tree.ref("made/parse").ask_async(word))
"""


def test_main_is_called_with_the_tree_and_the_inputs_and_the_run_ends_with_it(tmp_path: Path) -> None:
    file = _file(tmp_path, "made.py", WITH_MAIN.format(main=MAIN))

    ran = regrow("run", file, "--input", "word=four", "--input", "times=3", "--input", "n=5")

    assert ran.returncode == 0
    assert "\nsum 12\n" in ran.stdout
    assert "parse ×5" in ran.stdout


def test_main_may_be_async(tmp_path: Path) -> None:
    file = _file(tmp_path, "made.py", WITH_MAIN.format(main=ASYNC_MAIN))

    ran = regrow("run", file, "--input", "word=four")

    assert ran.returncode == 0
    assert "\nsum 4\n" in ran.stdout


def test_a_main_without_a_tree_is_the_files_own_and_left_alone(tmp_path: Path) -> None:
    file = _file(tmp_path, "made.py", WITH_MAIN.format(main="def main():\n    raise SystemExit('not yours')"))

    with running(file) as (process, first):
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)

    assert first.startswith("made: up")
    assert process.returncode == 0


def test_a_main_that_raises_is_exit_code_4_and_the_tree_is_stopped(tmp_path: Path) -> None:
    file = _file(tmp_path, "made.py", WITH_MAIN.format(main="def main(tree):\n    raise LookupError('main broke')"))

    ran = regrow("run", file)

    assert ran.returncode == 4
    assert "LookupError: main broke" in ran.stderr
    assert "made: stopping" in ran.stdout


def test_a_main_that_exits_chooses_the_exit_code(tmp_path: Path) -> None:
    file = _file(tmp_path, "made.py", WITH_MAIN.format(main="def main(tree):\n    raise SystemExit(7)"))

    ran = regrow("run", file)

    assert ran.returncode == 7
    assert "made: stopping" in ran.stdout


def test_a_main_that_waits_for_something_else_notices_that_the_root_gave_up(tmp_path: Path) -> None:
    main = "import time\ndef main(tree):\n    tree.ref('made/parse').tell('bad')\n    time.sleep(600)\n"

    ran = regrow("run", _file(tmp_path, "made.py", WITH_MAIN.format(main=main)))

    assert ran.returncode == 3
    assert "made: restart 1 within 5 s, limit 0." in ran.stderr


@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        (["word"], 2, "'word' is not NAME=VALUE"),
        (["wrod=x"], 1, "takes no input 'wrod'. Did you mean 'word'? Its inputs are n, word, times."),
    ],
)
def test_an_input_that_nobody_takes_is_an_error(tmp_path: Path, inputs: list[str], code: int, said: str) -> None:
    file = _file(tmp_path, "made.py", WITH_MAIN.format(main=MAIN))

    ran = regrow("run", file, *(word for each in inputs for word in ("--input", each)))

    assert ran.returncode == code
    assert said in ran.stderr


def test_on_a_terminal_the_tree_is_shown_live_and_the_dump_stays(shop: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "trees", "run", str(shop)]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        # The verbose text, which only the live view has, with the cursor codes that redraw it.
        live = _read_until(ours, "threads of the pool")
        process.send_signal(signal.SIGINT)
        rest = _read_until(ours, None)
        process.wait(WAIT_S)
    os.close(ours)

    assert process.returncode == 0
    assert "\x1b[?25l" in live
    assert "\x1b[?25h" in rest
    assert re.search(r"stopping\s+shop +one_for_one +running +restarts 0/3 in 5 s", _without_codes(rest))


def _read_until(terminal: int, wanted: str | None) -> str:
    """What a terminal shows until it has shown this, or until its process has ended."""
    shown, end = b"", monotonic() + WAIT_S
    while monotonic() < end and (wanted is None or wanted.encode() not in shown):
        if select.select([terminal], [], [], 1.0)[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError:  # the other side is closed
                break
    return shown.decode(errors="replace")


def _without_codes(shown: str) -> str:
    return re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", shown)


# -- dump --------------------------------------------------------------------------------------------------


def test_dump_shows_a_running_program_from_outside(shop: Path, runtime: Path) -> None:
    with running(shop) as (process, _):
        by_pid = regrow("dump", "--pid", process.pid)
        (socket,) = runtime.glob("regrow/*")
        by_socket = regrow("dump", "--socket", socket, "--path", "shop/team", "--format", "json")
        wrong = regrow("dump", "--pid", process.pid, "--path", "shop/nobody")
        alive = process.poll() is None

    assert by_pid.returncode == 0
    assert by_pid.stdout.splitlines()[2] == "├─ parse ×3         permanent     running 3"
    assert json.loads(by_socket.stdout)["top"]["path"] == "shop/team"
    assert wrong.returncode == 1
    assert "shop/nobody: no such path in this tree." in wrong.stderr
    assert alive


def test_dump_with_stacks_shows_where_a_worker_stands(shop: Path) -> None:
    with running(shop) as (process, _):
        shown = regrow("dump", "--pid", process.pid, "--stacks", "--verbose")

    assert "actors.stopping(600)" in shown.stdout
    assert "worst case" in shown.stdout


def test_a_signal_makes_a_run_write_its_dump_to_stderr(shop: Path) -> None:
    with running(shop) as (process, _):
        process.send_signal(signal.SIGUSR1)
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)

    assert first.startswith("shop                one_for_one   running")


TWO_TREES = """
import sys
from trees import SupervisorSpec, start
with start(SupervisorSpec(id="one"), console=True), start(SupervisorSpec(id="two"), console=True):
    print("up", flush=True)
    sys.stdin.read()
"""


def test_all_trees_of_a_process_are_shown_and_with_a_path_those_that_have_it() -> None:
    command = [sys.executable, "-c", TWO_TREES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        up = _out(process).readline()
        both, second = regrow("dump", "--pid", process.pid), regrow("dump", "--pid", process.pid, "--path", "two")
        process.communicate("", timeout=WAIT_S)

    assert up == "up\n"
    assert [line.split()[0] for line in both.stdout.splitlines() if line] == ["one", "two"]
    assert [line.split()[0] for line in second.stdout.splitlines()] == ["two"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ((), 2, "give either --pid PID or --socket PATH"),
        (("--pid", "1", "--socket", "x"), 2, "give either --pid PID or --socket PATH"),
        (("--pid", "1", "--format", "xml"), 2, "'xml' is none of text, json, mermaid"),
        (("--pid", "1"), 1, "process 1: has no open console. It must run as you"),
        (("--socket", "nowhere.sock"), 1, "nowhere.sock: nobody listens there."),
    ],
)
def test_a_dump_that_cannot_be_had_says_why(args: tuple[str, ...], code: int, said: str) -> None:
    dumped = regrow("dump", *args)

    assert dumped.returncode == code
    assert said in dumped.stderr


# -- the command itself ------------------------------------------------------------------------------------


def test_without_its_dependencies_the_command_says_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "NEEDS", ("typer", "no_such_module"))

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 2
    said = (
        "regrow: the command line needs no_such_module, not installed here. Install them: pip install 'regrow[cli]'\n"
    )
    assert capsys.readouterr().err == said


def test_the_library_itself_imports_neither_typer_nor_rich() -> None:
    program = "import sys, trees, actors, trees.cli; sys.exit(bool({'typer', 'rich'} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=WAIT_S).returncode == 0


def test_help_names_the_commands_and_the_exit_codes() -> None:
    top, run = regrow("--help"), regrow("run", "--help")

    assert all(word in top.stdout for word in ("check", "run", "dump"))
    assert "Exit code" in run.stdout
