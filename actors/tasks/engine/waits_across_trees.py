"""Waits for tasks that cross from one tree into another, so that a circle over several trees is refused.

Within a tree the ancestry of a task is in its journal. What another tree is to do for an attempt knows of that by a
contextvar, which goes along with the task, and so into its attempts: it has those who wait for the task, as long as
they do. Each of them may work for a task itself for which somebody waits, and so on. A task that was submitted, and not
waited for, has nobody there, whoever waits for its submitter; nor has one that was resumed.

There is no lock: whoever waits is noted, and taken out, in one step of C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.messaging.caller_variables import caller_variables
from actors.messaging.envelope import CURRENT, Address, CurrentMessage

if TYPE_CHECKING:
    from actors.tasks.engine.scope import Scope


class _Waiter(NamedTuple):
    """Code that waits for a task."""

    request: CurrentMessage | None
    works_for: TaskWaits | None


class TaskWaits:
    """Waits of workers for the tasks of one submission."""

    __slots__ = ("_port", "_waiters")

    def __init__(self, port: Scope) -> None:
        self._port = port
        self._waiters: dict[object, _Waiter] = {}

    def enter(self) -> Callable[[], object]:
        """Note that the present code waits; returns what notes that it does so no longer."""
        key = object()
        self._waiters[key] = _Waiter(CURRENT.get(), _WORKS_FOR.get())
        return partial(self._waiters.pop, key, None)

    def of(self, request: CurrentMessage) -> list[_Waiter]:
        """Return who waits for the tasks while they wait for this request: what it has left behind keeps nobody."""
        supervisor = self._port.system.boxes.get(self._port.path)
        return list(self._waiters.copy().values()) if supervisor in request.waiting() else []


_WORKS_FOR: Final[ContextVar[TaskWaits | None]] = ContextVar("regrow_waits_across_trees", default=None)
"""Waits for the task that the present code works for, where they may come from another tree."""


def circle_to(port: Scope) -> tuple[Address, ...]:
    """Return all who wait for the present code, in whatever tree, if this supervisor is one of them; else nothing.

    Whoever waits first comes first. A task of the supervisor that the present code waited for would wait for itself.
    """
    target = port.system.boxes.get(port.path)
    # Whoever waits for a task in another tree waits for its attempts, so one request may tell of another one's waiters.
    waiting = tuple(dict.fromkeys(address for request in _requests() for address in request.waiting()))
    return waiting if any(address is target for address in waiting) else ()


def waits_from_here(port: Scope) -> TaskWaits | None:
    """Return what notes waits for tasks that the present code is about to submit; None: all of them are in one tree."""
    current = CURRENT.get()
    is_foreign = current is not None and current.in_request and current.incarnation.system is not port.system
    return TaskWaits(port) if is_foreign or _WORKS_FOR.get() is not None else None


def variables_with(waits: TaskWaits | None) -> Context | None:
    """Return what tasks carry that the present code submits: they know of their waits, and of no others.

    Args:
        waits: of their submission.
    """
    if waits is None:
        return caller_variables(CURRENT)
    token = _WORKS_FOR.set(waits)
    try:
        return caller_variables(CURRENT)
    finally:
        _WORKS_FOR.reset(token)


@contextmanager
def waiting(waits: TaskWaits | None) -> Iterator[None]:
    """The present code waits, in this block, for tasks that were submitted with these waits."""
    leave = waits.enter() if waits is not None else None
    try:
        yield
    finally:
        if leave is not None:
            leave()


def _requests() -> tuple[CurrentMessage, ...]:
    """Return the requests that go on and wait for the present code, its own last."""
    found: list[CurrentMessage] = []
    todo, seen = [_Waiter(CURRENT.get(), _WORKS_FOR.get())], set[TaskWaits]()
    while todo:
        request, works_for = todo.pop()
        if request is None or not request.in_request:
            continue
        found.append(request)
        if works_for is not None and works_for not in seen:
            seen.add(works_for)
            todo += works_for.of(request)
    return tuple(reversed(found))
