"""``python -m tests.faults.chaos --seconds 600 --seed N``: trees of every shape, changed and broken by many threads.

Each round takes a few seconds and starts a tree of its own, whose shape comes from the seed: all strategies, groups
with backoff and slow starts, pools, nested supervisors, workers of every kind, bounded mailboxes. Threads start,
terminate, restart, delete and add children again under the same ids, tell, ask, crash, hang and stop. A round pauses
now and then; once nothing moves any more, everything must agree (``audit``), and again at the end of the tree.

* ``shape``: which tree. ``workers``: what runs in it. ``load``: what is done to it.
* ``ledger``: what was sent, handled, started and ended, noted while it happens. ``audit``: the invariants.
* ``rounds``: one round, and what it prints where an invariant is broken.

Threads decide what happens when; so a seed gives the same trees and the same dice, but not the same run.
"""
