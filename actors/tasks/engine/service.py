"""``TaskService``: the tasks of one tree, as everybody but the engine sees them. It outlives every engine.

It has the store, the scopes (supervisors with ``tasks=``), the attempts whose outcome is not recorded yet, what waits
for the engine, and who waits for a task. A host reads states here without waiting for the engine, which may be busy, be
restarted, or be down.

Locking: ``removing`` is for those who remove tasks, and for each step that takes or gives the Reply of an id: the next
task of the id has another one. All else are dicts and deques whose single operations are steps of C. States are written
by the engine only, and read by everybody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from actors.concurrency.look_lock import LookLock
from actors.messaging.envelope import SystemMessage
from actors.messaging.mailbox import Mailbox, Refusal
from actors.messaging.message_errors import TreeDownError
from actors.messaging.reply import Reply
from actors.tasks.engine.orders import Order, leave, take_back
from actors.tasks.engine.scope import Scope
from actors.tasks.engine.stream_relay import StreamRelay
from actors.tasks.journal.fold import TaskState, fold
from actors.tasks.journal.reporting import report_of
from actors.tasks.journal.store import DurableStore, Store
from actors.tasks.model import (
    Report,
    StoreError,
    TaskError,
    TaskFailedError,
    TaskFinished,
    TaskStranded,
    UnknownTaskError,
)
from actors.tasks.planning.settings import Tasks

if TYPE_CHECKING:
    from contextvars import Context as Variables

    from actors.execution.incarnation import Incarnation
    from actors.messaging.envelope import Address
    from actors.runtime.system import System
    from actors.tasks.engine.asks import OpenAsk
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.run import Run
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.detached_call import DetachedCall
    from actors.tasks.journal.local_lease import LocalLease
    from actors.tasks.journal.unit import Unit

SERVICE: Final = "tasks"
"""Name of the tasks of a tree among its services."""
ENGINE: Final = "orchestrator"
"""Reserved id of the child that is the engine: the first child of the outermost supervisor with ``tasks=``."""
MOST_REPORTS: Final = 100
"""Reports of tasks that have ended that are held; others are made again from their journals."""


class TaskService:
    """The tasks of one tree."""

    def __init__(self, system: System, store: Store) -> None:
        self.system = system
        self.store = store
        """Where the journals are."""
        self.durable = store if isinstance(store, DurableStore) else None
        """The store, where its records outlive the process."""
        self.epoch = system.epoch
        """Seconds since 1970 at which the tree's clock read 0: times in journals never jump."""
        self.lease: LocalLease | None = None
        """Until when this process may start something; None: as long as it lives."""
        self.scopes: dict[str, Scope] = {}
        """By the path of the supervisor."""
        self.engines: dict[str, EnginePort] = {}
        """By the path of the outermost supervisor with ``tasks=``."""
        self.attempts: dict[str, Attempt] = {}
        """Attempts whose outcome is not recorded yet, by key."""
        self.asks: dict[tuple[str, int, int], OpenAsk] = {}
        """Attempts that wait in ``context.ask``, or for a task, by ``OpenAsk.key``."""
        self.waiting_for: dict[str, list[tuple[Address, ...]]] = {}
        """The waits for a task in this process, each by those who wait, by its id, as long as it has not ended."""
        self.detached_calls: set[DetachedCall] = set()
        self.hearing: set[Reply] = set()
        """Looks for the orders of other processes that somebody waits for."""
        self.streams = StreamRelay(self)
        """Tells what attempts stream, holds the last of it, and wakes readers of tasks."""
        self.before: dict[str, int] = {}
        """The tasks that were unfinished when the store was opened, and how many records each had."""
        self.variables: dict[str, Variables] = {}
        """Contextvars of those who have submitted a task in this process, by its id, as long as it has not ended."""
        self.unkept: dict[str, Reply] = {}
        """Tasks that are on their way into the store and may yet be refused: completed once they are kept."""
        self.commits: dict[object, Callable[[float], object]] = {}
        """Callbacks of those that measure commits of the store: told the seconds of each, on the thread that writes."""
        self.removing = LookLock()
        self.answers: dict[str, tuple[str, Any]] = {}
        """Answers of people that are on their way, by the id of the question: its word and its value."""
        self.reports: dict[str, Report] = {}
        """Reports of tasks that have ended, the newest last."""
        self.done: dict[str, Reply] = {}
        """Replies to the waiters of a task, by its id, as long as it has not ended."""
        self.aside: set[str] = set()
        """Tasks that nobody touches any more in this process: their journal is damaged, or the engine died of them."""
        self.finished = 0

    # -- the store and the time ----------------------------------------------------------------------------

    @property
    def store_name(self) -> str:
        """Name of the store in errors."""
        return self.durable.name if self.durable is not None else type(self.store).__name__

    def may_start(self) -> bool:
        """True if something may be started now. Once it is False it stays so, and the tree is ended."""
        return self.lease is None or self.lease.holds()

    @property
    def token(self) -> int:
        """Fencing token that effects outside should carry; see ``Context.token``."""
        if self.lease is not None:
            return self.lease.read()
        return self.durable.token if self.durable is not None else 0

    def time(self) -> float:
        """Seconds since 1970, by the tree's clock."""
        return self.epoch + self.system.now()

    # -- scopes --------------------------------------------------------------------------------------------

    def scope(self, path: str, settings: Tasks) -> Scope:
        """Return the scope of a supervisor; the same for every incarnation of it."""
        scope = self.scopes.get(path)
        if scope is None:
            above = self.scopes.get(path.rpartition("/")[0])
            port = above.port if above is not None else EnginePort(self, path)
            scope = self.scopes[path] = Scope(self, path, settings, port, above)
            self.engines.setdefault(port.path, port)
        return scope

    def scope_at(self, path: str) -> Scope:
        """Return the scope of a supervisor that tasks were given to, whether it is in the tree or not."""
        scope = self.scopes.get(path)
        return scope if scope is not None else Scope(self, path, Tasks(), EnginePort(self, path), None)

    def run_of(self, task: str) -> Run | None:
        """Return the run of a task that goes on."""
        return next((run for port in list(self.engines.values()) if (run := port.runs.get(task))), None)

    def runs(self) -> list[Run]:
        """Return the runs of all tasks that go on, the oldest first."""
        return [run for port in list(self.engines.values()) for run in list(port.runs.values())]

    def is_stranded(self, owner: str) -> bool:
        """True where nobody goes on with the tasks of this supervisor: the tree is up, and has none at this path."""
        return self.system.started.succeeded and owner not in self.scopes

    def is_up(self) -> None:
        """The tree is up: say which unfinished tasks nobody goes on with."""
        try:
            unfinished = self.store.owners()
        except StoreError:
            return  # it says so itself
        for task, owner in unfinished.items():
            if owner not in self.scopes:
                self.system.publish(TaskStranded(owner, task))

    def resumed(self) -> Reply:
        """Completed when everything that was unfinished has been taken up again; ask once the tree is up."""
        whole, ports = Reply(), list(self.engines.values())

        def look() -> None:
            if all(port.resumed.succeeded for port in ports):
                whole.complete()
            elif all(port.resumed.done for port in ports):
                whole.fail(self.down())

        for port in ports:
            port.resumed.when_done(look)
        look()
        return whole

    # -- tasks, as others see them -------------------------------------------------------------------------

    def state(self, task: str) -> TaskState:
        """Return where a task stands, as far as that is kept.

        Raises:
            UnknownTaskError: there is no such task.
            StoreError: its journal is damaged.
        """
        run = self.run_of(task)
        if run is not None and run.is_kept:
            return run.state
        records: Sequence[Any] = self.store.read(task)
        if not records:
            raise UnknownTaskError(task)
        run = self.run_of(task)  # behind that: an engine takes a task up before it adds to its journal
        return fold(task, records if run is None else records[: max(1, run.kept)])

    def report(self, task: str) -> Report | None:
        """Report of a task that has ended: at hand, or made again from its journal."""
        report = self.reports.get(task)
        if report is None and self.run_of(task) is None:
            standing = self.store.standing(task)
            if standing is not None and (standing.is_ == "finished" or isinstance(self.store.last(task), TaskFinished)):
                records = self.store.read(task)
                report = report_of(fold(task, records)) if records and isinstance(records[-1], TaskFinished) else None
        return report

    def waiting(self, task: str) -> Reply:
        """Completed with the report of a task, or failed where the tree goes down before, or there is no such task."""
        if task in self.aside:
            return _failed(self._is_aside(task))
        done = self.done.get(task)
        if done is not None and self._is_known(task):
            return done
        report, done = self.report(task), Reply()
        if report is None:
            # ``has_ended`` shows the report before it takes the Reply: who puts one too late finds the report.
            if not self._is_known(task):
                return _failed(UnknownTaskError(task))
            done = self.done.setdefault(task, done)
            report = self.report(task)
            if report is not None:
                self.removing.look(partial(self._take_back, task, done))
        if report is not None:
            done.complete(report)
        elif self.system.is_down:
            done.fail(self.down())
        return done

    def _take_back(self, task: str, done: Reply) -> None:
        if self.done.get(task) is done:
            del self.done[task]

    def _is_known(self, task: str) -> bool:
        """True where the store has such a task. Of a tree that is down nobody needs to know."""
        return self.system.is_down or self.store.standing(task) is not None

    def begin_all(self, tasks: Sequence[str]) -> dict[str, Reply]:
        """With ``removing`` held: return the Replies for those who wait for tasks that the store has just got."""
        waits = {task: self.done.setdefault(task, Reply()) for task in tasks}
        if self.system.is_down:
            for done in waits.values():
                done.fail(self.down())
        return waits

    def has_ended(self, report: Report) -> None:
        """A task has ended, and that is kept: whoever waits hears it."""
        tracer = self.system.tracer
        if tracer is not None:
            tracer.end_task(report)
        task = report.task_id
        self.variables.pop(task, None)
        self.waiting_for.pop(task, None)
        try:
            self.store.finish(task)
        finally:  # the store may break down: the task has ended nevertheless
            self.finished += task not in self.reports
            self.reports[task] = report
            while len(self.reports) > MOST_REPORTS:
                del self.reports[next(iter(self.reports))]
            done = self.removing.look(partial(self.done.pop, task, None))
            if done is not None:
                done.complete(report)
            self.streams.ended(task)

    def put_aside(self, task: str) -> None:
        """Leave a task alone as long as this process lives, and tell its waiters."""
        self.aside.add(task)
        done = self.removing.look(partial(self.done.pop, task, None))
        if done is not None:
            done.fail(self._is_aside(task))
        self.streams.wake(task)

    def _is_aside(self, task: str) -> TaskFailedError:
        standing = self.store.standing(task)
        is_damaged = standing is not None and standing.is_ == "damaged"
        what = (
            "its journal is damaged; see JournalDamaged"
            if is_damaged
            else "the engine broke down over it; see InternalError"
        )
        error = TaskFailedError(task, what)
        error.kind = "internal"
        return error

    def forget_former(self, task: str) -> None:
        """Forget what is known of a former task of this id, of which the store has forgotten all."""
        self.before.pop(task, None)
        self.aside.discard(task)
        self.reports.pop(task, None)
        self.waiting_for.pop(task, None)
        self.streams.forget(task)

    def when_kept(self, task: str, act: Callable[[], object]) -> None:
        """Call ``act()`` now, or, where this task is just being submitted, once it is kept; never if it is refused."""
        under_way = self.unkept.get(task)
        if under_way is None:
            act()
        else:
            under_way.when_done(lambda: act() if under_way.succeeded else None)

    def when_heard(self, then: Callable[[], object]) -> None:
        """Call this once everything that other processes had wanted by now lies at the ports."""
        heard = self.durable.heard_orders() if self.durable is not None else None
        if heard is None:
            then()
            return
        self.hearing.add(heard)

        def goes_on() -> None:
            if heard.succeeded:
                then()
            self.hearing.discard(heard)

        heard.when_done(goes_on)

    # -- contextvars and traces ----------------------------------------------------------------------------

    def carry(self, task: str, path: str, variables: Variables | None, trace: str = "") -> None:
        """Have all attempts of a task see these contextvars, until it has ended."""
        tracer = self.system.tracer
        if tracer is not None:
            variables = tracer.begin_task(task, path, variables, trace)
        if variables is not None:
            self.variables[task] = variables

    def variables_of(self, state: TaskState, unit: Unit) -> Variables | None:
        """Return the contextvars that all attempts below a unit see; a task that is resumed has its span only."""
        variables, tracer = self.variables.get(state.id), self.system.tracer
        return variables if tracer is None else tracer.variables_of(state, unit, variables) or variables

    # -- attempts ------------------------------------------------------------------------------------------

    def forget(self, attempt: Attempt) -> None:
        """Forget an attempt whose outcome is kept; another attempt may have its key by now."""
        if self.attempts.get(attempt.key) is attempt:
            del self.attempts[attempt.key]

    def busy(self) -> Iterator[tuple[str, Reply]]:
        """Attempts of planners, reviewers and undos: no child's mailbox knows of them."""
        return ((key, attempt) for key, attempt in self.attempts.copy().items() if attempt.call is not None)

    def is_moving(self) -> bool:
        """True if user code runs that belongs to no worker, or something waits for the store."""
        is_hearing = bool(self.hearing) and not self.system.is_down
        return bool(self.detached_calls) or is_hearing or any(not run.is_kept for run in self.runs())

    # -- the end of the tree -------------------------------------------------------------------------------

    def down(self) -> TreeDownError:
        """Return the error of who waits for a task when the tree goes down: it says what becomes of the task."""
        error = self.system.down_error(self.system.root_path)
        goes_on = "what is unfinished goes on when a tree is started on its store"
        error.why += f"; {goes_on if self.durable is not None else 'its tasks were in memory, and end with it'}"
        return error

    def close(self) -> None:
        """The tree is down: nothing goes on, and who waits hears it."""
        down = self.down()
        for call in list(self.detached_calls):
            call.kill()
        for port in list(self.engines.values()):
            port.close()
        for task, done in self.done.copy().items():
            run = self.run_of(task)
            if run is None or run.state.final is None:
                done.fail(down)  # else it ended before the tree did, and that is yet to be kept
        for ask in list(self.asks.values()):
            ask.reply.fail(down)
        self.streams.wake_all()

    def end(self) -> None:
        """The store is closed: whatever has not come from it by now never will."""
        for done in list(self.done.values()):
            done.fail(self.down())
        self.streams.wake_all()


