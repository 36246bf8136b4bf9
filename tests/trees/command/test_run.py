"""``regrow run``, as a user runs it: in a process of its own."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from tests.support.command import SHOP, WAIT_S, WITH_MAIN, file, out, regrow, running, runtime, shop

__all__ = ["runtime", "shop"]
pytestmark = pytest.mark.usefixtures("runtime")


@pytest.mark.slow
def test_run_goes_on_until_ctrl_c_and_then_ends_cleanly_with_the_dump(shop: Path, runtime: Path) -> None:
    with running(shop) as (process, first):
        open_then = list(runtime.glob("regrow/*"))
        process.send_signal(signal.SIGINT)
        shown, err = process.communicate(timeout=WAIT_S)

    assert first == f"shop: up, 6 children. Ctrl-C ends it; 'regrow dump --pid {process.pid}' looks at it.\n"
    assert process.returncode == 0
    assert err == ""
    assert shown.splitlines()[:3] == [
        "shop: stopping",
        "",
        "shop                one_for_one   stopped     restarts 0/3 in 5 s   last exit: shutdown",
    ]
    assert len(open_then) == 1
    assert list(runtime.glob("regrow/*")) == []


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_wait_for_what_does_not_stop(tmp_path: Path) -> None:
    text = SHOP.replace("actors.stopping(600)", "import time\n    time.sleep(600)").replace(
        "run=beat)", "run=beat, shutdown='infinity')"
    )
    with running(file(tmp_path, "deaf.py", text)) as (process, _):
        process.send_signal(signal.SIGINT)
        stopping = out(process).readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)

    assert stopping == "shop: stopping\n"
    assert process.returncode == 130


@pytest.mark.slow
def test_a_tree_that_cannot_start_is_exit_code_1_with_the_cause(tmp_path: Path) -> None:
    text = SHOP.replace('WorkerSpec(id="beat", run=beat)', "WorkerSpec(id='bad', actor=Bad)").replace(
        "TREE =", "class Bad(actors.Worker):\n    def on_start(self):\n        raise OSError('disk')\n\n\nTREE ="
    )

    ran = regrow("run", file(tmp_path, "bad.py", text))

    assert ran.returncode == 1
    assert "OSError: disk" in ran.stderr
    assert ran.stderr.splitlines()[-1] == "shop/bad: raised OSError while it started."


@pytest.mark.slow
def test_a_root_that_gives_up_is_exit_code_3_and_said(tmp_path: Path) -> None:
    text = SHOP.replace("actors.stopping(600)", "raise ConnectionError")

    ran = regrow("run", file(tmp_path, "doomed.py", text))

    assert ran.returncode == 3
    assert "gave up: shop: restart 4 within 5 s, limit 3. Last: 'beat', ConnectionError." in ran.stdout
    assert "shop: restart 4 within 5 s, limit 3." in ran.stderr


@pytest.mark.slow
def test_away_from_a_terminal_each_thing_that_goes_wrong_is_a_line(tmp_path: Path) -> None:
    main = """
import time
def main(tree):
    tree.ref("made/parse#0").tell("bad")
    while not tree.child("made/parse").restarts:
        time.sleep(0.01)
"""
    text = WITH_MAIN.format(main=main).replace("max_restarts=0", "max_restarts=3")

    ran = regrow("run", file(tmp_path, "made.py", text))

    assert ran.returncode == 0
    assert ran.stdout.splitlines()[1:4] == [
        "made/parse#0: crashed ValueError",
        "made/parse#0: restart 1 in a row",
        "made: stopping",
    ]


@pytest.mark.slow
def test_a_tree_that_ends_by_itself_ends_the_run(tmp_path: Path) -> None:
    text = SHOP.replace("run=beat)", "run=beat, restart='transient', significant=True)").replace(
        'id="shop",', 'id="shop", auto_shutdown="any_significant",'
    )

    ran = regrow("run", file(tmp_path, "ends.py", text.replace("actors.stopping(600)", "pass")))

    assert ran.returncode == 0
    assert "shop                one_for_one   stopped" in ran.stdout


MAIN = """
def main(tree, word, times="1"):
    print("sum", sum(tree.ref("made/parse").ask(word) for _ in range(int(times))))
"""


@pytest.mark.slow
def test_main_is_called_with_the_tree_and_the_inputs_and_the_run_ends_with_it(tmp_path: Path) -> None:
    made = file(tmp_path, "made.py", WITH_MAIN.format(main=MAIN))

    ran = regrow("run", made, "--input", "word=four", "--input", "times=3", "--input", "n=5")

    assert ran.returncode == 0
    assert "\nsum 12\n" in ran.stdout
    assert "parse ×5" in ran.stdout


@pytest.mark.slow
def test_a_main_without_a_tree_is_the_files_own_and_left_alone(tmp_path: Path) -> None:
    made = file(tmp_path, "made.py", WITH_MAIN.format(main="def main():\n    raise SystemExit('not yours')"))

    with running(made) as (process, first):
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)

    assert first.startswith("made: up")
    assert process.returncode == 0


@pytest.mark.slow
def test_a_main_that_raises_is_exit_code_4_and_the_tree_is_stopped(tmp_path: Path) -> None:
    made = file(tmp_path, "made.py", WITH_MAIN.format(main="def main(tree):\n    raise LookupError('main broke')"))

    ran = regrow("run", made)

    assert ran.returncode == 4
    assert "LookupError: main broke" in ran.stderr
    assert "made: stopping" in ran.stdout


@pytest.mark.slow
def test_a_main_that_exits_chooses_the_exit_code(tmp_path: Path) -> None:
    made = file(tmp_path, "made.py", WITH_MAIN.format(main="def main(tree):\n    raise SystemExit(7)"))

    ran = regrow("run", made)

    assert ran.returncode == 7
    assert "made: stopping" in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        (["word"], 2, "'word' is not NAME=VALUE"),
        (["wrod=x"], 1, "takes no input 'wrod'. Did you mean 'word'? Its inputs are n, word, times."),
    ],
)
def test_an_input_that_nobody_takes_is_an_error(tmp_path: Path, inputs: list[str], code: int, said: str) -> None:
    made = file(tmp_path, "made.py", WITH_MAIN.format(main=MAIN))

    ran = regrow("run", made, *(word for each in inputs for word in ("--input", each)))

    assert ran.returncode == code
    assert said in ran.stderr


@pytest.mark.slow
def test_a_main_that_lacks_an_input_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    made = file(tmp_path, "made.py", WITH_MAIN.format(main="def main(tree, path, depth, *, kind='all'): print(path)"))

    ran = regrow("run", made, "--input", "depth=3")

    assert ran.returncode == 1
    assert f"{made}: needs the input 'path'. Add --input path=VALUE." in ran.stderr
    assert "made: up" not in ran.stdout
    assert regrow("check", made).returncode == 0


@pytest.mark.slow
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
    assert re.search(r"stopping\s+shop +one_for_one +stopped +restarts 0/3 in 5 s", _without_codes(rest))


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
