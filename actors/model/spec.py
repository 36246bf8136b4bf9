"""Specification of a child as its supervisor needs it, below both of them.

Comes in: what ``trees.declaration.build`` made of a declaration. Goes out: frozen records that a supervisor reads.
Nothing here runs anything; this module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, InitVar, dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, Protocol, TypeAlias

from actors.model.record import record


class Restart(StrEnum):
    """When a child that ended by itself is started again (SEMANTICS.md: "A child exits")."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"


class Strategy(StrEnum):
    """Strategy: which other children are restarted with one."""

    ONE_FOR_ONE = "one_for_one"
    ONE_FOR_ALL = "one_for_all"
    REST_FOR_ONE = "rest_for_one"


StrategyName: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one"]
"""Strategy as it is declared and shown."""


class AutoShutdown(StrEnum):
    """Rule by which the end of significant children ends their supervisor."""

    NEVER = "never"
    ANY_SIGNIFICANT = "any_significant"
    ALL_SIGNIFICANT = "all_significant"


class Overflow(StrEnum):
    """Rule for one message more than a bounded mailbox holds."""

    BLOCK = "block"
    REJECT = "reject"
    DROP_OLDEST = "drop_oldest"


class Reason(StrEnum):
    """How an incarnation ended. Clean: normal, shutdown. Abnormal: crashed, killed."""

    NORMAL = "normal"
    """Returned, or stopped itself."""
    SHUTDOWN = "shutdown"
    """Stopped by order."""
    CRASHED = "crashed"
    """An exception left a handler, a body or a start."""
    KILLED = "killed"
    """Did not stop in time: cancelled for good if async, abandoned if a thread."""

    @property
    def clean(self) -> bool:
        """True for normal and shutdown."""
        return self is Reason.NORMAL or self is Reason.SHUTDOWN


class DispatcherKind(StrEnum):
    """Where a worker's code runs."""

    POOL = "pool"
    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"
    """A process of its own, which a command is."""


LOOP: Final = DispatcherKind.LOOP
"""Member by a name of its own, for what runs with every message: a member is found slowly by its class."""


@dataclass(frozen=True, slots=True)
class RefTo:
    """Stands for the Ref of a path in the args and kwargs of a declaration: see ``Ref.to``."""

    path: str


@dataclass(frozen=True, slots=True)
class RestartLimit:
    """More than ``max_restarts`` restarts within ``period_s`` seconds (the bound counts) is too much."""

    max_restarts: int = 3
    period_s: float = 5.0


class RandomSource(Protocol):
    """A source of randomness, passed in: ``random.Random`` fits."""

    def random(self) -> float:
        """A float in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delay before the n-th consecutive restart: ``initial_s * factor**(n-1)``, at most ``max_s``, plus jitter."""

    initial_s: float = 0.1
    factor: float = 2.0
    max_s: float = 30.0
    jitter: float = 0.2
    """Up to this share of the delay is added, at random."""
    reset_after_s: float = 60.0
    """A child that stayed up this long starts again at the first step."""

    def delay_s(self, attempt: int, uniform: RandomSource) -> float:
        """Seconds to wait before the ``attempt``-th consecutive restart (1 is the first)."""
        # The exponent is bounded so that a child that fails for days cannot overflow a float.
        steps = min(attempt - 1, 1024)
        try:
            base = min(self.initial_s * self.factor**steps, self.max_s)
        except OverflowError:
            base = self.max_s
        return base + base * self.jitter * uniform.random()


@dataclass(frozen=True, slots=True)
class MailboxLimit:
    """How many messages a mailbox may hold, and what happens to one more."""

    capacity: int | None = None
    """None: no bound."""
    overflow: Overflow = Overflow.BLOCK


UNBOUNDED = MailboxLimit()


