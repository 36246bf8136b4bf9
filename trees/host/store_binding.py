"""Between a tree and the store that its journals are in.

What the store tells goes to the tree: events to its bus, the loss of the store to its end, an order of another process
to the engine that has the task. A tree that starts is told which tasks were unfinished, and the store's time.

An order stays in the store until what follows from it is kept there. So one that comes twice must change nothing: a
task that has ended is not cancelled, a question that was answered is not asked any more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from actors.model.errors import ConfigError
from actors.model.events import Event
from actors.runtime.system import System
from actors.tasks.engine.orders import CANCEL, PRIORITY, RESPOND, RETRY, Order
from actors.tasks.engine.service import service_of
from actors.tasks.journal.store import DurableStore, RemoteCommand, Store
from actors.tasks.model import StoreError, TaskError, TaskFinished, answer_of
from trees.host.answers import respond_to
from trees.host.task_handle import remove
from trees.observe.operator_events import Operated

REMOVE: Final = "remove"


class TreeStoreListener:
    """Listener of the store of one tree. Its methods are called by the store's own thread, and never wait."""

    def __init__(self, system: System, store: DurableStore, lost: Callable[[StoreError], None] | None = None) -> None:
        self._system, self._service, self._store = system, service_of(system), store
        self.lost = lost if lost is not None else system.fail
        """Called when the store belongs to another process, or its writer has died; by default the tree ends then."""

    def publish(self, event: Event) -> None:
        """Something happened to the store."""
        self._system.publish(event)

    def committed(self, seconds: float) -> None:
        """Tell whoever measures commits. A meter that raises has no part in the store."""
        for told in tuple(self._service.commits.values()):
            with suppress(Exception):
                told(seconds)

    def order(self, order: RemoteCommand) -> None:
        """Take an order of another process. One that can be carried out is forgotten once it is."""
        started = self._system.started
        started.when_done(lambda: self._place(order) if started.succeeded else None)

    def _place(self, order: RemoteCommand) -> None:
        """Have the order done; without an engine for the task it is found at the next start."""
        last, service = self._store.last(order.task), self._service
        if order.kind == REMOVE:
            remove_it = partial(self._do, order, self._system.root_path)
            if service.run_of(order.task) is None or not isinstance(last, TaskFinished):
                remove_it()  # which refuses what goes on
            else:  # its end is in the journal, and the engine has yet to finish it
                service.waiting(order.task).when_done(remove_it)
        elif last is None or isinstance(last, TaskFinished) is not (order.kind == RETRY):
            self._store.order_done(order)
        elif (standing := self._store.standing(order.task)) is not None and standing.owner in service.scopes:
            path = standing.owner
            service.scopes[path].port.post(lambda _engine: self._do(order, path))

    def _do(self, order: RemoteCommand, path: str) -> None:
        """Carry an order out, and publish which person has operated the tree."""
        try:
            self._carry_out(order, path)
        except (TaskError, ConfigError, KeyError, TypeError, ValueError) as error:
            # It comes too late, or from another version: who sent it finds in the store that nothing followed.
            self._system.reports.request_failed(path, error, asked=False)
            self._store.order_done(order)
        else:
            body = order.body
            word = str(body["answer"]) if order.kind == RESPOND else order.kind
            about = str(body.get("escalation") or order.task)
            self._system.publish(Operated(path, word, str(body.get("by") or "unknown"), about))

    def _carry_out(self, order: RemoteCommand, path: str) -> None:
        kind, body = order.kind, order.body
        given = None if self._system.clock.manual else order.at  # that clock is nobody's outside
        checked: dict[str, Any] = {}
        if kind == CANCEL:
            checked["reason"] = str(body["reason"])
        elif kind == PRIORITY:
            checked["priority"] = int(body["priority"])
        elif kind == RESPOND:
            word, value = body["answer"], body["value"]
            answer = answer_of(word, value or "" if word == "reject" else value)
            if not respond_to(self._service, body["escalation"], answer, given=given, by=order):
                self._store.order_done(order)
            return
        elif kind == REMOVE:
            remove(self._service, order.task)
            self._store.order_done(order)
            return
        elif kind != RETRY:
            raise KeyError(kind)
        self._service.scopes[path].port.order(Order(order.task, kind, checked, given_by=order, given=given))


def bind(
    system: System, store: Store, lost: Callable[[StoreError], None] | None = None, *, close: bool = False
) -> None:
    """Bring a store that is open and a system that is yet to start together.

    Args:
        system: of the tree.
        store: of its tasks.
        lost: called when the store is lost; None: the tree ends then.
        close: the store is closed when nothing of the tree runs any more, before anybody hears of that.
    """
    service = service_of(system)
    if service.durable is not None:
        heard = service.durable.listener = TreeStoreListener(system, service.durable, lost)
        kept = store.flush()
        if kept is not None and kept.done:  # it may have been lost before there was a listener
            try:
                kept.outcome()
            except StoreError as error:
                heard.lost(error)
        if not system.clock.manual:
            # Other processes read its journals, so the tree's clock tells the time of the store.
            service.epoch = system.epoch = service.durable.time() - system.now()
        if close:
            system.before_end(service.durable.close)
    for stream in store.owners():
        with suppress(StoreError):  # a damaged journal: the engine says so
            service.before[stream] = len(store.read(stream))
