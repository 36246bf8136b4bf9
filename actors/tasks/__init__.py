"""The supervisor pattern: a goal becomes a plan, the plan becomes work, and the work survives its workers.

How a task flows through these modules, which is also the order in which to read them:

* **What is said**: ``task`` (Task, Subtask, Plan, states), ``policy`` (ladders, breakers, answers, verdicts),
  ``settings`` (Tasks), ``executable`` (what can be given work), ``outcome`` (how an attempt may end), ``errors``.
* **What happens**: ``events`` are the records, ``journal`` is where they are kept and ``written`` how they are written
  down, ``state`` and ``node`` are the fold over them, ``report`` is what is left in the end; ``store_events`` tell how
  the store fares.
* **A plan**: ``planner`` (with ``keywords`` and ``meaning``), ``check`` (with ``estimates`` and ``doubts``).
* **An attempt**: ``schedule`` and ``selection`` (who is next, with whom), ``staff`` (the registry), ``launching``
  (started, ended), ``giving`` (made, given, taken up again), ``attempt``, ``perform`` and ``context`` (the worker's
  side), ``classify``, ``trying`` and ``ladder`` (what follows), ``breaker``.
* **A task**: ``course`` (its phases), ``steps`` (plan, review, combine) run as an ``errand``, ``review``,
  ``synthesis``, ``people`` (escalations), ``undoing`` (compensation), ``holding`` and ``context_store`` (what is held
  of results).
* **Among others**: ``teamwork`` (teams), ``delegating`` and ``deadlock`` (context.ask), ``ground`` and ``desk`` (what
  outlives an orchestrator), ``effects`` (what others see of it, once that is kept), ``liaison`` (what a supervisor
  tells it), ``hears`` (what it hears), and ``orchestrator``, where it all comes together.
"""
