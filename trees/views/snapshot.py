"""Records of a tree at one moment, of pydantic. ``capture`` fills them, ``tree_text`` draws them.

What is not known, or does not apply, is None and never 0. No record holds an argument, a payload or the text of a
worker's exception: only the names of their types. This module must never import anything that runs.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator

from actors.model.child_state import State
from actors.model.spec import StrategyName
from actors.tasks.journal.view import TaskPhase
from actors.tasks.model import SubtaskStatus, TaskStatus

RestartWord: TypeAlias = Literal["permanent", "transient", "temporary"]
Doing: TypeAlias = Literal["starting", "stopping", "backoff", "waiting"]
"""Activity of a child: backoff waits for its due time, waiting for its turn in a group."""
SHOWN_TASKS = 5
"""Tasks of one supervisor that a text shows."""
Only: TypeAlias = Literal["troubled"]
"""Part of a tree that a dump may be asked for."""
NOTABLE = frozenset({SubtaskStatus.RUNNING, SubtaskStatus.RETRYING, SubtaskStatus.WAITING, SubtaskStatus.FAILED})
"""Where a subtask stands that a text has a line for."""


Role: TypeAlias = Literal["leader", "standby", "stopped"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LimitSnapshot(_Record):
    """A restart limit and how much of it is used up."""

    restarts: int | None
    """Restarts that count now; for a supervisor that is down, when it ended. None: it was never up."""
    max_restarts: int
    """One more and it gives up (or is parked)."""
    period_s: float


class ExitSnapshot(_Record):
    """How the last incarnation ended."""

    reason: Literal["normal", "shutdown", "crashed", "killed"]
    detail: str
    """The type of the exception, or what happened; empty where the reason says all."""
    age_s: float


class MessageSnapshot(_Record):
    """The message that is being handled."""

    type: str
    """The name of its type."""
    age_s: float
    """Seconds since its handling began."""


class ProcessSnapshot(_Record):
    """A process of its own that a worker is, or has."""

    pid: int
    memory_bytes: int | None
    """Resident memory of that process alone. None: the system does not show it (it is no Linux, or it has not counted
    it yet)."""
    cpu_s: float | None
    """Seconds of CPU time that it has used. None: the system does not show it."""


class BreakerSnapshot(_Record):
    """The breaker of a worker that an orchestrator gives work to."""

    state: Literal["closed", "open", "half_open"]
    """Half open: one probe is let through, or waits for its turn."""
    probe_in_s: float | None
    """Seconds until a probe is let through; None: it is not open."""


class _Node(_Record):
    path: str
    id: str
    restart: RestartWord
    parks: bool
    """True: it has a restart limit of its own and is parked when that is used up, so it never uses up its parent's."""
    restarts: int
    """Automatic restarts that succeeded since its supervisor started; of a pool all members together."""
    last_exit: ExitSnapshot | None
    """None: no incarnation has ended yet. Of a pool the newest, abnormal ones first."""
    dead_letters: int
    """Messages to it that nobody handled, so far."""
    abandoned: int
    """Old incarnations that were abandoned and whose thread still runs."""
    breaker: BreakerSnapshot | None = None
    """None: no orchestrator gives it work, or it was declared without one. A member of a pool shares the pool's."""


class _One(_Node):
    state: State
    doing: Doing | None
    """Activity under way; None: nothing."""
    incarnation: int
    """Starts that succeeded; 0: it was never up."""
    up_s: float | None
    """Seconds since it came up; None: it is not up."""
    retry_in_s: float | None
    """Seconds until its backoff ends; None: it is not in backoff."""
    own_limit: LimitSnapshot | None
    """Restart limit of its own, where it ``parks``."""


class WorkerSnapshot(_One):
    """One worker, or one member of a pool."""

    kind: Literal["worker"] = "worker"
    mailbox: int | None
    """Messages that wait; None: a ``run=`` body has no mailbox, an orchestrator's messages are the library's own."""
    current: MessageSnapshot | None
    """None: it handles no message, or none can be seen (a ``run=`` body)."""
    process: ProcessSnapshot | None = None
    """Process of its own: a command, or an MCP server. None: it has none, or that is not running."""
    node: str | None = None
    """Id of the node of a cluster that it runs on. None: it runs on this host, or not at all."""
    stack: str | None = None
    """Where its code stands, the innermost call last. None: it is idle, or was not asked for."""
    abandoned_stacks: tuple[str, ...] | None = None
    """Stacks of its abandoned incarnations. None: not asked for."""


