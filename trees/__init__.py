"""What is declared, checked, started and shown: trees of supervisors and workers."""

from trees.config import Backoff, Mailbox, SupervisorSpec, WorkerSpec
from trees.tree import Tree, start, start_async

__all__ = ["Backoff", "Mailbox", "SupervisorSpec", "Tree", "WorkerSpec", "start", "start_async"]
