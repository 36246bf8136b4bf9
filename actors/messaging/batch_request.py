"""Request of a batch: an ask that nobody waits for by itself, and whose failure says nothing of its worker.

A batch gives many items, of which some are bad. So a crash over one of them is a crash like any other (the worker is
replaced, its asker gets the error), but counts in no restart window: ``Reply.is_of_batch``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messaging.envelope import CURRENT
from actors.messaging.ref import Ref
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import enter_new, leave, look_again

if TYPE_CHECKING:
    from actors.messaging.envelope import CurrentMessage, Envelope


def give_item(ref: Ref, item: Any) -> tuple[Reply, Callable[[], None]]:
    """Send an item; return the answer to come, and how to say that nobody waits for it any more.

    It has no deadline but that of the request that is handled here: what its batch gives it begins with its handler.
    From here on the request that is handled here waits for the answer: a batch that would wait for itself is refused.

    Raises:
        RecursionDetectedError: the target waits, directly or not, for this worker. Nothing was sent.
    """
    reply, envelope, entered = _request(ref, item)
    if envelope is not None:
        try:
            ref.deliver(envelope)
        except BaseException:
            _leave(reply, entered)
            raise
    return _given(reply, entered)


async def give_item_async(ref: Ref, item: Any) -> tuple[Reply, Callable[[], None]]:
    """As ``give_item``, on an event loop: where its mailbox is full, it awaits room. Cancelled, nothing was sent."""
    reply, envelope, entered = _request(ref, item)
    if envelope is not None:
        try:
            await ref.deliver_async(envelope)
        except BaseException:
            _leave(reply, entered)
            raise
    return _given(reply, entered)


def _request(ref: Ref, item: Any) -> tuple[Reply, Envelope | None, CurrentMessage | None]:
    current = CURRENT.get()
    reply, envelope = ref.request(item, None, current)
    reply.is_of_batch = True
    return reply, envelope, None if current is None else enter_new(reply, current)


def _given(reply: Reply, entered: CurrentMessage | None) -> tuple[Reply, Callable[[], None]]:
    """The item is in the mailbox of its target, which may have gone down before that: look once, as an ask does."""
    if entered is not None:
        look_again(reply, entered)
    return reply, partial(_leave, reply, entered)


def _leave(reply: Reply, entered: CurrentMessage | None) -> None:
    leave(reply, entered)
    reply.abandon()
