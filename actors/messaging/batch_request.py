"""Request of a batch: an ask that nobody waits for by itself, and whose failure says nothing of its worker.

A batch gives many items, of which some are bad. So a crash over one of them is a crash like any other (the worker is
replaced, its asker gets the error), but counts in no restart window: ``Reply.is_of_batch``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.messaging.envelope import CURRENT
from actors.messaging.ref import Ref
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import enter_new, leave


def give_item(ref: Ref, item: Any) -> tuple[Reply, Callable[[], None]]:
    """Send an item; return the answer to come, and how to say that nobody waits for it any more.

    It has no deadline but that of the request that is handled here: what its batch gives it begins with its handler.
    From here on the request that is handled here waits for the answer: a batch that would wait for itself is refused.

    Raises:
        RecursionDetectedError: the target waits, directly or not, for this worker. Nothing was sent.
    """
    current = CURRENT.get()
    reply, envelope = ref.request(item, None, current)
    reply.is_of_batch = True
    entered = None if current is None else enter_new(reply, current)
    if envelope is not None:
        try:
            ref.deliver(envelope)
        except BaseException:
            leave(reply, entered)
            reply.abandon()
            raise

    def left() -> None:
        leave(reply, entered)
        reply.abandon()

    return reply, left
