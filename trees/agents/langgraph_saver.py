"""A checkpointer of the user's that keeps no answer before its usage is in the journal.

Usage is told as a model answers, and the journal has it a moment later. The checkpointer may have the answer by then: a
graph that goes on after a crash would not ask for it again, and nobody would have counted it. So an attempt uses the
checkpointer through ``CountedFirst``, where writes wait: until all usage that was told before them is in the journal,
by a step of the attempt without a result. Where nothing was told since the last one, none is made. So whatever a
checkpoint has is counted, and what has cost something and is in no checkpoint is counted as well.

Async writes wait on the loop. Sync ones wait where the whole graph is called from sync code, on the pool. In any other
graph they do not: they are those of a graph that a node calls without an await, perhaps on the tree's loop, which then
stands still until they are done, and with it whoever makes the record. The node's own writes wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver

from trees.agents.langchain_events import AttemptEvents


class ToldUsage:
    """Usage that an attempt has told, and how much of it the journal has."""

    def __init__(self, context: Any, events: AttemptEvents) -> None:
        self._context = context
        self._events = events
        self._kept = 0
        self.is_sync = False
        """True where the graph is called from sync code."""

    async def is_kept(self) -> None:
        """Wait until the journal has all that was told by now."""
        told = self._events.told
        if told > self._kept:
            await self._context.step(_name(), int)
            self._kept = max(self._kept, told)

    def is_kept_sync(self) -> None:
        """As ``is_kept``, on a thread."""
        told = self._events.told
        if self.is_sync and told > self._kept:
            self._context.step_sync(_name(), int)
            self._kept = max(self._kept, told)


class CountedFirst(BaseCheckpointSaver[Any]):
    """The user's checkpointer in all but its writes, as the graph of an attempt calls them."""

    def __init__(self, saver: Any, usage: ToldUsage) -> None:  # all that a checkpointer has is the user's
        own: dict[str, Any] = {name: _waiting(getattr(saver, name), usage) for name in ("aput", "aput_writes")}
        own |= {name: _waiting_sync(getattr(saver, name), usage) for name in ("put", "put_writes")}
        if hasattr(saver, "with_allowlist"):
            own["with_allowlist"] = lambda more: _with_allowlist(saver, usage, more)
        object.__setattr__(self, "_regrow", (saver, own))

    def __getattribute__(self, name: str) -> Any:
        """Return what the user's has of this name."""
        saver, own = object.__getattribute__(self, "_regrow")
        return own[name] if name in own else getattr(saver, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set it there."""
        saver, _ = object.__getattribute__(self, "_regrow")
        setattr(saver, name, value)


def _waiting(method: Callable[..., Any], usage: ToldUsage) -> Callable[..., Any]:
    @wraps(method)  # the graph looks at its parameters
    async def write(*args: Any, **kwargs: Any) -> Any:
        await usage.is_kept()
        return await method(*args, **kwargs)

    return write


def _waiting_sync(method: Callable[..., Any], usage: ToldUsage) -> Callable[..., Any]:
    @wraps(method)
    def write(*args: Any, **kwargs: Any) -> Any:
        usage.is_kept_sync()
        return method(*args, **kwargs)

    return write


def _with_allowlist(saver: Any, usage: ToldUsage, more: Collection[tuple[str, ...]]) -> CountedFirst:
    """Return one like this for the user's with more types: that is another checkpointer."""
    return CountedFirst(saver.with_allowlist(more), usage)


def _name() -> str:
    """Return a name that no step had before: a step that is recorded would be no wait."""
    return f"usage {uuid4().hex}"
