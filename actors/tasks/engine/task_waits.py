"""Waits of workers for tasks, as edges of the wait graph (``actors.messaging.wait_graph``).

::

    a request --waits--> TaskWait --attempts of the task--> Attempt --handled by--> a request --waits--> ...

Whoever waits for a task waits for each of its attempts, from the moment on at which it begins to wait, and however long
they have run: what they ask of him is refused, whoever is last. In the same tree it also stands in the ancestry of the
task. A worker that waits so has no slot meanwhile.

Both directions are looked up when somebody is about to wait, and nothing is kept but the waits: whoever waits is listed
first and looks then, so of two who close a circle at the same moment one sees the other. Any thread may change the
table.

A circle over several trees is refused, too. What another tree is to do for an attempt knows of those who wait by a
contextvar (``TaskWaits``), which goes along with the task, and so into its attempts, as long as they wait. Each of them
may work for a task itself for which somebody waits, and so on. A task that was submitted, and not waited for, has
nobody there, whoever waits for its submitter; nor has one that was resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from actors.concurrency.in_turn import InTurn
from actors.messaging.caller_variables import caller_variables
from actors.messaging.envelope import CURRENT, Address, CurrentMessage, own_error
from actors.messaging.mailbox import Refusal
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import circle_error, enter, leave, list_wait
from actors.model.errors import RecursionDetectedError
from actors.tasks.engine.asks import OpenAsk, wait_in
from actors.tasks.execution.attempt import Attempt
from actors.tasks.model import task_events
from actors.tasks.model.task_errors import TaskTimeoutError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.scope import Scope
    from actors.tasks.engine.service import TaskService


class WaitOfTask(Reply):
    """A wait of one worker's code for a task, or for news of it; see ``list_wait``."""

    __slots__ = ("scope", "task")

    def __init__(self, scope: Scope, task: str, asker: str | None = None) -> None:
        super().__init__(scope.system.boxes.get(scope.port.address), asker)
        self.scope = scope
        self.task = task

    def listed(self, asker: str) -> Self:
        """List it with the engine, as a wait of the worker at this path."""
        self._asker = asker
        list_wait(self)
        return self


class TaskWait(WaitOfTask):
    """The wait of one worker's code for the end of a task. It is listed from the beginning until it is done."""

    __slots__ = ()

    is_named = False  # its target is the engine

    def __init__(self, scope: Scope, task: str, asker: str) -> None:
        super().__init__(scope, task)
        self.listed(asker)
        scope.service.waits.add(self)
        self.when_done(partial(scope.service.waits.discard, self))

    def below(self) -> Collection[Reply]:
        """Return the attempts of the task: they must end before it."""
        return self.scope.service.waits.attempts_of(self.task)

    def circle_with(self, current: CurrentMessage) -> RecursionDetectedError | None:
        """Return the refusal of this wait where it would close a circle with a request that waits in it."""
        return circle_error(self, current)


class WaitTable:
    """The waits for the tasks of one tree, by task."""

    def __init__(self, service: TaskService) -> None:
        self._service = service
        self._of: dict[str, set[TaskWait]] = {}
        self._turns = InTurn()

    def add(self, wait: TaskWait) -> None:
        """List a wait."""
        self._turns.do(lambda: self._of.setdefault(wait.task, set()).add(wait))

    def discard(self, wait: TaskWait) -> None:
        """List it no longer."""
        self._turns.do(partial(self._discard, wait))

    def _discard(self, wait: TaskWait) -> None:
        of = self._of.get(wait.task)
        if of is not None:
            of.discard(wait)
            if not of:
                del self._of[wait.task]

    def of(self, task: str) -> set[TaskWait]:
        """Return the waits for a task."""
        found = self._of.get(task)
        return set() if found is None else found.copy()

    def attempts_of(self, task: str) -> list[Attempt]:
        """Return all attempts of a task."""
        return [each for each in self._service.attempts.copy().values() if each.task == task]

    def above(self, attempt: Attempt) -> set[CurrentMessage]:
        """Return the requests that wait for what this attempt is for: what somebody asks for, or a task."""
        for reply in self._asked_above(attempt):
            return set(reply.waiters)
        return {request for wait in self.of(attempt.task) for request in set(wait.waiters)}

    def all(self) -> list[TaskWait]:
        """Return the waits for all tasks."""
        return [wait for task in list(self._of) for wait in self.of(task)]

    def _asked_above(self, attempt: Attempt) -> Iterator[Reply]:
        """Yield the open asks that wait for the unit of an attempt, or for one that it is a part of."""
        run = self._service.run_of(attempt.task)
        engine = run.engine if run is not None else None
        unit = run.state.units.get(attempt.spec.unit) if run is not None else None
        for each in unit.line if unit is not None else ():
            found = engine.asks.of(run, each) if engine is not None and run is not None else None
            if found is not None:
                yield found.reply


