"""``context.step`` in a process: recorded in the host, made there, and the same wherever the attempt goes on."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from actors import Failed
from actors.dispatch.remote import pack_error, rebuilt
from actors.messaging.reply import Reply
from actors.tasks.execution.step_host import AttemptStepHost
from actors.tasks.model.outcome import InvalidResultError
from tests.support.hardening import eventually
from tests.tasks.execution import process_work as there
from trees import (
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskStepped,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

CODES: list[Any] = [there.steps, there.async_steps]
SOON = Retry(max_attempts=3, initial_s=0.001, factor=1.0, max_s=0.001, jitter=0.0)


def spec_of(code: Any, dispatch: Any = "process", **rules: Any) -> SupervisorSpec:
    worker = WorkerSpec(id="w", execute=code, dispatch=dispatch, **{"on_failure": [], **rules})
    return SupervisorSpec(
        id="p", max_restarts=100, tasks=Tasks(planner=StaticPlan([Subtask("x", worker="w")])), children=[worker]
    )


def report_of(tree: Tree, notes: Path, how: str = "", **inputs: Any) -> Report:
    handle = tree.submit(Task("go", id="t", inputs={"notes": str(notes), "how": how, **inputs}))
    with suppress(TaskFailedError):
        handle.result(60)
    assert handle.report is not None
    return handle.report


def recorded(tree: Tree) -> list[tuple[Any, ...]]:
    found = [each for each in tree.task("t").events() if isinstance(each, SubtaskStepped)]
    return [(each.step, each.number, each.fingerprint, each.value) for each in found]


@pytest.mark.parametrize("code", CODES)
def test_names_numbers_fingerprints_and_keys_are_those_of_a_worker_without_a_process(code: Any, tmp_path: Path) -> None:
    seen = []
    for dispatch in ("process", "auto"):
        notes = tmp_path / "notes"
        notes.write_text("")
        with start(spec_of(code, dispatch)) as tree:
            results = report_of(tree, notes).results
            seen.append((results, recorded(tree), notes.read_text()))
    assert seen[0] == seen[1]
    assert [each[:2] for each in seen[0][1]] == [("s", 1), ("key", 1), ("s", 2)]
    assert seen[0][2].split() == ["1", "2"]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("places", [("process", "auto"), ("auto", "process"), ("process", "process")])
def test_a_task_that_moves_between_a_thread_and_a_process_makes_no_step_again(
    code: Any, places: tuple[str, str], tmp_path: Path
) -> None:
    notes, store = tmp_path / "notes", f"sqlite:///{tmp_path}/db"
    with start(spec_of(code, places[0], shutdown=1), store=store) as tree:
        tree.submit(Task("go", id="t", inputs={"notes": str(notes), "how": "hold"}))
        assert eventually(Path(f"{notes}.waits").exists)
    Path(f"{notes}.go").touch()
    with start(spec_of(code, places[1]), store=store) as tree:
        results = tree.task("t").result(60).results["x"]
        assert results[:2] == ["made 1", "made 2"]
        assert [each[:2] for each in recorded(tree)] == [("s", 1), ("key", 1), ("s", 2)]
    assert notes.read_text().split() == ["1", "2"]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("how", ["odd", "lock", "large"])
def test_a_value_that_cannot_be_kept_is_the_same_error_and_a_large_one_is_kept(
    code: Any, how: str, tmp_path: Path
) -> None:
    seen = []
    for dispatch in ("process", "auto"):
        with start(spec_of(code, dispatch)) as tree:
            report = report_of(tree, tmp_path / "notes", how)
            seen.append((report.results, {id_: str(each) for id_, each in report.failed.items()}))
            assert tree.child("p/w").incarnation == 1
    assert seen[0][1] == seen[1][1]
    assert seen[0][0] == seen[1][0]
    assert ("cannot be recorded" in seen[0][1].get("x", "")) == (how != "large")


# -- the process is killed between any two points of a step --------------------------------------------------------


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("point", "calls"),
    [("while it runs", 2), ("asked, not recorded", 2), ("recorded, not answered", 1), ("answered", 1)],
)
def test_a_step_is_made_again_exactly_where_it_was_not_recorded_when_its_process_was_killed(
    code: Any, point: str, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = {"while it runs": "die", "answered": "die after"}.get(point, "")
    notes = tmp_path / "notes"
    with start(spec_of(code, on_failure=[SOON]), store=f"sqlite:///{tmp_path}/db") as tree:
        if not how:
            _kill_at(point, tree, monkeypatch)
        report = report_of(tree, notes, how, keep="subtask")
        assert report.results["x"][:2] == ["made 1", "made 2"]
        assert [each[:2] for each in recorded(tree)] == [("s", 1), ("key", 1), ("s", 2)]
        assert tree.child("p/w").incarnation == 2
    assert notes.read_text().split().count("1") == calls
    assert notes.read_text().split().count("2") == 1


def _kill_at(point: str, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have its process killed before, or after, the first step is recorded; in either order nobody is answered."""
    keep_step, is_first = AttemptStepHost.keep_step, [True]

    def kept(self: AttemptStepHost, call: Any, value: Any) -> Reply | None:
        if not is_first:
            return keep_step(self, call, value)
        is_first.clear()
        attempt, pid = self._attempt, tree.child("p/w").pid or 0
        never = Reply()

        def act() -> None:
            if point == "asked, not recorded":
                os.kill(pid, signal.SIGKILL)
                assert eventually(lambda: attempt.done)
            told = keep_step(self, call, value)
            if point == "recorded, not answered":
                assert told is not None
                told.get(timeout=60)
                os.kill(pid, signal.SIGKILL)

        threading.Thread(target=act).start()
        return never

    monkeypatch.setattr(AttemptStepHost, "keep_step", kept)


# -- errors cross as what they are -------------------------------------------------------------------------------------


class OwnFailure(Failed):
    """A failure with something to say of its own."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}", retryable=False)
        self.code = code


@pytest.mark.parametrize(
    "error", [OwnFailure(3), InvalidResultError("no JSON", retryable=False), Failed(ValueError(1))]
)
def test_a_failure_of_any_class_is_the_same_after_it_has_crossed(error: Failed) -> None:
    found: Any = rebuilt(pack_error(error))
    assert type(found) is type(error)
    assert (str(found), found.retryable, getattr(found, "code", 0)) == (
        str(error),
        error.retryable,
        getattr(error, "code", 0),
    )


@pytest.mark.parametrize("retryable", [True, False])
@pytest.mark.parametrize("holds", [ValueError(1), threading.Lock()], ids=["an error", "a lock"])
def test_a_failure_that_cannot_cross_as_it_is_still_says_if_it_may_be_tried_again(
    holds: object, *, retryable: bool
) -> None:
    class LocalFailure(Failed):
        """A class that nobody can import."""

    error = LocalFailure(holds, retryable=retryable)

    crossed = rebuilt(pack_error(error))

    assert isinstance(crossed, Failed)
    assert type(crossed).__name__ == "LocalFailure"
    assert crossed.retryable is retryable
    assert str(crossed) == str(error)
