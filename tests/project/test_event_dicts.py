"""``event.as_dict()``, ``event.name`` and ``event.at``, of every event that the library has."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from actors import ChildExited, ChildRestarting, Escalated, Event, EventsLost, Problem
from actors.model.event_dict import VERSION
from actors.model.events import Reason
from actors.tasks.model import LadderPosition
from actors.testing import ManualClock, settle
from tests.support.event_kinds import OUR_KINDS
from trees import (
    Plan,
    StoreError,
    Subtask,
    SubtaskProgressed,
    SubtaskSucceeded,
    SupervisorSpec,
    Task,
    TaskFinished,
    TaskSubmitted,
    WorkerSpec,
    start,
)

SECRET = "sk-SECRET-42"  # noqa: S105 - no password
CONTENT = {"spec", "plan", "value", "output", "question", "rerun", "feedback", "lineage"}
"""Goals, inputs, plans, results, questions and answers."""


def sample(hint: Any) -> Any:  # noqa: PLR0911 - a table
    """A value of this type, with a secret in it where that may be one of a user."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return {"secret": SECRET, "odd": [math.nan, b"bytes", {1: object()}]}
    if origin in {Union, types.UnionType}:
        return sample(parts[0])
    if origin is Literal:
        return parts[0]
    if origin is tuple:
        return (sample(parts[0]),)
    if origin is Mapping:
        return {"order": 7}
    if origin is dict:
        return {"a": SECRET}
    known = {str: "text", int: 3, float: 1.5, bool: True, BaseException: ValueError("boom"), Task: Task(SECRET)}
    known |= {Plan: Plan([Subtask("a", inputs={"key": SECRET})]), Subtask: Subtask("a", SECRET)}
    known |= {StoreError: StoreError("sqlite", "is full"), LadderPosition: LadderPosition(target="w")}
    known |= {Problem: Problem("plan", "is empty", "Add a subtask.")}
    if hint in known:
        return known[hint]
    if issubclass(hint, Enum):
        return next(iter(hint))
    if hint is types.TracebackType:
        return None
    return hint() if not issubclass(hint, BaseException) else hint("boom")


def made(kind: type[Event]) -> Event:
    hints = get_type_hints(kind)
    values = {each.name: sample(hints[each.name]) for each in fields(kind)}
    values |= dict.fromkeys({"question", "feedback"} & {*values}, SECRET)
    values |= {"lineage": (SECRET,)} if "lineage" in values else {}
    return kind(**values)


@pytest.mark.parametrize("kind", OUR_KINDS, ids=lambda kind: kind.__name__)
def test_every_event_is_a_dict_for_json_without_content(kind: type[Event]) -> None:
    event = made(kind)
    told = event.as_dict()
    text = json.dumps(told, allow_nan=False)
    everything = event.as_dict(content=True)

    assert [*told][:3] == ["version", "name", "at"]
    assert (told["version"], told["name"], told["at"]) == (VERSION, kind.name, event.at)
    assert told["path"] == "text"
    assert SECRET not in text
    assert json.loads(json.dumps(everything, allow_nan=False)) == everything
    assert {each.name for each in fields(kind)} <= {*everything}
    assert not CONTENT & {*told}
    assert told.items() <= everything.items()


def test_the_name_of_a_kind_is_that_of_its_class_in_snake_case_on_the_class_and_its_records() -> None:
    assert (ChildRestarting.name, TaskFinished.name, EventsLost.name) == (
        "child_restarting",
        "task_finished",
        "events_lost",
    )
    assert ChildRestarting("p/w", 1, 0.0).name == "child_restarting"
    assert len({kind.name for kind in OUR_KINDS}) == len(OUR_KINDS)


def crash() -> tuple[BaseException, Any]:
    try:
        raise ValueError(f"no {SECRET}")  # noqa: TRY301 - the line is looked for
    except ValueError as error:
        return error, error.__traceback__


def test_an_exception_is_its_type_and_text_and_the_places_that_it_has_come_through() -> None:
    error, frames = crash()
    event = ChildExited("p/w", Reason.CRASHED, 2, error, frames, started=True, lost=1)
    told = event.as_dict()

    assert (told["error"], told["error_type"]) == (f"ValueError: no {SECRET}", "ValueError")
    assert told["frames"] == [f"{__file__}:{frames.tb_lineno} in crash"]
    assert told["reason"] == "crashed"
    bare = event.as_dict(errors="type")
    assert (bare["error"], bare["error_type"]) == ("ValueError", "ValueError")
    assert SECRET not in json.dumps(bare)


class UnsayableError(Exception):
    """Its own text raises."""

    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UnsayableError(), "UnsayableError: <no text: its own code raised SystemExit>"),
        (Escalated(SECRET), "Escalated"),
        (ValueError(), "ValueError"),
        (ValueError("half \udcff"), "ValueError: half \\udcff"),
        (None, None),
    ],
)
def test_whatever_an_error_is_there_is_a_dict(error: Any, said: str | None) -> None:
    event = ChildExited("p", Reason.CRASHED, 1, error, None, started=True, lost=0)

    assert event.as_dict()["error"] == said
    assert json.dumps(event.as_dict(), ensure_ascii=False).encode()


def test_what_is_no_content_is_told_though_no_repr_has_it() -> None:
    progress = SubtaskProgressed("p", "t", 1.0, "s", 0.5, "reading", seq=4)
    result = SubtaskSucceeded("p", "t", 1.0, "s", "w", 1, SECRET, seq=5)

    assert (progress.as_dict()["text"], progress.as_dict()["seq"]) == ("reading", 4)
    assert result.as_dict()["usage"] == {"tokens": 0, "cost": 0.0, "seconds": 0.0}
    assert result.as_dict(content=True)["value"] == SECRET
    given = TaskSubmitted("p", "t", 1.0, Task(SECRET, inputs={"a": 1}), None)
    assert given.as_dict(content=True)["spec"]["inputs"] == {"a": 1}


# -- when ------------------------------------------------------------------------------------------------------


def test_every_event_of_a_tree_has_the_time_of_its_clock_at_which_it_happened() -> None:
    clock, seen = ManualClock(), list[Event]()
    with start(SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=int)]), clock=clock) as tree:
        tree.subscribe(seen.append)
        began = clock.wall()
        for _ in range(2):
            clock.advance(10.0)
            tree.ref("p/w").tell("seven")
            settle(tree)

    exits = [event.at for event in seen if isinstance(event, ChildExited) and event.error is not None]
    assert exits == pytest.approx([began + 10.0, began + 20.0])
    assert [event.at for event in seen] == sorted(event.at for event in seen)
    assert all(event.at >= began for event in seen)
