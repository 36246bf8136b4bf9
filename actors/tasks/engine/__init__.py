"""The engine of tasks: it hears what happens, has it decided (``actors.tasks.decide``), keeps that, and acts.

::

    tree.submit > store > Run --facts--> decide (pure) > events > store > fold > act
                           ^                                               |
       attempt ended, timer, answer, cancel, ask, worker changed     give attempt, set timer, tell waiter, publish

Three rules: one run at a time decides for a task; nothing is seen before it is kept; everything that is kept can be
decided again from the state. So a resume is no second program.
"""
