"""Waits for tasks that cross from one tree into another, so that a circle over several trees is refused.

Within a tree the ancestry of a task is in its journal. What another tree is to do for an attempt knows of that by a
contextvar: it has the requests that wait there, goes along with the task that they wait for, and so into its attempts.
Each entry counts as long as its request goes on. A task that was resumed has none: nobody waits for it any longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from actors.messaging.envelope import CURRENT, Address, CurrentMessage

if TYPE_CHECKING:
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort

_WAITS: Final[ContextVar[tuple[CurrentMessage, ...]]] = ContextVar("regrow_waits_across_trees", default=())
"""Requests of other trees that wait for the task that the present code works for, the first asker first."""


def circle_to(port: OrchestratorPort) -> tuple[Address, ...]:
    """Return all who wait for the present code, in whatever tree, if this supervisor is one of them; else nothing.

    Whoever waits first comes first. A task of the supervisor that the present code waited for would wait for itself.
    """
    target = port.system.boxes.get(port.path)
    waiting = tuple(address for request in _requests() for address in request.waiting())
    return waiting if any(address is target for address in waiting) else ()


@contextmanager
def waited_for(port: OrchestratorPort) -> Iterator[None]:
    """Have a task that is submitted within know who waits for it in other trees than that of its supervisor."""
    requests = _requests()
    if all(request.incarnation.system is port.system for request in requests):
        yield
        return
    token = _WAITS.set(requests)
    try:
        yield
    finally:
        _WAITS.reset(token)


def _requests() -> tuple[CurrentMessage, ...]:
    """Return the requests that go on and wait for the present code, its own last."""
    current = CURRENT.get()
    return tuple(each for each in (*_WAITS.get(), current) if each is not None and each.in_request)
