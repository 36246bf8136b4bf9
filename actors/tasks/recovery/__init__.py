"""Consequences of a failure: classification, the ladder, retries, escalations, compensation.

May import ``actors.tasks.execution``, ``actors.tasks.scheduling`` and below.
"""
