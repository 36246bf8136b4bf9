"""Executable: what the declaration says of a worker that can be given work, and what others may see of it.

Comes in: what ``trees.declaration.build`` made of a declaration. Goes out: frozen records. This module must never
import threads, a clock or Pykka.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias

from actors.model.child_state import State
from actors.model.record import record
from actors.tasks.model.policy import Breaker, Ladder

Type: TypeAlias = Literal["tool", "workflow", "agent", "team"]
Errors: TypeAlias = tuple[type[BaseException], ...]
BreakerState: TypeAlias = Literal["closed", "open", "half_open"]


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """Words of a member of a team about itself, which stand for the team as well."""

    id: str
    description: str = ""
    capabilities: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInfo:
    """One of the tools of a worker that has several, such as an MCP server. A subtask names it by ``tool=``."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] | None = None
    """JSON schema of its inputs."""
    output_schema: dict[str, Any] | None = None
    read_only: bool = False
    """True where it changes nothing."""
    idempotent: bool = False
    """True where calling it once more changes nothing further."""


@record
class Described:
    """Description of a worker, or a team, that can be given work: as it is declared, and as others see it."""

    _: KW_ONLY

    type: Type = "tool"
    description: str = ""
    capabilities: frozenset[str] = frozenset()
    input_schema: dict[str, Any] | None = None
    """JSON schema of what its code says that it takes; None: it says nothing."""
    output_schema: dict[str, Any] | None = None
    backup: str | None = None
    """The id of a sibling."""
    estimate: Any = None
    """Tokens, a ``Budget``, or a callable of the subtask that gives one of them."""
    consumes: frozenset[str] = frozenset()
    """Kinds of data that it needs: ``CapabilityPlanner`` lets it depend on workers that produce them."""
    produces: frozenset[str] = frozenset()
    """Kinds of data that its results are."""
    members: tuple[MemberInfo, ...] = ()
    """What the members of a team say of themselves."""
    tools: tuple[ToolInfo, ...] | None = None
    """Tools that a subtask may name, which are among its capabilities; None: it has none, or they are not known yet."""


DESCRIBED: Final = tuple(each.name for each in fields(Described))
"""Names of the fields of a description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executable(Described):
    """Declaration of a worker, or a team, that can be given work."""

    output: Any = None
    """Type that its result is checked against (anything pydantic has a schema for); None: nothing."""
    timeout_s: float | None = None
    idle_timeout_s: float | None = None
    on_failure: Ladder | None = None
    """None: that of its supervisor."""
    breaker: Breaker | None = field(default_factory=Breaker)
    undo: Any = None
    """``undo(task, result, context)``, or the id of a sibling."""
    expected: Errors = ()
    """Exceptions that say that the request was at fault: its breaker does not count them."""


@record
class ExecutableInfo(Described):
    """One row of the registry: a worker, pool or team as it is now. A planner's catalogue is a tuple of them."""

    _: KW_ONLY

    id: str
    path: str
    state: State
    """running, restarting, stopped or parked; of a pool the best of its members."""
    breaker: BreakerState | None
    """None: it has none."""
    load: int
    """Attempts that it has now."""
    size: int
    """Attempts that it can have at once."""
    is_only: bool = False
    """True if its supervisor has no other one that can be given work, whether available or not."""
    is_missing: bool = False
    """True for a worker that is not required, and that has not come up yet."""

    @property
    def is_available(self) -> bool:
        """True where a planner should count on it: neither missing, nor down for good, nor behind an open breaker."""
        return self.is_there and self.breaker != "open"

    @property
    def is_there(self) -> bool:
        """True where it is neither missing nor down for good. Behind an open breaker work waits for it."""
        return not self.is_missing and self.state in {"running", "restarting"}


Catalogue: TypeAlias = tuple[ExecutableInfo, ...]
