"""The supervisor pattern: a goal becomes a plan, the plan becomes work, and the work survives its workers.

How a task flows through these modules, which is also the order in which to read them:

* **What is said**: ``task`` (Task, Subtask, Plan, states), ``policy`` (ladders, breakers, answers, verdicts),
  ``settings`` (Tasks), ``executable`` (what can be given work) with ``adapters`` (the one callable of it), ``outcome``
  (how an attempt may end), ``errors``, ``naming`` (ids of users, and those made of them).
* **What happens**: ``events`` (with ``task_event``, ``step_events``, ``breaker_events``) are the records, ``journal``
  is where they are kept, ``written`` how they are written down and ``writable`` whether they can be, ``state`` and
  ``node`` are the fold over them (``step_folding``: of steps, ``folding``: of a whole journal, ``reopening``: of a part
  that is tried again), ``report`` is what is left in the end; ``store_events`` tell how the store fares.
* **A plan**: ``planner`` (with ``keywords`` and ``meaning``), ``check`` (with ``estimates`` and ``doubts``).
* **An attempt**: ``schedule`` and ``selection`` (who is next, with whom), ``staff`` (the registry), ``launching``
  (started, ended), ``suspects`` (which of them run one at a time), ``giving`` (made, given, taken up again),
  ``attempt`` (``attempt_end``: ended by others), ``perform``, ``context`` and ``sharing`` (the worker's side),
  ``classify``, ``trying`` and ``ladder`` (what it means, and which record it makes; ``deciding`` asks them), ``follow``
  (what follows from a record, live and resumed; ``command_handlers`` do it), ``breaker``.
* **A task**: ``course`` (its phases), ``steps`` (plan, review, combine) run as an ``errand`` in one of the ``slots``
  when it is their turn (``turns``), its sync code ``aside``, ``review``, ``synthesis``, ``people`` (escalations),
  ``undoing`` with ``undo_dispatch`` (compensation), ``holding``,
  ``context_store``, ``report_cache`` and ``tokens`` (what is held of results,
  and how much that is).
* **Among others**: ``teamwork`` (teams), ``delegating`` and ``deadlock`` (context.ask), ``ground``, ``desk``, ``guard``
  and ``lease`` (what outlives an orchestrator: what is shared, its public side, over which tasks it died, whether it
  may start anything), ``effects`` (what others see of it, once that is kept), ``feed`` (the events of a task for those
  who follow it), ``liaison`` (what a supervisor tells it), ``hears`` (what it hears), ``recipe`` (how it is declared),
  ``recording`` (the one door to the journal, and the plan of how a task is to flow), and ``orchestrator``, where it all
  comes together. ``public`` is what ``actors`` offers of all this.
"""
