"""Lifespans that keep books, and workers on every place where they can be entered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from tests.support.hardening import obey, obey_async
from trees import WorkerSpec


def here() -> object:
    """The task that runs here, or else the thread."""
    try:
        return asyncio.current_task() or threading.get_ident()
    except RuntimeError:
        return threading.get_ident()


class Books:
    """What happened, in order: ``entered``, ``left``, ``left with ValueError``, and where."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.places: list[object] = []
        self.changed = threading.Condition()

    def note(self, line: str) -> None:
        with self.changed:
            self.lines.append(line)
            self.places.append(here())
            self.changed.notify_all()

    def wait(self, line: str, count: int = 1) -> None:
        """Wait until it was noted so often."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.lines.count(line) >= count, 10), self.lines

    def places_of(self, *lines: str) -> set[object]:
        return {place for line, place in zip(self.lines, self.places, strict=True) if line in lines}


Act = Callable[[], Any]


def sync_lifespan(
    books: Books, *, entering: Act = int, leaving: Act = int, suppress: bool = False
) -> Callable[[], Any]:
    """A factory of sync context managers that keep books; ``entering`` and ``leaving`` may fail or hang."""

    @contextmanager
    def owning() -> Iterator[str]:
        entering()
        books.note("entered")
        try:
            yield "the resource"
        except BaseException as error:
            books.note(f"left with {type(error).__name__}")
            leaving()
            if not suppress:
                raise
        else:
            books.note("left")
            leaving()

    return owning


def async_lifespan(
    books: Books, *, entering: Act = int, leaving: Act = int, suppress: bool = False
) -> Callable[[], Any]:
    """The same as an async context manager; what ``entering`` and ``leaving`` return is awaited, if it can be."""

    async def done(result: Any) -> None:
        if hasattr(result, "__await__"):
            await result

    @asynccontextmanager
    async def owning() -> AsyncIterator[str]:
        await done(entering())
        books.note("entered")
        try:
            yield "the resource"
        except BaseException as error:
            books.note(f"left with {type(error).__name__}")
            await done(leaving())
            if not suppress:
                raise
        else:
            books.note("left")
            await done(leaving())

    return owning


PLACES: dict[str, tuple[Callable[..., Any], Callable[..., Callable[[], Any]]]] = {
    "loop": (obey_async, async_lifespan),
    "loop, sync lifespan": (obey_async, sync_lifespan),
    "thread": (obey, sync_lifespan),
    "thread, async lifespan": (obey, async_lifespan),
}
"""Code of a worker that obeys its messages, and a kind of lifespan."""


def owner(place: str, books: Books, *, lifespan: dict[str, Any] | None = None, **fields: Any) -> WorkerSpec:
    """A worker ``w`` on this place that owns a resource."""
    handle, kind = PLACES[place]
    return WorkerSpec(id="w", handle=handle, lifespan=kind(books, **(lifespan or {})), **fields)
