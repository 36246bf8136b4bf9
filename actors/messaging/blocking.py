"""Refusal to hold up the event loop of a tree."""

from __future__ import annotations

from actors.concurrency.thread_state import HERE, ON_A_THREAD, blocks_a_loop
from actors.messaging.envelope import own_error
from actors.model.errors import BlockingAskError


def require_thread(path: str, instead: str = "await it") -> None:
    """Refuse to block the thread of a tree's event loop, before anything is done.

    Args:
        path: of whom the caller is about to wait for.
        instead: what to write, for the error.

    Raises:
        BlockingAskError: this is such a thread.
    """
    if HERE.never_blocks and blocks_a_loop():
        between = HERE.in_between
        raise own_error(BlockingAskError(path, ON_A_THREAD if between else instead, is_in_between=between))
