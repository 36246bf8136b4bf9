"""Process groups: what a process of this host starts ends with it, and no process outlives its host.

``guarded_process`` (one process that leads a group) stands on ``process_group`` (all groups of this host, and the
guardian that ends them where the host cannot) and ``process_reader`` (the thread that reads their output and sees them
end).
"""
