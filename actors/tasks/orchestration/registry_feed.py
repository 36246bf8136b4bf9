"""Feed from a supervisor to its orchestrator: the state of the workers, once everything about a change is decided.

The orchestrator never looks at the supervisor's table, which may be in the middle of a decision. It is told of all
workers when it has come up, and of each change afterwards, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from actors.messaging.mailbox import Mailbox
from actors.supervision.child import Child, ChildState
from actors.tasks.orchestration.messages import ShuttingDown
from actors.tasks.orchestration.task_runtime import ORCHESTRATOR, task_runtime_of
from actors.tasks.scheduling.worker_registry import RegistrySnapshot, WorkerChanged

if TYPE_CHECKING:
    from actors.runtime.system import System
    from actors.supervision.supervisor import Supervisor


class RegistryFeed:
    """Feed of one incarnation of a supervisor with an orchestrator."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def up(self, child: Child) -> None:
        """A child has come up."""
        if child.id != ORCHESTRATOR:
            self.changed(child)
        elif child.incarnation is not None:
            everybody = tuple(_change(each) for each in self._supervisor.table if each.spec.registration is not None)
            self._tell(RegistrySnapshot(child.incarnation, everybody))

    def changed(self, child: Child) -> None:
        """A child stands somewhere else now."""
        if child.spec.registration is not None and child.standing is not ChildState.GONE:
            self._tell(_change(child))

    def forgotten(self, child: Child) -> None:
        """A child is no longer listed."""
        if child.spec.registration is not None:
            self._tell(WorkerChanged(child.spec, child.path, None, child.mailbox))

    def closing(self) -> None:
        """All is about to be stopped."""
        orchestrator = self._supervisor.table.children.get(ORCHESTRATOR)
        if orchestrator is not None and orchestrator.incarnation is not None:
            port = task_runtime_of(cast("System", self._supervisor.system)).ports.get(self._supervisor.path)
            if port is not None:
                port.closing = orchestrator.incarnation
            self._tell(ShuttingDown(orchestrator.incarnation))

    def _tell(self, message: Any) -> None:
        box = self._supervisor.system.boxes.get(f"{self._supervisor.path}/{ORCHESTRATOR}")
        if isinstance(box, Mailbox):
            box.put((message, None, None))  # one that is down for good hears of everybody when it is started again


def _change(child: Child) -> WorkerChanged:
    return WorkerChanged(child.spec, child.path, child.state, child.mailbox, child.registration)
