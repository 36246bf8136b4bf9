"""Budget of what is held in memory of one task: how much, how important, and what is let go first.

Comes in: names with their tokens and importance. Goes out: names to let go once more than 80 % of the limit is held.
The words themselves stay with the caller, and in the journal, from which they can be read again. This module must
never import threads, a clock or Pykka.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

NEEDED = 0.9
"""A full result that a dependant still needs."""
SUMMARY = 0.8
"""The short cut of a result."""
RESULT = 0.3
"""A full result that nobody needs any more."""

_SPARE = 64
"""Outdated entries of the queue that are never worth a new one."""


@dataclass(slots=True, eq=False)
class _Held:
    tokens: int
    importance: float
    age: int
    pinned: bool = False


class ResultBudget:
    """Account of what an orchestrator holds of one task in memory, bounded by ``limit_tokens``."""

    __slots__ = ("_held", "_next", "_queue", "limit_tokens", "tokens")

    def __init__(self, limit_tokens: int) -> None:
        self.limit_tokens = limit_tokens
        self.tokens = 0
        """The sum of what is held, with what is pinned."""
        self._held: dict[str, _Held] = {}
        self._next = 0
        self._queue: list[tuple[float, int, str]] | None = None
        """A heap, the first to go on top; it may hold what is outdated. Made by an ``evict`` that has to let go: far
        from the limit there is none, and a put only writes the account. Given up once most of it is outdated."""

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def __len__(self) -> int:
        return len(self._held)

    def pin(self, name: str, tokens: int) -> None:
        """Hold it for good: it is never let go, only dropped. Pinned again, it counts as it is now."""
        self._hold(name, tokens, 1.0, pinned=True)

    def put(self, name: str, tokens: int, importance: float) -> None:
        """Hold it, as the youngest, until something more important needs its place. What is pinned stays pinned."""
        self._hold(name, tokens, importance, pinned=False)

    def importance(self, name: str, value: float) -> None:
        """Change how important it is; its age stays. Nothing happens to what is pinned or not held."""
        held = self._held.get(name)
        if held is not None and held.importance != value and not held.pinned:
            held.importance = value
            if self._queue is not None:
                self._enqueue(self._queue, name, held)

    def drop(self, name: str) -> None:
        """Let it go, pinned or not. Nothing happens to what is not held."""
        held = self._held.pop(name, None)
        if held is not None:
            self.tokens -= held.tokens

    def excess(self) -> bool:
        """Return True where more than 80 % of the limit is held."""
        return self.tokens * 5 > self.limit_tokens * 4

    def evict(self) -> list[str]:
        """Let go until at most 80 % of the limit is held, and give the names, in their order.

        The least important goes first, among equals the one held longest; what is pinned never, nor what is worth
        no token. What is then still over is pinned.
        """
        gone: list[str] = []
        if not self.excess():
            return gone
        if self._queue is None:
            self._queue = self._fresh_queue()
        queue = self._queue
        while queue and self.excess():
            importance, age, name = heapq.heappop(queue)
            held = self._held.get(name)
            if held is not None and (held.importance, held.age, held.pinned) == (importance, age, False):
                self.drop(name)
                gone.append(name)
        return gone

    def _hold(self, name: str, tokens: int, importance: float, *, pinned: bool) -> None:
        before = self._held.get(name)
        if before is not None:
            self.tokens -= before.tokens
            pinned = pinned or before.pinned
        tokens = max(tokens, 0)
        self._next += 1
        held = self._held[name] = _Held(tokens, importance, self._next, pinned)
        self.tokens += tokens
        if self._queue is not None:
            self._enqueue(self._queue, name, held)

    def _enqueue(self, queue: list[tuple[float, int, str]], name: str, held: _Held) -> None:
        if not held.tokens or held.pinned:
            return
        if len(queue) > 2 * len(self._held) + _SPARE:
            self._queue = None
        else:
            heapq.heappush(queue, (held.importance, held.age, name))

    def _fresh_queue(self) -> list[tuple[float, int, str]]:
        queue = [(h.importance, h.age, name) for name, h in self._held.items() if h.tokens and not h.pinned]
        heapq.heapify(queue)
        return queue


def summary_of(value: Any, limit_chars: int = 200) -> str:
    """A JSON value as one short text: a text in one line, anything else as JSON, cut with an ellipsis.

    At most ``limit_chars`` characters. Looks at no more of the value than it shows, however large it is.
    """
    if isinstance(value, str):
        head = value[: 4 * limit_chars]
        text = " ".join(head.split())
        whole = len(head) == len(value)
    else:
        text, whole = "", True
        for piece in _json(value, limit_chars):
            text += piece
            if len(text) > limit_chars:
                break
    if whole and len(text) <= limit_chars:
        return text
    return text[: limit_chars - 1].rstrip() + "…" if limit_chars > 0 else ""


def _json(value: Any, limit: int) -> Iterator[str]:
    """A value as JSON, piece by piece; the texts in it are cut."""
    if isinstance(value, dict):
        yield "{"
        for number, (key, item) in enumerate(value.items()):
            yield from (", " if number else "", _quoted(str(key), limit), ": ")
            yield from _json(item, limit)
        yield "}"
    elif isinstance(value, (list, tuple)):
        yield "["
        for number, item in enumerate(value):
            yield ", " if number else ""
            yield from _json(item, limit)
        yield "]"
    elif isinstance(value, str):
        yield _quoted(value, limit)
    elif value is None or isinstance(value, (bool, int, float)):
        yield _number(value)
    else:
        yield f"<{type(value).__name__}>"


def _quoted(text: str, limit: int) -> str:
    return json.dumps(text[: limit + 1], ensure_ascii=False)


def _number(value: float | None) -> str:
    try:
        return json.dumps(value)
    except ValueError:
        return "<a number of thousands of digits>"