# -- waiting -------------------------------------------------------------------------------------------------


def waiting_chain(scope: Scope) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return who waits if the present code waits for a task of this scope; nothing where it is no worker's code.

    Raises:
        RecursionDetectedError: the scope's own supervisor waits for it, be it by way of other trees.
    """
    circle = circle_to(scope)
    if circle:
        scope.system.recursion_refused(scope.path, circle)
        raise own_error(RecursionDetectedError((*(address.path for address in circle), scope.path)))
    current = CURRENT.get()
    if current is None or current.incarnation.system is not scope.system:
        return (), ()
    return tuple(address.path for address in current.waiting()), current.lineage


def wait_for_task(scope: Scope, task: str, done: Reply) -> TaskWait | None:
    """Note that the present code is about to wait for a task: from now on it waits for all its attempts, too.

    Returns:
        What a worker has to wait for instead: it is completed when there is a slot again for an attempt, and fails
        where the engine is down, and not started again before the worker has ended. To be failed by whoever waits no
        longer. None: the present code is no worker's.

    Raises:
        RecursionDetectedError: the task's own supervisor waits for the present code.
    """
    chain, lineage = waiting_chain(scope)
    current = CURRENT.get()
    if current is None or not current.in_request:
        return None
    attempt = current.reply if chain else None
    reply = TaskWait(scope, task, current.incarnation.mailbox.path)
    ended: Callable[[], object] = reply.complete
    ask = None
    if isinstance(attempt, Attempt):
        own = attempt.owner.port
        ask = OpenAsk(attempt, next(attempt.numbers), reply, task=task)
        wait_in(ask)
        own.post(lambda engine: engine.asks.waits(attempt))
        ended = lambda: own.post(lambda engine: engine.asks.answer(ask))  # noqa: E731
    if chain:
        scope.port.post(partial(_joins, task, chain, lineage, ask))
    done.when_done(ended)
    reply.when_done(partial(done.not_when_done, ended))  # who looks again and again leaves nothing behind
    target = reply.target
    if scope.system.is_down or (target is not None and target.refusal is Refusal.DOWN):
        reply.fail(scope.system.down_error(scope.path))  # nobody else will: it was closed before the wait was listed
    return reply


def _joins(task: str, chain: tuple[str, ...], lineage: tuple[str, ...], ask: OpenAsk | None, engine: Engine) -> None:
    """A worker waits for a task: who it is stands in the ancestry of the task from here on."""
    run = engine.runs.get(task)
    if run is not None and run.state.final is None and not run.state.chain:
        engine.decide(run, run.emit, run.state.root, task_events.TaskJoined, chain, lineage)
    if ask is not None:
        engine.asks.look_at(ask)


def join_task(scope: Scope, task: str, done: Reply) -> tuple[TaskWait | None, Callable[[], None]]:
    """Have the present code wait from here on for one of several tasks, as ``wait_for_task`` does for a single one.

    Returns:
        What ``wait_for_task`` returns, and what says that it is no longer waited for.

    Raises:
        RecursionDetectedError: the task waits for the present code.
    """
    wait = wait_for_task(scope, task, done)
    if wait is None:
        return None, lambda: None
    try:
        entered = enter(wait)
    except BaseException:
        leave_task(wait)
        raise
    return wait, partial(leave_task, wait, entered)


def leave_task(wait: TaskWait, entered: CurrentMessage | None = None) -> None:
    """The present code waits no longer for a task."""
    leave(wait, entered)
    if not wait.done:
        wait.fail(TaskTimeoutError(wait.task, 0.0))  # nobody hears that


class OrderReply(Reply):
    """The news that an order was recorded; where the tree ends before, that it is kept (``orders.leave``)."""

    __slots__ = ()

    outlives_target = True


def reply_of(scope: Scope) -> Reply:
    """Return a reply that an engine completes. It fails where that cannot be before a worker that waits ends."""
    reply = OrderReply(scope.system.boxes.get(scope.port.address))
    list_wait(reply)
    return reply


class _Waiter(NamedTuple):
    """Code that waits for a task."""

    request: CurrentMessage | None
    works_for: TaskWaits | None


class TaskWaits:
    """Waits of workers for the tasks of one submission."""

    __slots__ = ("_port", "_waiters")

    def __init__(self, port: Scope) -> None:
        self._port = port
        self._waiters: dict[object, _Waiter] = {}

    def enter(self) -> Callable[[], object]:
        """Note that the present code waits; returns what notes that it does so no longer."""
        key = object()
        self._waiters[key] = _Waiter(CURRENT.get(), _WORKS_FOR.get())
        return partial(self._waiters.pop, key, None)

    def of(self, request: CurrentMessage) -> list[_Waiter]:
        """Return who waits for the tasks while they wait for this request: what it has left behind keeps nobody."""
        supervisor = self._port.system.boxes.get(self._port.path)
        return list(self._waiters.copy().values()) if supervisor in request.waiting() else []


_WORKS_FOR: Final[ContextVar[TaskWaits | None]] = ContextVar("regrow_waits_across_trees", default=None)
"""Waits for the task that the present code works for, where they may come from another tree."""


def circle_to(port: Scope) -> tuple[Address, ...]:
    """Return all who wait for the present code, in whatever tree, if this supervisor is one of them; else nothing.

    Whoever waits first comes first. A task of the supervisor that the present code waited for would wait for itself.
    """
    target = port.system.boxes.get(port.path)
    # Whoever waits for a task in another tree waits for its attempts, so one request may tell of another one's waiters.
    waiting = tuple(dict.fromkeys(address for request in _requests() for address in request.waiting()))
    return waiting if any(address is target for address in waiting) else ()


def waits_from_here(port: Scope) -> TaskWaits | None:
    """Return what notes waits for tasks that the present code is about to submit; None: all of them are in one tree."""
    current = CURRENT.get()
    is_foreign = current is not None and current.in_request and current.incarnation.system is not port.system
    return TaskWaits(port) if is_foreign or _WORKS_FOR.get() is not None else None


def variables_with(waits: TaskWaits | None) -> Context | None:
    """Return what tasks carry that the present code submits: they know of their waits, and of no others.

    Args:
        waits: of their submission.
    """
    if waits is None:
        return caller_variables(CURRENT)
    token = _WORKS_FOR.set(waits)
    try:
        return caller_variables(CURRENT)
    finally:
        _WORKS_FOR.reset(token)


@contextmanager
def waiting(waits: TaskWaits | None) -> Iterator[None]:
    """The present code waits, in this block, for tasks that were submitted with these waits."""
    leave = waits.enter() if waits is not None else None
    try:
        yield
    finally:
        if leave is not None:
            leave()


def _requests() -> tuple[CurrentMessage, ...]:
    """Return the requests that go on and wait for the present code, its own last."""
    found: list[CurrentMessage] = []
    todo, seen = [_Waiter(CURRENT.get(), _WORKS_FOR.get())], set[TaskWaits]()
    while todo:
        request, works_for = todo.pop()
        if request is None or not request.in_request:
            continue
        found.append(request)
        if works_for is not None and works_for not in seen:
            seen.add(works_for)
            todo += works_for.of(request)
    return tuple(reversed(found))
