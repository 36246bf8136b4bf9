"""Orchestration of tasks: the orchestrator, and one module for each part of its work.

``orchestrator`` receives and records; ``lifecycle`` has the phases of a task, ``stages`` its planning, review and
combination, ``attempt_dispatcher`` and ``handoff`` its attempts, ``teams`` and ``delegation`` its work for others.
``task_runtime`` is what all tasks of a tree share, ``orchestrator_port`` the public side of one orchestrator,
``outbox`` carries out effects once their records are kept. May import every room of ``actors.tasks``.
"""
