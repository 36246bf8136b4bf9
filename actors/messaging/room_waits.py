"""Waits for room in a full mailbox that nobody will make while the sender waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messaging.envelope import CURRENT
from actors.messaging.pool_address import PoolAddress
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import look_again

if TYPE_CHECKING:
    from actors.messaging.envelope import Address, Envelope


def waits_in_vain(box: Address, envelope: Envelope) -> bool:
    """Return True in a handler whose own mailbox it is, and where an ask cannot be answered in time (it has failed).

    *Its target goes down while it begins to wait for room*: it stands in line and then looks here. The supervisor notes
    that the target is down, and then has all in line look once more. See ``actors.supervision.dead_ends``.
    """
    current, reply = CURRENT.get(), envelope[1]
    if current is None:
        return False
    if type(reply) is Reply and current in reply.waiters:
        look_again(reply, current)
        if reply.done:
            return True
    incarnation, own = current.incarnation, current.incarnation.mailbox
    here = box is own or (isinstance(box, PoolAddress) and box is own.pool and box.is_only(own))
    return here and incarnation.is_handling_here
