"""``execute=`` in a process: the context over the wire, and that an attempt's end is real."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import actors
from actors import ProcessDiedError
from tests.actors.dispatch.process_trees import runs
from tests.actors.dispatch.process_workers import OddError
from tests.support.hardening import eventually
from tests.tasks.execution import process_work as there
from trees import (
    Breaker,
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskProgressed,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    Usage,
    WorkerSpec,
    start,
)


def spec_of(*wanted: tuple[str, str], **rules: Any) -> SupervisorSpec:
    plan = [Subtask(f"s{n}", what, worker=who) for n, (who, what) in enumerate(wanted)]
    common = {"dispatch": "process", "on_failure": [], **rules}
    return SupervisorSpec(
        id="p",
        tasks=Tasks(planner=StaticPlan(plan)),
        children=[
            WorkerSpec(id="w", execute=there.work, **common),
            WorkerSpec(id="a", execute=there.async_work, **common),
            WorkerSpec(id="o", actor=there.Working, **common),
        ],
    )


def report_of(tree: Tree, **inputs: Any) -> Report:
    handle = tree.submit(Task("go", inputs=inputs))
    with suppress(TaskFailedError):
        handle.result(60)
    assert handle.report is not None
    return handle.report


def test_execute_runs_in_its_process_and_its_context_works_over_the_wire() -> None:
    told: list[Any] = []
    with start(spec_of(("w", "see"), ("w", "ask"), ("a", "ask"), ("o", "see"))) as tree:
        tree.subscribe(lambda event: told.append(event) if isinstance(event, SubtaskProgressed) else None)
        report = report_of(tree, k=1)
        pids = {name: tree.child(f"p/{name}").pid for name in "wao"}
    seen, asked, asked_async, of_object = (report.results[f"s{n}"] for n in range(4))
    assert seen == {
        "pid": pids["w"], "inputs": {"k": 1}, "goal": "go", "path": "p/w", "attempt": 1, "key": True, "tools": []
    } | {"remaining": None, "token": 0}  # fmt: skip
    assert asked == {"of": "o", "pid": pids["o"]}
    assert asked_async == {"of": "o", "pid": pids["o"]}
    assert of_object == {"of": "o", "pid": pids["o"]}
    assert report.usage.tokens == Usage(tokens=3).tokens
    assert eventually(lambda: told)
    assert [(each.subtask, each.fraction, each.text) for each in told] == [("s0", 0.5, "half")]


def test_what_it_raises_is_what_it_is_anywhere() -> None:
    with start(spec_of(("w", "fail"), ("a", "odd"))) as tree:
        report = report_of(tree)
        assert tree.child("p/w").incarnation == tree.child("p/a").incarnation == 1
    assert "no luck" in str(report.failed["s0"])
    assert "1 and 2" in str(report.failed["s1"])


GIVEN = ("a generator", "a generator in a dict", "a generator in a Done", "a function", "a lock", "an error")


@pytest.mark.parametrize("code", [there.give, there.give_async], ids=["sync", "async"])
def test_what_cannot_be_pickled_or_rebuilt_is_in_a_process_what_it_is_anywhere(code: Any) -> None:
    """The JSON of a result is all that is kept of it. What has none, or was expected, says nothing of the worker."""

    def given(dispatch: str) -> tuple[dict[str, Any], dict[str, str], int, int]:
        worker = WorkerSpec(
            id="w", execute=code, dispatch=dispatch, expected=(OddError,), breaker=Breaker(failure_threshold=1)
        )
        plan = StaticPlan([Subtask(what.replace(" ", "-"), what, worker="w", required=False) for what in GIVEN])
        opened: list[Any] = []
        with start(SupervisorSpec(id="p", tasks=Tasks(planner=plan, on_failure=[]), children=[worker])) as tree:
            tree.subscribe(lambda event: opened.append(event) if isinstance(event, actors.BreakerOpened) else None)
            report = report_of(tree)
            assert tree.child("p/w").incarnation == 1
        said = {id_: text.replace("RemoteError: ", "") for id_, text in report.failed.items()}
        return report.results, said, report.usage.tokens, len(opened)

    in_process, here = given("process"), given("auto")
    assert in_process[0] == here[0] == {
        "a-generator": ["a", "b"], "a-generator-in-a-dict": {"found": ["a", "b"]}, "a-generator-in-a-Done": ["a", "b"]
    }  # fmt: skip
    assert in_process == here
    assert here[3] == 0


def test_later_puts_it_back_at_no_cost_and_done_says_what_it_used(tmp_path: Path) -> None:
    with start(spec_of(("w", "later"), ("w", "done"))) as tree:
        report = report_of(tree, once=str(tmp_path / "once"))
        assert report.results == {"s0": "done in attempt 1", "s1": "done"}
        assert report.usage.tokens == 5
        assert tree.child("p/w").incarnation == 1


def test_the_death_of_the_process_is_a_failed_attempt_which_is_tried_again_and_the_worker_comes_back() -> None:
    exits: list[Any] = []
    with start(spec_of(("w", "die once"), on_failure=[Retry(max_attempts=2, initial_s=0.0)])) as tree:
        tree.subscribe(lambda event: exits.append(event) if isinstance(event, actors.ChildExited) else None)
        report = report_of(tree)
        assert report.results["s0"] == "done in attempt 2"
        assert isinstance(eventually(lambda: exits)[0].error, ProcessDiedError)
        assert exits[0].error.signal == signal.SIGSEGV


@pytest.mark.parametrize("what", ["spin on a thread of asyncio", "wait in C on a thread of asyncio"])
def test_async_work_past_its_time_whose_sync_code_hangs_on_a_thread_is_killed_with_its_process(what: str) -> None:
    """As sync tools of agents do: a cancel ends the wait for them, never the call."""
    with start(spec_of(("a", what), timeout_s=0.5)) as tree:
        pid = tree.child("p/a").pid or 0
        report = report_of(tree)
        assert "0.5 s" in str(report.failed["s0"])
        assert eventually(lambda: tree.child("p/a").incarnation == 2)
        assert eventually(lambda: not runs(pid))


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
def test_sync_work_past_its_time_is_no_crash_so_its_worker_alone_comes_back_whatever_its_restart_type(
    restart: str,
) -> None:
    exits: list[actors.ChildExited] = []
    tree_spec = SupervisorSpec(
        id="p",
        strategy="one_for_all",
        tasks=Tasks(planner=StaticPlan([Subtask("s0", "hang", worker="w", timeout_s=0.3)])),
        children=[
            WorkerSpec(id="sibling", handle=str),
            WorkerSpec(
                id="w",
                execute=there.work,
                dispatch="process",
                restart=restart,
                on_failure=[Retry(max_attempts=2, initial_s=0.0)],
            ),
        ],
    )
    with start(tree_spec) as tree:
        tree.subscribe(lambda event: exits.append(event) if isinstance(event, actors.ChildExited) else None)
        assert "attempt 2 ran longer" in str(report_of(tree).failed["s0"])
        assert eventually(lambda: tree.child("p/w").incarnation == 3)
        assert tree.child("p/w").restarts == 0
        assert tree.child("p/sibling").incarnation == 1
        assert eventually(lambda: len(exits) == 2)
    assert [(each.path, each.reason, each.error) for each in exits[:2]] == 2 * [("p/w", "killed", None)]


def test_an_attempt_that_is_cancelled_and_not_gone_after_a_grace_is_killed_with_what_it_has_started(
    tmp_path: Path,
) -> None:
    notes = tmp_path / "notes"
    with start(spec_of(("w", "hang with a process below"))) as tree:
        handle = tree.submit(Task("go", inputs={"notes": str(notes)}))
        pid = tree.child("p/w").pid or 0
        below = int(eventually(lambda: notes.exists() and notes.read_text()))
        handle.cancel()
        assert eventually(lambda: not runs(pid) and not runs(below))
        assert eventually(lambda: tree.child("p/w").incarnation == 2)
        assert tree.child("p/w").pid not in {None, pid, os.getpid()}
