"""Resources that a worker owns from its start to its end, and the one task in which it lives on the event loop.

A **lifespan** is a context manager around everything an incarnation does::

    lifespan= of the spec is entered > __init__ > lifespan() of the object is entered > on_start
      > messages, or the body >
    on_stop, or on_failure > lifespan() is left > that of the spec is left > the end is reported

It is entered and left by one thread, or in one task: what has a cancel scope (anyio, MCP sessions,
``asyncio.timeout``), or belongs to its thread (a connection of sqlite3), works. So a worker on the loop that has a
lifespan, or any hook, lives in one task (``WorkerIncarnation.reside``), which rests where there is nothing to do; other
workers on the loop get a task when there is something to do, and cost none while they are idle. A sync worker with a
lifespan has a thread of its own; where its lifespan is async, that is held by a task of its own on the loop
(``actors.execution.held_lifespan``).

How each end leaves it (tests/actors/execution/test_lifespans.py has a row for each, on each place):

============================ ========================================================================================
end                          the lifespan
============================ ========================================================================================
stop, return, ``Ignore``     is left as a ``with`` that ends; what it raises is a crash: exit ``crashed``
crash, failed start          is left with the error, after on_failure. What it raises is reported, and the error of the
                             crash stays; but a ``CancelledError`` that nobody had ordered (a scope was cancelled) is no
                             cause: then what the lifespan raises is
it suppresses the error      changes nothing: the worker has crashed, and its asker has been told so
kill                         on the loop: is left with a ``CancelledError``, within the grace of a kill. On a thread
                             that waits for messages: is left with an ``ActorStoppedError``
abandoned                    is left when the thread, or the task, comes back, if ever. Its successor may be up by then
============================ ========================================================================================

The limit of a start covers entering, that of a stop leaving. The next incarnation begins after it was left.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from actors.messaging.envelope import leaves
from actors.messaging.mailbox import NOTHING
from actors.model.raised import frames_of
from actors.validation.validation_messages import type_phrase

if TYPE_CHECKING:
    from actors.concurrency.arrival import Arrival
    from actors.messaging.envelope import Envelope


class PlaceLostError(RuntimeError):
    """An async lifespan of a sync worker was on an event loop that was given up: the worker comes back, uncounted."""


class Residence:
    """State that one incarnation holds between its messages. Used by its own thread, or task, only."""

    __slots__ = ("_stack", "gate", "lost", "value", "work")

    def __init__(self) -> None:
        self._stack: AsyncExitStack | None = None
        self.value: Any = None
        """Resource that its lifespan has yielded."""
        self.gate: Arrival | None = None
        """Where its task on the loop waits for work; None: it is at work, or has none yet."""
        self.work: Iterator[Envelope] = NOTHING
        """Messages that it is to handle when it goes on."""
        self.lost: BaseException | None = None
        """Error with which its lifespan has ended by itself, elsewhere: it has crashed of that, and is to end."""

    @property
    def is_open(self) -> bool:
        """True from the first step into a lifespan until it is left."""
        return self._stack is not None

    async def enter(self, made: object, held: Callable[[Any], Any] | None) -> None:
        """Enter what a factory has made, inside of what was entered before.

        Args:
            made: a context manager, or a generator that yields once; None: nothing.
            held: makes a sync context manager of an async one, on a thread; None: on the loop.

        Raises:
            TypeError: it is no context manager.
        """
        if made is None:
            return
        manager = _context_manager(made)
        if self._stack is None:
            self._stack = AsyncExitStack()
        kind = type(manager)
        if hasattr(kind, "__aenter__") and held is None:
            value = await self._stack.enter_async_context(manager)
        elif hasattr(kind, "__enter__"):
            value = self._stack.enter_context(manager)
        elif hasattr(kind, "__aenter__") and held is not None:
            value = self._stack.enter_context(held(manager))
        else:
            raise TypeError(_misfit(manager))
        if value is not None:
            self.value = value

    async def leave(self, error: BaseException | None) -> None:
        """Leave all that was entered, the last first; what that raises is raised here, but for ``error`` itself.

        A task group wraps the error that it is left with: a group of nothing but ``error`` is ``error`` itself.
        """
        stack, self._stack = self._stack, None
        self.value = None
        if stack is None:
            return
        try:
            await stack.__aexit__(
                None if error is None else type(error), error, None if error is None else frames_of(error)
            )
        except BaseException as raised:
            own = [] if error is None else list(leaves(error))
            if not all(any(leaf is each for each in own) for leaf in leaves(raised)):
                raise


def _context_manager(made: object) -> Any:
    """Return what a factory has made; a generator that was not decorated is taken for a context manager."""
    if inspect.isasyncgen(made):
        return asynccontextmanager(lambda: made)()
    if inspect.isgenerator(made):
        return contextmanager(lambda: made)()
    return made


def _misfit(manager: object) -> str:
    if inspect.iscoroutine(manager):
        manager.close()
    return (
        f"lifespan: expected a context manager, got {type_phrase(manager)}. Decorate the factory with "
        "@contextlib.asynccontextmanager or @contextlib.contextmanager"
    )
