"""Which part a process plays in a tree that several may lead: what a ``Tree`` says of it, and the events of a change.

A tree without ``ha=`` leads as long as it is up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from actors.messaging.blocking import require_thread
from actors.messaging.message_errors import ActorStoppedError
from actors.model.events import Event
from actors.validation.validation_messages import is_one_of, value_phrase
from trees.views.snapshot import Role

if TYPE_CHECKING:
    from actors.runtime.system import System
    from trees.ha.leader import Leader


@dataclass(frozen=True, slots=True)
class RoleChanged(Event):
    """Published when this process changes its role."""

    level: ClassVar[str] = "INFO"

    role: Role
    token: int
    """Token: a leader's own, on a standby that of the leader; after the end the last one; 0: none."""
    reason: str


@dataclass(frozen=True, slots=True)
class RoleLost(RoleChanged):
    """End of a role that no one asked for: the lease could not be renewed, another has it, or a takeover failed."""

    level: ClassVar[str] = "ERROR"


class NotLeaderError(ActorStoppedError):
    """Raised by a standby: nothing of the tree runs here. ``holder`` leads, as far as is known."""

    def __init__(self, path: str, holder: str, token: int) -> None:
        super().__init__(path, holder)
        self.path = path
        self.holder = holder
        self.token = token

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.path, self.holder, self.token))

    def __str__(self) -> str:
        who = f"{self.holder!r} leads (token {self.token})" if self.token else "nobody is known to lead yet"
        return (
            f"{self.path}: this process is a standby, {who}. "
            "Ask there, or wait until tree.wait_for_role('leader') is true here."
        )


class Leadership:
    """The part of a ``Tree`` that knows who leads: its keeper, or without ``ha=`` the tree itself."""

    def __init__(self, system: System, keeper: Leader | None) -> None:
        self._system = system
        self.keeper = keeper

    @property
    def role(self) -> Role:
        """The part that this process plays."""
        if self._system.is_down:
            return "stopped"
        return self.keeper.role if self.keeper is not None else "leader"

    @property
    def holder(self) -> str | None:
        """Leader, as far as this process knows."""
        return self.keeper.holder if self.keeper is not None else None

    def wait_for(self, role: Role, timeout: float | None) -> bool:
        """Wait until this process plays a part; True once it does."""
        if not is_one_of({"leader", "standby", "stopped"}, role):
            raise ValueError(
                f"wait_for_role: {value_phrase(role)} is not a role. Use 'leader', 'standby' or 'stopped'."
            )
        require_thread(self._system.root_path, "await asyncio.to_thread(tree.wait_for_role, ...)")
        if self.keeper is not None:
            return self.keeper.wait_for(role, timeout)
        if role == "stopped":
            return self._system.ended.wait(timeout)
        return self.role == role

    @property
    def running(self) -> System:
        """The running tree.

        Raises:
            NotLeaderError: this is a standby. A worker of a tree that is just taking over may go on.
            TreeDownError: it was one, and never led.
        """
        system, keeper = self._system, self.keeper
        if keeper is not None and not system.in_handler:
            if keeper.role == "standby":
                raise keeper.not_leader(system.root_path)
            if system.is_down and not system.supervisors:
                raise system.down_error(system.root_path)
        return system

    def facts(self) -> dict[str, Any]:
        """Return the facts for a snapshot."""
        return {"role": self.role} | ({} if self.keeper is None else self.keeper.facts(self.role))
