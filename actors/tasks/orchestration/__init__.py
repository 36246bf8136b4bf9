"""Orchestration of tasks: the orchestrator, and one module for each part of its work.

``orchestrator`` receives messages; ``parts`` makes all that works for it, in the order of what needs what, on top of
``orchestrator_core`` (its tasks, workers, attempts; have something done when kept, or at a time). ``recording`` makes
every record, ``follow_up_handlers`` carries out what follows from one. ``lifecycle`` has the phases of a task,
``stages`` its planning, review and combination; ``subtask_queue``, ``attempt_dispatcher``, ``handoff`` and
``attempt_control`` its attempts; ``team_calls``, ``teams`` and ``delegation`` its work for and by others;
``open_questions`` its people. ``task_runtime`` is what all tasks of a tree share, ``orchestrator_port`` the public side
of one orchestrator, ``left_orders`` what of a user lies there at the end of the tree, ``outbox`` carries out effects
once their records are kept. May import every room of ``actors.tasks``.
"""
