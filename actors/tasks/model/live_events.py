"""Events of a running attempt that are told as they happen, and are in no journal: progress, and what it streams."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

from actors.model.event_metadata import NO_CONTENT
from actors.model.record import record
from actors.tasks.model.event_base import SubtaskEvent
from actors.validation.validation_messages import value_phrase

StreamKind: TypeAlias = Literal["text", "tool_call", "tool_result"]
STREAM_KINDS: Final[frozenset[str]] = frozenset(get_args(StreamKind))


def require_kind(kind: Any) -> StreamKind:
    """One of the kinds that there are.

    Raises:
        ValueError: there is no such kind.
    """
    if type(kind) is not str or kind not in STREAM_KINDS:
        what = f"context.stream: kind={value_phrase(kind)} is not a kind"
        raise ValueError(f"{what}. Use 'text', 'tool_call' or 'tool_result'")
    return cast("StreamKind", kind)


@record(frozen=True, slots=True)
class SubtaskProgressed(SubtaskEvent):
    """The attempt says how far it is."""

    journalled: ClassVar[bool] = False
    fraction: float
    text: str = field(repr=False, metadata=NO_CONTENT)
    number: int = field(default=0, kw_only=True, repr=False, compare=False, metadata=NO_CONTENT)
    """Number of the event among all of both kinds that were told in this process."""


@record(frozen=True, slots=True)
class SubtaskStreamed(SubtaskEvent):
    """The attempt streams: what it has said within some 50 ms, in one piece. See ``context.stream``.

    A piece of a later attempt has a larger ``attempt``.
    """

    journalled: ClassVar[bool] = False
    bulk: ClassVar[str] = "text"
    kind: StreamKind
    """text, tool_call or tool_result."""
    text: str = field(repr=False)
    worker: str = ""
    attempt: int = 0
    lost: int = 0
    """Characters that were dropped before this text, because they came faster than anybody reads."""
    number: int = field(default=0, kw_only=True, repr=False, compare=False, metadata=NO_CONTENT)
    """Number of the event among all of both kinds that were told in this process."""
