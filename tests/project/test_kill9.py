"""Rounds of ``tests.faults.kill9``, and that its checks find what they look for."""

from __future__ import annotations

import functools
import gc
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from actors import Event
from actors.tasks.model import task_events
from tests.faults.errands import PAID, TASK
from tests.faults.fresh import databases
from tests.faults.kill9 import Wrong, check_effects, check_journal, disturbed, journal, undisturbed


class Calm(NamedTuple):
    """A run that nobody disturbed."""

    report: dict[str, Any]
    effects: Counter[str]
    took_s: float


@functools.cache
def calm() -> Calm:
    """On a file; on any other database it is the same."""
    with databases("sqlite") as fresh, tempfile.TemporaryDirectory() as folder:
        return Calm(*undisturbed(fresh(), Path(folder)))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1))  # on two databases
def test_nothing_is_lost_and_only_what_was_in_flight_is_done_again(number: int, store_url: str, tmp_path: Path) -> None:
    report, effects, took_s = calm()
    dice = Random(number)  # noqa: S311 - to be repeated
    moments = [dice.uniform(0.1, 1.0) * took_s / (1 + at) for at in range(dice.randint(1, 2))]

    disturbed(store_url, tmp_path, moments, report, effects)


def test_where_one_died_before_there_was_a_store_there_is_no_journal_and_nothing_stays_open(store_url: str) -> None:
    assert journal(store_url) == ()
    gc.collect()  # what was left open is found here


# -- what the checks find ----------------------------------------------------------------------------------


def started(subtask: str) -> Event:
    return task_events.SubtaskStarted("errands", TASK, 1.0, subtask, "pay", 1, 1)


def succeeded(subtask: str) -> Event:
    return task_events.SubtaskSucceeded("errands", TASK, 2.0, subtask, "pay", 1, "paid")


def undone(subtask: str) -> Event:
    return task_events.Compensated("errands", TASK, 3.0, subtask, "pay", 1)


PAYMENTS = [each for id_ in PAID for each in (started(id_), succeeded(id_))]
UNDONE = [undone(id_) for id_ in reversed(PAID)]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([*PAYMENTS, succeeded(PAID[1]), *UNDONE], rf"more than one result is recorded of \['{PAID[1]}'\]"),
        ([*PAYMENTS, started(PAID[0]), *UNDONE], f"{PAID[0]} was started again after its result was recorded"),
        ([*PAYMENTS, *reversed(UNDONE)], "undone in the order"),
        ([*PAYMENTS, *UNDONE, UNDONE[-1]], "undone in the order"),
        ([*PAYMENTS, *UNDONE[1:]], "undone in the order"),
        (PAYMENTS, "undone in the order"),
    ],
    ids=["a second result", "done again", "the wrong order", "undone twice", "not undone", "nothing undone"],
)
def test_what_is_wrong_with_a_journal_is_found(records: list[Event], said: str) -> None:
    with pytest.raises(Wrong, match=said):
        check_journal(records)


DID, UNDID = f"did {TASK}@w00:1", f"undid pay0: 1 before it {TASK}@pay0/@undo:1"
EFFECTS = Counter({DID: 2, UNDID: 1})
"""The former is tried twice anyway."""


@pytest.mark.parametrize(
    ("done", "deaths", "said"),
    [
        (EFFECTS + Counter([DID]), Counter({"did w01": 1}), "3 times, 2 undisturbed, 0 deaths"),
        (EFFECTS + Counter([DID, DID]), Counter({"did w00": 1}), "4 times, 2 undisturbed, 1 deaths"),
        (EFFECTS + Counter([UNDID]), Counter({"did pay0": 1}), "2 times, 1 undisturbed, 0 deaths"),
        (EFFECTS - Counter([DID]), Counter({"did w00": 1}), "1 times, 2 undisturbed"),
        (EFFECTS + Counter([f"did {TASK}/w00/2"]), Counter({"did w00": 1}), "other keys than undisturbed"),
        (Counter({DID: 2}), Counter(), "other keys than undisturbed"),
    ],
    ids=["no death", "twice at one death", "an undo", "not done", "another key", "not undone"],
)
def test_an_effect_that_was_had_too_often_or_not_at_all_is_found(
    done: Counter[str], deaths: Counter[str], said: str
) -> None:
    with pytest.raises(Wrong, match=said):
        check_effects(done, EFFECTS, deaths)
