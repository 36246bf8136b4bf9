"""A host of the runtime: specs that are not checked, trees without tasks, stores, dumps or consoles."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from actors import ChildError, Event, Ref, UnknownPathError
from actors.messaging.mailbox import Refusal
from actors.messaging.pool_address import PoolAddress
from actors.messaging.ref import ref_of
from actors.messaging.reply import Reply, require_thread
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.model.child_state import ChildCounts
from actors.runtime.system import System
from actors.supervision.child import ChildInfo
from actors.supervision.child_calls import DeleteChild, RestartChild, StartChild, TerminateChild
from trees.declaration.build import build
from trees.declaration.specs import Backoff, Mailbox, Spec, SupervisorSpec, WorkerSpec

_WORST_FIRST = ("parked", "stopped", "restarting", "running")

__all__ = ["Backoff", "Mailbox", "Spec", "SupervisorSpec", "Tree", "WorkerSpec", "start"]


def start(spec: SupervisorSpec, **options: Any) -> Tree:
    """Start a tree; returns when all of it is up."""
    require_thread("start(...)")
    system = System(build(spec), **options)
    try:
        system.start().get()
    except BaseException:
        system.stop().wait(None)
        raise
    return Tree(spec, system)


class Tree:
    """A running tree."""

    def __init__(self, spec: SupervisorSpec, system: System) -> None:
        self.spec = spec
        self._system = system

    def ref(self, path: str) -> Ref:
        return ref_of(self._system, path)

    def child(self, path: str) -> ChildInfo:
        child = self._system.children.get(path)
        if child is not None:
            return child.info(self._system)
        box = self._system.boxes.get(path)
        if not isinstance(box, PoolAddress):
            raise UnknownPathError(path, self._system.near(path))
        members = [self._system.children[member.path].info(self._system) for member in list(box.members)]
        worst = min(members, key=lambda member: _WORST_FIRST.index(member.state))
        return dataclasses.replace(worst, id=path.rpartition("/")[2], path=path, ref=Ref(self._system, box))

    def which_children(self, path: str) -> list[ChildInfo]:
        return [child.info(self._system) for child in self._children(path)]

    def count_children(self, path: str) -> ChildCounts:
        children = self._children(path)
        supervisors = sum(child.spec.is_supervisor for child in children)
        active = sum(child.state == "running" for child in children)
        return ChildCounts(len(children), active, supervisors, len(children) - supervisors)

    def _children(self, path: str) -> list[Any]:
        supervisor = self._system.supervisors.get(path)
        if supervisor is None:
            raise self._system.no_supervisor(path)
        return list(supervisor.table.children.values())

    def start_child(self, path: str, spec: Spec) -> Ref:
        supervisor = self._system.supervisors.get(path)
        if supervisor is None:
            raise self._system.no_supervisor(path)
        self._call(path, StartChild(build(spec)))
        box = self._system.boxes.get(f"{path}/{spec.id}")
        return Ref(self._system, box if box is not None else supervisor.table.closed_mailbox(spec.id))

    def terminate_child(self, path: str) -> None:
        self._system.refuse_own_end(path)
        self._child_call(path, TerminateChild)

    def restart_child(self, path: str) -> Ref:
        self._child_call(path, RestartChild)
        return self.ref(path)

    def delete_child(self, path: str) -> None:
        self._child_call(path, DeleteChild)

    def _child_call(self, path: str, call: type[TerminateChild | RestartChild | DeleteChild]) -> None:
        parent, _, id_ = path.rpartition("/")
        if not self._system.is_down and not isinstance(self._system.boxes.get(parent), SupervisorMailbox):
            raise ChildError(path, "not_found")
        self._call(parent, call(id_))

    def _call(self, path: str, message: Any) -> None:
        system = self._system
        if system.is_down:
            raise system.down_error(path or self.spec.id)
        require_thread(path)
        reply = Reply()
        box = system.boxes.get(path)
        if not isinstance(box, SupervisorMailbox) or not box.post(message, reply):
            raise system.stopped_error(path, Refusal.STOPPED)
        reply.get()

    def subscribe(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        return self._system.bus.subscribe(callback)

    @property
    def is_alive(self) -> bool:
        return not self._system.is_down

    def stop(self, timeout: float | None = None) -> bool:
        self._system.refuse_to_wait_for_end()
        ended = self._system.stop()
        in_order = ended.wait(timeout)
        if not in_order:
            self._system.kill().wait(30.0)
        return in_order

    def wait(self, timeout: float | None = None) -> bool:
        self._system.refuse_to_wait_for_end()
        ended = self._system.ended.wait(timeout)
        if ended and self._system.cause is not None:
            raise self._system.cause
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.stop()
        if error is None and self._system.cause is not None:
            raise self._system.cause
