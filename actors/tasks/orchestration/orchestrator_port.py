"""Port of an orchestrator: what one shows to others, and how it is reached; the same for all its incarnations.

Its address, its states and reports, and the orders that wait for it, for those who must not wait for the orchestrator
itself. Locking: as in ``actors.tasks.orchestration.task_runtime``, which has all of them.
"""

from __future__ import annotations

import itertools
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.concurrency.disposal import UserCallback
from actors.messaging.mailbox import Mailbox, Refusal
from actors.messaging.message_errors import ActorStoppedError
from actors.messaging.reply import Reply
from actors.tasks.journal.fold import fold
from actors.tasks.journal.reporting import report_of
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.report import Report
from actors.tasks.model.task import Usage
from actors.tasks.model.task_errors import StoreError, TaskFailedError, UnknownTaskError
from actors.tasks.model.task_events import TaskFinished
from actors.tasks.model.task_ids import MARK
from actors.tasks.orchestration.attempt_table import AttemptTable
from actors.tasks.orchestration.crash_guard import CrashGuard
from actors.tasks.orchestration.delegation_calls import delegate, tools
from actors.tasks.orchestration.fetching import Fetching
from actors.tasks.orchestration.given_answers import GivenAnswers
from actors.tasks.orchestration.left_orders import leave, take_back
from actors.tasks.orchestration.messages import AttemptReported, CommandsWaiting, EffectFailed
from actors.tasks.orchestration.outbox import Outbox
from actors.tasks.orchestration.step_records import keep_step
from actors.tasks.planning.settings import Tasks
from actors.tasks.results.report_cache import ReportCache
from actors.tasks.scheduling.step_slots import Slots
from actors.tasks.scheduling.worker_registry import WorkerChanged, WorkerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.execution.incarnation import Incarnation
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.attempt_owner import AskedWork
    from actors.tasks.execution.attempt_steps import StepCall
    from actors.tasks.journal.subtask_state import SubtaskState
    from actors.tasks.model.executable import ExecutableInfo, ToolInfo
    from actors.tasks.orchestration.recording import Recording
    from actors.tasks.orchestration.task_runtime import TaskRuntime

ORCHESTRATOR = "orchestrator"
"""Reserved id of the first child of a supervisor with ``tasks=``."""
_DIED: Final = "its orchestrator died of it, also while ending it; see InternalError, and report it"
_COMMANDS: Final = CommandsWaiting()


