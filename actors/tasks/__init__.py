"""The supervisor pattern: a goal becomes a plan, the plan becomes work, and the work survives its workers.

How a task flows through the rooms, which is also the order in which to read them:

* ``model``: what is said (tasks, plans, policies, outcomes) and what happens (events).
* ``journal``: where the events are kept, how they are written, and the state that they fold into.
* ``planning``: from a goal to a plan that fits the tree.
* ``scheduling``: which subtask is next, and which worker gets it.
* ``execution``: an attempt in its worker, and user code that belongs to no worker.
* ``recovery``: what follows from a failure: retry, another worker, a person, compensation.
* ``results``: what is held of results, reviewed and combined.
* ``orchestration``: the orchestrator, where it all comes together.

A room imports only those that come before it: ``model``, ``journal``, then ``planning``, ``scheduling`` and
``results``, then ``execution``, ``recovery`` and ``orchestration``.
"""
