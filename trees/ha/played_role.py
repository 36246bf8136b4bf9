"""The role that this process plays, and those who wait for one.

There is no lock: a finalizer or a signal handler may come in between at any step. Whoever waits is entered before the
role is looked at, and is told after it was changed, so either finds the other.
"""

from __future__ import annotations

from typing import Final

from actors.messaging.reply import Reply
from trees.views.snapshot import Role

_ORDER: Final = ("standby", "leader", "stopped")


class PlayedRole:
    """``role`` is the present one. One thread changes it."""

    def __init__(self) -> None:
        self.role: Role = "standby"
        self._waiting: list[tuple[Role, Reply]] = []

    def change(self, role: Role) -> None:
        """Play another role, and tell those who wait."""
        self.role = role
        self._tell()

    def wait_for(self, role: Role, timeout: float | None) -> bool:
        """Wait until this role is played, or cannot be any more; True if it is played."""
        told = Reply()
        self._waiting.append(entry := (role, told))
        try:
            self._tell()
            told.wait(timeout)
        finally:
            self._waiting.remove(entry)
        return self.role == role

    def _tell(self) -> None:
        for role, told in tuple(self._waiting):
            if self.role == role or _cannot(self.role, role):
                told.complete()


def _cannot(role: Role, wanted: Role) -> bool:
    """True if a process with this role will never have the other one."""
    return _ORDER.index(wanted) < _ORDER.index(role)
