"""The worker's side of an attempt: its context, its code, and what comes back.

``detached_call`` runs user code that belongs to no worker (planners, reviewers, undos), ``off_loop`` the sync code of
those. May import ``actors.tasks.model`` and ``actors.tasks.journal``.
"""