class EnginePort:
    """How an engine is reached; the same for all its incarnations."""

    def __init__(self, service: TaskService, path: str) -> None:
        self.service, self.path = service, path
        self.address = f"{path}/{ENGINE}"
        """Path of the engine itself."""
        self.runs: dict[str, Run] = {}
        """Tasks that go on, by id; replaced as a whole by a new incarnation."""
        self.facts: deque[Callable[[Engine], object]] = deque()
        """What is to be decided about. Each stays here until an engine hears it."""
        self.orders: deque[Order] = deque()
        """What users want, and other processes: carried out before anything new begins, whatever engine does it."""
        self.returning: deque[tuple[OpenAsk, Any, BaseException | None]] = deque()
        """Answers of asks whose asker has yet to get its slot back."""
        self.resumed = Reply()
        """Completed when all that was unfinished in the store has been taken up again; failed where it never is."""
        self.closing: Incarnation | None = None
        """Incarnation that is being stopped with all beside it."""

    def post(self, fact: Callable[[Engine], object]) -> bool:
        """Have the engine decide about something, now or when it is up again; False where it is down now."""
        self.facts.append(fact)
        return self.call()

    def call(self) -> bool:
        """Have the engine look at what is here; False where it is down now."""
        return self.tell(CALL)

    def tell(self, message: Any) -> bool:
        """Put a message into the engine's mailbox: one that the next incarnation can do without."""
        box = self.service.system.boxes.get(self.address)
        return isinstance(box, Mailbox) and box.put((message, None, None)) is None

    def order(self, order: Order) -> None:
        """Have the engine do what a user wants; or, where the tree ends first, the process that goes on.

        Raises:
            TaskError: the supervisor that has the task is not in the tree.
            TreeDownError: the tree is down, and its store keeps no orders any more.
        """
        if self.service.engines.get(self.path) is not self:
            hint = "Start a tree that has it, or remove the task"
            raise TaskError(f"task {order.task}: {self.path}, which has it, is not in this tree. {hint}")
        self.orders.append(order)
        self.call()
        if self.service.system.is_down and self.service.durable is not None and take_back(self, order):
            raise self.service.system.down_error(self.path)

    def down(self) -> Exception:
        """Why nothing can be submitted."""
        return self.service.system.stopped_error(self.address, Refusal.STOPPED)

    def close(self) -> None:
        """The tree is down: what lies here is left to the next process."""
        leave(self)
        self.resumed.fail(self.service.system.down_error(self.path))


class Call(SystemMessage):
    """Message to an engine: look at the facts and orders at your port."""


CALL: Final = Call()


def _failed(error: Exception) -> Reply:
    done = Reply()
    done.fail(error)
    return done


def attach(system: System, store: Store) -> TaskService:
    """Let a tree that is yet to start have tasks, whose journals are in this store."""
    service = system.services[SERVICE] = TaskService(system, store)
    return service


def service_of(system: System) -> TaskService:
    """Return the tasks of a tree."""
    return cast("TaskService", system.services[SERVICE])