@record
class ChildSpec:
    """One child as its supervisor sees it. The members of a pool share one."""

    _: KW_ONLY

    id: str
    """For a pool the pool's id; its members are ``id#0`` .. ``id#n-1``."""
    recipe: WorkerRecipe | SupervisorRecipe
    restart: Restart = Restart.PERMANENT
    shutdown_s: float = 5.0
    """How long a stop may take before it becomes a kill; ``math.inf`` for no limit."""
    brutal_kill: bool = False
    """Stop by killing at once: no on_stop."""
    significant: bool = False
    required: bool = True
    """False: its supervisor starts without it, and tries again once it is up."""
    start_timeout_s: float = math.inf
    backoff: Backoff | None = None
    park: bool = False
    """True: it has a restart limit of its own, and is parked when that is used up."""
    pool: int | None = None
    """Number of members, or None for a child that is no pool."""
    description: str = ""
    owned: bool = False
    """True for a child that its supervisor needs and nobody has declared: it is not deleted while that is listed."""
    registration: Any = None
    """Data for the observer of its supervisor: the runtime does not look at it. None: nothing."""

    @property
    def is_supervisor(self) -> bool:
        """True where this child supervises children of its own."""
        return isinstance(self.recipe, SupervisorRecipe)

    @property
    def starts_at_once(self) -> bool:
        """True for a worker that is up when its supervisor has made it."""
        return isinstance(self.recipe, WorkerRecipe) and self.recipe.starts_at_once

    def member_ids(self) -> list[str]:
        """The ids of the children that this spec stands for."""
        return [self.id] if self.pool is None else [f"{self.id}#{n}" for n in range(self.pool)]


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class WorkerRecipe:
    """How an incarnation of a worker is built, and what is to be known of its code."""

    make: Any
    """``make(incarnation) -> actor``: builds the new object; user code may run in it."""
    where: DispatcherKind
    is_body: bool = False
    """True for ``run=``: one call is its whole life, and it has no mailbox."""
    starts_plain: bool = False
    """True where building and starting it runs no user code, so that its supervisor may do it itself."""
    program: Any = None
    """Program of a command (``actors.dispatch.command.program``); None: it is no command."""
    waits_for: str = ""
    """Words for what a start that takes too long still waits for; empty: for its ``on_start``."""
    process: Any = None
    """Code of a process (``actors.dispatch.process``) that this is the host's half of; None: it runs here."""
    never_waits: bool = False
    """True for code of ours on the loop that awaits nothing: it needs no task of its own."""
    stops_plain: bool = False
    """True where it has no on_stop."""
    fails_plain: bool = False
    """True where it has no on_failure."""
    resource: Any = None
    """Factory of a context manager around its whole life: the ``lifespan`` of its spec. None: it has none."""
    has_lifespan: bool = False
    """True where its object has a ``lifespan`` of its own."""
    resides: bool = field(init=False)
    """True where it keeps one task, or thread, for its whole life: it has a lifespan, or on the loop any hook."""
    starts_at_once: bool = field(init=False)
    """True where it is up when its supervisor has made it: no user code runs for that, and no other thread."""
    bounds: MailboxLimit = UNBOUNDED
    expected: tuple[type[BaseException], ...] = ()
    crash_on_ask_error: bool = False
    is_stateless: bool = False
    """True for a function without a lifespan: an ``Exception`` that it raises in an ask is a failed request."""
    stall_s: float | None = None
    """Seconds without a sign of life after which an incarnation is taken to be hung; None: never."""
    origin: Any = None
    """Origin, that other declarations find it by: the runtime does not look at it. None: they do not."""
    work: Any = None
    """Function or class of a recipe with an origin."""
    actor_class: type[Any] | None = None
    """The class of the objects it makes, for proxies and for Pykka."""
    has_hooks: InitVar[bool] = False
    """True where its object has an on_start, on_stop or on_failure."""

    def __post_init__(self, has_hooks: bool) -> None:
        owns = self.resource is not None or self.has_lifespan
        object.__setattr__(self, "resides", owns or (has_hooks and self.where is DispatcherKind.LOOP))
        if owns:
            object.__setattr__(self, "starts_plain", False)
        at_once = self.starts_plain and not self.is_body and self.where is not DispatcherKind.THREAD
        object.__setattr__(self, "starts_at_once", at_once)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorRecipe:
    """Recipe of a supervisor: what it needs to be built."""

    strategy: Strategy = Strategy.ONE_FOR_ONE
    limit: RestartLimit = RestartLimit()
    auto_shutdown: AutoShutdown = AutoShutdown.NEVER
    children: tuple[ChildSpec, ...] = field(default=())
    max_children: int | None = None
    parallel_stop: bool = False
    max_abandoned: int = 8
    """With more abandoned threads than these a child that hangs is parked, and not restarted."""
    observer: Any = None
    """``observer(supervisor) -> ChildObserver`` (``child``): who is told of its children; None: nobody."""
    settings: Any = None
    """Settings of its observer, which the runtime does not look at."""
