"""``python -m tests.faults.kill_workers --seconds 60 [--seed N]``: processes under load, killed, stopped and continued.

A tree of workers in processes (all forms, pools, groups of two strategies, a team with tasks), of commands, and, where
Ray is installed, of workers in a cluster of three nodes that is started for it (``--no-ray``: without). Threads
tell, ask and submit tasks; workers raise, die, segfault, hang and start processes of their own; meanwhile single
processes, whole groups, the fork server and the guardian are killed, or stopped and continued, at random moments, and
a node is lost now and then.

* ``crew``: what runs in the processes. ``declared``: the tree. ``strikes``: what is done to it. ``far``: the cluster.
* ``books``: what was sent, begun, done, lost and refused. ``rampage``: one run and its verdict.

A worker notes in a file what it begins and what it has done, by one write each: what was written is there after a kill.
"""
