"""Between a tree and the store that its journals are in: what was there before, what the store says, and its end.

Comes in: a store that is open, and the system that is to work with it, before that is started. Goes out:

* what the store tells (to ``TreeStoreListener``): events go to the tree's bus; a store that is lost to another
  process ends the tree; an order from another process reaches the orchestrator that it concerns.
* which tasks were unfinished when it was opened, and how much of each was recorded by then (``TaskService.before``).
* the time: journals are told that of the store, which other processes read them by.
* the end: the store is closed when nothing of the tree runs any more, and before anybody hears of that.

An order stays in the store until what follows from it is kept there, so one that comes twice must change nothing: a
task that has ended is not cancelled, a question that was answered is not asked any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from actors.model.errors import ConfigError
from actors.model.events import Event
from actors.runtime import living_trees
from actors.runtime.system import System
from actors.tasks.engine.orders import CANCEL, PRIORITY, RESPOND, RETRY, Order
from actors.tasks.engine.service import SERVICE, EnginePort, TaskService, service_of
from actors.tasks.journal.store import DurableStore, RemoteCommand, Store
from actors.tasks.model.policy import answer_of
from actors.tasks.model.task_errors import EscalationError, StoreBusyError, StoreError, TaskError
from actors.tasks.model.task_events import TaskFinished, TaskSubmitted
from trees.declaration.specs import SupervisorSpec
from trees.host.answers import open_question, respond
from trees.host.task_removal import remove
from trees.observe.operator_events import Operated

REMOVE: Final = "remove"


class TreeStoreListener:
    """Listener of the store of one tree. Its methods are called by the store's own thread, and never wait."""

    def __init__(self, system: System, store: DurableStore, lost: Callable[[StoreError], None] | None = None) -> None:
        self._system = system
        self._store = store
        self.lost = lost if lost is not None else system.fail
        """Called when the store belongs to another process, or its writer has died; by default the tree ends then."""

    def committed(self, seconds: float) -> None:
        """Tell whoever measures commits. One that raises may be a user's: it is told no more."""
        commits = service_of(self._system).commits
        for key, told in commits.copy().items():
            try:
                told(seconds)
            except BaseException as error:  # noqa: BLE001 - a meter of a user has no part in the store
                commits.pop(key, None)
                self._system.reports.callback_raised(self._system.root_path, error)

    def publish(self, event: Event) -> None:
        """Something happened to the store."""
        self._system.publish(event)

    def order(self, order: RemoteCommand) -> None:
        """Take an order of another process. One that can be carried out is forgotten once it is."""
        started = self._system.started
        started.when_done(lambda: self._place(order) if started.succeeded else None)

    def _place(self, order: RemoteCommand) -> None:
        """Have the orchestrator that has the task do it; one that is not there now finds it at the next start."""
        last = self._store.last(order.task)
        if order.kind == REMOVE:
            self._remove(order)
            return
        if last is None or isinstance(last, TaskFinished) is not (order.kind == RETRY):
            self._forget(order)
            return
        scope = service_of(self._system).scopes.get(last.path)
        if scope is not None:
            scope.port.post(lambda engine: self._do(engine.port, order))

    def _remove(self, order: RemoteCommand) -> None:
        """No matter of an orchestrator: it has nothing to do with what has ended, or is damaged.

        But a task may have ended in its journal, and its orchestrator has yet to finish it: the process before died in
        between. Whoever gave the order has seen that end, so the task is removed as soon as it is finished.
        """
        service = service_of(self._system)
        run = service.run_of(order.task)
        if run is None:
            self._remove_now(order)
        else:
            service.waiting(order.task).when_done(lambda: self._remove_now(order))

    def _remove_now(self, order: RemoteCommand) -> None:
        try:
            remove(service_of(self._system), order.task)
        except TaskError as error:  # whoever sent it finds the task still there
            self._system.reports.request_failed(self._system.root_path, error, asked=False)
        else:
            self._operated(self._system.root_path, order, order.task)
        self._forget(order)

    def _do(self, port: EnginePort, order: RemoteCommand) -> None:
        """On the loop, where the orchestrator knows its tasks: tell it, and then that it is to be forgotten."""
        try:
            _tell(port, order)
        except (EscalationError, ConfigError, KeyError, TypeError, ValueError) as error:
            # It comes too late, or from another version: whoever sent it finds in the journal that nothing followed.
            self._system.reports.request_failed(port.path, error, asked=False)
            self._forget(order)
        else:
            self._operated(port.path, order, order.body.get("escalation") or order.task)

    def _operated(self, path: str, order: RemoteCommand, about: str) -> None:
        """Tell that a person has operated the tree, and who, as far as whoever left the order has said it."""
        body = order.body
        act = str(body["answer"]) if order.kind == RESPOND else order.kind
        self._system.publish(Operated(path, act, str(body.get("by") or "unknown"), str(about)))

    def _forget(self, order: RemoteCommand) -> None:
        self._store.order_done(order)


