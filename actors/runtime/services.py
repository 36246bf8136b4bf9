"""Services that others may attach to a tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from actors.messaging.reply import Reply


class Service(Protocol):
    """Service attached to a tree: it is told of the tree's life, and the tree knows nothing else of it."""

    def is_up(self) -> None:
        """The whole tree has come up. On a supervisor's thread: short, and it never blocks."""

    def close(self) -> None:
        """Nothing of the tree runs any more. On a supervisor's thread: short, and it never blocks."""

    def end(self) -> None:
        """All is closed; those who wait for the end of the tree hear of it next."""

    def is_moving(self) -> bool:
        """True if something of it will go on by itself, soon."""

    def busy(self) -> Iterable[tuple[str, Reply]]:
        """Return what is under way that no mailbox of the tree knows of, and when that is over."""
