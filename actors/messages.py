"""What travels: the envelope, where it came from, and the contextvar with the message being handled.

An envelope is a plain tuple, because one is built for every message: ``(body, reply, origin)``. ``origin`` is None
for a message from outside any tree, and is built only when a message leaves a handler or carries a deadline.

Two chains must not be confused. **Ancestry** is who *waits* for this request: it grows by asks, not by tells, and
is what recursion is detected with. ``hops`` counts the tells that led here since the chain began.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

if TYPE_CHECKING:
    from actors.life import Life
    from actors.mailbox import Mailbox
    from actors.poolbox import PoolBox
    from actors.reply import Reply

P = ParamSpec("P")
R = TypeVar("R")


class Internal:
    """What the library says to itself. Nobody's message is lost with it, so it never becomes a dead letter."""

    __slots__ = ()


class Origin:
    """Where a message came from; never changed once built."""

    __slots__ = ("chain", "deadline", "hops", "lineage", "sender")

    def __init__(
        self,
        sender: str | None,
        chain: tuple[Address, ...],
        deadline: float | None,
        hops: int,
        lineage: tuple[str, ...] = (),
    ) -> None:
        self.sender = sender
        """The path of the worker that sent it, or None for code outside the tree."""
        self.chain = chain
        """Those who wait for the reply, the first asker first. Empty for a tell: nobody waits."""
        self.deadline = deadline
        """When nobody waits any longer, on the tree's clock."""
        self.hops = hops
        """Tells since the chain began."""
        self.lineage = lineage
        """What those of the chain who do tasks were asked to do: the same once more is refused."""


Address: TypeAlias = "Mailbox | PoolBox"
"""Who stands in an ancestry: the mailbox, or the pool for each of its members. Compared by identity."""

Envelope: TypeAlias = "tuple[Any, Reply | None, Origin | None]"


class Current:
    """The message being handled: which life handles it, where it came from, and what its own asks failed with."""

    __slots__ = ("failures", "life", "origin")

    def __init__(self, life: Life, origin: Origin | None) -> None:
        self.life = life
        self.origin = origin
        self.failures: list[BaseException] | None = None
        """Errors that asks of this handler raised in it. One of them leaving the handler is a failed request, not
        a crash: it was not born here."""

    def note(self, error: BaseException) -> None:
        """Remember that ``error`` came from an ask of this handler."""
        if self.failures is None:
            self.failures = [error]
        else:
            self.failures.append(error)

    def is_own(self, error: BaseException) -> bool:
        """True for an error that came from an ask of this handler."""
        return self.failures is not None and any(error is failure for failure in self.failures)


CURRENT: contextvars.ContextVar[Current | None] = contextvars.ContextVar("regrow_current", default=None)
"""None outside of a tree. A task, ``asyncio.to_thread`` and agent frameworks copy it along; a plain thread does not."""


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Bind the present ancestry (and every other contextvar) to ``function``, for a plain thread or an executor.

    Each call runs in its own copy of the context, so the result may be called often and at the same time::

        executor.submit(actors.carry(work), item)
    """
    context = contextvars.copy_context()

    def carried(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)

    return carried
