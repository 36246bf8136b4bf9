"""Orders of users about a task: cancel, another priority, an answer, once more.

An order lies at the port of the engine until it is carried out, whatever engine does that. What lies there when the
tree ends is kept in a durable store, for the process that goes on with the task; what other processes have left there
comes the same way. All orders are idempotent by what they are about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.messaging.reply import Reply
from actors.tasks.model import OrderDamaged, StoreError

if TYPE_CHECKING:
    from actors.tasks.engine.service import EnginePort
    from actors.tasks.journal.store import RemoteCommand

CANCEL: Final = "cancel"
PRIORITY: Final = "priority"
RESPOND: Final = "respond"
RETRY: Final = "retry"


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """One order about a task.

    Args:
        task: its id.
        kind: cancel, priority, respond or retry.
        body: of a cancel ``reason``; of a priority ``priority``; of a respond ``escalation``, ``answer`` and ``value``.
        recorded: completed once it is recorded, failed if the tree ends before; None: nobody wants to know.
        given_by: the command of another process that it carries out.
        given: when it was given, in seconds since 1970 by the store's clock; None: just now.
    """

    task: str
    kind: str
    body: dict[str, Any] = field(default_factory=dict)
    recorded: Reply | None = None
    given_by: RemoteCommand | None = None
    given: float | None = None


def leave(port: EnginePort) -> None:
    """Have all orders at a port kept for the next process, which passes over those of tasks that have ended."""
    service = port.service
    durable = service.durable
    while port.orders:
        order = port.orders.popleft()
        if order.given_by is not None:
            continue
        recorded, kept = order.recorded or Reply(), False
        if durable is not None:
            given = service.time() if order.given is None else order.given
            kept = durable.leave_order(order.task, order.kind, order.body, given)
            if not kept:
                what = f"cannot keep {order.kind!r} of task {order.task}, which nobody had carried out. Order it again"
                port.service.system.publish(OrderDamaged(port.path, order.task, StoreError(durable.name, what)))
        down = service.system.down_error(port.path)
        service.system.ended.when_done(recorded.complete if kept else partial(recorded.fail, down))


def take_back(port: EnginePort, order: Order) -> bool:
    """Take an order back that lies at a port whose tree is down; False where it does not, because it was left.

    ``is_down`` is set before ``leave`` looks. So an order that was put there later than that look is found here, and
    whoever wants it is told; one that was there sooner is kept, or found here as well.
    """
    while True:
        try:
            port.orders.remove(order)
        except ValueError:
            return False
        except IndexError:
            continue  # others are taken from there meanwhile
        return True
