"""What is declared, checked, started and shown: trees of supervisors and workers."""

from trees.config import Backoff, Mailbox, SupervisorSpec, WorkerSpec
from trees.start import start, start_async
from trees.tree import Tree

__all__ = ["Backoff", "Mailbox", "SupervisorSpec", "Tree", "WorkerSpec", "start", "start_async"]
