"""Messages of a supervisor to its orchestrator about the workers beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.messaging.envelope import SystemMessage

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation
    from actors.messaging.mailbox import Mailbox
    from actors.model.child_state import State
    from actors.model.spec import ChildSpec
    from actors.tasks.model.executable import Executable


@dataclass(frozen=True, slots=True)
class WorkerChanged(SystemMessage):
    """From the supervisor: where a child stands now that everything about it is decided. None: it is forgotten."""

    spec: ChildSpec
    path: str
    state: State | None
    mailbox: Mailbox
    executable: Executable | None = None
    """Description that the child has given of itself; None: that of its spec, or the last one, is to be kept."""


@dataclass(frozen=True, slots=True)
class RegistrySnapshot(SystemMessage):
    """From the supervisor, to an orchestrator that has come up: these are the workers."""

    incarnation: Incarnation
    workers: tuple[WorkerChanged, ...]
