"""Results in memory: how much is held, what is let go first, how results are reviewed and combined.

May import ``actors.tasks.model`` and ``actors.tasks.journal``.
"""
