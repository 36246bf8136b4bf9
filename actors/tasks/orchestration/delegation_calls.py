"""Calls by which an attempt has others do something: ``context.ask`` and ``context.tools``, in its own thread.

What could only wait for itself is refused here, at once. Everything else is a ``Delegate`` for the orchestrator, which
carries it out (``actors.tasks.orchestration.delegation``); the attempt waits for the Reply of an ``OpenDelegation``.

An attempt that waits for a task that was submitted (``handle.result()``, ``await handle``) waits in the same way: it
has no slot meanwhile, and is refused where it could only wait for ever.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.messaging.caller_variables import caller_variables
from actors.messaging.envelope import CURRENT, own_error
from actors.messaging.inbox import Refusal
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import enter, leave, list_wait
from actors.model.errors import RecursionDetectedError
from actors.tasks.execution.attempt import Attempt
from actors.tasks.model.task_errors import NoCapableWorkerError, SubtaskFailedError, TaskTimeoutError
from actors.tasks.orchestration.messages import Delegate, DelegationAnswered, DelegationCancelled, WaiterJoined
from actors.tasks.orchestration.task_waits import AskReply, TaskWait
from actors.tasks.orchestration.waits_across_trees import circle_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context as Variables

    from actors.messaging.envelope import CurrentMessage
    from actors.tasks.execution.attempt_owner import AskedWork
    from actors.tasks.model.executable import ToolInfo
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
    from actors.tasks.scheduling.worker_registry import RegistryEntry

BACKSTOP_S: Final = 5.0
"""How much longer than its limit somebody waits in an ask, should there be no orchestrator to end it."""
_NOT_OF_AN_UNDO: Final = (
    "an undo cannot ask for work: nothing new begins of what is undone. Name the worker that undoes it: undo='its id'"
)


class OpenDelegation(NamedTuple):
    """An attempt that waits in ``context.ask``."""

    reply: AskReply
    attempt: Attempt
    """The attempt that waits."""
    port: OrchestratorPort
    """Port of the orchestrator that has it done."""
    due: float | None
    """Until when, on the tree's clock."""
    variables: Variables | None = None
    """Contextvars of the code that waits."""
    task: str = ""
    """The task whose end it waits for, where that was submitted, and not asked for."""


def delegate(own: OrchestratorPort, attempt: Attempt, asked: AskedWork, limit: float | None) -> Reply:
    """Refuse what could only wait for itself, else have it done; a Reply of the result.

    Raises:
        RecursionDetectedError: everybody who could do it waits for this attempt, or it is asked for already.
        NoCapableWorkerError: nobody can do it.
        SubtaskFailedError: an undo asks.
    """
    to, runtime, system = asked.to, own.runtime, own.system
    if attempt.spec.role == "undo":
        raise own_error(SubtaskFailedError(attempt.task, attempt.subtask.id, _NOT_OF_AN_UNDO))
    port, host, found = _who(own, to, attempt)
    chain = (*(address.path for address in attempt.spec.chain), attempt.spec.path)
    words = asked.words
    others = sorted((each for each in found if each.path not in chain), key=lambda each: not each.is_up)
    target = others[0].path if others else None
    if target is None or words in attempt.spec.lineage:
        system.recursion_refused(target or found[0].path, own.addresses(chain))
        raise own_error(RecursionDetectedError((*chain, target or found[0].path), same_words=target is not None))
    key = own.new_ask(attempt)
    reply = AskReply(system.boxes.get(target), attempt.spec.path, None if limit is None else limit + BACKSTOP_S)
    due = None if limit is None else system.now() + limit
    runtime.open_ask(key, OpenDelegation(reply, attempt, port, due, caller_variables(CURRENT)))
    reply.when_done(partial(_answered, own, key, port, attempt, reply))
    spec = asked.subtask(host.subtask.id, is_worker=found[0].id == to)  # this id until it gets its own
    message = Delegate(attempt, host, key, spec, chain, (*attempt.spec.lineage, words), limit)
    port.tell(message)
    if port is not own:
        own.tell(message.waits_here())
    if system.is_down:
        reply.fail(system.down_error(port.path))  # nobody else will
    return reply


