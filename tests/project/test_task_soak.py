"""A short soak of tasks, and that it finds what it looks for.

``python -m tests.faults.task_soak --minutes 10`` is the long one.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.messaging.envelope import CURRENT
from actors.tasks.execution.attempt import Attempt
from actors.tasks.model import task_events as records
from actors.tasks.orchestration.handoff import AttemptHandoff
from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
from tests.faults.task_ledger import Ledger
from tests.faults.task_soak import TaskSoak
from trees import TaskEvent, TaskStatus

pytestmark = pytest.mark.usefixtures("quiet_log")
SECONDS = 2.0


@pytest.fixture
def soak(tmp_path: Path) -> Callable[..., TaskSoak]:
    def make(patience_s: float = 60.0) -> TaskSoak:
        return TaskSoak(f"sqlite:///{tmp_path / 'tasks.db'}", secrets.randbelow(10**6), SECONDS, patience_s)

    return make


@pytest.mark.slow
def test_every_task_ends_and_nothing_is_done_twice_without_need_while_everything_breaks(
    soak: Callable[..., TaskSoak],
) -> None:
    run = soak()

    problems = run.run()

    assert problems == [], f"{run}: {run.ledger.examples}"
    assert run.ledger.ends["succeeded"] > 0, "nothing succeeded: the soak shows nothing"
    assert {"kill_worker", "crash_orchestrator"} <= set(run.faults)


# -- planted in the product --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_lost_wake_up_is_found(soak: Callable[..., TaskSoak], monkeypatch: pytest.MonkeyPatch) -> None:
    """One end of an attempt in ten is told to nobody."""
    post, numbers = OrchestratorPort.post, itertools.count()

    def forgetful(self: OrchestratorPort, message: Any) -> bool:
        return (isinstance(message, Attempt) and next(numbers) % 10 == 0) or post(self, message)

    monkeypatch.setattr(OrchestratorPort, "post", forgetful)
    run = soak(patience_s=3.0)

    run.run()

    assert run.ledger.violations["a task has not ended"] > 0


@pytest.mark.slow
def test_a_double_effect_is_found(soak: Callable[..., TaskSoak], monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt is put twice into the mailbox of its worker, and nobody looks whether it was begun before."""
    give, begin = AttemptHandoff.give, Attempt.begin

    def twice(self: AttemptHandoff, attempt: Attempt, entry: Any) -> None:
        give(self, attempt, entry)
        if not entry.is_team and attempt.target is not None:
            attempt.target.put_unbounded((attempt, None, None))

    def again(self: Attempt, incarnation: Any, now: float) -> bool:
        begin(self, incarnation, now)
        return True

    monkeypatch.setattr(AttemptHandoff, "give", twice)
    monkeypatch.setattr(Attempt, "begin", again)
    run = soak(patience_s=3.0)

    run.run()

    found = run.ledger.violations
    assert found["an act was begun more often than the journal has started it"] > 0, f"{found} {run}"


# -- planted in the books ----------------------------------------------------------------------------------

ACT = "t/pay0/1"
QUEUED = records.SubtaskQueued("soak", "t", 1.0, "pay0")
STARTED = records.SubtaskStarted("soak", "t", 2.0, "pay0", "pay", 1, 1, undoable=True)
DONE = records.SubtaskSucceeded("soak", "t", 3.0, "pay0", "pay", 1, "paid")
PUT_BACK = records.SubtaskQueued("soak", "t", 3.0, "pay0", "pay was stopped")
UNDONE = records.Compensated("soak", "t", 4.0, "pay0", "pay", 1)
OVER = records.TaskFinished("soak", "t", 5.0, TaskStatus.SUCCEEDED)
FAILED = records.TaskFinished("soak", "t", 5.0, TaskStatus.FAILED)


class Life:
    """An incarnation."""

    is_over = False


def did(ledger: Ledger, key: str = ACT, times: int = 1, *, is_over: bool = False, what: str = "") -> None:
    """Somebody has done an act."""
    incarnation = Life()
    token = CURRENT.set(SimpleNamespace(incarnation=incarnation))  # type: ignore[arg-type]
    try:
        for _ in range(times):
            with ledger.act(SimpleNamespace(idempotency_key=key), what):  # type: ignore[arg-type]
                incarnation.is_over = is_over
    finally:
        CURRENT.reset(token)


