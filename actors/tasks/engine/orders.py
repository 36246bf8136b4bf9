"""Orders of users about a task: cancel, another priority, an answer, once more.

An order lies at the port of the engine until it is carried out, whatever engine does that. What other processes have
left in a durable store comes the same way. All orders are idempotent by what they are about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from actors.messaging.reply import Reply

if TYPE_CHECKING:
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
