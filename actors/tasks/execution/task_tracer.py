"""Tracer of a tree, as its tasks see it: ``trees.agents.telemetry_spans`` makes spans of tasks and attempts.

A span is carried as a contextvar: with a task into its attempts, with an attempt into the worker's code, with an ask or
a tell out of it. That of an attempt is current where its code runs, on whatever thread or loop. No method of a tracer
raises: what goes wrong in the making of a span stays there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.runtime.system import System


def tracer_of(system: System) -> Any:
    """Return what makes spans of the tasks of a tree; None: nobody wants any."""
    return system.tracer
