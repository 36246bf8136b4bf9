"""What ``regrow run``, ``observe`` and ``top`` show: a dead store as dead, the same counts, questions to be read."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import httpx
import pytest

LONG_S = 60
REGROW = [sys.executable, "-c", "from trees.cli import main; main()"]
QUESTION = (
    "May the summary of the three vector databases be sent to the whole board of directors, with the prices of each, "
    "although the legal department has not answered yet?"
)
SHOP = f"""
import actors
from actors import Escalated
from trees import Escalate, Plan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec


def look(task, context):
    return 3


def send(task, context):
    raise Escalated({QUESTION!r})


def fail(task, context):
    raise ConnectionError("no route")


TREE = SupervisorSpec(
    id="shop",
    tasks=Tasks(on_failure=[]),
    children=[
        WorkerSpec(id="look", execute=look, pool=3),
        WorkerSpec(id="send", execute=send, on_failure=[Escalate()]),
        WorkerSpec(id="fail", execute=fail),
        WorkerSpec(id="count", handle=int),
        SupervisorSpec(id="team", children=[WorkerSpec(id="helper", handle=int)]),
    ],
)


def main(tree, stay="yes"):
    for number in range(3):
        tree.submit(Task("look", id=f"good-{{number}}", plan=Plan([Subtask("look")]))).result()
    for number in range(2):
        handle = tree.submit(Task("fail", id=f"bad-{{number}}", plan=Plan([Subtask("fail")])))
        try:
            handle.result()
        except Exception:
            pass
    handle = tree.submit(Task("send it", id="board", plan=Plan([Subtask("send")])))
    next(iter(handle.questions()))
    tree.ref("shop/count").tell("no number")
    print("all is done", flush=True)
    if stay == "yes":
        tree.wait()
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "shop.py"
    file.write_text(textwrap.dedent(SHOP))
    return file


@contextmanager
def running(shop: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The program with its page, and the lines that it has printed until all is done."""
    command = [*REGROW, "run", str(shop), "--web", "0", "--store", f"sqlite:///{shop.parent / 'shop.db'}"]
    with subprocess.Popen(
        command, cwd=shop.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if "all is done" in line:
                    break
            yield process, lines
        finally:
            process.send_signal(signal.SIGKILL)


def regrow(*words: str) -> str:
    done = subprocess.run([*REGROW, *words], capture_output=True, text=True, timeout=LONG_S, check=True)
    return done.stdout


def test_a_store_whose_tree_is_dead_says_so_and_since_when_and_counts_and_lists_what_failed(shop: Path) -> None:
    with running(shop):
        pass
    shown = regrow("observe", "--store", f"sqlite:///{shop.parent / 'shop.db'}")
    head, _, tasks, *_ = shown.split("\n\n")
    assert re.search(r"stopped, as of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", head)
    for word in ("ready", "healthy", "live"):
        assert word not in head
    for count in ("succeeded 3", "failed 2", "waiting 1"):
        assert count in head
    assert sorted(line.split()[0] for line in tasks.splitlines() if " failed " in line) == ["bad-0", "bad-1"]


def test_run_the_page_and_observe_count_the_same_children_and_tasks(shop: Path) -> None:
    with running(shop) as (process, lines):
        said = re.search(r"up, (\d+) children", "".join(lines))
        url = re.search(r"http\S+token=\S+", "".join(lines))
        assert said is not None
        assert url is not None
        page = httpx.get(httpx.URL(url.group()).join("/api/snapshot"), timeout=LONG_S).json()
        observed = regrow("observe", "--pid", str(process.pid))
    head = observed.split("\n\n")[0]
    assert sum(page["children"].values()) == int(said.group(1))
    assert f"{said.group(1)} children" in head
    assert page["now"]["tasks"] == {"succeeded": 3, "failed": 2, "waiting": 1}
    for status, number in page["now"]["tasks"].items():
        assert f"{status} {number}" in head


class Terminal:
    """A terminal of 80 columns and 24 lines."""

    def __init__(self, folder: Path, *command: str) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self._run("new-session", "-d", "-x", "80", "-y", "24", *command)

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, timeout=LONG_S, check=True)
        return done.stdout

    def seen(self, fits: Callable[[str], object]) -> str:
        """Return what is shown once it fits."""
        for _ in range(300):
            shown = self._run("capture-pane", "-p")
            if fits(shown):
                return shown
            Event().wait(0.1)
        pytest.fail(f"never seen, last was:\n{shown}")

    def press(self, key: str) -> None:
        self._run("send-keys", key)

    def close(self) -> None:
        self._run("kill-server")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux: apt-get install tmux")
def test_in_80_columns_all_keys_and_a_whole_question_are_seen_and_enter_terminates_nothing(shop: Path) -> None:
    with running(shop) as (process, _):
        os.environ.pop("TMUX", None)
        terminal = Terminal(shop.parent, *REGROW, "top", "--pid", str(process.pid))
        try:
            shown = terminal.seen(lambda text: "ValueError" in text)
            assert "q Quit" in shown
            assert "Last error" in shown
            for key in ("Down", "Down", "t"):
                terminal.press(key)
            terminal.seen(lambda text: "terminate shop/look?" in text)
            terminal.press("Enter")
            terminal.seen(lambda text: "terminate shop" not in text)
            terminal.press("3")
            terminal.seen(lambda text: all(word in text.split() for word in QUESTION.split()))
            assert "stopped" not in regrow("dump", "--pid", str(process.pid))
        finally:
            terminal.close()