def waiting_chain(port: OrchestratorPort) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return who waits if the present code waits for a task of this orchestrator; nothing where it is no worker's code.

    Raises:
        RecursionDetectedError: the orchestrator's own supervisor waits for it, be it by way of other trees.
    """
    circle = circle_to(port)
    if circle:
        port.system.recursion_refused(port.path, circle)
        raise own_error(RecursionDetectedError((*(address.path for address in circle), port.path)))
    current = CURRENT.get()
    if current is None or current.incarnation.system is not port.system:
        return (), ()
    return tuple(address.path for address in current.waiting()), current.lineage


def wait_for_task(port: OrchestratorPort, task: str, done: Reply) -> TaskWait | None:
    """Note that the present code is about to wait for a task: from now on it waits for all its attempts, too.

    In the same tree it also stands in the task's ancestry. An attempt has no slot meanwhile.

    Returns:
        What a worker has to wait for instead: it is completed when there is a slot again for an attempt, and fails
        where the orchestrator is down, and not started again before the worker has ended. To be failed by whoever waits
        no longer. None: the present code is no worker's.

    Raises:
        RecursionDetectedError: the task's own supervisor waits for the present code.
    """
    chain, lineage = waiting_chain(port)
    current = CURRENT.get()
    if current is None or not current.in_request:
        return None
    attempt = current.reply if chain else None
    asker, runtime = current.incarnation.mailbox.path, port.runtime
    if isinstance(attempt, Attempt):
        own = runtime.port_at(attempt.owner.path)
        key = own.new_ask(attempt)
        reply = TaskWait(port, task, asker, key)
        runtime.open_ask(key, OpenDelegation(reply, attempt, port, None, task=task))
        reply.when_done(partial(_answered, own, key, port, attempt, reply))
        own.tell(Delegate(attempt, attempt, key, attempt.subtask, chain, lineage, None, only_waits=True))
        port.tell(WaiterJoined(task, chain, lineage, key))
        ended: Callable[[], object] = partial(_task_ended, own, key)
    else:
        reply = TaskWait(port, task, asker)
        ended = reply.complete
        if chain:
            port.tell(WaiterJoined(task, chain, lineage))
    done.when_done(ended)
    reply.when_done(partial(done.not_when_done, ended))  # who looks again and again leaves nothing behind
    target = reply.target
    if port.system.is_down or (target is not None and target.refusal is Refusal.DOWN):
        reply.fail(port.system.down_error(port.path))  # nobody else will: it was closed before the wait was listed
    return reply


def join_task(port: OrchestratorPort, task: str, done: Reply) -> tuple[TaskWait | None, Callable[[], None]]:
    """Have the present code wait from here on for one of several tasks, as ``wait_for_task`` does for a single one.

    Returns:
        What ``wait_for_task`` returns, and what says that it is no longer waited for.

    Raises:
        RecursionDetectedError: the task waits for the present code.
    """
    wait = wait_for_task(port, task, done)
    if wait is None:
        return None, lambda: None
    try:
        entered = enter(wait)
    except BaseException:
        leave_task(wait)
        raise
    return wait, partial(leave_task, wait, entered)


class OrderReply(Reply):
    """The news that an order was recorded; where the tree ends before, that it is kept (``left_orders``)."""

    __slots__ = ()

    outlives_target = True


def reply_of(port: OrchestratorPort) -> Reply:
    """Return a reply that an orchestrator completes. It fails where that cannot be before a worker that waits ends."""
    reply = OrderReply(port.system.boxes.get(port.orchestrator))
    list_wait(reply)
    return reply


def leave_task(wait: TaskWait, entered: CurrentMessage | None = None) -> None:
    """The present code waits no longer for a task."""
    leave(wait, entered)
    if not wait.done:
        wait.fail(TaskTimeoutError(wait.task, 0.0))  # nobody hears that


def _task_ended(own: OrchestratorPort, key: str) -> None:
    """Hand the news to the attempt that waits for it, when there is a slot for that."""
    own.runtime.answers.setdefault(key, (None, None))
    own.tell(DelegationAnswered(key))
    if key not in own.runtime.asks:
        own.runtime.answers.pop(key, None)  # it waits no longer


def tools(own: OrchestratorPort, attempt: Attempt, of: str) -> tuple[ToolInfo, ...]:
    """Return the tools of a worker that has several.

    Raises:
        NoCapableWorkerError: there is no such worker.
    """
    _, _, found = _who(own, of, attempt)
    return found[0].executable.tools or ()


def _who(own: OrchestratorPort, to: str, attempt: Attempt) -> tuple[OrchestratorPort, Attempt, list[RegistryEntry]]:
    """Find the workers that could do it: here, or with the orchestrator above that has this one's team at work."""
    port, host = own, attempt
    while True:
        entries = list(port.workers)
        found = [each for each in entries if each.id == to] or [
            each for each in entries if to in each.executable.capabilities
        ]
        state = port.states.get(host.task)
        above = own.runtime.attempt_of(state) if state is not None else None
        if found:
            return port, host, found
        if above is None:
            known = [name for each in own.workers for name in (each.id, *sorted(each.executable.capabilities))]
            raise own_error(NoCapableWorkerError(attempt.task, (to,), tuple(known)))
        port, host = own.runtime.port_at(above.owner.path), above


def _answered(own: OrchestratorPort, key: str, port: OrchestratorPort, attempt: Attempt, reply: AskReply) -> None:
    own.runtime.close_ask(key)
    message = DelegationCancelled(key, attempt, reply.met_dead_end)
    for concerned in {port, own}:
        concerned.tell(message)
