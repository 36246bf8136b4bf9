"""Engines that are replaced when a test wants them to be."""

from __future__ import annotations

from trees import Tree


def kill_orchestrator(tree: Tree, path: str = "p") -> None:
    """Have the engine of this supervisor end, and another one go on."""
    tree.terminate_child(f"{path}/orchestrator")
    tree.restart_child(f"{path}/orchestrator")