def _tell(port: EnginePort, order: RemoteCommand) -> None:
    body, given = order.body, None if port.service.system.clock.manual else order.at  # that clock is nobody's outside
    if order.kind == CANCEL:
        port.order(Order(order.task, CANCEL, {"reason": str(body["reason"])}, given_by=order, given=given))
    elif order.kind == PRIORITY:
        port.order(Order(order.task, PRIORITY, {"priority": int(body["priority"])}, given_by=order, given=given))
    elif order.kind == RETRY:
        port.order(Order(order.task, RETRY, given_by=order, given=given))
    elif order.kind == RESPOND:
        word, value = body["answer"], body["value"]
        answer = answer_of(word, value or "" if word == "reject" else value)
        if open_question(port.service, body["escalation"]) is None:
            respond(port.service, body["escalation"], answer, given, order)  # says why not
            raise EscalationError(body["escalation"], "it was answered before")
        respond(port.service, body["escalation"], answer, given, order)
    else:
        raise KeyError(order.kind)


def bind(
    system: System, store: Store, spec: SupervisorSpec, *, close: bool, lost: Callable[[StoreError], None] | None = None
) -> None:
    """Bring a store that is open and a system that is yet to start together.

    ``close``: the store is ours, and is closed when the tree has ended. ``lost`` is called when the store is lost;
    None: the tree ends then.
    """
    runtime = service_of(system)
    if runtime.durable is not None:
        heard = runtime.durable.listener = TreeStoreListener(system, runtime.durable, lost)
        _hear_of_loss(heard, store)
        if not system.clock.manual:
            runtime.set_time(runtime.durable.time())
    read = store.read
    runtime.before = {
        stream: len(records)
        for path in task_paths(spec)
        for stream in store.streams(path)
        if (records := _readable(read, stream)) and isinstance(records[0], TaskSubmitted)
    }
    if close:
        system.before_end(lambda: close_store(store))


def require_alone(system: System, store: Store) -> None:
    """Refuse a store that another tree of this process works with: both would do its tasks, and take each other's ids.

    Two that start at the same moment are both listed before either looks here: at least one of them is refused.

    Raises:
        StoreBusyError: another tree has it.
    """
    for runtime in _runtimes():
        if runtime.system is not system and runtime.has(store):
            holder = "another tree of this process, and a store serves one of them"
            raise StoreBusyError(runtime.store_name, runtime.system.root_path, holder)


def busy_here(error: StoreBusyError) -> StoreBusyError | None:
    """Return the refusal in words of this process, where a tree of it has the root; None: another process has it."""
    for runtime in _runtimes():
        if (runtime.store_name, runtime.system.root_path) == (error.store, error.root):
            holder = "another tree of this process, which runs or is still being stopped"
            return StoreBusyError(runtime.store_name, error.root, holder)
    return None


def _runtimes() -> Iterator[TaskService]:
    """Yield what the orchestrators of a tree share, for each tree of this process that is not down."""
    for tree in living_trees.LIVING.snapshot():
        runtime = tree.services.get(SERVICE)
        if not tree.is_down and isinstance(runtime, TaskService):
            yield runtime


def _readable(read: Callable[[str], Sequence[Event]], stream: str) -> Sequence[Event]:
    """The records of a stream; nothing of one that is damaged, which its orchestrator will say."""
    try:
        return read(stream)
    except StoreError:
        return ()


def _hear_of_loss(listener: TreeStoreListener, store: Store) -> None:
    """Look if the store was lost before there was a listener to be told."""
    kept = store.flush()
    if kept is not None and kept.done and not kept.succeeded:
        try:
            kept.get()
        except StoreError as error:
            listener.lost(error)


def close_store(store: Store) -> None:
    """Let go of a store, where there is something to let go of."""
    if isinstance(store, DurableStore):
        store.close()


def task_paths(spec: SupervisorSpec, above: str = "") -> Iterator[str]:
    """The path of every supervisor of a declaration that has an orchestrator."""
    path = f"{above}{spec.id}"
    if spec.tasks is not None:
        yield path
    for child in spec.children:
        if isinstance(child, SupervisorSpec):
            yield from task_paths(child, f"{path}/")
