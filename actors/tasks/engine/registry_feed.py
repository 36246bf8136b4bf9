"""Feed from a supervisor to the engine: the state of its workers, once everything about a change is decided.

The engine never looks at a supervisor's table, which may be in the middle of a decision. It is told of each change, in
order; what it was told stays with the scope, so a new engine need not be told again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from actors.supervision.child import Child, ChildState
from actors.tasks.engine.service import ENGINE, service_of
from actors.tasks.scheduling.worker_registry import WorkerChanged

if TYPE_CHECKING:
    from actors.runtime.system import System
    from actors.supervision.supervisor import Supervisor
    from actors.tasks.planning.settings import Tasks


class RegistryFeed:
    """Feed of one incarnation of a supervisor with ``tasks=``."""

    def __init__(self, supervisor: Supervisor, settings: Tasks) -> None:
        self._supervisor = supervisor
        self._has_told = False
        self._is_closing = False
        """True once all is being stopped: the next incarnation tells of all, and may have begun before this ends."""
        self._scope = service_of(cast("System", supervisor.system)).scope(supervisor.path, settings)

    def changed(self, child: Child) -> None:
        """A child stands somewhere else now."""
        if not self._has_told:
            self._has_told = True
            everybody = [_change(each) for each in self._supervisor.table if each.spec.registration is not None]
            self._tell(everybody, is_new=True)
        elif child.spec.registration is not None and child.standing is not ChildState.GONE:
            self._tell([_change(child)])

    up = changed
    """A child has come up."""

    def forgotten(self, child: Child) -> None:
        """A child is no longer listed."""
        if child.spec.registration is not None:
            self._tell([WorkerChanged(child.spec, child.path, None, child.mailbox)])

    def closing(self) -> None:
        """All is about to be stopped."""
        self._is_closing = True
        scope, port = self._scope, self._scope.port
        if scope.path == port.path:
            engine = self._supervisor.table.children.get(ENGINE)
            port.closing = engine.incarnation if engine is not None else None
        port.post(lambda engine: engine.scope_closes(scope))

    def _tell(self, changes: Sequence[WorkerChanged], *, is_new: bool = False) -> None:
        if self._is_closing:
            return
        scope = self._scope
        scope.port.post(lambda engine: engine.workers_changed(scope, changes, is_new=is_new))


def _change(child: Child) -> WorkerChanged:
    return WorkerChanged(child.spec, child.path, child.state, child.mailbox, child.registration)
