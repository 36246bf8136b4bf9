"""A host of the runtime: specs that are not checked, trees without tasks, stores, dumps or consoles."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from actors import Event, Ref
from actors.messaging.blocking import require_thread
from actors.messaging.ref import ref_of
from actors.model.child_state import ChildCounts
from actors.runtime import child_admin
from actors.runtime.system import System
from actors.supervision.child import ChildInfo
from actors.validation.validation_messages import require_callback
from trees.declaration.build import build
from trees.declaration.specs import Backoff, Mailbox, Spec, SupervisorSpec, WorkerSpec

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
        return child_admin.child_info(self._system, path)

    def which_children(self, path: str) -> list[ChildInfo]:
        return child_admin.which_children(self._system, path)

    def count_children(self, path: str) -> ChildCounts:
        return child_admin.count_children(self._system, path)

    def start_child(self, path: str, spec: Spec) -> Ref:
        return child_admin.start_child(self._system, path, build(spec))

    def terminate_child(self, path: str) -> None:
        child_admin.terminate_child(self._system, path)

    def restart_child(self, path: str) -> Ref:
        return child_admin.restart_child(self._system, path)

    def delete_child(self, path: str) -> None:
        child_admin.delete_child(self._system, path)

    def subscribe(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        require_callback("subscribe:", callback, "Give a function that takes an event")
        return self._system.bus.subscribe(callback)

    @property
    def is_alive(self) -> bool:
        return not self._system.is_down

    def stop(self, timeout: float | None = None) -> bool:
        self._system.refuse_to_wait_for_end()
        ended = self._system.stop()
        in_order = ended.wait(timeout)
        if not in_order:
            self._system.kill().wait(60)
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
