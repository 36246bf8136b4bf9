"""How the tests are run: side by side and in order, and that no process outlives them."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ids import stable, unstable
from tests.support.lanes import MARK, MOST, import_early, workers

ROOT = Path(__file__).parents[2]
WAIT_S = 100.0
CONFTEST = """
import pytest
import tests.support.lanes
from actors.testing import no_stray_actors
from tests.support.lanes import *

tests.support.lanes.PATIENCE_S = 0.5

@pytest.fixture(autouse=True)
def _nothing_is_left(no_stray_actors): pass
"""
PROGRAM = """
import os, pathlib, subprocess, sys, threading, time, pytest
import actors
from trees import WorkerSpec, SupervisorSpec, start

PLACE = pathlib.Path(__file__).parent
COLLECTED_IN = os.getpid()
SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.mark.serial
@pytest.mark.parametrize("n", range(6))
def test_serial(n):
    (PLACE / f"serial{n}").write_text(str(os.getpid()))
    end = time.monotonic() + 30
    while os.getpid() != COLLECTED_IN and not list(PLACE.glob("free*")) and time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize("n", range(6))
def test_free(n):
    (PLACE / f"free{n}").write_text(str(os.getpid()))


def note(who, pid):
    (PLACE / f"left {who}").write_text(str(pid))


def test_leaves_a_child():
    note("child", subprocess.Popen(SLEEPS, start_new_session=True).pid)


def test_leaves_an_orphan():
    program = f"import subprocess; print(subprocess.Popen({SLEEPS!r}, stdout=subprocess.DEVNULL).pid)"
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE)
    note("orphan", int(done.stdout))


def test_leaves_a_fork():
    pid = os.fork()
    if not pid:
        time.sleep(600)
        os._exit(0)
    note("fork", pid)


def test_leaves_a_thread():
    threading.Thread(target=time.sleep, args=(8,), name="stray").start()


def test_leaves_a_tree():
    start(SupervisorSpec(id="alone", children=[WorkerSpec(id="w", handle=len)]))


def test_leaves_nothing():
    subprocess.run([sys.executable, "-c", ""], check=True)
"""


DIES = """
import os, pathlib, signal, pytest

PLACE = pathlib.Path(__file__).parent


@pytest.mark.parametrize("n", range(200))
def test_free(n):
    if n == 100:
        os.kill(os.getpid(), signal.SIGKILL)
    (PLACE / f"free{n}").touch()
"""


def run(folder: Path, program: str, *options: str, more: str = "") -> subprocess.CompletedProcess[str]:
    """Run pytest on one file in a folder of its own, with the rules of this suite."""
    (folder / "conftest.py").write_text(CONFTEST + more, encoding="utf-8")
    (folder / "test_it.py").write_text(program, encoding="utf-8")
    (folder / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    serial: one lane\n    together: one\n    always: no turn\n", encoding="utf-8"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", MARK))}
    alone = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others' plugins take a second to load
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "."],
        cwd=folder,
        env=environment | alone,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def is_there(pid: str) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # a zombie has none
    except OSError:
        return False


def test_whole_folders_use_four_processes_for_each_core_and_named_tests_one(tmp_path: Path) -> None:
    file = tmp_path / "test_a.py"
    file.touch()

    assert [workers([], cores) for cores in (1, 2, 3, 64)] == [0, 8, 12, MOST]
    assert workers([str(tmp_path)], 2) == 8
    assert workers([str(file)], 2) == 0
    assert workers([f"{file}::test_b"], 2) == 0
    assert workers([str(tmp_path), str(file)], 2) == 0


def test_what_a_framework_imports_late_is_imported_early_where_tests_use_the_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("used_here", "used_nowhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "late.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("used_here")
    try:
        import_early({"used_here": ["used_here.late", "used_here.gone"], "used_nowhere": ["used_nowhere.late"]})
        found = {name for name in sys.modules if name.startswith("used_")}
    finally:
        for name in [name for name in sys.modules if name.startswith("used_")]:
            del sys.modules[name]

    assert found == {"used_here", "used_here.late"}


def test_names_of_rows_hold_no_address() -> None:
    rows: list[object] = [print, object(), test_names_of_rows_hold_no_address, [object()], lambda: None, 5, "a 0x1 b"]

    assert unstable(str(row) for row in rows) == [str(row) for row in rows[1:5]]
    assert unstable(map(stable, rows)) == []


def test_a_name_with_an_address_is_refused(tmp_path: Path) -> None:
    program = "import pytest\n@pytest.mark.parametrize('x', [object()], ids=str)\ndef test_row(x): pass\n"

    done = run(tmp_path, program, "-n", "0")

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_row[<object object at 0x" in done.stderr
    assert "ids=tests.support.ids.stable" in done.stderr


NOTES = """
import os, pathlib
PLACE, NICE = pathlib.Path(__file__).parent, os.nice(0)  # as it is collected
with (PLACE / "imports").open("a") as notes:
    notes.write(f"{__name__}\\n")
def test_it(tmp_path):
    assert "process" in tmp_path.parent.name
    with (PLACE / "runs").open("a") as notes:
        notes.write(f"{__name__}\\n")
    if hasattr(os, "sched_getaffinity"):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.nice(0) == min(19, NICE + 5)
