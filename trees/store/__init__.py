"""Where plans and results live: the stores behind ``actors.tasks.journal.Store``."""

from trees.store.memory import MemoryStore

__all__ = ["MemoryStore"]
