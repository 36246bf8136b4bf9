"""Choice of the next subtask and of its worker: the ready queue, the registry of workers, breakers.

Decides only. May import ``actors.tasks.model`` and ``actors.tasks.journal``.
"""
