"""Folding a journal: the state that its records make, or what is wrong with them.

Comes in: the records of one task, as a store gives them. Goes out: its state; or a ``StoreError`` where each of them
can be read and yet they make no sense, so that whoever folds one journal of many says so and goes on with the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.task_errors import StoreError
from actors.tasks.model.task_events import TaskSubmitted


def fold(id_: str, records: Iterable[Any]) -> TaskState:
    """The state that these records make.

    Raises:
        StoreError: they make none: the first is no submission, or one speaks of what there is not.
    """
    state, number = TaskState(id_), 0
    try:
        for number, record in enumerate(records):
            if (number == 0) is not (type(record) is TaskSubmitted):  # one that goes on with it is none
                raise TypeError  # noqa: TRY301 - with the other ways in which it can make no sense
            state.apply(record)
        if not state.events:
            raise LookupError  # noqa: TRY301
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        what = f"makes no sense at record {number} ({type(error).__name__}). It is damaged: restore it from a copy"
        raise StoreError(f"journal of {id_!r}", what) from error
    return state
