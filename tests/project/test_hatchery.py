"""A command that is forked from the hatchery does what one does that is started as a user starts it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import WAIT_S, out, running, runtime, shop
from tests.support.hatchery import Hatched, Hatchery, python, ran, started
from tests.support.sizes import sampled

__all__ = ["runtime", "shop"]
COMMANDS = [["check", "shop.py"], ["check", "no_such.py"], ["--nonsense"], ["dump"]]
pytestmark = [
    pytest.mark.usefixtures("runtime"),
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="commands are started as they are"),
]


@pytest.mark.parametrize("args", sampled(COMMANDS, 2), ids=str)
def test_output_errors_and_exit_code_are_those_of_a_command_that_was_started(shop: Path, args: list[str]) -> None:
    command = [sys.executable, "-m", "trees", *args]
    plain = subprocess.run(command, capture_output=True, text=True, cwd=shop.parent, timeout=WAIT_S, check=False)

    with started(*args, cwd=shop.parent) as process:
        shown, errors = process.communicate(timeout=WAIT_S)

    assert isinstance(process, Hatched)
    assert (process.returncode, shown, errors) == (plain.returncode, plain.stdout, plain.stderr)
    assert (plain.returncode == 0) == (plain.stderr == "") == ("shop.py" in args)


def test_folder_and_environment_are_its_own(tmp_path: Path) -> None:
    program = "import os, sys\nprint(os.getcwd(), os.environ['OWN'], sys.argv[1:], 'HOME' in os.environ)\n"
    (tmp_path / "looks.py").write_text(program)

    with started("check", "looks", cwd=tmp_path, env={"OWN": "1", "PATH": ""}) as process:
        shown, _ = process.communicate(timeout=WAIT_S)

    assert shown.splitlines()[0] == f"{tmp_path} 1 ['check', 'looks'] False"


@pytest.mark.parametrize("said", ["one\ntwo\n", "", None])
def test_a_program_reads_its_input_to_the_end_or_has_none(tmp_path: Path, said: str | None) -> None:
    program = "import sys\nprint(__name__, sys.argv, sys.stdin.read().split(), sys.path[0])"
    done = ran("-c", program, "x", cwd=tmp_path, said=said)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"__main__ ['-c', 'x'] {(said or '').split()} \n"


def test_a_file_that_it_keeps_has_the_same_number_there(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    with python("-c", f"import os\nos.write({writes}, b'kept')", cwd=tmp_path, keeps=[writes]) as process:
        assert process.communicate(timeout=WAIT_S) == ("", "")
    os.close(writes)

    with os.fdopen(reads, "rb") as kept:  # to its end: nobody else holds the other one
        assert kept.read() == b"kept"


def test_one_that_is_frozen_stands_still_until_it_is_to_go_on(tmp_path: Path) -> None:
    with python("-c", "for line in open(0): print(line, flush=True)", cwd=tmp_path, talks=True) as process:
        assert isinstance(process, Hatched)
        assert process.stdin is not None
        process.send_signal(signal.SIGSTOP)
        assert process.stands_still()
        process.stdin.write("heard\n")
        process.stdin.flush()
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert (state, select.select([process.stdout], [], [], 0)[0]) == ("T", [])
        process.send_signal(signal.SIGCONT)

        assert process.stdout.readline() == "heard\n"


def test_it_runs_on_the_cores_of_who_starts_it(tmp_path: Path) -> None:
    (tmp_path / "looks.py").write_text("import os\nprint(sorted(os.sched_getaffinity(0)))\n")
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(mine)})
    try:
        with python("looks.py", cwd=tmp_path) as process:
            shown, _ = process.communicate(timeout=WAIT_S)
    finally:
        os.sched_setaffinity(0, mine)

    assert shown == f"[{max(mine)}]\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_one_that_a_signal_ends_says_which(shop: Path, number: int) -> None:
    with running(shop) as (process, _):
        process.send_signal(number)
        process.wait(WAIT_S)

        assert process.returncode == -number
        process.send_signal(number)  # it has ended: nobody else gets it


def test_two_run_at_once_and_each_has_its_own_output(shop: Path) -> None:
    with running(shop) as (one, first), running(shop) as (other, second):
        assert first != second
        assert str(one.pid) in first
        assert str(other.pid) in second
        other.terminate()
        rest = out(other).read()
        assert one.poll() is None

    assert "shop: stopping" in rest


def test_a_hatchery_that_is_closed_is_gone() -> None:
    own = Hatchery()
    pid = own._process.pid

    own.close()

    assert own._process.returncode == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_one_that_has_died_says_so_with_its_errors(tmp_path: Path) -> None:
    own = Hatchery()
    own._process.kill()

    with pytest.raises((AssertionError, OSError)):
        Hatched(own, ["-m", "trees", "--help"], tmp_path, {})
    own.close()


LOOKS = "import sys\nprint([name in sys.modules for name in ('wave', 'own')])\nimport wave\nimport own\n"


def test_what_one_has_imported_of_packages_is_there_for_the_next_and_nothing_that_a_test_has_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").touch()
    (tmp_path / "looks.py").write_text(LOOKS)
    hatchery = Hatchery()
    said = []
    try:
        for _ in range(2):
            with Hatched(hatchery, ["-W", "error", "looks.py"], tmp_path, {}) as process:
                said.append(process.communicate(timeout=WAIT_S))
    finally:
        hatchery.close()

    assert said == [("[False, False]\n", ""), ("[True, False]\n", "")]


def test_a_warning_ends_one_that_is_to_take_it_as_an_error(tmp_path: Path) -> None:
    (tmp_path / "warns.py").write_text("import warnings\nwarnings.warn('odd')\nprint('went on')\n")

    ended = {}
    for options in ([], ["-W", "error"]):
        with python(*options, tmp_path / "warns.py", cwd=tmp_path) as process:
            said = process.communicate(timeout=WAIT_S)
        ended[len(options)] = (process.returncode, said[0], "UserWarning: odd" in said[1])

    assert ended == {0: (0, "went on\n", True), 2: (1, "", True)}
