"""The host's half of a worker elsewhere: what runs in the process that has the tree.

``process_incarnation`` is what a supervisor holds. Its object is ``ProcessWorker`` (``actors.dispatch.process``), which
has a ``worker_handle`` (the host's end of the wire) and a ``back_call_server``. A handle is a ``forked_handle``
(a process of this host, made by the ``fork_server``) or a ``ray_handle`` (an actor of a cluster).
"""
