"""The supervisor pattern: a goal becomes a plan, the plan becomes work, and the work survives its workers.

The rooms, in the order in which to read them; ``README.md`` of this folder has what flows between them:

* ``model``: what is said (tasks, plans, policies, outcomes) and what happens (events).
* ``journal``: the events of a task, and the tree of units that they fold into.
* ``planning``: from a goal to a plan that fits the tree.
* ``scheduling``: which subtask is next, and which worker gets it.
* ``decide``: from where a task stands to the next event. Pure.
* ``execution``: an attempt in its worker, and user code that belongs to no worker.
* ``results``: reviewers and synthesizers that are models.
* ``engine``: the worker that decides about all tasks, records, and acts.
"""
