"""Waits of workers for tasks: who waits for a task is known by what the task, and its attempts, carry.

Whoever is about to wait for a task is refused if the supervisor of the task waits for that code already. Else the wait
is noted: in the journal the paths of those who wait in the same tree, and in ``TaskService.waiting_for`` the addresses
of all of them, in whatever tree of this process. Attempts of the task that begin from then on have them in their chain.
So what such an attempt asks of one of them is refused at once. An attempt that had begun before does not know of them.

A worker that waits so has no slot meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from actors.messaging.envelope import CURRENT, Address, own_error
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import list_wait
from actors.model.errors import RecursionDetectedError
from actors.tasks.engine.asks import OpenAsk, wait_in
from actors.tasks.execution.attempt import Attempt
from actors.tasks.model import task_events

if TYPE_CHECKING:
    from actors.tasks.engine.engine import Engine
    from actors.tasks.engine.scope import Scope


class Waiting(NamedTuple):
    """Who waits while the present code waits for a task."""

    addresses: tuple[Address, ...] = ()
    """In whatever tree, the first asker first."""
    chain: tuple[str, ...] = ()
    """Paths of those in the tree of the task."""
    lineage: tuple[str, ...] = ()
    """Instructions that those were given."""


def waiting_here(scope: Scope) -> Waiting:
    """Return who waits if the present code waits for a task of this scope; nobody if it is no worker's code.

    Raises:
        RecursionDetectedError: the scope's own supervisor waits for the present code, be it by way of other trees.
    """
    current = CURRENT.get()
    addresses = current.waiting() if current is not None else ()
    boxes = scope.system.boxes
    if current is None or not addresses:
        return Waiting()
    if boxes.get(scope.path) in addresses:
        scope.system.recursion_refused(scope.path, addresses)
        raise own_error(RecursionDetectedError((*(each.path for each in addresses), scope.path)))
    chain = tuple(each.path for each in addresses if boxes.get(each.path) is each)
    return Waiting(addresses, chain, current.lineage if chain else ())


def wait_for_task(scope: Scope, task: str, done: Reply) -> Reply | None:
    """Note that the present code is about to wait for a task.

    Returns:
        What a worker has to wait for instead: it is completed when there is a slot again for an attempt, and fails
        where the engine is down, and not started again before the worker has ended. To be completed by whoever waits no
        longer. None: the present code is no worker's.

    Raises:
        RecursionDetectedError: the task's own supervisor waits for the present code.
    """
    waiting, current = waiting_here(scope), CURRENT.get()
    if current is None or not waiting.addresses:
        return None
    reply = scope.answer_of_engine()
    ended: Callable[[], object] = reply.complete
    attempt = current.reply
    if isinstance(attempt, Attempt) and attempt.owner.system is scope.system:
        own = attempt.owner.port
        ask = OpenAsk(attempt, next(attempt.numbers), reply, task=task)
        wait_in(ask)
        own.post(lambda engine: engine.asks.waits(attempt))
        ended = lambda: own.post(lambda engine: engine.asks.answer(ask))  # noqa: E731
    scope.port.post(partial(_joins, task, waiting))
    done.when_done(ended)
    reply.when_done(partial(done.not_when_done, ended))  # who looks again and again leaves nothing behind
    reply.when_done(partial(scope.port.post, partial(_leaves, task, waiting)))
    return reply


def _joins(task: str, waiting: Waiting, engine: Engine) -> None:
    """Somebody waits for a task: attempts that begin from here on know of that."""
    run = engine.runs.get(task)
    if run is None or run.state.final is not None:
        return
    is_first = task not in engine.service.waiting_for
    engine.service.waiting_for.setdefault(task, []).append(waiting.addresses)
    if waiting.chain and not run.state.chain:
        if is_first:
            engine.decide(run, run.emit, run.state.root, task_events.TaskJoined, waiting.chain, waiting.lineage)
        run.state.chain, run.state.lineage = waiting.chain, waiting.lineage


def _leaves(task: str, waiting: Waiting, engine: Engine) -> None:
    """Somebody waits no longer for a task that goes on: attempts that begin from here on are free to ask them."""
    run, waits = engine.runs.get(task), engine.service.waiting_for.get(task, [])
    waits[:] = [each for each in waits if each != waiting.addresses]
    if run is not None and not waits:
        run.state.chain = run.state.lineage = ()


class OrderReply(Reply):
    """The news that an order was recorded; where the tree ends before, that it is kept (``orders.leave``)."""

    __slots__ = ()

    outlives_target = True


def order_reply(scope: Scope) -> Reply:
    """Return a reply for an order. It fails if that cannot be recorded before a worker that waits for it has ended."""
    reply = OrderReply(scope.system.boxes.get(scope.port.address))
    list_wait(reply)
    return reply
