"""One subtask of a running task: where it stands, what was begun for it, and what somebody is asked about it.

Comes in: the changes that ``actors.tasks.state`` makes when an event says so. Plain data. This module must never import
threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from actors.tasks import events
from actors.tasks.task import NO_USAGE, Subtask, SubtaskStatus

if TYPE_CHECKING:
    from actors.tasks.attempt import Attempt

_DONE: Final = frozenset(
    {
        SubtaskStatus.SUCCEEDED,
        SubtaskStatus.FAILED,
        SubtaskStatus.CANCELLED,
        SubtaskStatus.SKIPPED,
        SubtaskStatus.COMPENSATED,
    }
)


FRESH: Final = events.Standing()
"""At the foot of the ladder."""


class Act:
    """What one worker did, or began, for a subtask, and what would have to be undone."""

    __slots__ = ("attempt", "done", "number", "open", "result", "seq", "undone", "unknown", "worker")

    def __init__(self, worker: str, number: int, seq: int) -> None:
        self.worker = worker
        self.number = number
        self.seq = seq
        """Grows with the starts of the whole task."""
        self.attempt = 0
        self.open = False
        """An attempt was started, and nothing is known of its end."""
        self.unknown = False
        """An attempt ended so that it may have had its effect."""
        self.done = False
        self.result: Any = None
        self.undone = False

    @property
    def needs_undo(self) -> bool:
        """True where it has had its effect, or may have had it."""
        return not self.undone and (self.done or self.unknown or self.open)


class Escalation:
    """An open question to a person."""

    __slots__ = ("answers", "due", "error", "id", "question", "raised_at", "standing", "subtask", "task", "undoing")

    def __init__(self, event: events.EscalationRaised) -> None:
        self.id = event.escalation
        self.task = event.task
        self.subtask = event.subtask
        self.question = event.question
        self.error = event.error
        self.raised_at = event.at
        self.due = event.due
        """When it is too late for an answer, in seconds since 1970; None: never."""
        self.standing = event.standing
        self.undoing = event.undoing
        """It is about an undo that failed."""
        self.answers = ("approve", "edit", "respond", "reject")

    def __repr__(self) -> str:
        return f"<Escalation {self.id}>"


class Node:
    """Where one subtask stands."""

    __slots__ = (
        "act",
        "acts",
        "answered",
        "ask",
        "attempt",
        "chain",
        "compensating",
        "dependants",
        "due",
        "ended_at",
        "error",
        "escalation",
        "feedback",
        "id",
        "kind",
        "lineage",
        "live",
        "made",
        "missing",
        "parent",
        "preemptions",
        "queued_at",
        "queued_s",
        "running_s",
        "spec",
        "standing",
        "started_at",
        "status",
        "ticket",
        "undo_attempt",
        "undo_error",
        "usage",
        "value",
        "worker",
    )

    def __init__(self, spec: Subtask) -> None:
        self.spec = spec
        self.id = spec.id
        self.status = SubtaskStatus.PENDING
        self.missing = 0
        """Dependencies that it still waits for."""
        self.dependants: Sequence[Node] = ()
        self.attempt = 0
        """The number of the last attempt."""
        self.made = 0
        """Attempts that count."""
        self.act = 1
        self.acts: list[Act] | None = None
        self.worker: str | None = None
        self.value: Any = None
        self.error = ""
        """Why it failed, was skipped or cancelled; or of the last attempt."""
        self.kind = ""
        self.feedback = ""
        self.standing = FRESH
        self.due: float | None = None
        """When the next attempt may start."""
        self.preemptions = 0
        self.queued_at = 0.0
        self.started_at = 0.0
        self.ended_at = 0.0
        self.queued_s = 0.0
        self.running_s = 0.0
        self.usage = NO_USAGE
        self.parent: str | None = None
        """The subtask that asked for it; None: it is in the plan."""
        self.ask: str | None = None
        self.chain: tuple[str, ...] = ()
        """Paths of those who wait for it, where it was asked for by a subtask."""
        self.lineage: tuple[str, ...] = ()
        self.escalation: Escalation | None = None
        self.answered: events.EscalationAnswered | events.EscalationExpired | None = None
        """What became of the last question, as long as nothing has followed from it."""
        self.undo_attempt = 0
        self.undo_error = ""
        """Why the undo that a person is asked about has failed."""
        self.compensating: Act | None = None
        # What only the present incarnation of the orchestrator knows:
        self.live: Attempt | None = None
        self.ticket: object = None

    def __repr__(self) -> str:
        return f"<Node {self.id} {self.status}>"

    def begins(self, event: events.SubtaskStarted, seq: int) -> None:
        """An attempt is about to be given to a worker."""
        self.status = SubtaskStatus.RUNNING
        self.queued_s += event.at - self.queued_at
        self.started_at = event.at
        self.worker, self.attempt = event.worker, event.attempt
        acts = self.acts
        if acts is None:
            acts = self.acts = []
        act = acts[-1] if acts else None
        if act is None or act.worker != event.worker or act.number != event.act:
            # It may come back to a worker after another one; the last act is always the one that runs.
            act = act_of(self, event.worker, event.act) or Act(event.worker, event.act, seq)
            acts[:] = [*(each for each in acts if each is not act), act]
        act.open, act.attempt = True, event.attempt

    @property
    def is_done(self) -> bool:
        """True where nothing more happens to it, as long as it is not revised or undone."""
        return self.status in _DONE


def act_of(node: Node, worker: str, number: int) -> Act | None:
    """What a worker did for a subtask; None: nothing is known of it."""
    return next((act for act in node.acts or () if act.worker == worker and act.number == number), None)


def with_dependants(nodes: Iterable[Node]) -> list[Node]:
    """These and everything that depends on them, directly or not, each once."""
    found: dict[str, Node] = {}
    left = list(nodes)
    while left:
        node = left.pop()
        if node.id not in found:
            found[node.id] = node
            left += node.dependants
    return list(found.values())
