"""When an event happened: noted where it is published, so that no place that makes one needs a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


class _PublishedAt:
    """When a record was published. On a class there is no such thing: a dataclass would take it for a default."""

    def __get__(self, event: Published | None, kind: type[Any]) -> float:
        if event is None:
            raise AttributeError
        return getattr(event, "_published_at", 0.0)


class Published:
    """Base of events: the time that a record is given when it is published, so that its maker needs no clock."""

    __slots__ = ("_published_at",)

    at = _PublishedAt()
    """When it happened, in seconds since 1970 by the tree's clock; 0.0 as long as it is not published."""


note_time: Final[Callable[[Published, float], None]] = vars(Published)["_published_at"].__set__
"""``note_time(event, at)`` gives a record its time. For the bus alone."""
