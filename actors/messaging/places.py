"""The places of a bounded inbox: how a sender claims one without a lock, and who waits for one.

A *place* is the right to have one message wait. There are ``capacity`` of them; each is free, or belongs to a message
that waits. A sender claims a place and appends its message in one step of C (``put``), so nothing can come in between:
no other thread, no signal handler, and no exception of one. A sender holds no lock that a worker or a supervisor may
want, so a signal handler that interrupts it may wait for both, as ``tree.stop`` does.

========== =========================================================================================================
who        does, in this order
========== =========================================================================================================
sender     ``put``: claims and appends. No place is free: stands in line, *then* tries once more
worker     takes the message out of the batch, frees its place (``begun``), *then* looks at the line
========== =========================================================================================================

*The last place becomes free while a sender begins to wait*: either the sender's second try comes after the place was
freed and gets it, or the sender stood in line before the worker looked, and is told. A sender that is told tries again;
it may find that another one was faster, and stands in line again. One that leaves the line after it was told, without
having used that, tells the next one.

*A sender is cut short before it can leave the line*: a signal handler may raise anywhere, also between two
instructions. So the line holds nobody: who is in it is known by a weak reference, which is passed over once its sender
is gone. No code runs when a sender goes (``__del__``): what a signal handler raises in that is lost.

*An inbox is closed while a sender begins to wait*: whoever closes frees the places of all that waited before he tells
those in line, so the sender is told, or its second try succeeds. Then it finds out that the inbox is closed.

A message may wait without a place of its own: one that was begun and given back, or that its sender bounds itself.
``beyond`` counts those: so many of the messages that are begun next free no place.

Each operation of a ``bytearray`` or ``deque`` used here is one step of C. There is no lock.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, compress, repeat
from typing import TYPE_CHECKING, Any
from weakref import ref

from actors.messaging.reply import Reply

if TYPE_CHECKING:
    from actors.messaging.envelope import Envelope


class Room(Reply):
    """A sender's wait for room in a full inbox. Whoever waits calls ``leave`` in the end, however the wait ended."""

    __slots__ = ("_places",)

    def __init__(self, places: Places) -> None:
        super().__init__()
        self._places = places

    def leave(self, *, used: bool) -> None:
        """No longer wait. Room that was offered and is not ``used`` is offered to the next one."""
        try:
            self._places.line.remove(ref(self))
        except ValueError:  # it was told
            if not used:
                self._places.tell_next()


class Places:
    """How many messages may wait, and who waits for that."""

    __slots__ = ("_free", "beyond", "claims", "line")

    def __init__(self, capacity: int) -> None:
        self._free = bytearray()
        """One item for each place that was used before and is free now."""
        self.claims = chain(repeat(1, capacity), iter(self._free.pop, None))
        """Each item is a place that is claimed; IndexError where none is free."""
        self.beyond = bytearray()
        """One item for each message that waits without a place."""
        self.line: deque[ref[Room]] = deque()
        """Senders that wait for room, the first one first; those that have gone are passed over."""

    def put(self, queue: Any, envelope: Envelope) -> bool:
        """Claim a place and append the message, in one step; False where no place is free."""
        try:
            queue.extend(compress((envelope,), self.claims))
        except IndexError:
            return False
        return True

    def put_or_wait(self, queue: Any, envelope: Envelope) -> Room | None:
        """Stand in line, and try once more; None where the message was appended after all."""
        room, waits = Room(self), False
        try:
            self.line.append(ref(room))
            waits = not self.put(queue, envelope)
        finally:  # also where a signal handler has raised
            if not waits:
                room.leave(used=False)
        return room if waits else None

    def begun(self, envelope: Envelope) -> Envelope:
        """A message no longer waits: free its place, and tell the sender that waits the longest."""
        if self.beyond:
            self.vacate()
        else:
            self._free.append(1)
        if self.line:
            self.tell_next()
        return envelope

    def vacate(self, count: int = 1) -> None:
        """Free the places of so many messages, which no longer wait."""
        for _ in range(count):
            try:
                self.beyond.pop()
            except IndexError:
                self._free.append(1)

    def exceed(self) -> None:
        """A message is put that has no place."""
        self.beyond.append(1)

    def take_back(self) -> None:
        """A message that was begun waits again: with a place if one is free, else without."""
        try:
            next(self.claims)
        except IndexError:
            self.exceed()

    def first_in_line(self) -> Room | None:
        """The sender that waits the longest, who waits no longer; None where nobody waits."""
        while True:
            try:
                room = self.line.popleft()()
            except IndexError:
                return None
            if room is not None:
                return room

    def tell_next(self) -> None:
        """Offer room to the sender that waits the longest."""
        room = self.first_in_line()
        if room is not None:
            room.complete()

    def everybody_in_line(self) -> list[Room]:
        """All senders that wait, who wait no longer."""
        rooms = []
        while (room := self.first_in_line()) is not None:
            rooms.append(room)
        return rooms
