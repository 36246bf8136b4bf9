"""Orders that a tree leaves in its store: what a user wanted of a task, and no orchestrator has carried out.

``handle.cancel()`` and its like only put an order at the port of an orchestrator. That may be down then, or be stopped
before it comes to it: an order to stop overtakes what waits. So what lies there when the tree has ended is kept with
the tasks, as the order of another process is (``regrow cancel``), and whoever goes on with them finds it. An order that
was carried out as well does no harm a second time. Where none can be kept an event says so (``OrderDamaged``).

An order of another process is in the store already, and stays. Where incarnations have died of an order, how many is
noted with it (``TRIES``), so that the deaths of all processes count: at each of them the tree itself may have given up.

What an orchestrator wants of another one is not kept: both find in their journals where they stand.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from actors.tasks.model.store_events import OrderDamaged
from actors.tasks.model.task_errors import StoreError
from actors.tasks.orchestration.messages import Cancel, EscalationResponse, SetPriority

if TYPE_CHECKING:
    from actors.messaging.reply import Reply
    from actors.tasks.journal.store import RemoteCommand
    from actors.tasks.orchestration.orchestrator_port import OrchestratorPort

CANCEL: Final = "cancel"
PRIORITY: Final = "priority"
RESPOND: Final = "respond"

TRIES: Final = "tries"
"""Argument of an order: incarnations that have died of it, in earlier processes."""

Order: TypeAlias = tuple[str, str, dict[str, Any]]
"""Task, kind and arguments: see ``actors.tasks.journal.store.RemoteCommand``."""


def order_of(command: object) -> Order | None:
    """Return a command of a user as an order that a store keeps; None: it is none of a user."""
    if isinstance(command, Cancel) and not command.attempt:
        return command.task, CANCEL, {"reason": command.reason}
    if isinstance(command, SetPriority):
        return command.task, PRIORITY, {"priority": command.priority}
    if isinstance(command, EscalationResponse):
        said = {"escalation": command.escalation, "answer": command.answer, "value": command.value}
        return command.task, RESPOND, said
    return None


def leave(port: OrchestratorPort) -> None:
    """Have all that lies at a port kept, in order, for tasks that go on in the next process. The tree is down."""
    durable = port.runtime.durable
    while port.orders:
        command = port.orders.popleft()
        died, port.tries = port.tries, 0  # of the first of them
        remote = getattr(command, "given_by", None)
        if remote is not None:
            if died and durable is not None:
                durable.order_done(remote)
                body = {**remote.body, TRIES: tries_of(remote) + died}
                durable.leave_order(remote.task, remote.kind, body, remote.at)
            continue
        order, given = order_of(command), getattr(command, "given", None)
        if order is None or durable is None or not _goes_on(port, order[0]):
            continue
        task, kind, body = order
        if died:
            body = {**body, TRIES: died}
        if not durable.leave_order(task, kind, body, port.time() if given is None else given):
            what = f"cannot keep {kind!r} of task {task}, which nobody had carried out. Order it again"
            port.system.publish(OrderDamaged(port.path, task, StoreError(durable.name, what)))
        elif isinstance(command, Cancel) and command.recorded is not None:
            port.system.ended.when_done(command.recorded.complete)  # the store is closed by then


def tries_of(order: RemoteCommand | None) -> int:
    """Return how many incarnations of earlier processes have died of an order; 0 where it came by no store."""
    tries = 0 if order is None else order.body.get(TRIES, 0)
    return tries if isinstance(tries, int) and tries > 0 else 0


def take_back(port: OrchestratorPort, command: object) -> bool:
    """Take a command back that lies at a port whose tree is down; False where it does not, because it was left.

    ``is_down`` is set before ``leave`` looks. So a command that was put there later than that look is found here, and
    whoever wants it is told; one that was there sooner is kept, or found here as well.
    """
    while True:
        try:
            port.orders.remove(command)
        except ValueError:
            return False
        except IndexError:
            continue  # others are taken from there meanwhile
        return True


def settled_by_the_end(recorded: Reply, port: OrchestratorPort, done: Reply) -> None:
    """Settle what tells that an order is recorded also where its task ends (``done``), or the tree before that.

    At the end of a tree ``leave`` is called before those who wait for the task hear of it, so what is kept is recorded.
    """

    def look() -> None:
        try:
            done.outcome()
        except Exception as error:  # noqa: BLE001 - whatever there is instead of a report
            failed = partial(recorded.fail, error)
            if port.system.is_down:
                port.system.ended.when_done(failed)
            else:
                failed()
        else:
            recorded.complete()

    done.when_done(look)


def _goes_on(port: OrchestratorPort, task: str) -> bool:
    state, standing = port.states.get(task), port.runtime.store.standing(task)
    has_ended = state is not None and state.final is not None
    return standing is not None and standing.is_ == "unfinished" and not has_ended