class PoolSnapshot(_Node):
    """A pool as one, with the sums of its members."""

    kind: Literal["pool"] = "pool"
    size: int
    """Members."""
    states: dict[State, int]
    """How many members are in which state; no state with 0 members."""
    doing: dict[Doing, int]
    """Number of members in each activity."""
    mailbox: int | None
    """Messages that wait for any member, and those that wait for one; None: members without mailboxes."""
    busy: int
    """Members that are handling a message."""
    members: tuple[WorkerSnapshot, ...] | None
    """None: folded."""


class SubtaskSnapshot(_Record):
    """Where one subtask of an unfinished task stands."""

    id: str
    status: SubtaskStatus
    worker: str | None
    """The id of the worker it was last given to; None: to none yet."""
    attempt: int
    """The number of the last one; 0: it has not begun."""
    running_s: float | None
    """Seconds that its attempt has run; None: none runs."""
    progress: float | None
    """Progress that the attempt reports, from 0 to 1; None: nothing, or none runs."""
    doing: str
    """Activity, in its worker's words."""
    escalation: str | None
    """The id of the question that is open about it."""
    reason: str | None = None
    """Why it is queued, where that is not for its turn: ``breaker of x open``. None: it is not, or could begin now."""
    probe_in_s: float | None = None
    """Seconds until the first of those breakers lets a probe through."""
    streams: str | None = None
    """Last line that its attempt has streamed, which is content. None: it has streamed none, or nobody asked for it."""


class TaskSnapshot(_Record):
    """Where an unfinished task stands. What it is about is not told here: see ``handle.dump``."""

    id: str
    status: TaskStatus
    phase: TaskPhase | None
    """None: its subtasks, or it is being planned."""
    escalations: tuple[str, ...]
    """Ids of open questions about its reviewer or synthesizer."""
    best_effort: bool
    """True where it is not all that was wanted, so far."""
    age_s: float
    """Seconds since it was submitted."""
    counts: dict[SubtaskStatus, int]
    """How many subtasks stand where; none with 0."""
    subtasks: tuple[SubtaskSnapshot, ...]
    """In the order of the plan, then those that were delegated. Folded: only those that run, failed or wait."""


class SupervisorSnapshot(_One):
    """A supervisor and its children, in start order."""

    kind: Literal["supervisor"] = "supervisor"
    strategy: StrategyName
    limit: LimitSnapshot
    """Shared by its children."""
    tasks: tuple[TaskSnapshot, ...] | None = None
    """The unfinished tasks that its orchestrator knows of, the oldest first; folded: only the first few. None: it has
    no ``tasks=``."""
    tasks_unfinished: int | None = None
    """How many there are."""
    tasks_finished: int | None = None
    """How many have ended so far."""
    children: tuple[NodeSnapshot, ...]
    hidden: int = 0
    """Children that were left out, because they stand too deep or are in no trouble."""


def _as_it_is(value: object, look: ValidatorFunctionWrapHandler) -> object:
    """Take a record as it is. To find its kind pydantic would ask ABCs, and drop what a signal handler raises there."""
    return value if type(value) in _NODES else look(value)


_NODES = frozenset({WorkerSnapshot, PoolSnapshot, SupervisorSnapshot})
NodeSnapshot: TypeAlias = Annotated[
    WorkerSnapshot | PoolSnapshot | SupervisorSnapshot, Field(discriminator="kind"), WrapValidator(_as_it_is)
]


class TreeSnapshot(_Record):
    """A tree, or a part of it, at one moment."""

    top: NodeSnapshot
    """The child that was asked for; by default the root with everything below it."""
    taken_at: float
    """Seconds since 1970, by the tree's clock."""
    gave_up: str | None
    """Why the root gave up, or the tree ended where nobody had asked for that; None: it did not."""
    role: Role = "leader"
    """Which part this process plays; without ``ha=`` it leads until it is down."""
    holder: str | None = None
    """Leader, as far as this process knows; None: nobody, or the tree has no ``ha=``."""
    token: int | None = None
    """Token: a leader's own, on a standby that of the leader; None: the tree has no ``ha=``."""
    lease_left_s: float | None = None
    """Seconds until the lease of whoever leads is over unless it is renewed, as far as this process knows."""
    role_reason: str | None = None
    """Obstacle that keeps this process from leading, or from seeing who leads; None: nothing."""
    store_paused_s: float | None = None
    """Seconds for which the store could write nothing so far. None: it writes, or the tree has none."""
    dead_letters: dict[str, int]
    """Dead letters of the whole tree so far, by reason; with those to children that are no longer listed."""
    abandoned: dict[str, int]
    """Incarnations of the whole tree that were left to themselves and still run, by path."""
    threads: int
    """Threads of the pool now, stuck ones too."""


SupervisorSnapshot.model_rebuild()
TreeSnapshot.model_rebuild()
