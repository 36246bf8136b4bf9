"""Results that an attempt is given, by the ids of what it depends on; a missing one says what to write.

This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from typing import Any

from actors.validation.validation_messages import listed, nearest


class MissingResultError(KeyError):
    """An attempt looked up the result of a subtask that it does not depend on."""

    def __init__(self, id_: object, given: tuple[str, ...]) -> None:
        super().__init__(id_, given)

    def __str__(self) -> str:
        id_, given = self.args
        there = f"It has those of {listed(given, 'and')}" if given else "It has none"
        hint = nearest(id_, given) if isinstance(id_, str) else ""
        return (
            f"no result of {id_!r} is given to this attempt. {there}. {hint}"
            f"An attempt sees what its subtask depends on: Subtask(..., depends_on=[...])."
        )


class GivenResults(dict[str, Any]):
    """Results by id: a dict like any other, but for the error of a missing one."""

    def __missing__(self, id_: str) -> Any:
        raise MissingResultError(id_, tuple(sorted(self)))
