"""The system below a host's handle, for what the library itself has to ask it."""

from __future__ import annotations

from typing import Protocol

from actors.runtime.system import System


class Handle(Protocol):
    """Handle of a running tree, as ``trees.Tree`` is one."""

    _system: System


def system_of(tree: Handle) -> System:
    """Return the system that a tree stands on."""
    return tree._system  # noqa: SLF001 - the one place that looks behind a handle
