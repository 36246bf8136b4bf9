"""The journal of a task: the store protocol, the codec of records, and the fold that makes a state of them.

``fold`` makes a ``TaskState`` of events: a tree of ``Unit`` objects. ``reporting`` makes the report of it, and ``view``
is what the rooms of ``trees`` see of tasks. Pure but for ``view`` and ``local_lease``. May import
``actors.tasks.model``.
"""
