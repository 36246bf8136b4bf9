"""Health of a tree: is it alive, and may work be given to it. ``trees.host.tree_health`` finds it out.

``ok`` is for a probe that restarts what is dead (Kubernetes: liveness), ``ready`` for one that gives it no work for a
while (readiness). A standby is ok and not ready; so is a tree with a child in its backoff, and one that is being
stopped.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """One thing that is wrong, and where."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


@dataclass(frozen=True, slots=True)
class Health:
    """Health of a tree at one moment."""

    ok: bool
    """True: the root is up, and each supervisor that is up has answered in time."""
    ready: bool
    """True: it is ok and not being stopped, nothing of it is parked, restarting or starting, its store writes, and this
    process leads."""
    problems: tuple[HealthProblem, ...]
    """Reasons why it is not ok, or not ready; empty where it is both."""
