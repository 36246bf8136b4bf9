"""Specs with the fields and defaults of the real ones, as far as they are not about tasks. Nothing is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

from actors.model.spec import Backoff


@dataclass(frozen=True, kw_only=True)
class Mailbox:
    """How many messages may wait for a worker."""

    capacity: int | None = None
    overflow: str = "block"


class Copied:
    """What can be copied with other words."""

    def model_copy(self, update: Mapping[str, Any]) -> Self:
        """A copy with these fields changed."""
        return replace(self, **update)  # type: ignore[type-var]


@dataclass(frozen=True, kw_only=True)
class WorkerSpec(Copied):
    """One worker, or a pool of them."""

    id: str
    actor: type[Any] | None = None
    run: Callable[..., Any] | None = None
    handle: Callable[..., Any] | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    restart: str = "permanent"
    shutdown: float | str = 5.0
    significant: bool = False
    start_timeout_s: float | None = 30.0
    backoff: Backoff | None = None
    on_exhausted: str = "escalate"
    pool: int = 1
    dispatch: str = "auto"
    mailbox: Mailbox = Mailbox()
    lifespan: Callable[..., Any] | None = None
    expected: Sequence[type[BaseException]] = ()
    crash_on_ask_error: bool = False
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class SupervisorSpec(Copied):
    """A supervisor and its children, in start order."""

    id: str
    strategy: str = "one_for_one"
    max_restarts: int = 3
    period_s: float = 5.0
    auto_shutdown: str = "never"
    children: Sequence[WorkerSpec | SupervisorSpec] = ()
    max_children: int | None = None
    parallel_stop: bool = False
    restart: str = "permanent"
    shutdown: float | str = "infinity"
    significant: bool = False
    backoff: Backoff | None = None
    on_exhausted: str = "escalate"
    description: str = ""


Spec: TypeAlias = WorkerSpec | SupervisorSpec

__all__ = ["Backoff", "Mailbox", "Spec", "SupervisorSpec", "WorkerSpec"]
