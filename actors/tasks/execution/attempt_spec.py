"""Facts about an attempt that are settled before it begins. All frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from actors.tasks.execution.context import ContextValues
from actors.tasks.journal.unit import KeptStep
from actors.tasks.model import NONE, Subtask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Context as Variables

    from pydantic import TypeAdapter

    from actors.tasks.engine.scope import Scope

Role: TypeAlias = Literal["work", "undo", "plan", "review", "combine"]


class AttemptSpec(NamedTuple):
    """Specification of one attempt."""

    key: str
    """Unique in its tree, and in every engine the same."""
    owner: Scope
    """Scope that it belongs to."""
    task: str
    """Id of its task."""
    subtask: Subtask
    worker: str
    """Id of the worker."""
    path: str
    """Path of the worker; ancestry names it."""
    values: ContextValues
    """Values that its code is to see, by its ``Context``."""
    chain: tuple[Any, ...] = ()
    """Addresses of those who wait for it."""
    lineage: tuple[str, ...] = ()
    """Instructions that those were given."""
    deadline: float | None = None
    """On the tree's clock; None: none."""
    timeout_s: float | None = None
    """Seconds that it may run."""
    idle_timeout_s: float | None = None
    """Seconds for which it may be silent."""
    role: Role = "work"
    start_number: int = 0
    """Which start of the whole task it is."""
    hops: int = 0
    """How many tells and tasks led to it."""
    priority: int = 0
    """Priority of its task when it was made."""
    preemptible: bool = False
    unit: str = ""
    """Path of its subtask in the task; of a planner, reviewer or synthesizer that of its team, or empty."""
    adapter: TypeAdapter[Any] | None = None
    """Type that its result must fit; None: any JSON."""
    form: Callable[[Any], Any] | None = None
    """Function, of a step, that makes the plain form of its return value; None: JSON is made of it."""
    variables: Variables | None = None
    """Contextvars that its code is to see: of the worker that asked for it in ``context.ask``, else of its task; None:
    its task was resumed, or nobody had set any."""
    steps: Mapping[str, KeptStep] = NONE
    """By key, steps of it that an earlier process, or an earlier run of it, has done."""
    was_put_off: bool = False
    """True if these steps are those of an attempt that was put off. If it takes another way, it begins anew."""
    losses: int = 0
    """Processes that have ended with it."""
