"""A reply that is completed after several others are."""

from __future__ import annotations

from actors.messaging.reply import Reply


class EndReply(Reply):
    """The end of a target, for which somebody waits."""

    __slots__ = ()

    is_of_end = True


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
