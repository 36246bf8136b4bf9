"""The worker's half of a worker elsewhere: what runs in its own process, on this machine or on a node of a cluster.

``worker_main`` has the wire (``Link``) and sets the process up; ``worker_runner`` runs the incarnation;
``worker_system`` stands in for the tree. ``ray_worker`` is the actor of Ray around them, ``worker_imports`` what is
imported before. Nothing here imports the host's half.
"""
