"""What it costs to write a record down, and to open a store, counted: a busy machine does not change that."""

from pathlib import Path

import pytest
from sqlalchemy import Connection

from actors import Event
from actors.tasks.journal.codec import to_json
from actors.tasks.model import task_events
from tests.support.operations import counted_here
from tests.trees.store.stores import OWNER, ended, kept, opened, submitted
from trees import Plan, Subtask, Task, TaskStatus
from trees.store.batches import Batch, Change, ChangeKind
from trees.store.database import Database
from trees.store.loading import load

OPERATIONS = 600
"""A tenth more than were counted."""
TO_LOAD_FINISHED = 96
TO_LOAD_UNFINISHED = 880
"""The same, for each task."""


def journal() -> list[Event]:
    """A task of three links, as it is written."""
    begun = [
        task_events.TaskSubmitted("p", "t", 1.0, Task(goal="go", id="t", inputs={"of": "x"}), None),
        task_events.Planned("p", "t", 2.0, Plan([Subtask(f"n{at}", worker="w") for at in range(3)])),
    ]
    run = [
        event
        for at in range(3)
        for event in (
            task_events.SubtaskQueued("p", "t", 3.0, f"n{at}"),
            task_events.SubtaskStarted("p", "t", 3.1, f"n{at}", "w", 1, 1),
            task_events.SubtaskSucceeded("p", "t", 3.2, f"n{at}", "w", 1, {"value": [1, "two"]}),
        )
    ]
    return [*begun, *run, task_events.TaskFinished("p", "t", 4.0, TaskStatus.SUCCEEDED)]


def test_a_record_is_written_down_in_so_many_operations_of_the_interpreter() -> None:
    def fill() -> int:
        records = journal()
        changes = [Change(ChangeKind.ADDED, "t", number=number, record=record) for number, record in enumerate(records)]
        with counted_here() as operations:
            Batch("p").fill(changes)
        return operations.count // len(records)

    fill()  # what is made once for each kind

    assert fill() < OPERATIONS


def test_to_make_json_of_a_value_no_encoder_is_made() -> None:
    value = {"value": [1, 2.5, None, True, "text"]}
    to_json(value)
    with counted_here() as operations:
        to_json(value)

    assert operations.count < 60  # JSONEncoder.encode takes a hundred


# -- opening a store -------------------------------------------------------------------------------------------------


def operations_of_load(url: str, number: int, *, are_finished: bool) -> int:
    """Operations that it takes to load a store of so many tasks of one planner."""
    store = opened(url, f"of-{number}-{are_finished}")
    for at in range(number):
        name = f"t{at}"
        store.create(name, OWNER, submitted(name))
        store.append(name, task_events.Planned(OWNER, name, 2.0, Plan([Subtask("n", worker="w")])))
        if are_finished:
            store.append(name, ended(name))
            store.finish(name)
    kept(store)
    store.close()

    def counted(connection: Connection) -> int:
        with counted_here() as operations:
            index, _ = load(connection, f"of-{number}-{are_finished}")
        assert len(index.ends if are_finished else index.owners) == number
        return operations.count

    return Database(url).read_much(counted)


@pytest.mark.parametrize(("are_finished", "most"), [(True, TO_LOAD_FINISHED), (False, TO_LOAD_UNFINISHED)])
def test_one_task_more_costs_a_store_that_is_opened_so_many_operations(
    are_finished: bool, most: int, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    few, more = (operations_of_load(url, number, are_finished=are_finished) for number in (100, 200))

    assert 0 < (more - few) / 100 <= most