class OrchestratorPort:
    """Public side of one orchestrator: how it is reached, and its states as others see them."""

    def __init__(self, runtime: TaskRuntime, path: str, settings: Tasks) -> None:
        self.runtime, self.system, self.streams, self.waits = runtime, runtime.system, runtime.streams, runtime.waits
        self.path = path  # of the supervisor
        self.orchestrator = f"{path}/{ORCHESTRATOR}"
        """Path of the orchestrator itself."""
        self.settings = settings
        self.count_tokens: Callable[[str], int] | None = settings.count_tokens
        self.step_timeout_s = settings.step_timeout_s
        """Counter of tokens of the user's; None: there is none."""
        self.states: dict[str, TaskState] = {}
        """States of the tasks that are not finished."""
        self.context_tokens = settings.context_tokens
        """Tokens that what an attempt sees may be worth in a prompt."""
        self.reports = ReportCache()
        """Reports of finished tasks, the newest ones; others are made again from their journals."""
        self._unshown: set[str] = set()
        """Tasks that have ended and are being finished: nobody is shown their end yet. Only ``keep`` changes it."""
        self.done: dict[str, Reply] = {}
        """Replies to the waiters of a task, by its id, as long as it has not ended."""
        self.workers = WorkerRegistry()
        """The registry; replaced as a whole when a new incarnation has its own."""
        self.attempts = AttemptTable()
        """Attempts that run; replaced as the registry is. Read on the orchestrators' loop only, as ``asked`` is."""
        self.asked: dict[str, tuple[TaskState, SubtaskState]] = {}
        """Subtasks that were asked for, by the key of the ask, of the present incarnation."""
        self.answers = GivenAnswers(lambda: self.states)
        self.guard = CrashGuard()
        """Over which tasks incarnations have died."""
        self.finished = self.finished_parts = 0
        """Tasks so far, and those among them that are parts of a team."""
        self.orders: deque[Any] = deque()
        """Commands for the orchestrator. Each stays here until it is carried out, whatever incarnation does that."""
        self.tries = 0
        """How many incarnations have died of the oldest order, at the same point."""
        self.died_at: tuple[str | None, int] = (None, 0)
        """The point of those deaths: the task, and how many records it had."""
        self.taken: tuple[Attempt, Usage] | None = None
        """Usage of an attempt that is about to be recorded: perhaps the orchestrator dies of that."""
        self.slots = Slots(settings.max_steps)
        """Slots of its planners, reviewers, synthesizers and undos."""
        durable = runtime.durable
        self.effects = Outbox(runtime.system, self._broke, Fetching(durable.fetch) if durable is not None else None)
        self.resumed = Reply()
        """Completed when all that was unfinished in the store has been taken up again; failed where it never is."""
        self.closing: Incarnation | None = None
        """Incarnation that is being stopped with all beside it: that order overtakes ``ShuttingDown``."""
        self.at_work: Recording | None = None  # of the incarnation that may record something at once
        self._numbers = itertools.count(1)

    def __repr__(self) -> str:
        return f"<OrchestratorPort {self.path}>"

    def time(self) -> float:
        """Seconds since 1970, by the tree's clock."""
        return self.runtime.epoch + self.system.now()

    def may_start(self) -> bool:
        """True if something may be started now; as of the runtime, without a call where there is no lease to lose."""
        return self.runtime.lease is None or self.runtime.may_start()

    def token(self) -> int:
        """Fencing token that effects outside should carry."""
        return self.runtime.token

    def latest_number(self, task: str) -> int:
        """Number of the last event of a task."""
        return self.runtime.numbers.latest_of(task)

    def tell_usage(self, attempt: Attempt) -> None:
        """An attempt has used up something."""
        self.tell(AttemptReported(attempt, attempt.task))

    def tell_overdue(self, attempt: Attempt) -> None:
        """Code beside the work of an attempt takes too long."""
        self.tell(AttemptReported(attempt, attempt.task))

    def keep_step(self, attempt: Attempt, step: StepCall, value: Any) -> Reply | None:
        """Have a step recorded. None: it is kept; else what is returned is completed when it is."""
        return keep_step(self, attempt, step, value)

    def about_to_record(self, attempt: Attempt, usage: Usage) -> None:
        """Note whose usage is about to be recorded."""
        self.taken = attempt, usage

    def _broke(self, error: Exception, task: str | None) -> None:
        """An effect could not be had. Its orchestrator begins anew, and finds in the journal what is to be done."""
        if task is None:
            self.system.reports.internal_error(error)  # else it is told where it is heard
        self.post(EffectFailed(error, task))

    def put_aside(self, task: str) -> None:
        """Leave a task alone as long as this process lives, and tell its waiters."""
        done = self.runtime.removing.look(partial(self._set_aside, task))
        if done is not None:
            done.fail(self._is_aside(task))

    def _set_aside(self, task: str) -> Reply | None:
        self.guard.aside.add(task)
        return self.done.pop(task, None)

    def _is_aside(self, task: str) -> TaskFailedError:
        standing = self.runtime.store.standing(task)
        damaged = standing is not None and standing.is_ == "damaged"
        what = "its journal is damaged; see JournalDamaged" if damaged else _DIED
        error = TaskFailedError(task, what)
        error.kind = "internal"
        return error

    def close(self) -> None:
        """The tree is down: nothing more follows, and who waits hears it."""
        leave(self)
        down = self.system.down_error(self.path)
        self.resumed.fail(down)
        for task, done in self.done.copy().items():
            state = self.states.get(task)
            if state is None or state.final is None:
                done.fail(down)
                continue
            kept = self.runtime.flush(task)  # it ended before the tree did, and that was yet to be kept
            if kept is None:
                self._ended(state)
            else:
                kept.when_done(partial(self._written, kept, state))

    def _written(self, kept: Reply, state: TaskState) -> None:
        if kept.succeeded:
            self._ended(state)

    def _ended(self, state: TaskState) -> None:
        try:
            report = report_of(state, lambda: self.runtime.store.read(state.id))
        except StoreError as error:  # a large result is in the store only, and that cannot be read any more
            done = self.done.pop(state.id, None)
            if done is not None:
                done.fail(error)
        else:
            self.keep(report, state)

    # -- reaching it ---------------------------------------------------------------------------------------

    def tell(self, *orders: Any) -> bool:
        """Have the orchestrator do something, now or when it is up again; False where it is down now."""
        self.orders.extend(orders)
        return self.post(_COMMANDS)

    def order(self, command: Any) -> None:
        """Have the orchestrator do what a user wants; or, where the tree ends first, the process that goes on.

        Raises:
            TreeDownError: the tree is down, and its store keeps no orders any more.
        """
        self.tell(command)
        if self.system.is_down and self.runtime.durable is not None and take_back(self, command):
            raise self.system.down_error(self.path)

    def post(self, message: Any) -> bool:
        """Put a message into the orchestrator's mailbox: one that the next incarnation can do without."""
        box = self.system.boxes.get(self.orchestrator)
        return isinstance(box, Mailbox) and box.put((message, None, None)) is None

    def begin_all(self, tasks: Sequence[str]) -> dict[str, Reply]:
        """With ``removing`` held: return the Replies for those who wait for tasks that the store has just got."""
        waits = {task: self.done.setdefault(task, Reply()) for task in tasks}
        if self.system.is_down:
            for done in waits.values():
                done.fail(self.system.down_error(self.path))
        return waits

    def waiting(self, task: str) -> Reply:
        """Completed with the report of a task, or failed where the tree goes down before, or there is no such task."""
        done = self.done.get(task)
        if done is not None and self._is_known(task):
            return done
        if task in self.guard.aside:
            return _failed(self._is_aside(task))
        report, done = self.report(task), Reply()
        if report is None:
            # All who come at once wait for one Reply. ``keep`` shows the report before it takes that, so whoever puts
            # one too late finds the report. Where the store forgets the task then, it stays: as that of the next task.
            if not self._is_known(task):
                return _failed(UnknownTaskError(task))
            done = self.done.setdefault(task, done)
            report = self.report(task)
            if report is not None:
                self.runtime.removing.look(partial(self._take_back, task, done))
        if report is not None:
            done.complete(report)
        elif self.system.is_down:
            done.fail(self.system.down_error(self.path))
        elif not self._is_known(task):
            return _failed(UnknownTaskError(task))
        return done

    def _take_back(self, task: str, done: Reply) -> None:
        """With ``removing`` held: take out a Reply that came too late, and not that of the next task."""
        if self.done.get(task) is done:
            del self.done[task]

    def _is_known(self, task: str) -> bool:
        """True where the store has such a task. Of a tree that is down nobody needs to know."""
        return self.system.is_down or self.runtime.store.standing(task) is not None

    def at_hand(self, task: str) -> Report | None:
        """Report of a task that has ended, where it is at hand; None as long as its end is not to be shown."""
        return None if task in self._unshown else self.reports.get(task)

    def report(self, task: str) -> Report | None:
        """Report of a task that has ended: at hand, or made again from its journal."""
        report = self.at_hand(task)
        if report is None and task not in self._unshown and not self._goes_on(task):
            records = self.runtime.store.read(task)
            state = fold(task, records) if records and isinstance(records[-1], TaskFinished) else None
            report = report_of(state, lambda: records) if state is not None else None
        return report

    def _goes_on(self, task: str) -> bool:
        """True if no end of it is kept: as the store and the orchestrator know it, without reading its journal."""
        store = self.runtime.store
        standing = store.standing(task)
        if standing is not None and standing.is_ == "finished":
            return False
        return task in self.states or (standing is not None and not isinstance(store.last(task), TaskFinished))

    def fetched(self, task: str) -> Reply:
        """The report of a task that has ended, for somebody on a loop: where it has to be read, that is done apart."""
        if self.at_hand(task) is not None:
            return self.waiting(task)
        fetched = Reply()

        def read() -> None:
            waits = self.waiting(task)
            waits.when_done(lambda: _hand_on(waits, fetched))

        self.system.run_apart(UserCallback(read, fetched.fail))
        return fetched

    def keep(self, report: Report, state: TaskState, finish: Callable[[], object] | None = None) -> None:
        """A task has ended, and that is kept: ``finish`` is called, then whoever waits hears it.

        Whoever knows that it has ended may remove it at once, and begin another one of its id. So nobody is shown the
        end before all is done that is done by the id; and it is shown under ``removing``, together with taking the
        Reply: else that one could be of the next task. Where the orchestrator has died meanwhile and the next one has
        taken the task up, that one will do all this, and nothing is done here. A second time it changes nothing.
        """
        id_ = report.task_id
        if self.states.get(id_) is not state:
            return
        if id_ not in self.reports:  # else it was shown before the orchestrator died
            self._unshown.add(id_)
        self.guard.forget(id_)
        self.runtime.has_ended(report)
        try:
            if finish is not None:
                finish()
        finally:  # the store may break down: the task has ended nevertheless
            is_new = self.reports.add(report)
            self.finished += is_new
            self.finished_parts += is_new and MARK in id_
            done = self.runtime.removing.look(partial(self._let_go, id_, state))
            if done is not None:
                done.complete(report)

    def _let_go(self, id_: str, state: TaskState) -> Reply | None:
        if self.states.get(id_) is state:
            self.states.pop(id_, None)
        self._unshown.discard(id_)
        return self.done.pop(id_, None)

    def rows(self) -> list[ExecutableInfo]:
        """The registry, as others may see it."""
        now, entries = self.time(), list(self.workers.entries.values())
        return [entry.info(now, is_only=len(entries) == 1) for entry in entries]

    def registry(self) -> list[ExecutableInfo]:
        """Registry as seen from outside, also with changes that the orchestrator has yet to hear of."""
        supervisor = self.system.supervisors.get(self.path)
        if supervisor is None:
            return self.rows()
        listed, now = WorkerRegistry(), self.time()
        for child in list(supervisor.table.children.values()):
            listed.hear(WorkerChanged(child.spec, child.path, child.state, child.mailbox, child.registration))
        for entry in listed:
            known = self.workers.get(entry.id)
            if known is not None and known.spec is entry.spec:
                entry.attempts, entry.breaker = known.attempts, known.breaker
        return [entry.info(now) for entry in listed]

    # -- delegating ----------------------------------------------------------------------------------------

    def delegate(self, attempt: Attempt, asked: AskedWork, limit: float | None) -> Reply:
        """Carry out ``context.ask``; see ``delegation_calls``."""
        return delegate(self, attempt, asked, limit)

    def new_ask(self, attempt: Attempt) -> str:
        """Return the key of one more ask of an attempt here."""
        return f"{attempt.key}>{attempt.spec.start_number}.{next(self._numbers)}"

    def tools(self, attempt: Attempt, of: str) -> tuple[ToolInfo, ...]:
        """Carry out ``context.tools``."""
        return tools(self, attempt, of)

    def addresses(self, chain: tuple[str, ...]) -> tuple[Any, ...]:
        """Addresses of the members of a chain that are listed now."""
        found = tuple(map(self.system.boxes.get, chain))
        return tuple(box for box in found if box is not None) if None in found else found

    def waiting_for(self, state: TaskState, node: SubtaskState) -> tuple[Any, ...]:
        """The ancestry of an attempt: those who wait for its task, and the team; never an orchestrator."""
        if node.chain or state.chain:
            return self.addresses(node.chain or (*state.chain, self.path))
        box = self.system.boxes.get(self.path)
        return () if box is None else (box,)

    def down(self) -> ActorStoppedError:
        """Why nothing can be submitted."""
        return self.system.stopped_error(self.orchestrator, Refusal.STOPPED)


def _hand_on(source: Reply, to: Reply) -> None:
    """Complete one reply with the outcome of another."""
    try:
        to.complete(source.get())
    except BaseException as error:  # noqa: BLE001 - whatever it failed with, its waiters get that
        to.fail(error)


def _failed(error: Exception) -> Reply:
    done = Reply()
    done.fail(error)
    return done
