"""``start(TREE, store="tasks.jsonl")``: a durable store without a database."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import actors
from trees import StaticPlan, StoreError, Subtask, SupervisorSpec, Task, TaskCancelledError, Tasks, WorkerSpec, start

PLAN = StaticPlan([Subtask("search"), Subtask("compare", depends_on=["search"])])


def office(ran: list[str], *, hangs: threading.Event | None = None) -> SupervisorSpec:
    def search(_task: object, context: object) -> list[str]:
        ran.append("search")
        return ["pgvector", "Qdrant"]

    def compare(_task: object, context: object) -> str:
        ran.append("compare")
        if hangs is not None:
            hangs.set()
            actors.sleep(60)
        return f"{len(context.results['search'])} candidates"  # type: ignore[attr-defined]

    workers = [WorkerSpec(id="search", execute=search), WorkerSpec(id="compare", execute=compare, shutdown=0.1)]
    return SupervisorSpec(id="office", tasks=Tasks(planner=PLAN, on_failure=[]), children=workers)


KILLED = """
import os, sys
import actors
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

def search(task, context):
    return ["pgvector", "Qdrant"]

def compare(task, context):
    os.kill(os.getpid(), 9)

PLAN = StaticPlan([Subtask("search"), Subtask("compare", depends_on=["search"])])
with start(SupervisorSpec(id="office", tasks=Tasks(planner=PLAN, on_failure=[]), children=[
        WorkerSpec(id="search", execute=search), WorkerSpec(id="compare", execute=compare)]),
        store=sys.argv[1]) as tree:
    tree.submit(Task("compare databases", id="t-1")).result()
"""


def test_what_was_done_before_a_kill_9_is_not_done_again(tmp_path: Path) -> None:
    file = str(tmp_path / "tasks.jsonl")
    killed = subprocess.run([sys.executable, "-c", KILLED, file], capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL

    ran: list[str] = []
    with start(office(ran), store=file) as tree:
        assert tree.task("t-1").result(timeout=60).results["compare"] == "2 candidates"
    assert ran == ["compare"]

    with start(office(ran), store=file) as tree:
        assert tree.task("t-1").status == "succeeded"
    assert ran == ["compare"]


def test_a_line_that_a_kill_cut_short_is_forgotten_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    file, ran = tmp_path / "tasks.jsonl", list[str]()
    with start(office(ran), store=str(file)) as tree:
        tree.submit(Task("compare databases", id="t-1")).result(timeout=60)
    whole = file.read_bytes()

    file.write_bytes(whole + b'["append","t-1",["Subt')
    with start(office(ran), store=str(file)) as tree:
        assert tree.task("t-1").status == "succeeded"

    lines = whole.splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], b"rubbish\n", *lines[2:]]))
    with pytest.raises(StoreError, match=r"tasks\.jsonl: line 3 is damaged .*Restore the file, or move it away"):
        start(office(ran), store=str(file))
    assert ran == ["search", "compare"]


def test_a_second_program_on_the_same_file_is_refused(tmp_path: Path) -> None:
    file = str(tmp_path / "tasks.jsonl")
    other = "from trees import *; import sys; start(SupervisorSpec(id='office', tasks=Tasks()), store=sys.argv[1])"
    with start(office([]), store=file):
        second = subprocess.run(
            [sys.executable, "-c", other, file], capture_output=True, text=True, timeout=60, check=False
        )
    assert "StoreBusyError" in second.stderr

    with pytest.raises(StoreError, match="does not survive a loss of power"):
        start(office([]), store=file, durability="power")
    with pytest.raises(StoreError, match="cannot be opened: No such file"):
        start(office([]), store=str(tmp_path / "missing" / "tasks.jsonl"))


FULL = """
from trees import StaticPlan, StorePaused, StoreResumed, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees import StoreError
import resource, signal, sys, threading

paused, resumed = threading.Event(), threading.Event()

def work(task, context):
    size = sum(1 for _ in open(sys.argv[1], "rb").read())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))  # room for a part of a line
    return "x" * 20_000

def heard(event):
    if isinstance(event, StorePaused):
        paused.set()
    elif isinstance(event, StoreResumed):
        resumed.set()

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
PLAN = StaticPlan([Subtask("work")])
with start(SupervisorSpec(id="office", tasks=Tasks(planner=PLAN), children=[WorkerSpec(id="work", execute=work)]),
           store=sys.argv[1]) as tree:
    tree.subscribe(heard)
    handle = tree.submit(Task("go", id="t"))
    assert paused.wait(60)
    try:
        tree.submit(Task("go", id="u"))
    except StoreError as error:
        print("refused", "no room" in str(error))
    print(handle.status)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert resumed.wait(60)
    print(len(handle.result(timeout=60).results["work"]))
"""


def test_a_full_disk_pauses_the_store_and_no_task_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    program = [sys.executable, "-c", FULL, str(file)]
    full = subprocess.run(program, capture_output=True, text=True, timeout=110, check=False)
    assert full.stdout.splitlines() == ["refused True", "running", "20000"], full.stderr
    assert all(json.loads(line) for line in file.read_text().splitlines()), "no part of a line stays"

    with start(office([]), store=str(file)) as tree:
        assert tree.task("t").result(timeout=60).results == {"work": "x" * 20_000}
        assert [row.id for row in tree.tasks()] == ["t"]


def test_a_task_whose_id_was_used_by_one_that_keep_let_go_runs_after_a_kill(tmp_path: Path) -> None:
    file = str(tmp_path / "tasks.jsonl")
    again = AGAIN.replace("FILE", repr(file))
    killed = subprocess.run([sys.executable, "-c", again], capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL

    ran: list[str] = []
    with start(office(ran), store=file) as tree:
        assert tree.task("a").result(timeout=60).results["compare"] == "2 candidates"
    assert ran == ["search", "compare"]


AGAIN = """
import os
from trees import Keep, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start

seen = []

def search(task, context):
    seen.append(context.goal)
    if len(seen) == 3:
        os.kill(os.getpid(), 9)

PLAN = StaticPlan([Subtask("search"), Subtask("compare", depends_on=["search"])])
with start(SupervisorSpec(id="office", tasks=Tasks(planner=PLAN, on_failure=[]), children=[
        WorkerSpec(id="search", execute=search), WorkerSpec(id="compare", execute=lambda task, context: None)]),
        store=FILE, keep=Keep(count=1)) as tree:
    for id in ("a", "b", "a"):
        tree.submit(Task("compare databases", id=id)).result(timeout=60)
"""


def test_a_cancel_that_nobody_has_carried_out_at_a_stop_is_carried_out_by_the_next_process(tmp_path: Path) -> None:
    file, ran, hangs = str(tmp_path / "tasks.jsonl"), list[str](), threading.Event()
    with start(office(ran, hangs=hangs), store=file) as tree:
        handle = tree.submit(Task("compare databases", id="t-1"))
        assert hangs.wait(60)
        tree.terminate_child("office/orchestrator")  # who would carry it out
        handle.cancel("no longer needed")
    for _ in range(2):  # once it is done it is done
        with start(office(ran), store=file) as tree, pytest.raises(TaskCancelledError, match="no longer needed"):
            tree.task("t-1").result(timeout=60)
    assert ran == ["search", "compare"]
