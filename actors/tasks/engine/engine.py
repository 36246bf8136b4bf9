"""``Engine``: the worker that turns goals into plans, and has workers and teams carry them out.

It is the first child of the outermost supervisor with ``tasks=``, and runs on the tree's event loop. Nothing in it
waits, and no code of a user's runs in it. It keeps nothing that it could not fold again from the journals: kill it at
any moment, and the next one goes on. What was recorded is not done again; attempts that still run are waited for; one
whose fate is unknown runs once more, with the same idempotency key.

One turn: hear what has come (an attempt that ended, facts, orders), decide about each, settle every task that was
touched, start what can start, hand what is decided to the store, act on what is kept.

An exception in a decision costs that task: its journal is folded once more, and the task has failed as ``internal``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from actors.concurrency import collector
from actors.execution.pykka_bridge import ManagedActor
from actors.messaging.mailbox import Refusal
from actors.model.spec import ChildSpec, DispatcherKind, WorkerRecipe
from actors.tasks.decide import attempt as of_attempt
from actors.tasks.decide import ends
from actors.tasks.decide.drafts import Draft, Facts
from actors.tasks.decide.task import Do, Wait, next_of, ready
from actors.tasks.engine.asks import Asks
from actors.tasks.engine.attempts import Attempts
from actors.tasks.engine.dispatch import Dispatch
from actors.tasks.engine.limits import Limits
from actors.tasks.engine.orders import CANCEL, PRIORITY, RESPOND, RETRY, Order
from actors.tasks.engine.roles import Roles
from actors.tasks.engine.run import Run
from actors.tasks.engine.service import CALL, ENGINE, service_of
from actors.tasks.engine.undos import Undos
from actors.tasks.execution.attempt import Attempt
from actors.tasks.journal.course import Course
from actors.tasks.journal.fold import fold
from actors.tasks.journal.reporting import report_of
from actors.tasks.journal.unit import STAGES, Unit
from actors.tasks.model import (
    QUEUED,
    RUNNING,
    JournalDamaged,
    StoreError,
    SubtaskStatus,
    TaskEvent,
    TaskStatus,
    task_events,
)

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation
    from actors.execution.timers import Timer
    from actors.runtime.system import System
    from actors.tasks.engine.scope import Scope
    from actors.tasks.planning.settings import Tasks
    from actors.tasks.scheduling.worker_registry import WorkerChanged

MAX_ORDERS: Final = 64
"""Orders that are carried out in one turn: a burst of thousands holds up nothing else."""
MOST_HEARD: Final = 32
"""Messages that are heard in one turn."""


class Engine(ManagedActor):
    """One incarnation of an engine."""

    def __init__(self, incarnation: Incarnation, settings: Tasks) -> None:
        self._regrow_incarnation = incarnation
        self.incarnation = incarnation
        self.system = cast("System", incarnation.system)
        self.service = service_of(self.system)
        self.path = incarnation.mailbox.path.rpartition("/")[0]
        self.scope = self.service.scope(self.path, settings)
        self.port = self.scope.port
        self.runs: dict[str, Run] = {}
        self.dirty: dict[str, Run] = {}
        """Runs about which something was decided in this turn."""
        self.begun = False
        """True once it has taken up its tasks."""
        self._heard = 0
        """Messages of this turn."""
        self._carried_out: list[Order] = []
        """Orders of this turn. They lie at the port until it is handed to the store, and so do the facts."""
        self._heard_facts = 0
        self.now = self.service.time()
        """When this turn began, in seconds since 1970: the time of all events of the turn."""
        self.limits = Limits(self)
        self.attempts = Attempts(self)
        self.dispatch = Dispatch(self)
        self.roles = Roles(self)
        self.undos = Undos(self)
        self.asks = Asks(self)

    # -- beginning and ending ------------------------------------------------------------------------------

    @collector.paused()
    def on_start(self) -> None:
        """Fold every journal that is not finished."""
        for scope in [each for each in self.service.scopes.values() if each.port is self.port]:
            scope.begins_anew()
        for id_, owner in self.service.store.owners().items():
            if f"{owner}/".startswith(f"{self.path}/"):
                self._take_up(id_)
        self.port.runs = self.runs
        started = self.system.started
        # What other processes had wanted by then lies at the port first: it is carried out before anything new begins.
        begin = partial(self.service.when_heard, partial(self.port.post, Engine.begin))
        started.when_done(lambda: begin() if started.succeeded else None)

    def _take_up(self, id_: str) -> Run | None:
        if id_ in self.runs or id_ in self.service.unkept or id_ in self.service.aside:
            return None
        try:
            state = fold(id_, self.service.store.read(id_))
        except StoreError as error:  # one journal that makes no sense must not stop all the others
            self.system.publish(JournalDamaged(self.path, id_, error))
            self.service.put_aside(id_)
            return None
        if not self.service.waiting_for.get(id_):  # whoever waited for it when that was recorded waits no longer
            state.chain = state.lineage = ()
        run = self.runs[id_] = Run(self, state)
        return run

    @collector.paused()
    def begin(self) -> None:
        """Take up the unfinished tasks. The whole tree is up."""
        if self.begun:
            return
        self.begun = True
        for run in list(self.runs.values()):
            if self.service.is_stranded(run.state.path):
                del self.runs[run.id]  # until its team is added
        self.asks.recall()
        for run in sorted(self.runs.values(), key=lambda each: each.state.born):
            self.decide(run, self.resume, run)
        self.attempts.drop_stale()
        self._carry_out_orders()
        self.port.post(lambda engine: engine.port.resumed.complete())  # after all orders, should they be many

    def on_stop(self) -> None:
        """Record the attempts that have ended and were not heard of yet: the order to stop overtakes their messages."""
        self.now = self.service.time()
        if self.closing:
            self.attempts.end_calls()
            self.attempts.closes()
        self.commit()

    def scope_closes(self, scope: Scope) -> None:
        """A supervisor is about to stop all its workers."""
        if scope.path == self.path:
            if self.closing:
                self.attempts.end_calls()
        else:
            scope.is_open = False

    # -- hearing -------------------------------------------------------------------------------------------

    def _regrow_handler(self) -> Callable[[Any], None]:
        return self._receive

    def _receive(self, message: Any) -> None:
        self.now = self.service.time()
        if type(message) is Attempt:
            if self.begun:  # else it is found when the journals are taken up
                self.attempts.hear(message)
        elif message is not CALL:
            self.system.letters.dead_letter(self.incarnation.mailbox, message, Refusal.UNHANDLED, None)
        if self.port.orders or self.port.facts:
            self._hear_port()
        self._heard += 1
        if self.incarnation.mailbox.depth and self._heard < MOST_HEARD:
            return  # what has come together is settled, started and kept together
        self._heard = 0
        self.turn_over()

    def _hear_port(self) -> None:
        if not self._carry_out_orders():
            return
        for fact in islice(self.port.facts.copy(), self._heard_facts, None):  # what these lead to comes later
            self._heard_facts += 1
            try:
                fact(self)
            except Exception as error:  # noqa: BLE001 - a bug of ours: one fact is lost, and nothing else
                self.system.reports.internal_error(error)

    def _carry_out_orders(self) -> bool:
        """Carry out the orders at the port. False: there are more than fit into a turn, and the facts wait for them.

        They lie there until the store has what follows from them: this engine may be given up in the middle of a turn.
        """
        if not self.begun:
            return True
        for order in islice(self.port.orders.copy(), len(self._carried_out), None):
            if len(self._carried_out) == MAX_ORDERS:
                self.port.call()  # after what has ended meanwhile
                return False
            self._carried_out.append(order)
            self._carry_out(order)
        return True

    def turn_over(self) -> None:
        """Settle what was touched, start what can start, keep that, and act on what is kept."""
        if self.incarnation.is_over:
            return
        self._settle_all()
        if self.begun and not self.closing and len(self.port.orders) == len(self._carried_out):
            while self.dispatch.pump():
                self._settle_all()
        self.commit()

    def _settle_all(self) -> None:
        is_settled = False
        while not is_settled:
            is_settled = True
            for run in list(self.dirty.values()):
                if run.state.touched:
                    is_settled = False
                    self.decide(run, self._settle, run)

    def commit(self) -> None:
        """Hand what was decided to the store."""
        dirty, self.dirty = self.dirty, {}
        for run in dirty.values():
            self.decide(run, run.commit)
        for order in self._carried_out:
            if self.port.orders and self.port.orders[0] is order:
                self.port.orders.popleft()
        self._carried_out.clear()
        for _ in range(self._heard_facts):
            self.port.facts.popleft()
        self._heard_facts = 0
        if self.dirty:
            self.port.call()  # what was kept at once has led to something more

    def decide(self, run: Run, decision: Callable[..., object], *args: Any) -> None:
        """Call a decision about a task. An exception in it ends this task, and no other."""
        try:
            decision(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is
            self._broke_down(run, error)

    def _broke_down(self, run: Run, error: Exception) -> None:
        self.system.reports.internal_error(error)
        run.drop_batch()
        self.dirty.pop(run.id, None)
        self.runs.pop(run.id, None)
        ending = run.state.course.ending
        is_again = ending is not None and ending.kind == "internal"
        if is_again or run.state.final is not None or not self._fails(run.id, error):
            for attempt in self.attempts.of_task(run):
                self.limits.end(attempt, "cancel")
            self.runs.pop(run.id, None)
            self.dirty.pop(run.id, None)
            self.service.put_aside(run.id)

    def _fails(self, id_: str, error: Exception) -> bool:
        """Fold a task once more whose decision has broken down, and end it; False where that breaks down as well."""
        run = self._take_up(id_)
        if run is None:
            return False
        try:
            self.resume(run)
            why = f"the engine broke down over it ({type(error).__name__}); see InternalError"
            run.emit(run.state.root, task_events.TaskEnding, TaskStatus.FAILED, "internal", why)
        except Exception as again:  # noqa: BLE001 - then it is left alone
            self.system.reports.internal_error(again)
            run.drop_batch()
            return False
        return True

    # -- tasks ---------------------------------------------------------------------------------------------

    def arrived(self, tasks: Sequence[str]) -> None:
        """Tasks were put into the store, and are kept."""
        for id_ in tasks:
            run = self._take_up(id_)
            if run is not None and run.state.final is not None:
                del self.runs[id_]
            elif run is not None and self.begun:
                self.decide(run, self.limits.watch_deadline, run)
                self.dirty[id_] = run

    def _settle(self, run: Run) -> None:
        """Do what follows from where the courses of a task stand, until nothing follows any more."""
        touched = run.state.touched
        while touched:
            path, _ = touched.popitem()
            unit = run.state.units.get(path)
            course = unit.course if unit is not None else None
            if unit is None or course is None or unit.status is not RUNNING or run.state.final is not None:
                continue
            if (over := ends.over_budget(unit)) is not None:
                run.record(over)
            for each in ready(course):  # each is decided when those before it are recorded
                run.record(each)
            following = next_of(run.state, course, self.facts(run, unit, course))
            if isinstance(following, Draft):
                run.record(following)
                touched[path] = None
            elif isinstance(following, Wait):
                run.at(following.due, run.state.touch, unit)
            elif following is Do.UNDO:
                self.undos.go_on(run, course)
            elif following is Do.FAIL:
                self.dispatch.team_fails(run, unit, course)
            elif following is not None:
                self.roles.call(run, course, following.value)
        touched.clear()  # it gives back its table

    def facts(self, run: Run, unit: Unit, course: Course | None = None) -> Facts:
        """Return the facts that a decision about a unit needs, or about its course."""
        scope = self.service.scopes.get(unit.scope if course is None else course.scope, self.scope)
        team = scope.team if course is not None and unit.role != "task" else None
        is_checked = team is not None and team.adapter is not None
        return Facts(
            scope.settings, scope.workers, self.now, self.system.random, run.state, output_is_checked=is_checked
        )

    def scope_of(self, unit: Unit) -> Scope | None:
        """Return the scope whose workers do a unit; None: its supervisor is not in the tree."""
        return self.service.scopes.get(unit.scope)

    # -- orders --------------------------------------------------------------------------------------------

    def _carry_out(self, order: Order) -> None:
        run = self.runs.get(order.task)
        if run is None:
            self.arrived([order.task])
            run = self.runs.get(order.task) if order.kind != RETRY else self._once_more(order.task)
        if run is not None:
            self.decide(run, self._order, run, order)
            run = self.runs.get(order.task)
        act = run.act if run is not None else _act_now
        if order.recorded is not None:
            act(order.recorded.complete)
        if order.given_by is not None and self.service.durable is not None:
            act(self.service.durable.order_done, order.given_by)
        if order.kind == RESPOND:
            self.service.answers.pop(order.body["escalation"], None)

    def _once_more(self, id_: str) -> Run | None:
        """Begin a task again that has failed, or was cancelled; None: it has succeeded, or is gone."""
        run = self._take_up(id_) if self.service.store.standing(id_) is not None else None
        if run is None or run.state.final in {None, TaskStatus.SUCCEEDED}:
            self.runs.pop(id_, None)
            return None
        self.service.finished -= self.service.reports.pop(id_, None) is not None
        self.service.before.setdefault(id_, run.kept)
        spec = run.state.task
        deadline = None if spec.deadline_s is None else self.now + spec.deadline_s
        self.decide(run, run.emit, run.state.root, task_events.TaskRetried, deadline)
        self.decide(run, self.limits.watch_deadline, run)
        return run

    def _order(self, run: Run, order: Order) -> None:
        state, body = run.state, order.body
        if state.final is not None:
            return
        if order.kind == CANCEL:
            self.end(run, state.root, TaskStatus.CANCELLED, "cancel", body.get("reason") or "somebody cancelled it")
        elif order.kind == PRIORITY:
            if state.task.priority != body["priority"]:
                run.emit(state.root, task_events.TaskPriorityChanged, int(body["priority"]))
        elif order.kind == RESPOND:
            self._respond(run, order)

    def _respond(self, run: Run, order: Order) -> None:
        question = run.state.questions.get(order.body["escalation"])
        if question is None:
            return
        unit = run.state.find(question.about, question.role)
        is_late = order.given is not None and question.due is not None and order.given >= question.due
        if is_late:
            run.emit(unit, task_events.EscalationExpired, question.id)
        else:
            run.emit(unit, task_events.EscalationAnswered, question.id, order.body["answer"], order.body["value"])

    def end(self, run: Run, unit: Unit, status: TaskStatus, kind: str, error: str) -> None:
        """End a task, or a team's part of one, that cannot succeed any more: nothing new begins."""
        course = unit.course
        if course is None or run.state.final is not None:
            return
        if course.ending is None:
            run.emit(unit, task_events.TaskEnding, status, kind, error)
        elif kind in {"cancel", "deadline", "timeout"}:
            self.attempts.end_below(run, unit)  # after a failure, or over the budget, what runs was still to finish

    # -- what follows from a record ------------------------------------------------------------------------

    def _is_queued(self, run: Run, unit: Unit, event: TaskEvent) -> None:  # noqa: ARG002 - one of a table
        if unit.role == "work":
            self.dispatch.enqueue(run, unit)

    def _is_retrying(self, run: Run, unit: Unit, event: Any) -> None:
        if unit.role == "work":
            self.dispatch.team_ended(run, unit)
            run.at(event.due, self._is_due, run, unit, event.due)

    @staticmethod
    def _is_due(run: Run, unit: Unit, due: float) -> None:
        """The time of the next attempt has come."""
        if unit.status is SubtaskStatus.RETRYING and unit.due == due and not of_attempt.cut_off(unit):
            run.emit(unit, task_events.SubtaskQueued)

    def _has_ended(self, run: Run, unit: Unit, event: TaskEvent) -> None:
        """A subtask has ended: whoever asked for it hears of that, and what is below it ends."""
        if unit.role != "work":
            return
        has_succeeded = type(event) is task_events.SubtaskSucceeded
        if not has_succeeded:
            self.dispatch.leave(unit)
        if unit.course is not None:
            self.dispatch.team_ended(run, unit, succeeded=has_succeeded)
        if run.state.has_asks:
            self.asks.tell(run, unit)
            self.asks.end_unwanted(run, unit)
        if unit.course is not None:
            self._cut_short(run, unit)  # its team is gone, or has had it before

    def _is_asked(self, run: Run, unit: Unit, event: Any) -> None:
        self.dispatch.leave(unit)
        self.dispatch.team_ended(run, unit)
        self.limits.watch_question(run, event.escalation, event.due)

    def answered(self, run: Run, unit: Unit, event: TaskEvent | None = None) -> None:  # noqa: ARG002 - one of a table
        """Do what follows from the answer about a subtask or an undo, or from the end of the time for one."""
        if unit.role in STAGES:
            return  # its course goes on
        following = of_attempt.answered(unit, self.facts(run, unit))
        if following is not None:
            run.record(following)
        elif unit.role == "undo":
            run.state.touch(unit)

    def _is_ending(self, run: Run, unit: Unit, event: Any) -> None:
        self.attempts.end_below(run, unit, calls_only=event.kind == "budget")
        self._cut_short(run, unit)
        run.state.touch_all()  # also a team of which nothing else is open

    def _cut_short(self, run: Run, unit: Unit) -> None:
        for each in list(ends.cut_short(unit)):
            self.dispatch.leave(each.unit)
            if not each.unit.is_done:  # what one of them had asked for may have ended with it
                run.record(each)

    def _is_finished(self, run: Run, unit: Unit, event: Any) -> None:  # noqa: ARG002 - one of a table
        run.is_over()
        self.dispatch.forget(run)
        run.act(self._is_over, run)

    def _is_over(self, run: Run) -> None:
        if self.runs.get(run.id) is run:
            del self.runs[run.id]
        self.service.has_ended(report_of(run.state))

    FOLLOWS: ClassVar[dict[type[TaskEvent], Callable[[Engine, Run, Unit, Any], None]]] = {
        task_events.SubtaskQueued: _is_queued,
        task_events.SubtaskRequeued: _is_queued,
        task_events.SubtaskRetrying: _is_retrying,
        task_events.SubtaskSucceeded: _has_ended,
        task_events.SubtaskFailed: _has_ended,
        task_events.SubtaskSkipped: _has_ended,
        task_events.SubtaskCancelled: _has_ended,
        task_events.EscalationRaised: _is_asked,
        task_events.EscalationAnswered: answered,
        task_events.EscalationExpired: answered,
        task_events.TaskPriorityChanged: lambda engine, run, *_: engine.dispatch.rank(run),
        task_events.TaskJoined: lambda engine, run, *_: engine.dispatch.requeue_all(run),
        task_events.TaskEnding: _is_ending,
        task_events.TaskFinished: _is_finished,
    }

    # -- resuming ------------------------------------------------------------------------------------------

    def resume(self, run: Run) -> None:
        """Go on with a task from its journal: what it waits for is waited for again, what ran is found or lost."""
        state = run.state
        if state.final is not None:
            self._is_finished(run, state.root, None)
            return
        self.dirty[run.id] = run
        self.limits.watch_deadline(run)
        for unit in list(state.units.values()):
            if unit.role == "work":
                self._resume_unit(run, unit)
            for call in (*(unit.course.calls.values() if unit.course is not None else ()), unit.undo):
                if call is not None:
                    self._resume_call(run, call)
        for unit in list(state.units.values()):
            if unit.is_done:  # the process may have ended before what it had asked for did
                self.asks.end_unwanted(run, unit)
        if state.course.ending is not None and state.course.ending.kind not in {"subtask", "budget"}:
            self.attempts.end_below(run, state.root)
        state.touch_all()

    def _resume_call(self, run: Run, call: Unit) -> None:
        if call.status is RUNNING:
            self.attempts.adopt(run, call)
        if call.question is not None:
            self.limits.watch_question(run, call.question.id, call.question.due)
        elif call.answered is not None:
            self.answered(run, call)

    def _resume_unit(self, run: Run, unit: Unit) -> None:
        if unit.status is QUEUED:
            self.dispatch.enqueue(run, unit)
        elif unit.status is RUNNING and unit.is_composite:
            self.dispatch.adopt_team(run, unit)
        elif unit.status is RUNNING:
            self.attempts.adopt(run, unit)
        elif unit.status is SubtaskStatus.RETRYING and unit.due is not None:
            run.at(unit.due, self._is_due, run, unit, unit.due)
        elif unit.question is not None:
            self.limits.watch_question(run, unit.question.id, unit.question.due)
        elif unit.status is SubtaskStatus.WAITING and unit.answered is not None:
            self.answered(run, unit)

    # -- workers and time ----------------------------------------------------------------------------------

    def workers_changed(self, scope: Scope, changes: Sequence[WorkerChanged], *, is_new: bool) -> None:
        """Take changed states of workers of a scope. ``is_new``: its supervisor has begun anew, and tells of all."""
        if self.closing or not (is_new or scope.is_open):
            return  # a worker that stops because all do is not gone
        scope.is_open = True
        if is_new:
            for entry in scope.workers:
                entry.begins_anew()
        for change in changes:
            known = scope.workers.get(change.spec.id)
            was = known.executable if known is not None else None
            heard = scope.workers.hear(change)
            if heard is not None:
                if heard is not known or heard.executable is not was:
                    self.dispatch.queue.reopen_all()
                self.dispatch.worker_changed(heard)
        if is_new:
            self._team_is_there(scope)
            self.roles.reopen(scope)
            scope.workers.drop_empty()
            self.dispatch.queue.reopen_all()

    def _team_is_there(self, scope: Scope) -> None:
        """Take up the tasks that an earlier process has left at a team that is up now."""
        if not self.begun or scope.path == self.path:
            return
        for id_, owner in self.service.store.owners().items():
            run = self._take_up(id_) if owner == scope.path else None
            if run is not None:
                self.decide(run, self.resume, run)

    def at(self, due: float, fact: Callable[[Engine], object]) -> Timer:
        """Post a fact at a time, in seconds since 1970, to the engine that is up then."""
        return self.system.timers.call_at(due - self.service.epoch, lambda: self.port.post(fact))

    def look_at(self, task: str, path: str) -> None:
        """Have the course of a unit be looked at again, where its task still goes on."""
        run = self.runs.get(task)
        if run is not None and path in run.state.units:
            run.state.touched[path] = None
            self.dirty[task] = run

    @property
    def closing(self) -> bool:
        """True once its supervisor stops all children: nothing new begins."""
        return self.port.closing is self.incarnation


def _act_now(function: Callable[..., object], *args: Any) -> None:
    function(*args)


def engine_spec(settings: Tasks) -> ChildSpec:
    """The first child of the outermost supervisor with ``tasks=``."""
    recipe = WorkerRecipe(
        make=lambda incarnation: Engine(incarnation, settings),
        where=DispatcherKind.LOOP,
        never_waits=True,
        fails_plain=True,
        actor_class=Engine,
    )
    return ChildSpec(id=ENGINE, recipe=recipe, description="turns goals into plans, and plans into work", owned=True)
