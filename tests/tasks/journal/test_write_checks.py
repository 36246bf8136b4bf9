"""What cannot be written, or not be read back, is refused before it has any effect."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings

from actors.model.event_dict import kept_fields
from actors.model.events import Event
from actors.tasks.journal.codec import decode, encode
from actors.tasks.model import task_events, write_checks
from actors.tasks.model.task import Task, TaskStatus, Usage
from actors.tasks.model.write_checks import checked, require_length
from tests.support.event_kinds import JOURNALLED_KINDS
from tests.trees.store.stores import OWNER, PATIENCE_S, queued, submitted, succeeded
from tests.trees.store.test_codec import records
from trees import Retry, StaticPlan, Subtask, SupervisorSpec, TaskFailedError, Tasks, WorkerSpec, start

STANDING = task_events.LadderPosition()


class Odd:
    """Nothing that any field of a record may be."""


@pytest.mark.slow
@given(records)
@settings(max_examples=40, deadline=None)
def test_every_record_that_can_be_read_back_is_taken(record: Event) -> None:
    assert checked(record) is record


@pytest.mark.parametrize("kind", JOURNALLED_KINDS, ids=lambda kind: kind.__name__)
def test_no_field_with_a_type_takes_another_one(kind: type[Any]) -> None:
    hints = get_type_hints(kind)
    for field in kept_fields(kind):
        if hints[field.name] is Any or field.name in write_checks.OF_RECORDING:
            continue
        record = object.__new__(kind)
        for each in kept_fields(kind):
            object.__setattr__(record, each.name, each.default)
        object.__setattr__(record, field.name, Odd())
        with pytest.raises(TypeError, match="could not be read back"):
            checked(record)


INSIDE: list[Event] = [
    task_events.TaskJoined(OWNER, "t", 1.0, ("a", 2), ()),  # type: ignore[arg-type]
    task_events.Reviewed(OWNER, "t", 1.0, 1, passed=True, rerun={"a": 5}),  # type: ignore[dict-item]
    task_events.Reviewed(OWNER, "t", 1.0, 1, passed=True, rerun={5: "a"}),  # type: ignore[dict-item]
    task_events.SubtaskRetrying(OWNER, "t", 1.0, "s", "w", 1, "k", "e", 1.0, task_events.LadderPosition(tried=(1,))),  # type: ignore[arg-type]
    task_events.EscalationRaised(OWNER, "t", 1.0, "s", "t:s:1", {"field": "port"}, "e", None, STANDING),  # type: ignore[arg-type]
    task_events.EscalationRaised(OWNER, "t", 1.0, "s", "t:s:1", ValueError("?"), "e", None, STANDING),  # type: ignore[arg-type]
    task_events.TaskFinished(OWNER, "t", 1.0, "succeeded"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("record", INSIDE, ids=lambda record: type(record).__name__)
def test_what_is_within_a_field_is_looked_at_too(record: Any) -> None:
    with pytest.raises(TypeError):
        checked(record)


def test_what_is_taken_comes_back() -> None:
    usage = Usage(tokens=3)
    for record in (submitted("t"), queued("t"), succeeded("t", {"a": [1]}), succeeded("t", None)):
        assert decode(*encode(checked(record))) == record
    finished = task_events.TaskFinished(OWNER, "t", 1, TaskStatus.FAILED)
    done = task_events.SubtaskSucceeded(OWNER, "t", 1.0, "s", "w", 1, Task(goal="x").goal, usage)
    assert [decode(*encode(checked(each))) for each in (finished, done)] == [finished, done]


@pytest.mark.parametrize("value", ["x" * 11, ["x" * 6, "y" * 6], {"x" * 6: {"y" * 6: 1}}, [1] * 11])
def test_a_value_that_is_too_long_is_refused_wherever_its_length_is(
    value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_length(value)
    monkeypatch.setattr(write_checks, "MOST_CHARACTERS", 10)

    with pytest.raises(ValueError, match="longer than 10 characters"):
        require_length(value)


def test_a_result_that_is_too_long_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    monkeypatch.setattr(write_checks, "MOST_CHARACTERS", 1_000)
    worker = WorkerSpec(id="w", execute=lambda *_: "x" * 1_001, on_failure=[Retry(max_attempts=1)])
    spec = SupervisorSpec(id=OWNER, tasks=Tasks(planner=StaticPlan([Subtask("s", worker="w")])), children=[worker])
    with start(spec, store=sqlite_url) as tree, pytest.raises(TaskFailedError, match="longer than 1,000 characters"):
        tree.run("go", PATIENCE_S)
