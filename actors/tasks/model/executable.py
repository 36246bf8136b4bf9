"""Executable: what the declaration says of a worker that can be given work, and what others may see of it.

Comes in: what ``trees.declaration.build`` made of a declaration. Goes out: frozen records. This module must never
import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from actors.model.child_state import State
from actors.model.record import record
from actors.tasks.model.policy import Breaker, Ladder

Type: TypeAlias = Literal["tool", "workflow", "agent", "team"]
Errors: TypeAlias = tuple[type[BaseException], ...]
BreakerWord: TypeAlias = Literal["closed", "open", "half_open"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Executable:
    """Declaration of a worker, or a team, that can be given work."""

    type: Type = "tool"
    description: str = ""
    capabilities: frozenset[str] = frozenset()
    output: Any = None
    """Type that its result is checked against (anything pydantic has a schema for); None: nothing."""
    input_schema: dict[str, Any] | None = None
    """JSON schema of what its code says that it takes; None: it says nothing."""
    output_schema: dict[str, Any] | None = None
    timeout_s: float | None = None
    idle_timeout_s: float | None = None
    on_failure: Ladder | None = None
    """None: that of its supervisor."""
    breaker: Breaker | None = field(default_factory=Breaker)
    backup: str | None = None
    """The id of a sibling."""
    undo: Any = None
    """``undo(task, result, context)``, or the id of a sibling."""
    estimate: Any = None
    """Tokens, a ``Budget``, or a callable of the subtask that gives one of them."""
    expected: Errors = ()
    """Exceptions that say that the request was at fault: its breaker does not count them."""
    consumes: frozenset[str] = frozenset()
    """Words for what it needs of others."""
    produces: frozenset[str] = frozenset()
    """Words for what its results are."""
    members: tuple[MemberInfo, ...] = ()
    """Words of the members of a team about themselves."""
    is_async: bool = False
    """True where it waits without a thread: more of it could overlap."""
    tools: tuple[ToolInfo, ...] | None = None
    """Tools, which are among its capabilities; None: it has none, or they are known when it is up."""


@record(frozen=True, slots=True, kw_only=True)
class ExecutableInfo:
    """One row of the registry: a worker, pool or team as it stands now. A planner's catalogue is a tuple of them."""

    id: str
    path: str
    type: Type
    description: str
    capabilities: frozenset[str]
    input_schema: dict[str, Any] | None
    output_schema: dict[str, Any] | None
    state: State
    """running, restarting, stopped or parked; of a pool the best of its members."""
    breaker: BreakerWord | None
    """None: it has none."""
    load: int
    """Attempts that it has now."""
    size: int
    """Attempts that it can have at once."""
    backup: str | None
    estimate: Any = None
    consumes: frozenset[str] = frozenset()
    """Words for what it needs of others: a planner for capabilities has it wait for those who produce them."""
    produces: frozenset[str] = frozenset()
    members: tuple[MemberInfo, ...] = ()
    """Words of the members of a team about themselves."""
    is_async: bool = False
    """True where it waits without a thread: more of it could overlap."""
    is_only: bool = False
    """True where its supervisor has no other one that can be given work, whether available or not."""
    tools: tuple[ToolInfo, ...] | None = None
    """Tools that a subtask may name; None: it has none, or they are not known yet."""
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


def counted_on(rows: Iterable[ExecutableInfo], *, waiting: bool) -> Catalogue:
    """Return the rows that a planner may count on; ``waiting``: also those whose breaker is open."""
    return tuple(row for row in rows if row.is_available or (waiting and row.is_there))
