"""Ids: which ones users may give, and which ones the library makes of them.

A user's id never has an ``@`` (``require_own`` refuses it where a task is submitted); every id that the library makes
for a stream of its own has one. So no id of a user can be that of something else, whatever the user writes:

* ``TASK@SUBTASK:ACT.ATTEMPT``: a team's part of a task. What stands before the first ``@`` is the task it belongs to.

Older versions made both out of the letters of users: ``TASK:SUBTASK:ACT.ATTEMPT`` and ``breaker:PATH``. A task that
was submitted by one of those (``TaskSubmitted.ids`` tells) goes on with such names to its end, because the keys that
its effects carry are made of them: a payment must not be made twice under two names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from actors.model.errors import ConfigError, Problem

MARK: Final = "@"
"""In every id of the library's own, and in none of a user's."""
OLD_IDS: Final = 1
"""The rule of ids that a record without one follows: it is of an older version."""
NEW_IDS: Final = 2


def require_own(id_: str | None) -> None:
    """A user may give this id to a task.

    Raises:
        ConfigError: it is one of those that the library makes.
    """
    if id_ is not None and MARK in id_:
        hint = "Leave the @ out. It is kept for what the library names itself, such as a team's part of a task."
        raise ConfigError((Problem("Task.id", f"{id_!r} has an {MARK}, which no id of a user may have", hint),))


def part_id(task: str, rest: str, ids: int) -> str:
    """The id of a team's part of a task; ``ids`` is the rule that the task was submitted under."""
    return f"{task}{MARK if ids >= NEW_IDS else ':'}{rest}"


def whole_of(id_: str, parent: str | None = None, is_known: Callable[[str], bool] | None = None) -> str | None:
    """The task of a user that this is a part of; None: it is no part.

    Args:
        id_: of a task.
        parent: the key of the attempt that it stands for, as its first record has it. Only a part has one.
        is_known: whether there is a task of an id: needed for parts that an older version has named.
    """
    whole, mark, _ = id_.partition(MARK)
    if mark:
        return whole or None
    if parent is None or is_known is None:
        return None
    words = id_.split(":")
    return next((name for size in range(1, len(words)) if is_known(name := ":".join(words[:size]))), None)


def is_part_of(id_: str, parent: str | None, whole: str) -> bool:
    """True where a task is a team's part of another one."""
    if MARK in id_:
        return id_.startswith(f"{whole}{MARK}")
    return parent is not None and id_.startswith(f"{whole}:")