"""


def test_each_file_is_imported_once_and_each_process_has_a_folder_and_a_core_of_its_own(tmp_path: Path) -> None:
    names = ["test_a", "test_b", "test_c"]
    for name in names:
        (tmp_path / f"{name}.py").write_text(NOTES, encoding="utf-8")

    done = run(tmp_path, "def test_odd(): pass", "-n", "2")

    assert "4 passed" in done.stdout, done.stdout
    assert (tmp_path / "imports").read_text().split() == names
    assert sorted((tmp_path / "runs").read_text().split()) == names


SHARED = """
import os, pathlib, sys, warnings, pytest

PLACE = pathlib.Path(__file__).parent

@pytest.fixture(scope="module")
def shared():
    yield os.getpid()
    (PLACE / f"ended{os.getpid()}").touch()

@pytest.mark.serial
@pytest.mark.parametrize("n", range(3))
def test_serial(n, shared):
    assert not list(PLACE.glob(f"ended{os.getpid()}"))

def test_says():
    print("said here")
    warnings.warn("warned here")
    raise ValueError("failed here")

def test_skips():
    pytest.skip("skipped here")
"""


def test_what_a_test_prints_warns_of_and_raises_is_told_as_where_there_is_one_process(tmp_path: Path) -> None:
    done = run(tmp_path, SHARED, "-n", "2", "-rs")

    for each in ("said here", "warned here", "ValueError: failed here", "skipped here"):
        assert each in done.stdout, done.stdout
    assert "1 failed, 3 passed, 1 skipped, 1 warning" in done.stdout
    assert len(list(tmp_path.glob("ended*"))) == 1, "the fixture of a module was made once, and ended once"


def test_a_run_that_may_fail_once_ends_at_the_first_failure(tmp_path: Path) -> None:
    program = "import pytest\n@pytest.mark.parametrize('n', range(500))\ndef test_it(n): assert n\n"

    done = run(tmp_path, program, "-n", "2", "-x")

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "stopping after 1 failures" in done.stdout
    assert "500" not in done.stdout.splitlines()[-1]


def test_a_file_that_cannot_be_imported_is_told_by_the_collection(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("raise ValueError('broken here')\n", encoding="utf-8")

    done = run(tmp_path, "def test_odd(): pass", "-n", "2")

    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    assert "ValueError: broken here" in done.stdout


LANES_OF = """
import pytest

@pytest.fixture
def postgres_url(): return ""

@pytest.mark.serial
@pytest.mark.parametrize("n", range(3))
def test_serial(n): pass

@pytest.mark.parametrize("n", range(3))
def test_postgres(n, postgres_url): pass

@pytest.mark.serial
@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_both(store): pass

@pytest.mark.together
def test_with_the_others_of_this_file(): pass

@pytest.mark.together("name")
def test_with_the_others_of_this_name(): pass

def test_free(): pass
"""


def test_tests_on_postgresql_are_a_lane_and_other_serial_ones_another_and_files_that_are_marked(tmp_path: Path) -> None:
    shown = "def pytest_collection_finish(session):\n"
    shown += "    for each in session.items: print('LANE', each.name, tests.support.lanes.lane_of(each) or 'none')\n"

    done = run(tmp_path, LANES_OF, "-n", "0", "-s", more=shown)

    assert dict(line.split()[1:] for line in done.stdout.splitlines() if line.startswith("LANE ")) == {
        **{f"test_serial[{n}]": "serial" for n in range(3)},
        **{f"test_postgres[{n}]": "postgres" for n in range(3)},
        "test_both[postgres]": "postgres",
        "test_both[sqlite]": "serial",
        "test_with_the_others_of_this_file": "test_it.py",
        "test_with_the_others_of_this_name": "name",
        "test_free": "none",
    }


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found where Linux shows them")
@pytest.mark.parametrize("processes", [0, 2])
def test_serial_tests_share_a_process_and_what_is_left_fails_its_test_or_the_run(
    tmp_path: Path, processes: int
) -> None:
    done = run(tmp_path, PROGRAM, "-n", str(processes))

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    warned = ", 1 warning" if processes and sys.version_info >= (3, 12) else ""  # of a fork beside other threads
    assert f"18 passed{warned}, 2 errors" in done.stdout, done.stdout
    for name, left in {"test_leaves_a_thread": "thread 'stray'", "test_leaves_a_tree": "left behind: the tree"}.items():
        _, _, shown = done.stdout.partition(f"ERROR at teardown of {name}")
        assert left in re.split("_{5,}", shown)[1]
    pids = {each.name: each.read_text() for each in tmp_path.glob("left *")}
    assert len(pids) == 3
    assert set(re.findall(r"LEFT BEHIND: process (\d+)", done.stdout)) == set(pids.values())
    assert not [name for name, pid in pids.items() if is_there(pid)]
    serial = {each.read_text() for each in tmp_path.glob("serial*")}
    assert len(serial) == 1
    free = {each.read_text() for each in tmp_path.glob("free*")}
    assert not processes or free - serial, "a test that is not serial ran beside them"


@pytest.mark.slow
def test_where_a_process_dies_that_is_a_failure_and_the_others_run_all_that_is_left(tmp_path: Path) -> None:
    done = run(tmp_path, DIES, "-n", "2")

    assert re.search(r"FAILED test_it.py::test_free\[100\] - process \d+ died while it ran this test", done.stdout), (
        done.stdout
    )
    assert "1 failed, 199 passed" in done.stdout
    assert len(list(tmp_path.glob("free*"))) == 199
