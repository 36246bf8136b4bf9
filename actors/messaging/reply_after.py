"""A reply that is completed after several others are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.messaging.reply import Reply


def complete_after(done: Reply, ends: list[Reply], *, value: bool) -> None:
    """Complete ``done`` with ``value`` when all of ``ends`` are."""
    left = iter(ends)

    def go_on() -> None:
        for end in left:
            if not end.done:
                end.when_done(go_on)
                return
        done.complete(value)

    go_on()
