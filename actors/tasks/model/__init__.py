"""Words of tasks: tasks and plans, policies, outcomes, errors, events. Plain records.

Pure. Imports nothing else of ``actors.tasks``.
"""