def audited(ledger: Ledger, events: list[TaskEvent], status: TaskStatus = TaskStatus.SUCCEEDED) -> list[str]:
    report: Any = SimpleNamespace(task_id="t", status=status)
    ledger.audit(report, events, {status})
    return list(ledger.violations)


def test_a_journal_that_explains_everything_passes() -> None:
    ledger = Ledger()
    did(ledger)

    assert audited(ledger, [QUEUED, STARTED, DONE, OVER]) == []
    assert ledger._acts == {}, "what was looked at is forgotten"


def test_an_act_that_was_put_back_may_be_done_again() -> None:
    ledger = Ledger()
    did(ledger, is_over=True)
    did(ledger)

    assert audited(ledger, [QUEUED, STARTED, PUT_BACK, STARTED, DONE, OVER]) == []
    assert ledger.repeated == 1


BROKEN: dict[str, tuple[int, list[TaskEvent], TaskStatus, str]] = {
    "no end": (1, [STARTED, DONE], TaskStatus.SUCCEEDED, "does not end"),
    "two ends": (1, [STARTED, DONE, OVER, OVER], TaskStatus.SUCCEEDED, "does not end"),
    "another end": (1, [STARTED, DONE, FAILED], TaskStatus.SUCCEEDED, "does not end"),
    "two results": (1, [STARTED, DONE, DONE, OVER], TaskStatus.SUCCEEDED, "two results"),
    "started after its result": (1, [STARTED, DONE, STARTED, OVER], TaskStatus.SUCCEEDED, "after its result"),
    "begun without a record": (2, [STARTED, DONE, OVER], TaskStatus.SUCCEEDED, "more often than the journal"),
    "done twice": (2, [STARTED, STARTED, DONE, OVER], TaskStatus.SUCCEEDED, "twice without need"),
    "no refund": (1, [STARTED, DONE, FAILED], TaskStatus.FAILED, "not refunded once"),
    "two refunds": (1, [STARTED, DONE, UNDONE, UNDONE, FAILED], TaskStatus.FAILED, "not refunded once"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_found(case: str) -> None:
    times, events, status, says = BROKEN[case]
    ledger = Ledger()
    did(ledger, times=times)

    assert any(says in found for found in audited(ledger, events, status))


def test_a_refund_that_was_made_twice_is_found() -> None:
    ledger = Ledger()
    did(ledger)
    did(ledger, ACT + "/undo", times=2, what="refund ")

    assert audited(ledger, [STARTED, DONE, UNDONE, FAILED], TaskStatus.FAILED) == [
        "a refund was made twice without need"
    ]


def test_an_act_in_two_places_at_once_is_found_but_not_one_that_was_given_up() -> None:
    ledger = Ledger()
    incarnation = Life()
    context: Any = SimpleNamespace(idempotency_key=ACT)
    CURRENT.set(SimpleNamespace(incarnation=incarnation))  # type: ignore[arg-type]
    with ledger.act(context):
        did(ledger)
        assert ledger.violations["the same act runs in two places at once"] == 1
        incarnation.is_over = True
        did(ledger)
        assert ledger.violations["the same act runs in two places at once"] == 1
    CURRENT.set(None)


def test_a_status_that_the_plan_does_not_ask_for_is_found_unless_a_person_said_no() -> None:
    for rejected in (False, True):
        ledger = Ledger()
        if rejected:
            ledger.rejected.add("t")
        report: Any = SimpleNamespace(task_id="t", status=TaskStatus.FAILED)
        ledger.audit(report, [FAILED], {TaskStatus.SUCCEEDED})

        assert bool(ledger.violations) is not rejected


def test_memory_that_grows_is_found() -> None:
    run = TaskSoak("sqlite:///none", 1, 600.0)
    flat = [(float(at), 90_000_000) for at in range(100)]

    run.memory.extend(flat)
    assert run._grown() == []
    run.memory.clear()
    run.memory.extend((at, size + int(at) * 1_000_000) for at, size in flat)
    assert "memory grew" in run._grown()[0]
