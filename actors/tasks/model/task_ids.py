"""Ids of tasks: which ones users may give."""

from __future__ import annotations

from typing import Final

from actors.model.errors import ConfigError, Problem

MARK: Final = "@"
"""In keys that the library makes of ids and paths, and in no id of a user."""


def require_own(id_: str | None) -> None:
    """A user may give this id to a task.

    Raises:
        ConfigError: the keys that the library makes of it would not be told apart.
    """
    if id_ is not None and MARK in id_:
        hint = "Leave the @ out. Keys of effects are TASK@SUBTASK:EPOCH."
        raise ConfigError((Problem("Task.id", f"{id_!r} has an {MARK}, which no id of a user may have", hint),))
