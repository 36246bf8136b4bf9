"""``TaskAddress``: which task of which tree. Two of one task are equal, as two Refs of one path are."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from actors.tasks.orchestration.task_runtime import OrchestratorPort

_TASK: Final = attrgetter("id", "_port.runtime")


class TaskAddress:
    """A task, by its id, of the tree that its supervisor is in."""

    def __init__(self, port: OrchestratorPort, id_: str) -> None:
        self.id = id_
        self._port = port

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskAddress) and bool(_TASK(self) == _TASK(other))

    def __hash__(self) -> int:
        return hash(_TASK(self))
