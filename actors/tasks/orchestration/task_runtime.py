"""State that the tasks of one tree share, and that outlives every orchestrator: the store, attempts, open asks.

A ``OrchestratorPort`` (``actors.tasks.orchestration.orchestrator_port``) is one orchestrator's part of it.

Locking: ``removing`` is for those who remove tasks, and for each step that takes or gives the Reply of an id (a task
begins, is put aside, or its end is shown, ``OrchestratorPort.keep``): the next task of the id has another one. There is
no other lock. ``attempts`` and ``asks`` are dicts whose
single operations are steps of C: workers and callers put in and take out, each its own keys. The states at a port are
written by its orchestrator only, and read by everybody, each attribute by itself (as in ``actors.supervision.child``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from actors.concurrency.look_lock import LookLock
from actors.messaging.reply import Reply
from actors.model.events import Event
from actors.tasks.execution.task_tracer import tracer_of
from actors.tasks.journal.store import DurableStore, Store
from actors.tasks.journal.subtask_state import SubtaskState, part_id_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.store_events import TaskStranded
from actors.tasks.model.task_errors import StoreError
from actors.tasks.model.task_events import TaskSubmitted
from actors.tasks.orchestration.attempt_table import attempt_key
from actors.tasks.orchestration.delegation_calls import OpenDelegation
from actors.tasks.orchestration.event_feed import Feed
from actors.tasks.orchestration.event_numbers import EventNumbers
from actors.tasks.orchestration.orchestrator_port import ORCHESTRATOR, OrchestratorPort
from actors.tasks.orchestration.stream_relay import StreamRelay
from actors.tasks.orchestration.task_waits import WaitTable
from actors.tasks.planning.settings import Tasks

if TYPE_CHECKING:
    from contextvars import Context as Variables

    from actors.runtime.system import System
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.attempt_spec import Role
    from actors.tasks.execution.detached_call import DetachedCall
    from actors.tasks.journal.local_lease import LocalLease
    from actors.tasks.model.report import Report

SERVICE: Final = "tasks"
"""Name of the tasks of a tree among its services."""

__all__ = ["ORCHESTRATOR", "SERVICE", "OpenDelegation", "OrchestratorPort", "TaskRuntime", "attach", "task_runtime_of"]


class TaskRuntime:
    """The tasks of one tree."""

    def __init__(self, system: System, store: Store | None) -> None:
        self.system = system
        self._store = store
        self.durable = store if isinstance(store, DurableStore) else None
        """The store, where its records outlive the process."""
        self.epoch = system.epoch
        """Seconds since 1970 at which the tree's clock read 0: times in journals never jump."""
        self.lease: LocalLease | None = None
        """Until when this process may start something; None: as long as it lives."""
        self.attempts: dict[str, Attempt] = {}
        """Attempts whose outcome is not recorded yet, by key."""
        self.asks: dict[str, OpenDelegation] = {}
        """Attempts that wait in ``context.ask``, by the key of the ask. See ``Attempt.asks``."""
        self.answers: dict[str, tuple[Any, BaseException | None]] = {}
        """Answers of other orchestrators that are there, for askers whose own orchestrator has no slot for them yet."""
        self.hearing: set[Reply] = set()
        """Looks for the orders of other processes that somebody waits for."""
        self.records: set[Reply] = set()
        """Records that a worker's code waits for: those of its steps."""
        self.waits = WaitTable(self)
        """Waits of workers for tasks."""
        self.detached_calls: set[DetachedCall] = set()
        self.ports: dict[str, OrchestratorPort] = {}
        """By the path of the supervisor."""
        self.feed = Feed(system.bus)
        """Tells those who follow a task of its events."""
        self.numbers = EventNumbers(self)
        """Numbers of the events of its tasks."""
        self.streams = StreamRelay(self.attempts)
        """Tells what attempts stream, and recalls the last of it."""
        self.stranded: dict[str, OrchestratorPort] = {}
        """Ports of supervisors that have tasks in the store, and are not in the tree, or have no orchestrator there."""
        self.opened_at = self.time()
        """When the store was opened: what is recorded before that is of an earlier process."""
        self.before: dict[str, int] = {}
        """The tasks that were unfinished when the store was opened, and how many records each had."""
        self._heard: dict[str, float] = {}
        """When the process before was last heard of, for those of these tasks of which that was asked."""
        self.variables: dict[str, Variables] = {}
        """Contextvars of those who have submitted a task in this process, by its id, as long as it has not ended."""
        self.submitting: dict[str, Reply] = {}
        """Submission that has an id, one at a time. The task may be known long since: see ``unkept``."""
        self.unkept: set[str] = set()
        """Tasks that are on their way into the store: nobody was told that they are kept, and they may be withdrawn."""
        self.commits: dict[object, Callable[[float], object]] = {}
        """Callbacks of those that measure commits of the store: told the seconds of each, on the thread that writes."""
        self.removing = LookLock()
        """Held by whoever removes a task, and where the end of one is shown; see ``trees.host.task_removal``. A
        finalizer may run under it, and remove one; what it would wait for there is refused."""

    @property
    def store(self) -> Store:
        """Where the journals are.

        Raises:
            StoreError: the tree was started without one.
        """
        if self._store is None:
            raise StoreError("none", "this tree was started without a store")
        return self._store

    def has(self, store: Store) -> bool:
        """True if its journals are in this store."""
        return self._store is store

    @property
    def store_name(self) -> str:
        """Name of the store in errors."""
        return self.durable.name if self.durable is not None else type(self._store).__name__

    def heard_orders(self) -> Reply | None:
        """Completed when what other processes had wanted by now was heard; None: no other process can want anything."""
        return self.durable.heard_orders() if self.durable is not None else None

    def when_kept(self, task: str, act: Callable[[], object]) -> None:
        """Call ``act()`` now, or, where this task is just being submitted, once it is kept; never if it is refused."""
        under_way = self.submitting.get(task)
        if under_way is None:
            act()
        else:
            under_way.when_done(lambda: act() if under_way.succeeded else None)

    def flush(self, *tasks: str | None) -> Reply | None:
        """None: all that is recorded is kept, of these tasks where they are named. Else: completed when it is."""
        if self.durable is None or None in tasks or not tasks:
            store = self._store
            return self.store.flush() if store is None else store.flush()
        return self.durable.flush_streams(cast("tuple[str, ...]", tasks))

    def outline(self, task: str, start: int = 0) -> Sequence[Event]:
        """The records of a task, at hand; what is large in them may have been left in a durable store."""
        return self.store.read(task, start) if self.durable is None else self.durable.outline(task, start)

    def may_start(self) -> bool:
        """True if something may be started now. Once it is False it stays so, and the tree is ended."""
        return self.lease is None or self.lease.holds()

    @property
    def token(self) -> int:
        """Fencing token that effects outside should carry; see ``Context.token``."""
        if self.lease is not None:
            return self.lease.read()
        return self.durable.token if self.durable is not None else 0

    def port(self, path: str, settings: Tasks) -> OrchestratorPort:
        """Port of a supervisor; the same for every incarnation of its orchestrator."""
        port = self.ports.get(path)
        if port is None:
            port = self.ports[path] = OrchestratorPort(self, path, settings)
            self.stranded.pop(path, None)
        return port

    def time(self) -> float:
        """Seconds since 1970, by the tree's clock."""
        return self.epoch + self.system.now()

    def set_time(self, seconds: float) -> None:
        """Have the tree's clock tell this time now: that of a durable store, because other processes read its journals.

        For a tree that is yet to start.
        """
        self.epoch = self.system.epoch = seconds - self.system.now()
        self.opened_at = self.time()

    def resumed(self) -> Reply:
        """Completed when every orchestrator has taken up all that was unfinished; ask once the tree is up."""
        whole, ports = Reply(), list(self.ports.values())

        def look() -> None:
            waits = next((port.resumed for port in ports if not port.resumed.done), None)
            if waits is not None:
                waits.when_done(look)
            elif all(port.resumed.succeeded for port in ports):
                whole.complete()
            else:
                whole.fail(self.system.down_error(self.system.root_path))

        look()
        return whole

    def all_ports(self) -> list[OrchestratorPort]:
        """All of them, also those of supervisors that are in the store and not in the tree."""
        return [*list(self.ports.values()), *list(self.stranded.values())]

    def heard_last(self, state: TaskState) -> float:
        """When the process was last heard of that has lost an attempt of a task, in seconds since 1970.

        Nothing has run since. What this process has recorded by now is no word of that one.
        """
        number = self.before.get(state.id, 0)
        if state.id not in self._heard and number:
            records = self.outline(state.id)[:number]
            self._heard[state.id] = records[-1].at if records else state.last_at
        return self._heard.get(state.id, state.last_at)

    def forget_former(self, id_: str) -> None:
        """Forget what is known of a former task, or part, of this id, of which the store has forgotten all."""
        self.before.pop(id_, None)
        self._heard.pop(id_, None)
        self.streams.forget(id_)
        for port in self.all_ports():
            port.reports.forget(id_)

    def port_at(self, path: str) -> OrchestratorPort:
        """Port of a supervisor that tasks were given to, whether it is in the tree or not."""
        port = self.ports.get(path) or self.stranded.get(path)
        return port if port is not None else self.stranded.setdefault(path, OrchestratorPort(self, path, Tasks()))

    def is_stranded(self, owner: str) -> bool:
        """True where nobody goes on with the tasks of this supervisor: the tree is up, and has none at this path."""
        return self.system.started.succeeded and owner not in self.ports

    def is_up(self) -> None:
        """The tree is up: say which unfinished tasks nobody goes on with."""
        try:
            unfinished = self.store.owners()
        except StoreError:
            return  # it says so itself
        for task, owner in unfinished.items():
            if owner not in self.ports:
                self.stranded.setdefault(owner, OrchestratorPort(self, owner, Tasks()))
                self.system.publish(TaskStranded(owner, task))

    def end(self) -> None:
        """The store is closed: whatever has not come from it by now never will."""
        for port in self.all_ports():
            for done in list(port.done.values()):
                done.fail(self.system.down_error(port.path))

    def is_moving(self) -> bool:
        """True if user code runs that belongs to no worker, or something waits for the store."""
        is_hearing = bool(self.hearing) and not self.system.is_down
        return bool(self.detached_calls) or is_hearing or any(len(port.effects) for port in list(self.ports.values()))

    def busy(self) -> Iterator[tuple[str, Reply]]:
        """Attempts of planners, reviewers and undos: no child's mailbox knows of them."""
        return ((key, attempt) for key, attempt in self.attempts.copy().items() if attempt.call is not None)

    def attempt_of(self, state: TaskState) -> Attempt | None:
        """Attempt that a team's part of a task stands for; None where it is gone, or another team has it by now."""
        attempt = self.attempts.get(state.parent) if state.parent is not None else None
        is_its = attempt is not None and attempt.spec.part == state.id and not self.is_former(state, attempt)
        return attempt if is_its else None

    def is_former(self, state: TaskState, attempt: Attempt) -> bool:
        """True for a part of a former task of that id, which was removed while the team was stopped.

        The present task has parts of the same names, and attempts of the same keys.
        """
        port = self.ports.get(attempt.owner.path)
        whole = port.states.get(attempt.task) if port is not None else None
        return whole is not None and state.submitted_at < whole.submitted_at

    def carry(self, task: str, path: str, variables: Variables | None, trace: str = "") -> None:
        """Have all attempts of a task see these contextvars, until it has ended."""
        tracer = tracer_of(self.system)
        if tracer is not None:
            variables = tracer.begin_task(task, path, variables, trace)
        if variables is not None:
            self.variables[task] = variables

    def has_ended(self, report: Report) -> None:
        """Let go of what there is of a task that has ended; before those who wait for it hear of that."""
        tracer = tracer_of(self.system)
        if tracer is not None:
            tracer.end_task(report)
        self.variables.pop(report.task_id, None)
        self.numbers.forget(report.task_id)

    def trace_unfinished(self) -> None:
        """Trace all tasks that go on from here on; what they have under way already is not."""
        for port in list(self.ports.values()):
            for state in list(port.states.values()):
                if state.final is None:
                    self.variables_of(state)

    def traced(self, state: TaskState, role: Role) -> AbstractContextManager[object]:
        """Trace a step of a task that the orchestrator makes by itself, because none of a user's code runs in it."""
        tracer = tracer_of(self.system)
        if tracer is None:
            return nullcontext()
        self.variables_of(state)  # a task that is resumed has its span from here on
        return tracer.stage(state.id, state.path, role)

    def variables_of(self, state: TaskState) -> Variables | None:
        """Return the contextvars that all attempts of a task see; a task that is resumed has its span only."""
        tracer = tracer_of(self.system) if self.system.tracer is not None else None
        if tracer is not None and not tracer.has_task(state.id):
            first = next(iter(self.outline(state.id)), None)
            attempt = self.attempt_of(state)
            variables = attempt.spec.variables if attempt is not None else self.variables.get(state.id)
            self.carry(state.id, state.path, variables, first.trace if isinstance(first, TaskSubmitted) else "")
        return self.variables.get(state.id)

    def attempt_at(self, state: TaskState, node: SubtaskState) -> Attempt | None:
        """Attempt that a subtask has now, as far as its outcome is not recorded yet."""
        attempt = self.attempts.get(attempt_key(state, node, node.attempt))
        return attempt if attempt is not None and attempt.spec.start_number == node.run else None

    def part_of(self, state: TaskState, node: SubtaskState) -> TaskState | None:
        """Part that a team has of a running subtask, as it stands; None: no team has it, or it is not there yet."""
        port = self.ports.get(f"{state.path}/{node.worker}")
        act = node.acts[-1] if port is not None and node.acts else None
        return port.states.get(part_id_of(state.id, node, act, state.ids)) if port is not None and act else None

    def open_ask(self, key: str, ask: OpenDelegation) -> None:
        """Note that an attempt waits in an ask. Any thread may call it: each step is one that no other cuts in two."""
        ask.attempt.asks.add(key)  # first: who finds the ask finds that its attempt waits
        self.asks[key] = ask

    def close_ask(self, key: str) -> None:
        """Note that it has its answer, or waits no longer."""
        ask = self.asks.pop(key, None)
        if ask is not None:
            ask.attempt.asks.discard(key)
        self.answers.pop(key, None)

    def expect(self, kept: Reply) -> None:
        """See to it that whoever waits for a record hears of it in every case, at the latest when the tree is down."""
        self.records.add(kept)
        kept.when_done(partial(self.records.discard, kept))
        if self.system.is_down:
            kept.fail(self.system.down_error(self.system.root_path))  # nobody else will

    def end_calls(self, port: OrchestratorPort) -> None:
        """End planners, reviewers and undos of one orchestrator: they are called again when that is up again."""
        for call in [each for each in list(self.detached_calls) if each.is_of(port)]:
            call.kill()

    def forget(self, attempt: Attempt) -> None:
        """Forget an attempt whose outcome is kept; another attempt may have its key by now."""
        if self.attempts.get(attempt.key) is attempt:
            del self.attempts[attempt.key]

    def close(self) -> None:
        """The tree is down: nothing goes on, and who waits hears it."""
        for call in list(self.detached_calls):
            call.kill()
        for port in self.all_ports():
            port.close()
        for record in list(self.records):
            record.fail(self.system.down_error(self.system.root_path))
        for ask in list(self.asks.values()):
            ask.reply.fail(self.system.down_error(self.system.root_path))


def attach(system: System, store: Store | None) -> TaskRuntime:
    """Let a tree that is yet to start have tasks, whose journals are in this store."""
    runtime = system.services[SERVICE] = TaskRuntime(system, store)
    return runtime


def task_runtime_of(system: System) -> TaskRuntime:
    """State that the tasks of a tree share."""
    return cast("TaskRuntime", system.services[SERVICE])
