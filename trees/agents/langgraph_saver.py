"""A checkpointer of the user's that keeps no answer before its usage is in the journal.

Usage is told as a model answers, and the journal has it a moment later. The checkpointer may have the answer by then: a
graph that goes on after a crash would not ask for it again, and nobody would have counted it. So for an attempt the
checkpointer is one of the same class, with the same state, whose writes wait: until all usage that was told before them
is in the journal, by a step of the attempt without a result. Where nothing was told since the last one, none is made.
So whatever a checkpoint has is counted, and what has cost something and is in no checkpoint is counted as well.

Async writes wait on the loop; sync ones on the thread of a graph that can only be called from sync code. A sync write
on a loop is a part of an async one, which has waited (``InMemorySaver``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache, wraps
from types import new_class
from typing import Any, Final
from uuid import uuid4

from trees.agents.langchain_events import AttemptEvents

_USAGE: Final = "regrow_told_usage"
"""Slot for what an attempt has told: all other attributes are those of the user's checkpointer."""
_MOST_KINDS: Final = 64
"""Classes of checkpointers that are kept."""


def counted_first(saver: Any, context: Any, events: AttemptEvents) -> Any:
    """Return the checkpointer as an attempt uses it."""
    kind: Any = type(saver)
    counted: Any = object.__new__(_counted_first(kind))
    object.__setattr__(counted, "__dict__", saver.__dict__)  # one for both: what it sets later is set for all
    for slot in (name for base in kind.__mro__ for name in _slots_of(base) if hasattr(saver, name)):
        object.__setattr__(counted, slot, getattr(saver, slot))
    object.__setattr__(counted, _USAGE, _ToldUsage(context, events))
    return counted


@lru_cache(_MOST_KINDS)
def _counted_first(kind: Any) -> Any:
    """Return a class like this one whose writes wait."""
    body: dict[str, Any] = {"__slots__": (_USAGE,), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    body |= {name: _waiting(getattr(kind, name)) for name in ("aput", "aput_writes")}
    body |= {name: _waiting_sync(getattr(kind, name)) for name in ("put", "put_writes")}
    return new_class(kind.__name__, (kind,), exec_body=lambda names: names.update(body))


def _slots_of(base: type) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in {"__dict__", "__weakref__"})


class _ToldUsage:
    """Usage that an attempt has told, and how much of it the journal has."""

    def __init__(self, context: Any, events: AttemptEvents) -> None:
        self._context = context
        self._events = events
        self._kept = 0

    async def is_kept(self) -> None:
        """Wait until the journal has all that was told by now."""
        told = self._events.told
        if told > self._kept:
            await self._context.step(_name(), int)
            self._kept = max(self._kept, told)

    def is_kept_sync(self) -> None:
        """As ``is_kept``, on a thread."""
        told = self._events.told
        if told > self._kept and not _is_on_loop():
            self._context.step_sync(_name(), int)
            self._kept = max(self._kept, told)


def _waiting(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def write(own: Any, *args: Any, **kwargs: Any) -> Any:
        await getattr(own, _USAGE).is_kept()
        return await method(own, *args, **kwargs)

    return write


def _waiting_sync(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def write(own: Any, *args: Any, **kwargs: Any) -> Any:
        getattr(own, _USAGE).is_kept_sync()
        return method(own, *args, **kwargs)

    return write


def _name() -> str:
    """Return a name that no step had before: a step that is recorded would be no wait."""
    return f"usage {uuid4().hex}"


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
