"""Calls by which an attempt has others do something: ``context.ask`` and ``context.tools``, in its own thread.

What could only wait for itself is refused here, at once. Everything else is a ``Delegate`` for the orchestrator, which
carries it out (``actors.tasks.orchestration.delegation``); the attempt waits for the Reply of an ``OpenDelegation``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.messaging.caller_variables import caller_variables
from actors.messaging.envelope import CURRENT
from actors.messaging.reply import Reply
from actors.model.errors import RecursionDetectedError
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.orchestration.messages import Delegate, DelegationCancelled

if TYPE_CHECKING:
    from contextvars import Context as Variables

    from actors.tasks.execution.asked_work import AskedWork
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.model.executable import ToolInfo
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
    from actors.tasks.scheduling.worker_registry import RegistryEntry

BACKSTOP_S: Final = 5.0
"""How much longer than its limit somebody waits in an ask, should there be no orchestrator to end it."""


class OpenDelegation(NamedTuple):
    """An attempt that waits in ``context.ask``."""

    reply: Reply
    attempt: Attempt
    """The attempt that waits."""
    port: OrchestratorPort
    """Port of the orchestrator that has it done."""
    due: float | None
    """Until when, on the tree's clock."""
    variables: Variables | None = None
    """Contextvars of the code that waits."""


def delegate(own: OrchestratorPort, attempt: Attempt, asked: AskedWork, limit: float | None, number: int) -> Reply:
    """Refuse what could only wait for itself, else have it done; a Reply of the result.

    Args:
        own: port of the orchestrator that the attempt belongs to.
        attempt: the attempt that asks.
        asked: what it asks for.
        limit: seconds that it waits, None: for ever.
        number: of this ask, among all of that port.

    Raises:
        RecursionDetectedError: everybody who could do it waits for this attempt, or it is asked for already.
        NoCapableWorkerError: nobody can do it.
    """
    to, runtime, system = asked.to, own.runtime, own.system
    port, host, found = _who(own, to, attempt)
    chain = (*(address.path for address in attempt.spec.chain), attempt.spec.path)
    words = asked.words
    target = next((each.path for each in found if each.path not in chain), None)
    if target is None or words in attempt.spec.lineage:
        system.recursion_refused(target or found[0].path, own.addresses(chain))
        raise own.noted(RecursionDetectedError((*chain, target or found[0].path), same_words=target is not None))
    key = f"{attempt.key}>{attempt.spec.start_number}.{number}"
    reply = Reply(system.boxes.get(target), attempt.spec.path, None if limit is None else limit + BACKSTOP_S)
    due = None if limit is None else system.now() + limit
    runtime.open_ask(key, OpenDelegation(reply, attempt, port, due, caller_variables(CURRENT)))
    reply.when_done(partial(_answered, own, key, port))
    spec = asked.subtask(host.subtask.id, is_worker=found[0].id == to)  # this id until it gets its own
    message = Delegate(attempt, host, key, spec, chain, (*attempt.spec.lineage, words), limit)
    port.tell(message)
    if port is not own:
        own.tell(message.waits_here())
    if system.is_down:
        reply.fail(system.down_error(port.path))  # nobody else will
    return reply


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
            raise own.noted(NoCapableWorkerError(attempt.task, (to,), tuple(known)))
        port, host = own.runtime.port_at(above.owner.path), above


def _answered(own: OrchestratorPort, key: str, port: OrchestratorPort) -> None:
    own.runtime.close_ask(key)
    for concerned in {port, own}:
        concerned.tell(DelegationCancelled(key))
