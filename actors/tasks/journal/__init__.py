"""The journal of a task: the store protocol, the codec of records, and the fold that makes a state of them.

``task_state`` and ``subtask_state`` are the fold, ``fold`` applies a whole journal, ``reporting`` makes the report
of it. Pure but for ``local_lease``. May import ``actors.tasks.model``.
"""
