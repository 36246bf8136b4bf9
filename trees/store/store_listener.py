"""Part of ``SqlStore`` that talks to its listener: events of the store, and commands of other processes.

Comes in, on the writer's thread: what happens to the store, and the rows of the table ``orders``. Goes out: calls of
the ``StoreListener``. Nothing that a row holds, and nothing that a listener raises, ends the writer: a command that
cannot be read is reported (``OrderDamaged``) and deleted, damage to a journal is reported as soon as there is a
listener.

What its tree leaves for the next process goes to that table when the store is closed.

Locking: none. ``listener`` is set before anything is told. ``_looks`` is a list whose ``append`` is one step of C; only
the writer's thread takes from it. ``_for_next`` is another one: whoever closes the store takes from it, and the
tree, which adds to it, is down by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from actors.messaging.reply import Reply
from actors.model.events import Event, InternalError
from actors.tasks.journal.store import RemoteCommand, StoreListener
from actors.tasks.model.store_events import JournalDamaged, OrderDamaged
from actors.tasks.model.task_errors import StoreError
from trees.store.batches import Change, ChangeKind
from trees.store.database import Database
from trees.store.fenced_connection import FencedConnection
from trees.store.journal_index import JournalIndex
from trees.store.remote_commands import DamagedCommand, post
from trees.store.writer import POLL_S, Writer

_Left: TypeAlias = tuple[str, str, dict[str, Any], float]
"""Task, kind, arguments and time of an order."""


class ListenerSide:
    """The part of a ``SqlStore`` that has a listener."""

    _database: Database
    _session: FencedConnection
    _index: JournalIndex

    def __init__(self, root: str) -> None:
        self._root = root
        self.listener: StoreListener | None = None
        self._taken: set[int] = set()
        """Ids of commands that the listener was given, and that are not done."""
        self._looks: list[Reply] = []
        """Completed once the listener was given all commands that had been left before."""
        self._damaged: list[JournalDamaged] = []
        """Events for the listener from before there was one."""
        self._next_poll = 0.0
        self._for_next: list[_Left] = []
        """Orders for the process that goes on."""

    def _writes(self) -> Writer:
        raise NotImplementedError

    # -- commands of other processes -----------------------------------------------------------------------------------

    def heard_orders(self) -> Reply:
        """Completed when the listener was given every command that had been posted before this call."""
        reply = Reply()
        writer = self._writes()
        self._looks.append(reply)
        writer.wake()
        return reply

    def order_done(self, order: RemoteCommand) -> None:
        """Note that a command of another process is done, or cannot be done."""
        self._writes().put(Change(ChangeKind.ORDER_DONE, number=order.id, lane=self._index.lane(order.task)))

    def leave_order(self, task: str, kind: str, body: dict[str, Any], at: float) -> bool:
        """Keep an order for the process that goes on, when this is closed."""
        self._for_next.append((task, kind, body, at))
        return True

    def _post_left(self) -> None:
        """Leave them where the orders of other processes are. One that cannot be written is lost, and that is said."""
        left, self._for_next = self._for_next, []
        try:
            if left:
                self._post(left)
        except StoreError as error:
            for task, kind, _, _ in left:
                what = f"could not keep {kind!r} of task {task} when the tree ended: {error.what}. Order it again"
                self.publish(OrderDamaged(self._root, task, StoreError(self._database.name, what)))

    def _post(self, left: Iterable[_Left]) -> None:
        if self._writes().paused_s is not None:  # this would not come through either, and the end would wait for it
            raise StoreError(self._database.name, "cannot be written to")
        with self._database.transaction() as connection:
            for task, kind, body, at in left:
                post(connection, self._root, task, kind, body, at)

    def _listen(self, now: float) -> None:
        """Look for commands, where it is time, or somebody waits for that."""
        if now < self._next_poll and not self._looks:
            return
        number = len(self._looks)
        self._hear()
        for look in self._looks[:number]:
            look.complete()
        del self._looks[:number]
        self._next_poll = now + POLL_S / 2  # only then: what has failed is tried at once

    def _hear(self) -> None:
        if self.listener is not None:
            damaged, self._damaged = self._damaged, []
            for event in damaged:
                self.publish(event)
        for order in self._session.waiting(self._taken):
            if isinstance(order, DamagedCommand):
                self._taken.add(order.id)
                self.publish(OrderDamaged(self._root, order.task, order.error))
                self._writes().put(Change(ChangeKind.ORDER_DONE, number=order.id))
            elif self.listener is not None:
                self._taken.add(order.id)
                try:
                    self.listener.order(order)
                except Exception as error:  # noqa: BLE001 - a listener must not end the writer
                    self.publish(InternalError(self._root, error))

    def _done(self, orders: Iterable[int]) -> None:
        self._taken.difference_update(orders)

    def _goes_on(self, owner: str) -> bool:
        return self.listener is None or self.listener.goes_on(owner)

    # -- telling -------------------------------------------------------------------------------------------

    def unwritable(self, change: Change, error: Exception) -> None:
        """A record never can be written: its stream ends with the one before it. That can be read, and gone on with."""
        what = f"cannot take its record {change.number} ({type(error).__name__}), and takes no more of them"
        said = error if isinstance(error, StoreError) else None
        why = StoreError(f"journal of {change.stream!r}", f"{what}. {said.what if said is not None else ''}".rstrip())
        owner = change.owner or self._index.owners.get(change.stream) or self._root
        self.publish(InternalError(self._root, error))
        self.publish(JournalDamaged(owner, change.stream, why))

    def committed(self, seconds: float) -> None:
        """Tell the listener of a commit."""
        if self.listener is not None:
            self.listener.committed(seconds)

    def publish(self, event: Event) -> None:
        """Something has happened."""
        if self.listener is not None:
            self.listener.publish(event)

    def lost(self, error: StoreError) -> None:
        """Nothing more will be written."""
        if self.listener is not None:
            self.listener.lost(error)
